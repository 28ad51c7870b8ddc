# More programs: see the head of Makefile.am.
noinst_PROGRAMS += \
	examples/programs/fine_tune \
	examples/programs/gan \
	examples/programs/gpt_cache \
	examples/programs/reinforce \
	examples/programs/tables_and_images \
	examples/programs/unet
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

# In C++, so only `make check` builds it: `make` needs no C++ compiler.
check_PROGRAMS += examples/programs/server
examples_programs_server_SOURCES = examples/programs/server.cc
examples_programs_server_LDADD = libtenon.la
examples_programs_server_LDFLAGS = -pthread

dist_check_SCRIPTS += tests/test_programs_2.sh

# Installed as text, to read, copy and build.
moredir = $(docdir)/examples/programs
dist_more_DATA = \
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
