# Build rules of this folder, in the form that Makefile.am describes.
libtenon_la_SOURCES += lib/distributions/distributions.c
tenoninclude_HEADERS += include/tenon/distributions.h
EXTRA_DIST += lib/distributions/README.md

check_PROGRAMS += tests/distributions/test_distributions
tests_distributions_test_distributions_SOURCES = \
	tests/distributions/test_distributions.c
