# Build rules of this folder, in the form that Makefile.am describes.
libtenon_la_SOURCES += lib/graph/graph.c
tenoninclude_HEADERS += include/tenon/graph.h
EXTRA_DIST += lib/graph/README.md
check_PROGRAMS += tests/graph/test_graph
tests_graph_test_graph_SOURCES = tests/graph/test_graph.c
