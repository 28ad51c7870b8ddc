# What this room adds to the build: see the head of Makefile.am.

# programs and primitives as source
libtenon_la_SOURCES += \
	lib/source/source.h lib/source/class.h \
	lib/source/row_cache.c lib/source/elements.c \
	lib/source/liveness.c \
	lib/source/plan_program.c lib/source/print_program.c \
	lib/source/print.h lib/source/reduce.c \
	lib/source/rows.c lib/source/rows.h \
	lib/source/stage.c lib/source/team.c \
	lib/source/tiles.c lib/source/value.c \
	lib/source/primitive.c lib/source/primitive.h \
	lib/source/print_product.c lib/source/print_conv.c \
	lib/source/print_scan.c lib/source/print_scatter.c \
	lib/source/print_attention.c lib/source/print_sort.c \
	lib/source/source.c lib/source/row_split.c \
	lib/source/launch_space.c lib/source/launch_space.h \
	lib/source/device_text.c lib/source/device_text.h
kernel_device = $(srcdir)/lib/source/*.cl
BUILT_SOURCES += lib/source/device_text.c
MAINTAINERCLEANFILES += lib/source/device_text.c
EXTRA_DIST += lib/source/README.md \
	lib/source/platform.cl lib/source/instructions.cl \
	lib/source/storage.cl lib/source/fault.cl \
	lib/source/rows.cl lib/source/primitive.cl \
	lib/source/matmul.cl lib/source/conv.cl \
	lib/source/conv_fold.cl \
	lib/source/tile.cl lib/source/scatter.cl \
	lib/source/scatter_shared.cl lib/source/scatter_sorted.cl \
	lib/source/scan.cl lib/source/scan_block.cl \
	lib/source/scan_sum.cl lib/source/scan_team.cl \
	lib/source/scan_line.cl \
	lib/source/sort.cl \
	lib/source/sort_few.cl lib/source/sort_group.cl \
	lib/source/sort_count.cl lib/source/sort_sum.cl \
	lib/source/sort_move.cl lib/source/sort_merge.cl \
	lib/source/attention.cl lib/source/attention_forward.cl \
	lib/source/attention_query.cl \
	lib/source/attention_key.cl \
	lib/source/attention_tensor.cl \
	lib/source/attention_mma.cl \
	lib/source/attention_mma_back.cl
lib/source/device_text.c: $(kernel_device) $(top_srcdir)/build-aux/embed.awk
	$(AM_V_GEN)$(MKDIR_P) lib/source && LC_ALL=C $(AWK) \
	    -v list=tn__device_text -v header=source/device_text.h \
	    -v folder= -v comment=C \
	    -f $(top_srcdir)/build-aux/embed.awk $(kernel_device) > $@.part && \
	    mv $@.part $@
