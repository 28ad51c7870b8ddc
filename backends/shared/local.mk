# Build rules of this folder, in the form that Makefile.am describes. The files
# are compiled into each plugin that lists shared_plugin_sources.

EXTRA_DIST += backends/shared/README.md
shared_plugin_sources = \
	backends/shared/shared.h \
	backends/shared/core_table.c \
	backends/shared/device_list.c \
	backends/shared/build_source.c \
	backends/shared/epilogue.c \
	backends/shared/pending.c \
	backends/shared/quantised.c backends/shared/quantised_text.c \
	backends/shared/submit.c

# the kernels of quantised.c
shared_kernels = $(srcdir)/backends/shared/quantised/*.cl
EXTRA_DIST += backends/shared/quantised/common.cl \
	backends/shared/quantised/few.cl backends/shared/quantised/many.cl \
	backends/shared/quantised/numbers.cl backends/shared/quantised/round.cl
BUILT_SOURCES += backends/shared/quantised_text.c
MAINTAINERCLEANFILES += backends/shared/quantised_text.c
backends/shared/quantised_text.c: $(shared_kernels) \
		$(top_srcdir)/build-aux/embed.awk
	$(AM_V_GEN)$(MKDIR_P) backends/shared && LC_ALL=C $(AWK) \
	    -v list=tn__quantised_text -v header=../backends/shared/shared.h \
	    -v folder= -v comment=C -f $(top_srcdir)/build-aux/embed.awk \
	    $(shared_kernels) > $@.part && mv $@.part $@
