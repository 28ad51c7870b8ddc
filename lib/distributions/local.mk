# What this room adds to the build: see the head of Makefile.am.
libtenon_la_SOURCES += lib/distributions/distributions.c
tenoninclude_HEADERS += include/tenon/distributions.h
EXTRA_DIST += lib/distributions/README.md

check_PROGRAMS += tests/distributions/test_distributions
tests_distributions_test_distributions_SOURCES = \
	tests/distributions/test_distributions.c
