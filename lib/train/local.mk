# What this room adds to the build: see the head of Makefile.am.
libtenon_la_SOURCES += lib/train/checkpoint.c
tenoninclude_HEADERS += include/tenon/checkpoint.h
EXTRA_DIST += lib/train/README.md
