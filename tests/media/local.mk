# Build rules of this folder, in the form that Makefile.am describes. Programs
# in the folders below link libtenon-media.la, as a user's program does. Headers
# of libtenon-media, which tests/nulls and tests/overflow leave out: programs of
# these folders call their functions with NULL and with numbers at the ends of
# their types.
media_header_patterns = */npy.h | */torch_file.h | */dlpack.h | \
	*/safetensors_shards.h | */image.h | */transform.h | */vision.h | \
	*/sound.h | */events.h | */curves.h
media_test_libs = libtenon-media.la libtenon.la $(TN_LIBS)

check_PROGRAMS += tests/media/test_calls
tests_media_test_calls_SOURCES = tests/media/test_calls.c
tests_media_test_calls_LDADD = $(media_test_libs)
EXTRA_DIST += tests/media/calls.awk
CLEANFILES += tests/media/calls.inc
tests/media/test_calls.$(OBJEXT): tests/media/calls.inc
tests/media/calls.inc: tests/media/calls.awk tests/prototypes.awk \
		$(tenoninclude_HEADERS)
	$(AM_V_GEN)$(MKDIR_P) tests/media && files= && \
	for f in $(tenoninclude_HEADERS); do \
	  case $$f in $(media_header_patterns)) ;; *) continue ;; esac; \
	  test -f $$f || f=$(srcdir)/$$f; files="$$files $$f"; \
	done && LC_ALL=C $(AWK) -f $(srcdir)/tests/media/calls.awk \
	  -f $(srcdir)/tests/prototypes.awk $$files \
	  >$@.part && mv $@.part $@
