# Build rules of this folder, in the form that Makefile.am describes.
libtenon_la_SOURCES += lib/trace/trace.c
tenoninclude_HEADERS += include/tenon/trace.h
EXTRA_DIST += lib/trace/README.md
if HAVE_JANSSON
check_PROGRAMS += tests/trace/test_trace
tests_trace_test_trace_SOURCES = tests/trace/test_trace.c
tests_trace_test_trace_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
tests_trace_test_trace_LDADD = $(LDADD) $(JANSSON_LIBS)
endif
