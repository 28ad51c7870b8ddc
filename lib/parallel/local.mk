# What this room adds to the build: see the head of Makefile.am.
libtenon_parallel_la_SOURCES += lib/parallel/parallel.h lib/parallel/bucket.c \
	lib/parallel/packs.c lib/parallel/buffers.c lib/parallel/ddp.c \
	lib/parallel/sharded.c lib/parallel/data_parallel.c
tenoninclude_HEADERS += include/tenon/parallel.h
EXTRA_DIST += lib/parallel/README.md
