# Build rules of this folder, in the form that Makefile.am describes.

# programs and primitives as source
libtenon_la_SOURCES += \
	lib/source/source.h lib/source/source.c lib/source/text_head.h \
	lib/source/text_head.c lib/source/device_text.h \
	lib/source/device_text.c

# the plan of a program
libtenon_la_SOURCES += \
	lib/source/plan/class.c lib/source/plan/class.h \
	lib/source/plan/launch_space.c lib/source/plan/launch_space.h \
	lib/source/plan/plan_cache.c lib/source/plan/plan_program.c \
	lib/source/plan/plan_tiles.c lib/source/plan/row_split.c \
	lib/source/plan/team.c

# the text of a program
libtenon_la_SOURCES += \
	lib/source/program/elements.c lib/source/program/liveness.c \
	lib/source/program/offsets.c lib/source/program/print_program.c \
	lib/source/program/printer.c lib/source/program/printer.h \
	lib/source/program/reduce.c lib/source/program/row_cache.c \
	lib/source/program/rows.c lib/source/program/rows.h \
	lib/source/program/stage.c lib/source/program/statements.c \
	lib/source/program/tiles.c lib/source/program/value.c \
	lib/source/program/vectors.c

# plans and texts of primitives
libtenon_la_SOURCES += \
	lib/source/primitive/primitive.c lib/source/primitive/primitive.h \
	lib/source/primitive/print_attention.c \
	lib/source/primitive/print_conv.c \
	lib/source/primitive/print_primitive.c \
	lib/source/primitive/print_product.c \
	lib/source/primitive/print_scan.c \
	lib/source/primitive/print_scatter.c \
	lib/source/primitive/print_sort.c

# the parts of texts
kernel_device = $(srcdir)/lib/source/*.cl $(srcdir)/lib/source/*/*.cl
EXTRA_DIST += lib/source/README.md \
	lib/source/fault.cl lib/source/instructions.cl \
	lib/source/platform.cl lib/source/storage.cl \
	lib/source/primitive/attention.cl \
	lib/source/primitive/attention_forward.cl \
	lib/source/primitive/attention_key.cl \
	lib/source/primitive/attention_mma.cl \
	lib/source/primitive/attention_mma_back.cl \
	lib/source/primitive/attention_query.cl \
	lib/source/primitive/attention_tensor.cl \
	lib/source/primitive/conv.cl lib/source/primitive/conv_fold.cl \
	lib/source/primitive/matmul.cl lib/source/primitive/primitive.cl \
	lib/source/primitive/scan.cl lib/source/primitive/scan_block.cl \
	lib/source/primitive/scan_line.cl lib/source/primitive/scan_sum.cl \
	lib/source/primitive/scan_team.cl lib/source/primitive/scatter.cl \
	lib/source/primitive/scatter_shared.cl \
	lib/source/primitive/scatter_sorted.cl lib/source/primitive/sort.cl \
	lib/source/primitive/sort_count.cl lib/source/primitive/sort_few.cl \
	lib/source/primitive/sort_group.cl \
	lib/source/primitive/sort_merge.cl \
	lib/source/primitive/sort_move.cl lib/source/primitive/sort_sum.cl \
	lib/source/primitive/tile.cl lib/source/program/rows.cl
BUILT_SOURCES += lib/source/device_text.c
MAINTAINERCLEANFILES += lib/source/device_text.c
lib/source/device_text.c: $(kernel_device) $(top_srcdir)/build-aux/embed.awk \
		$(top_srcdir)/build-aux/bytes.awk
	$(AM_V_GEN)$(MKDIR_P) lib/source && LC_ALL=C $(AWK) \
	    -v form=text -v folder= -v comment=C \
	    -f $(top_srcdir)/build-aux/embed.awk $(kernel_device) > $@.text && \
	    gzip -9nc $@.text | od -An -v -tu1 | LC_ALL=C $(AWK) \
	    -v name=tn__source_texts -v header=source/device_text.h \
	    -f $(top_srcdir)/build-aux/bytes.awk > $@.part && \
	    rm -f $@.text && mv $@.part $@
