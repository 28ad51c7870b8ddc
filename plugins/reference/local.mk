# Build rules of this folder, in the form that Makefile.am describes.
tenonplugin_LTLIBRARIES += tn_reference.la
tn_reference_la_SOURCES = \
	plugins/reference/reference.c plugins/reference/reference.h \
	plugins/reference/numbers.c \
	plugins/reference/reference_matmul.c \
	plugins/reference/reference_scatter.c \
	plugins/reference/reference_scan.c \
	plugins/reference/reference_sort.c
tn_reference_la_LDFLAGS = $(PLUGIN_LINK_FLAGS)
tn_reference_la_LIBADD = -lm
dist_tenonplugin_DATA += plugins/reference/tn_reference.conf
