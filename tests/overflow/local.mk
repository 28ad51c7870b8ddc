# What this room adds to the build: see the head of Makefile.am.
check_PROGRAMS += tests/extremes/test_rows tests/extremes/test_sizes
tests_extremes_test_rows_SOURCES = tests/extremes/test_rows.c \
	tests/extremes/extremes.c tests/extremes/extremes.h \
	tests/ops/misuse.c tests/ops/misuse.h tests/ops/work.c tests/ops/work.h
tests_extremes_test_sizes_SOURCES = tests/extremes/test_sizes.c
EXTRA_DIST += tests/extremes/README.md

# Calls of all functions with numbers that the public headers declare.
check_PROGRAMS += tests/extremes/test_calls
tests_extremes_test_calls_SOURCES = tests/extremes/test_calls.c \
	tests/extremes/extremes.c tests/extremes/extremes.h
EXTRA_DIST += tests/extremes/calls.awk
CLEANFILES += tests/extremes/calls.inc
tests/extremes/test_calls.$(OBJEXT): tests/extremes/calls.inc
tests/extremes/calls.inc: tests/extremes/calls.awk \
		tests/extremes/test_calls.c $(tenoninclude_HEADERS)
	$(AM_V_GEN)$(MKDIR_P) tests/extremes && files= && \
	for f in tests/extremes/test_calls.c $(tenoninclude_HEADERS); do \
	  case $$f in */ops.h) continue ;; esac; \
	  test -f $$f || f=$(srcdir)/$$f; files="$$files $$f"; \
	done && LC_ALL=C $(AWK) -f $(srcdir)/tests/extremes/calls.awk $$files \
	  >$@.part && mv $@.part $@
