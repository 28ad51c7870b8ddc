# What this room adds to the build: see the head of Makefile.am. The files are
# compiled into each plugin that lists shared_plugin_sources.

EXTRA_DIST += backends/shared/README.md
shared_plugin_sources = \
	backends/shared/shared.h \
	backends/shared/core_table.c \
	backends/shared/device_list.c \
	backends/shared/build_source.c \
	backends/shared/pending.c \
	backends/shared/submit.c
