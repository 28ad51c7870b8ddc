# What this room adds to the build: see the head of Makefile.am.
libtenon_la_SOURCES += lib/graph/graph.c
tenoninclude_HEADERS += include/tenon/graph.h
EXTRA_DIST += lib/graph/README.md
check_PROGRAMS += tests/graph/test_graph
tests_graph_test_graph_SOURCES = tests/graph/test_graph.c
