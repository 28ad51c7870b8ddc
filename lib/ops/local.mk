# Build rules of this folder, in the form that Makefile.am describes.
tenoninclude_HEADERS += include/tenon/op.h include/tenon/op_register.h \
	include/tenon/random.h include/tenon/autocast.h \
	include/tenon/relaxed.h

libtenon_la_SOURCES += \
	lib/ops/engine/ops.h \
	lib/ops/engine/call.c lib/ops/engine/values.c lib/ops/engine/needs.c lib/ops/engine/precision.c lib/ops/engine/mistakes.c \
	lib/ops/engine/mistakes.h lib/ops/engine/details.c \
	lib/ops/engine/late.c lib/ops/engine/late.h \
	lib/ops/engine/run_kernel.c lib/ops/engine/kernels.c lib/ops/engine/define.h \
	lib/ops/engine/space.c lib/ops/engine/space.h \
	lib/ops/engine/op.c lib/ops/engine/op_attributes.c lib/ops/engine/op_hooks.c lib/ops/engine/op_registry.c lib/ops/engine/define.c lib/ops/engine/select.c \
	lib/ops/engine/register.c lib/ops/engine/register.h \
	lib/ops/engine/signature.c lib/ops/engine/signature.h \
	lib/ops/create/create.c lib/ops/random/random.c lib/ops/random/random.h \
	lib/ops/shape/views.c lib/ops/shape/views.h \
	lib/ops/shape/strided.c \
	lib/ops/shape/split.c lib/ops/shape/shapes.c lib/ops/shape/diagonal.c \
	lib/ops/loss/loss.h lib/ops/loss/distance.c lib/ops/reduce/norms.c lib/ops/linalg/products.c \
	lib/ops/reduce/scan.c \
	lib/ops/math/composite.c lib/ops/loss/loss.c lib/ops/loss/ctc.c lib/ops/loss/linear_loss.c lib/ops/nn/bag.c \
	lib/ops/create/to_device.c \
	lib/ops/engine/native.c lib/ops/engine/native.h lib/ops/linalg/matmul.c lib/ops/nn/linear.c lib/ops/nn/scaled.c lib/ops/index/index.c lib/ops/index/index.h \
	lib/ops/index/scatter.c lib/ops/index/triangle.c lib/ops/shape/join.c \
	lib/ops/nn/window.c lib/ops/nn/window.h lib/ops/nn/columns.c lib/ops/nn/conv.c \
	lib/ops/nn/pool.c lib/ops/nn/pool_back.c \
	lib/ops/linalg/lapack.c lib/ops/linalg/lapack.h lib/ops/linalg/lapack.def lib/ops/linalg/job.c lib/ops/linalg/job.h lib/ops/linalg/factor.c \
	lib/ops/linalg/eigen.c lib/ops/linalg/lapack_device.c \
	lib/ops/linalg/eliminate.c lib/ops/linalg/eliminate.inc lib/ops/linalg/reflect.c \
	lib/ops/linalg/systems.c lib/ops/linalg/tensor_systems.c lib/ops/linalg/spectra.c lib/ops/linalg/matrix_norms.c \
	lib/ops/nn/window_taps.c lib/ops/nn/window_taps.h lib/ops/nn/pool_nd.c lib/ops/nn/pool_nd.h \
	lib/ops/nn/pool_nd_max.c lib/ops/nn/pool_nd_mean.c lib/ops/nn/unpool.c \
	lib/ops/nn/pool_fractional.c lib/ops/nn/interpolate.c \
	lib/ops/nn/grid.c lib/ops/linalg/einsum.c \
	lib/ops/nn/pad.c lib/ops/nn/unfold.c lib/ops/nn/conv3d.c \
	lib/ops/nn/activation.c lib/ops/nn/norm.c lib/ops/nn/recurrent.c \
	lib/ops/nn/attention.c lib/ops/nn/attention.h lib/ops/nn/attention_device.c \
	lib/ops/nn/image.c lib/ops/random/sample.c lib/ops/loss/pairs.c \
	lib/ops/reduce/rank.c lib/ops/math/calculus.c lib/ops/index/find.c lib/ops/index/search.c \
	lib/ops/index/put.c lib/ops/math/gamma.c \
	lib/ops/fourier/fourier.c \
	lib/ops/quantized/quantized.c
