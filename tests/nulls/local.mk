# Build rules of this folder, in the form that Makefile.am describes.
check_PROGRAMS += tests/nulls/test_nulls tests/nulls/test_callbacks
tests_nulls_test_callbacks_SOURCES = tests/nulls/test_callbacks.c
# test_nulls links libtenon-test.la, which lacks libtenon-lm, so it compiles the
# sources of libtenon-lm that it needs.
tests_nulls_test_nulls_SOURCES = tests/nulls/test_nulls.c tests/nulls/bad.h \
	$(gguf_sources)
EXTRA_DIST += tests/nulls/nulls.awk

# calls.inc has a call of each function of the public headers, except lm.h,
# tokenizer.h, chat.h, onnx.h, dist.h, parallel.h and sharded.h. tests/lm, tests/onnx and
# tests/dist test those.
CLEANFILES += tests/nulls/calls.inc
tests/nulls/test_nulls.$(OBJEXT): tests/nulls/calls.inc
tests/nulls/calls.inc: tests/nulls/nulls.awk tests/prototypes.awk \
		tests/nulls/test_nulls.c tests/nulls/bad.h $(tenoninclude_HEADERS)
	$(AM_V_GEN)$(MKDIR_P) tests/nulls && files= && \
	for f in tests/nulls/test_nulls.c tests/nulls/bad.h $(tenoninclude_HEADERS); do \
	  case $$f in */lm.h | */tokenizer.h | */chat.h | */onnx.h | */dist.h | \
	      */parallel.h | */sharded.h | */comm_plugin.h | $(media_header_patterns)) continue ;; esac; \
	  test -f $$f || f=$(srcdir)/$$f; files="$$files $$f"; \
	done && LC_ALL=C $(AWK) -f $(srcdir)/tests/nulls/nulls.awk \
	  -f $(srcdir)/tests/prototypes.awk $$files \
	  >$@.part && mv $@.part $@
