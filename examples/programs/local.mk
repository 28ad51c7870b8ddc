# Build rules of this folder, in the form that Makefile.am describes.
noinst_PROGRAMS += \
	examples/programs/char_lstm \
	examples/programs/cnn \
	examples/programs/device_check \
	examples/programs/linear_regression \
	examples/programs/own_module \
	examples/programs/physics \
	examples/programs/vae \
	examples/programs/fine_tune \
	examples/programs/gan \
	examples/programs/gpt_cache \
	examples/programs/reinforce \
	examples/programs/tables_and_images \
	examples/programs/unet
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
examples_programs_own_module_LDADD = libtenon.la -lm
examples_programs_physics_SOURCES = examples/programs/physics.c
examples_programs_physics_LDADD = libtenon.la
examples_programs_vae_SOURCES = examples/programs/vae.c
examples_programs_vae_LDADD = libtenon.la
examples_programs_fine_tune_SOURCES = examples/programs/fine_tune.c
examples_programs_fine_tune_LDADD = libtenon.la
examples_programs_gan_SOURCES = examples/programs/gan.c
examples_programs_gan_LDADD = libtenon.la
examples_programs_gpt_cache_SOURCES = examples/programs/gpt_cache.c
examples_programs_gpt_cache_LDADD = libtenon.la
examples_programs_reinforce_SOURCES = examples/programs/reinforce.c
examples_programs_reinforce_LDADD = libtenon.la -lm
examples_programs_tables_and_images_SOURCES = \
	examples/programs/tables_and_images.c
examples_programs_tables_and_images_LDADD = libtenon.la
examples_programs_unet_SOURCES = examples/programs/unet.c
examples_programs_unet_LDADD = libtenon.la

# server is written in C++. Only `make check` builds it, so that `make` needs no C++
# compiler. Test scripts run it; it is not a test by itself.
EXTRA_PROGRAMS = examples/programs/server
check_DATA += examples/programs/server$(EXEEXT)
CLEANFILES += examples/programs/server$(EXEEXT)
examples_programs_server_SOURCES = examples/programs/server.cc
examples_programs_server_LDADD = libtenon.la
examples_programs_server_LDFLAGS = -pthread

dist_check_SCRIPTS += tests/test_programs.sh tests/test_larger_programs.sh
EXTRA_DIST += tests/programs.sh

# The sources of the programs are installed as documentation.
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
	examples/programs/vae.py \
	$(examples_programs_fine_tune_SOURCES) \
	examples/programs/fine_tune.py \
	$(examples_programs_gan_SOURCES) \
	examples/programs/gan.py \
	$(examples_programs_gpt_cache_SOURCES) \
	examples/programs/gpt_cache.py \
	$(examples_programs_reinforce_SOURCES) \
	examples/programs/reinforce.py \
	$(examples_programs_server_SOURCES) \
	examples/programs/server.py \
	$(examples_programs_tables_and_images_SOURCES) \
	examples/programs/tables_and_images.py \
	examples/programs/digit_images.awk \
	$(examples_programs_unet_SOURCES) \
	examples/programs/unet.py
EXTRA_DIST += examples/programs/count.sh
