# Build rules of this folder, in the form that Makefile.am describes. The
# routines are compiled once for each instruction set that the plugin may
# choose.

tenonplugin_LTLIBRARIES += tn_cpu.la
dist_tenonplugin_DATA += backends/cpu/tn_cpu.conf
EXTRA_DIST += backends/cpu/README.md

CPU_ROUTINES = \
	backends/cpu/simd/routines.h backends/cpu/simd/routines_conv.h \
	backends/cpu/simd/routines_pool.h \
	backends/cpu/simd/isa.h backends/cpu/simd/vector_ops.h \
	backends/cpu/simd/vector_square.h \
	backends/cpu/simd/scalar.h \
	backends/cpu/simd/math_table.h backends/cpu/simd/math_ops.h \
	backends/cpu/simd/routines_arith.c backends/cpu/simd/routines_random.c \
	backends/cpu/simd/routines_convert.c \
	backends/cpu/simd/routines_move.c \
	backends/cpu/simd/routines_reduce.c \
	backends/cpu/simd/routines_gemm.c backends/cpu/simd/routines_rows.c \
	backends/cpu/simd/rows_bf16.inc \
	backends/cpu/simd/routines_conv.c backends/cpu/simd/conv_loops.inc \
	backends/cpu/simd/routines_winograd.c \
	backends/cpu/simd/routines_pool.c backends/cpu/simd/pool_loops.inc \
	backends/cpu/simd/routines_pair.c backends/cpu/simd/routines_scan.c \
	backends/cpu/simd/routines_attention.c backends/cpu/simd/routines_order.c \
	backends/cpu/simd/routines_lapack.c backends/cpu/simd/lapack_loops.inc \
	backends/cpu/simd/routines_quantised.c \
	backends/cpu/simd/routines_quantised.h \
	backends/cpu/simd/quantised_vnni.inc \
	backends/cpu/simd/quantised_vnni_256.inc \
	backends/cpu/simd/quantised_panel.inc \
	backends/cpu/simd/vector.h \
	backends/cpu/simd/math_table.c

