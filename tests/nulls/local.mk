# What this room adds to the build: see the head of Makefile.am.
check_PROGRAMS += tests/nulls/test_nulls tests/nulls/test_callbacks
tests_nulls_test_callbacks_SOURCES = tests/nulls/test_callbacks.c
# It links libtenon-test.la, so the sources of libtenon-lm are compiled in.
tests_nulls_test_nulls_SOURCES = tests/nulls/test_nulls.c tests/nulls/bad.h \
	$(gguf_sources)
EXTRA_DIST += tests/nulls/nulls.awk

# Calls of all functions that the public headers declare, but for those of lm.h,
# tokenizer.h, chat.h, onnx.h, dist.h and parallel.h, which this program does not
# contain (tests/lm, tests/onnx and tests/dist have theirs).
CLEANFILES += tests/nulls/calls.inc
tests/nulls/test_nulls.$(OBJEXT): tests/nulls/calls.inc
tests/nulls/calls.inc: tests/nulls/nulls.awk tests/prototypes.awk \
		tests/nulls/test_nulls.c tests/nulls/bad.h $(tenoninclude_HEADERS)
	$(AM_V_GEN)$(MKDIR_P) tests/nulls && files= && \
	for f in tests/nulls/test_nulls.c tests/nulls/bad.h $(tenoninclude_HEADERS); do \
	  case $$f in */lm.h | */tokenizer.h | */chat.h | */onnx.h | */dist.h | \
	      */parallel.h | */comm_plugin.h | $(media_header_patterns)) continue ;; esac; \
	  test -f $$f || f=$(srcdir)/$$f; files="$$files $$f"; \
	done && LC_ALL=C $(AWK) -f $(srcdir)/tests/nulls/nulls.awk \
	  -f $(srcdir)/tests/prototypes.awk $$files \
	  >$@.part && mv $@.part $@