EXTRA_DIST += lib/ops/README.md lib/ops/TABLE.md

# The operator table as C. One run of awk makes four files, and table.c is the
# target for all of them. If another file is missing, its rule makes table.c
# again.
ops_tables = \
	lib/ops/nn/activation.def \
	lib/ops/nn/attention.def \
	lib/ops/math/bessel.def \
	lib/ops/math/calculus.def \
	lib/ops/math/compare.def \
	lib/ops/create/copies.def \
	lib/ops/create/create.def \
	lib/ops/index/find.def \
	lib/ops/fourier/fourier.def \
	lib/ops/math/gamma_functions.def \
	lib/ops/nn/grid.def \
	lib/ops/nn/image.def \
	lib/ops/index/index.def \
	lib/ops/linalg/linalg.def \
	lib/ops/loss/loss.def \
	lib/ops/linalg/matrix.def \
	lib/ops/nn/nn.def \
	lib/ops/nn/norm.def \
	lib/ops/random/random.def \
	lib/ops/loss/pairs.def \
	lib/ops/nn/recurrent.def \
	lib/ops/reduce/order.def \
	lib/ops/math/pointwise.def \
	lib/ops/math/polynomial.def \
	lib/ops/quantized/quantized.def \
	lib/ops/index/put.def \
	lib/ops/reduce/rank.def \
	lib/ops/reduce/reduce.def \
	lib/ops/shape/shape.def \
	lib/ops/math/special.def \
	lib/ops/create/transfer.def \
	lib/ops/shape/view.def \
	lib/ops/nn/window.def
ops_made = include/tenon/ops.h lib/ops/table.h lib/autograd/gradient_table.c
libtenon_la_SOURCES += lib/ops/table.c lib/ops/table.h \
	lib/autograd/gradient_table.c
tenoninclude_HEADERS += include/tenon/ops.h
BUILT_SOURCES += lib/ops/table.c $(ops_made)
MAINTAINERCLEANFILES += lib/ops/table.c $(ops_made)
EXTRA_DIST += lib/ops/generate.awk lib/ops/needs.awk $(ops_tables)
lib/ops/table.c: $(ops_tables) lib/ops/generate.awk lib/ops/needs.awk
	$(AM_V_GEN)$(MKDIR_P) include/tenon lib/ops lib/autograd && \
	files= && for f in $(ops_tables); do \
	  test -f $$f || f=$(srcdir)/$$f; files="$$files $$f"; \
	done && LC_ALL=C $(AWK) -v header=include/tenon/ops.h \
	    -v externs=lib/ops/table.h \
	    -v gradients=lib/autograd/gradient_table.c \
	    -v source=lib/ops/table.c.part \
	    -f $(srcdir)/lib/ops/needs.awk -f $(srcdir)/lib/ops/generate.awk \
	    $$files && \
	mv lib/ops/table.c.part lib/ops/table.c && touch $(ops_made)
# The operator reference in the manual.
dist_manual_DATA += docs/operators.md
MAINTAINERCLEANFILES += docs/operators.md
EXTRA_DIST += build-aux/operators.awk
docs/operators.md: tests/golden/looser.def tests/golden/host.def $(ops_tables) \
		build-aux/operators.awk lib/ops/needs.awk
	$(AM_V_GEN)$(MKDIR_P) docs && files= && \
	for f in tests/golden/looser.def tests/golden/host.def $(ops_tables); do \
	  test -f $$f || f=$(srcdir)/$$f; files="$$files $$f"; \
	done && LC_ALL=C $(AWK) -f $(srcdir)/lib/ops/needs.awk \
	  -f $(srcdir)/build-aux/operators.awk $$files \
	  >$@.part && mv $@.part $@