# The mathematical functions as C. A program that runs on the build machine prints
# them. It is linked from the sources of the kernel language, so a change of these
# sources makes the functions again.
BUILT_SOURCES += backends/cpu/simd/math_routines.inc
MAINTAINERCLEANFILES += backends/cpu/simd/math_routines.inc
CLEANFILES += build-aux/print_math
EXTRA_DIST += backends/cpu/simd/math_routines.inc build-aux/print_math.c
backends/cpu/simd/math_routines.inc: $(top_srcdir)/build-aux/print_math.c \
		lib/kernel/math/mathtext.c $(kernel_math) \
		$(srcdir)/lib/kernel/*.[ch] $(srcdir)/lib/kernel/math/*.[ch]
	$(AM_V_GEN)$(MKDIR_P) backends/cpu/simd build-aux
	$(AM_V_at)text=lib/kernel/math/mathtext.c; \
	test -f $$text || text=$(srcdir)/$$text; \
	$(CC_FOR_BUILD) -std=c11 -ffp-contract=off $(CFLAGS_FOR_BUILD) \
	    $(AM_CPPFLAGS) -I$(srcdir) -o build-aux/print_math \
	    $(top_srcdir)/build-aux/print_math.c $$text \
	    `ls $(srcdir)/lib/kernel/*.c $(srcdir)/lib/kernel/math/*.c | \
	        grep -v mathtext` \
	    $(srcdir)/lib/base/*.c -lpthread -lm
	$(AM_V_at)build-aux/print_math > $@.part && mv $@.part $@

# No exception passes through the plugin, so unwind tables, which take 70 KB, are
# omitted.
CPU_PLAIN_FLAGS = -fno-asynchronous-unwind-tables
CPU_FLAGS = $(TN_CFLAGS) $(TN_WARN_CFLAGS) -O3 -fno-math-errno \
	-fno-trapping-math $(CPU_PLAIN_FLAGS) $(TN_VECTOR_CFLAGS)
CPU_CPPFLAGS = -D_GNU_SOURCE -I$(top_srcdir)/include \
	-I$(top_builddir)/backends/cpu/simd

tn_cpu_la_SOURCES = \
	backends/cpu/cpu.h backends/cpu/cpu_device.c \
	backends/cpu/cpu_device.h backends/cpu/cpu_host.c \
	backends/cpu/cpu_list.c \
	backends/cpu/cpu_plugin.c backends/cpu/cpu_programs.c \
	backends/cpu/cpu_programs.h backends/cpu/cpu_thread.c \
	backends/cpu/cpu_types.c \
	backends/cpu/program/build_program.c backends/cpu/program/code.c \
	backends/cpu/program/code.h backends/cpu/program/compile_loops.c \
	backends/cpu/program/compile_program.c \
	backends/cpu/program/compile_program.h backends/cpu/program/emit.c \
	backends/cpu/program/fuse.c backends/cpu/program/mark_ops.c \
	backends/cpu/program/place_slots.c backends/cpu/program/program.h \
	backends/cpu/run/block.c backends/cpu/run/block.h \
	backends/cpu/run/block_load.c backends/cpu/run/block_reduce.c \
	backends/cpu/run/block_size.c \
	backends/cpu/run/cpu_launch.c backends/cpu/run/cut_plan.c \
	backends/cpu/run/fold_rows.c backends/cpu/run/fold_rows.h \
	backends/cpu/run/hoist.c backends/cpu/run/subrows.c \
	backends/cpu/run/plan.h backends/cpu/run/plan_fault.c \
	backends/cpu/run/ready.c backends/cpu/run/ready_code.c \
	backends/cpu/run/ready_code.h \
	backends/cpu/run/split_rows.c backends/cpu/run/task.c \
	backends/cpu/run/task.h backends/cpu/run/tile.c \
	backends/cpu/run/traffic.c backends/cpu/run/tuning.h \
	backends/cpu/run/view.c backends/cpu/run/view.h \
	backends/cpu/paths/copy.c backends/cpu/paths/direct.c \
	backends/cpu/paths/fill.c backends/cpu/paths/paths.c \
	backends/cpu/paths/paths.h backends/cpu/paths/indexed_copy.c \
	backends/cpu/paths/take.c backends/cpu/paths/taps.h \
	backends/cpu/paths/taps_along.c backends/cpu/paths/taps_blocks.c \
	backends/cpu/paths/taps_find.c backends/cpu/paths/taps_rows.c \
	backends/cpu/jit/native_body.h backends/cpu/jit/native_code.c \
	backends/cpu/jit/native_code.h backends/cpu/jit/native_exp.c \
	backends/cpu/jit/native_find.c backends/cpu/jit/native_find.h \
	backends/cpu/jit/native_find_nodes.c backends/cpu/jit/native_fold.c \
	backends/cpu/jit/native_nodes.c \
	backends/cpu/jit/native_emit.c backends/cpu/jit/native_registers.c backends/cpu/jit/native_run.c \
	backends/cpu/jit/native_run.h backends/cpu/jit/native_run_folds.c \
	backends/cpu/jit/native_runner.h backends/cpu/jit/native_target.c \
	backends/cpu/jit/native_uses.c \
	backends/cpu/jit/native_variants.c \
	backends/cpu/jit/x86.c backends/cpu/jit/x86.h \
	backends/cpu/simd/family.c backends/cpu/simd/isa.c \
	backends/cpu/prim/cpu_matmul.c backends/cpu/prim/cpu_scan.c \
	backends/cpu/prim/cpu_scatter.c backends/cpu/prim/cpu_sort.c \
	backends/cpu/prim/float_product.c backends/cpu/prim/product_job.h \
	backends/cpu/prim/shared_product.c \
	backends/cpu/prim/scan_sums.c backends/cpu/prim/scan_sums.h \
	backends/cpu/prim/float_product.h \
	backends/cpu/prim/row_product.c backends/cpu/prim/row_product.h \
	backends/cpu/prim/sort_orders.inc \
	backends/cpu/ext/cpu_attention.c backends/cpu/ext/cpu_lapack.c \
	backends/cpu/ext/cpu_pool.c backends/cpu/ext/cpu_pool.h \
	backends/cpu/ext/cpu_quantised.c backends/cpu/ext/cpu_epilogue.c \
	backends/cpu/epilogue.c backends/cpu/epilogue.h \
	backends/cpu/ext/cpu_pool_max.c backends/cpu/ext/cpu_pool_mean.c \
	backends/cpu/ext/cpu_pool_windows.c \
	backends/cpu/ext/conv/cpu_conv.h backends/cpu/ext/conv/conv_grid.c \
	backends/cpu/ext/conv/conv_plane.c \
	backends/cpu/ext/conv/conv_point.c \
	backends/cpu/ext/conv/conv_strip.c \
	backends/cpu/ext/conv/conv_sum.c backends/cpu/ext/conv/conv_sum.h \
	backends/cpu/ext/conv/conv_weight.c \
	backends/cpu/ext/conv/conv_winograd.c \
	backends/cpu/ext/conv/conv_winograd.h \
	backends/cpu/ext/conv/conv_winograd_weight.c \
	backends/cpu/ext/conv/cpu_conv.c \
	backends/cpu/ext/conv/winograd_windows.c
tn_cpu_la_CFLAGS = $(AM_CFLAGS) $(CPU_PLAIN_FLAGS)
tn_cpu_la_LDFLAGS = $(PLUGIN_LINK_FLAGS)
tn_cpu_la_LIBADD = libtn_cpu_generic.la $(TN_LIBS)

noinst_LTLIBRARIES += libtn_cpu_generic.la
libtn_cpu_generic_la_SOURCES = $(CPU_ROUTINES)
libtn_cpu_generic_la_CPPFLAGS = $(CPU_CPPFLAGS) -DTN_CPU_SET=generic
libtn_cpu_generic_la_CFLAGS = $(CPU_FLAGS)
# Only `make all` makes BUILT_SOURCES first, so `make tn_cpu.la` needs this
# dependency.
$(libtn_cpu_generic_la_OBJECTS): backends/cpu/simd/math_routines.inc

if HAVE_X86_64
# On x86-64 only processors from before 2013 use the generic routines. Without
# vectorisation (TN_CPU_PLAIN) these have a third of the size.
libtn_cpu_generic_la_CPPFLAGS += -DTN_CPU_PLAIN
noinst_LTLIBRARIES += libtn_cpu_v3.la libtn_cpu_v4.la
tn_cpu_la_LIBADD += libtn_cpu_v3.la libtn_cpu_v4.la
libtn_cpu_v3_la_SOURCES = $(CPU_ROUTINES)
libtn_cpu_v3_la_CPPFLAGS = $(CPU_CPPFLAGS) -DTN_CPU_SET=v3
libtn_cpu_v3_la_CFLAGS = $(CPU_FLAGS) -march=x86-64-v3
libtn_cpu_v4_la_SOURCES = $(CPU_ROUTINES)
libtn_cpu_v4_la_CPPFLAGS = $(CPU_CPPFLAGS) -DTN_CPU_SET=v4 -DTN_CPU_SPARE
libtn_cpu_v4_la_CFLAGS = $(CPU_FLAGS) -march=x86-64-v4 \
	-mprefer-vector-width=512
$(libtn_cpu_v3_la_OBJECTS): backends/cpu/simd/math_routines.inc
$(libtn_cpu_v4_la_OBJECTS): backends/cpu/simd/math_routines.inc
endif

check_PROGRAMS += tests/cpu/test_cpu_attention
tests_cpu_test_cpu_attention_SOURCES = tests/cpu/test_cpu_attention.c
check_PROGRAMS += tests/cpu/test_cpu_launch tests/cpu/test_cpu_primitives \
	tests/cpu/test_cpu_products
tests_cpu_test_cpu_products_SOURCES = \
	tests/cpu/test_cpu_products.c tests/cpu/cpu_plugin.h
check_PROGRAMS += tests/cpu/test_cpu_row_products
tests_cpu_test_cpu_row_products_SOURCES = \
	tests/cpu/test_cpu_row_products.c tests/cpu/cpu_plugin.h
CPU_LAUNCHED = tests/cpu/cpu_plugin.h tests/cpu/cpu_program.h \
	tests/cpu/cpu_values.h
check_PROGRAMS += tests/cpu/test_cpu_folds tests/cpu/test_cpu_lines
tests_cpu_test_cpu_launch_SOURCES = \
	tests/cpu/test_cpu_launch.c $(CPU_LAUNCHED)
tests_cpu_test_cpu_folds_SOURCES = \
	tests/cpu/test_cpu_folds.c $(CPU_LAUNCHED)
tests_cpu_test_cpu_lines_SOURCES = \
	tests/cpu/test_cpu_lines.c $(CPU_LAUNCHED)
tests_cpu_test_cpu_primitives_SOURCES = \
	tests/cpu/test_cpu_primitives.c tests/cpu/cpu_plugin.h
check_PROGRAMS += tests/cpu/test_cpu_direct
tests_cpu_test_cpu_direct_SOURCES = \
	tests/cpu/test_cpu_direct.c tests/cpu/cpu_plugin.h
check_PROGRAMS += tests/cpu/test_cpu_taps
tests_cpu_test_cpu_taps_SOURCES = tests/cpu/test_cpu_taps.c
check_PROGRAMS += tests/cpu/test_cpu_halves
tests_cpu_test_cpu_halves_SOURCES = tests/cpu/test_cpu_halves.c \
	tests/cpu/isa_here.h
check_PROGRAMS += tests/cpu/test_cpu_winograd
tests_cpu_test_cpu_winograd_SOURCES = \
	tests/cpu/test_cpu_winograd.c tests/cpu/cpu_plugin.h
check_PROGRAMS += tests/cpu/test_cpu_scan
tests_cpu_test_cpu_scan_SOURCES = \
	tests/cpu/test_cpu_scan.c tests/cpu/cpu_plugin.h

CPU_SETS = libtn_cpu_generic.la
if HAVE_X86_64
CPU_SETS += libtn_cpu_v3.la libtn_cpu_v4.la
endif
check_PROGRAMS += tests/cpu/test_cpu_factors
tests_cpu_test_cpu_factors_SOURCES = \
	tests/cpu/test_cpu_factors.c tests/cpu/cpu_program.h \
	tests/cpu/isa_here.h
tests_cpu_test_cpu_factors_LDADD = $(tn_cpu_la_OBJECTS) $(CPU_SETS) $(TN_LIBS)
check_PROGRAMS += tests/cpu/test_cpu_paths
tests_cpu_test_cpu_paths_SOURCES = tests/cpu/test_cpu_paths.c \
	tests/cpu/isa_here.h
tests_cpu_test_cpu_paths_LDADD = $(tn_cpu_la_OBJECTS) $(CPU_SETS) $(LDADD)
check_PROGRAMS += tests/cpu/test_cpu_native
tests_cpu_test_cpu_native_SOURCES = tests/cpu/test_cpu_native.c \
	tests/cpu/isa_here.h
tests_cpu_test_cpu_native_LDADD = $(tn_cpu_la_OBJECTS) $(CPU_SETS) $(TN_LIBS)
check_PROGRAMS += tests/cpu/test_cpu_math tests/cpu/test_cpu_divide \
	tests/cpu/test_cpu_random tests/cpu/test_cpu_turn
tests_cpu_test_cpu_math_SOURCES = tests/cpu/test_cpu_math.c \
	tests/cpu/isa_here.h
tests_cpu_test_cpu_math_LDADD = $(LDADD) $(CPU_SETS)
tests_cpu_test_cpu_divide_SOURCES = tests/cpu/test_cpu_divide.c \
	tests/cpu/isa_here.h
tests_cpu_test_cpu_divide_LDADD = $(LDADD) $(CPU_SETS)
tests_cpu_test_cpu_random_SOURCES = tests/cpu/test_cpu_random.c \
	tests/cpu/isa_here.h
tests_cpu_test_cpu_random_LDADD = $(LDADD) $(CPU_SETS)
tests_cpu_test_cpu_turn_SOURCES = tests/cpu/test_cpu_turn.c tests/cpu/isa_here.h
tests_cpu_test_cpu_turn_LDADD = $(LDADD) $(CPU_SETS)
check_PROGRAMS += tests/cpu/test_cpu_rows
tests_cpu_test_cpu_rows_SOURCES = tests/cpu/test_cpu_rows.c
