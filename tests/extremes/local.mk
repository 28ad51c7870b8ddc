# What this room adds to the build: see the head of Makefile.am.
check_PROGRAMS += tests/extremes/test_rows tests/extremes/test_sizes
tests_extremes_test_rows_SOURCES = tests/extremes/test_rows.c \
	tests/extremes/extremes.c tests/extremes/extremes.h \
	tests/ops/misuse.c tests/ops/misuse.h tests/ops/work.c tests/ops/work.h
tests_extremes_test_sizes_SOURCES = tests/extremes/test_sizes.c
EXTRA_DIST += tests/extremes/README.md
