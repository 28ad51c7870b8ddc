# What this room adds to the build: see the head of Makefile.am.
noinst_PROGRAMS += \
	examples/programs/char_lstm \
	examples/programs/cnn \
	examples/programs/device_check \
	examples/programs/linear_regression \
	examples/programs/own_module \
	examples/programs/physics \
	examples/programs/vae
examples_programs_char_lstm_SOURCES = examples/programs/char_lstm.c
examples_programs_char_lstm_LDADD = libtenon.la
examples_programs_cnn_SOURCES = examples/programs/cnn.c
examples_programs_cnn_LDADD = libtenon.la
examples_programs_device_check_SOURCES = examples/programs/device_check.c
examples_programs_device_check_LDADD = libtenon.la
examples_programs_linear_regression_SOURCES = \
	examples/programs/linear_regression.c
examples_programs_linear_regression_LDADD = libtenon.la
examples_programs_own_module_SOURCES = examples/programs/own_module.c
examples_programs_own_module_LDADD = libtenon.la
examples_programs_physics_SOURCES = examples/programs/physics.c
examples_programs_physics_LDADD = libtenon.la
examples_programs_vae_SOURCES = examples/programs/vae.c
examples_programs_vae_LDADD = libtenon.la

dist_check_SCRIPTS += tests/test_programs.sh

# Installed as text, to read, copy and build.
programdir = $(exampledir)/programs
dist_program_DATA = examples/programs/README.md \
	$(examples_programs_char_lstm_SOURCES) \
	examples/programs/char_lstm.py \
	$(examples_programs_cnn_SOURCES) \
	examples/programs/cnn.py \
	$(examples_programs_device_check_SOURCES) \
	examples/programs/device_check.py \
	$(examples_programs_linear_regression_SOURCES) \
	examples/programs/linear_regression.py \
	$(examples_programs_own_module_SOURCES) \
	examples/programs/own_module.py \
	$(examples_programs_physics_SOURCES) \
	examples/programs/physics.py \
	$(examples_programs_vae_SOURCES) \
	examples/programs/vae.py
EXTRA_DIST += examples/programs/count.sh
