# What this room adds to the build: see the head of Makefile.am.
tenonplugin_LTLIBRARIES += tn_reference.la
tn_reference_la_SOURCES = \
	plugins/reference/reference.c plugins/reference/reference.h \
	plugins/reference/numbers.c \
	plugins/reference/matmul.c \
	plugins/reference/scatter.c \
	plugins/reference/scan.c \
	plugins/reference/sort.c
tn_reference_la_LDFLAGS = $(PLUGIN_LINK_FLAGS)
tn_reference_la_LIBADD = -lm
dist_tenonplugin_DATA += plugins/reference/tn_reference.conf
