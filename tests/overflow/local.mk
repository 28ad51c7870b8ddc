# Build rules of this folder, in the form that Makefile.am describes.
check_PROGRAMS += tests/overflow/test_rows tests/overflow/test_sizes
tests_overflow_test_rows_SOURCES = tests/overflow/test_rows.c \
	tests/overflow/overflow.c tests/overflow/overflow.h \
	tests/ops/misuse.c tests/ops/misuse.h tests/ops/work.c tests/ops/work.h
tests_overflow_test_sizes_SOURCES = tests/overflow/test_sizes.c
EXTRA_DIST += tests/overflow/README.md

# Calls each function of the public headers that has a number as parameter, except
# those of lm.h, tokenizer.h, chat.h, onnx.h, dist.h, parallel.h and sharded.h.
# tests/lm, tests/onnx and tests/dist test those.
check_PROGRAMS += tests/overflow/test_calls
tests_overflow_test_calls_SOURCES = tests/overflow/test_calls.c \
	tests/overflow/overflow.c tests/overflow/overflow.h $(gguf_sources)
EXTRA_DIST += tests/overflow/calls.awk
CLEANFILES += tests/overflow/calls.inc
tests/overflow/test_calls.$(OBJEXT): tests/overflow/calls.inc
tests/overflow/calls.inc: tests/overflow/calls.awk tests/prototypes.awk \
		tests/overflow/test_calls.c $(tenoninclude_HEADERS)
	$(AM_V_GEN)$(MKDIR_P) tests/overflow && files= && \
	for f in tests/overflow/test_calls.c $(tenoninclude_HEADERS); do \
	  case $$f in */ops.h | */lm.h | */tokenizer.h | */chat.h | */onnx.h | */dist.h | \
	      */parallel.h | */sharded.h | */comm_plugin.h | $(media_header_patterns)) continue ;; esac; \
	  test -f $$f || f=$(srcdir)/$$f; files="$$files $$f"; \
	done && LC_ALL=C $(AWK) -f $(srcdir)/tests/overflow/calls.awk \
	  -f $(srcdir)/tests/prototypes.awk $$files \
	  >$@.part && mv $@.part $@
