# What this room adds to the build: see the head of Makefile.am.
tenonplugin_LTLIBRARIES += comm_local.la
comm_local_la_SOURCES = \
	plugins/local/local.c plugins/local/local.h \
	plugins/local/segment.c plugins/local/board.c plugins/local/hall.c \
	plugins/local/memory.c \
	plugins/local/collective.c plugins/local/pair.c plugins/local/sum.c \
	plugins/local/sum.h
comm_local_la_LDFLAGS = $(COMM_LINK_FLAGS)
comm_local_la_LIBADD = $(TN_LIBS)
EXTRA_DIST += plugins/local/README.md