$(ops_made): lib/ops/table.c
	@test -f $@ || { rm -f lib/ops/table.c; \
	  $(MAKE) $(AM_MAKEFLAGS) lib/ops/table.c; }

check_PROGRAMS += tests/ops/test_rows tests/ops/test_calls \
	tests/ops/test_mistakes tests/ops/test_mistakes_windows \
	tests/ops/test_linalg tests/ops/test_linalg_batches \
	tests/ops/test_einsum tests/ops/test_fourier \
	tests/ops/test_options \
	tests/ops/test_random_bits tests/ops/test_sample tests/ops/test_long_rows \
	tests/ops/test_strides \
	tests/ops/test_conv \
	tests/ops/test_quantized
tests_ops_test_conv_SOURCES = tests/ops/test_conv.c
tests_ops_test_quantized_SOURCES = tests/ops/test_quantized.c
check_PROGRAMS += tests/ops/test_pool

dist_check_SCRIPTS += tests/ops/test_generate.sh

# Calls every operator with wrong arguments.
check_PROGRAMS += tests/ops/test_misuse
tests_ops_test_misuse_SOURCES = tests/ops/test_misuse.c tests/ops/misuse.c \
	tests/ops/misuse.h tests/ops/work.c tests/ops/work.h
check_PROGRAMS += tests/ops/test_edges
tests_ops_test_edges_SOURCES = tests/ops/test_edges.c
tests_ops_test_pool_SOURCES = tests/ops/test_pool.c
check_PROGRAMS += tests/ops/test_attention
tests_ops_test_attention_SOURCES = tests/ops/test_attention.c
check_PROGRAMS += tests/ops/test_cdist
tests_ops_test_cdist_SOURCES = tests/ops/test_cdist.c
check_PROGRAMS += tests/ops/test_agreement
tests_ops_test_agreement_SOURCES = tests/ops/test_agreement.c
check_PROGRAMS += tests/ops/test_narrow
tests_ops_test_narrow_SOURCES = tests/ops/test_narrow.c
check_PROGRAMS += tests/ops/test_places
tests_ops_test_places_SOURCES = tests/ops/test_places.c
check_PROGRAMS += tests/ops/test_division
tests_ops_test_division_SOURCES = tests/ops/test_division.c
check_PROGRAMS += tests/ops/test_grid
tests_ops_test_grid_SOURCES = tests/ops/test_grid.c
check_PROGRAMS += tests/ops/test_float8
tests_ops_test_float8_SOURCES = tests/ops/test_float8.c
tests_ops_test_sample_SOURCES = tests/ops/test_sample.c
tests_ops_test_random_bits_SOURCES = tests/ops/test_random_bits.c
tests_ops_test_rows_SOURCES = tests/ops/test_rows.c tests/ops/rows.h
check_PROGRAMS += tests/ops/test_rows_places
tests_ops_test_rows_places_SOURCES = tests/ops/test_rows_places.c \
	tests/ops/rows.h
tests_ops_test_calls_SOURCES = tests/ops/test_calls.c
tests_ops_test_mistakes_SOURCES = tests/ops/test_mistakes.c
tests_ops_test_einsum_SOURCES = tests/ops/test_einsum.c
tests_ops_test_fourier_SOURCES = tests/ops/test_fourier.c
tests_ops_test_linalg_SOURCES = tests/ops/test_linalg.c
tests_ops_test_linalg_batches_SOURCES = tests/ops/test_linalg_batches.c
tests_ops_test_mistakes_windows_SOURCES = tests/ops/test_mistakes_windows.c
tests_ops_test_options_SOURCES = tests/ops/test_options.c \
	tests/ops/test_options_cxx.cc
