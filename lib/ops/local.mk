# What this room adds to the build: see the head of Makefile.am.
tenoninclude_HEADERS += include/tenon/op.h include/tenon/op_register.h \
	include/tenon/random.h include/tenon/autocast.h

libtenon_la_SOURCES += \
	lib/ops/ops.h \
	lib/ops/call.c lib/ops/needs.c lib/ops/precision.c lib/ops/mistakes.c \
	lib/ops/mistakes.h lib/ops/details.c \
	lib/ops/late.c lib/ops/late.h \
	lib/ops/run_kernel.c lib/ops/kernels.c lib/ops/define.h \
	lib/ops/space.c lib/ops/space.h \
	lib/ops/op.c lib/ops/define.c lib/ops/select.c \
	lib/ops/register.c lib/ops/register.h \
	lib/ops/signature.c lib/ops/signature.h \
	lib/ops/create.c lib/ops/random.c lib/ops/random.h \
	lib/ops/views.c lib/ops/views.h \
	lib/ops/strided.c \
	lib/ops/split.c lib/ops/shape.c lib/ops/diagonal.c \
	lib/ops/loss.h lib/ops/distance.c lib/ops/norms.c lib/ops/products.c \
	lib/ops/scan.c \
	lib/ops/composite.c lib/ops/loss.c lib/ops/ctc.c lib/ops/linear_loss.c lib/ops/bag.c \
	lib/ops/transfer.c \
	lib/ops/native.c lib/ops/native.h lib/ops/matmul.c lib/ops/linear.c lib/ops/scaled.c lib/ops/index.c \
	lib/ops/window.c lib/ops/window.h lib/ops/columns.c lib/ops/conv.c \
	lib/ops/pool.c lib/ops/pool_back.c \
	lib/ops/lapack.c lib/ops/lapack.h lib/ops/lapack.def lib/ops/job.c lib/ops/job.h lib/ops/factor.c \
	lib/ops/eigen.c lib/ops/lapack_device.c \
	lib/ops/eliminate.c lib/ops/eliminate.inc lib/ops/reflect.c \
	lib/ops/systems.c lib/ops/spectra.c lib/ops/matrix_norms.c \
	lib/ops/taps.c lib/ops/taps.h lib/ops/pool_nd.c \
	lib/ops/pool_fractional.c lib/ops/interpolate.c \
	lib/ops/grid.c lib/ops/einsum.c \
	lib/ops/pad.c lib/ops/unfold.c lib/ops/conv3d.c \
	lib/ops/activation.c lib/ops/norm.c lib/ops/recurrent.c \
	lib/ops/attention.c lib/ops/attention.h lib/ops/attention_device.c \
	lib/ops/image.c lib/ops/sample.c lib/ops/pairs.c \
	lib/ops/rank.c lib/ops/calculus.c lib/ops/find.c lib/ops/search.c \
	lib/ops/put.c lib/ops/gamma.c
EXTRA_DIST += lib/ops/README.md lib/ops/table/README.md

# The operator table as C: one run of awk makes four files. table.c stands for
# them all; the others only follow it, and make it anew where they are missing.
ops_tables = \
	lib/ops/table/activation.def \
	lib/ops/table/attention.def \
	lib/ops/table/bessel.def \
	lib/ops/table/calculus.def \
	lib/ops/table/compare.def \
	lib/ops/table/copies.def \
	lib/ops/table/create.def \
	lib/ops/table/find.def \
	lib/ops/table/gamma.def \
	lib/ops/table/grid.def \
	lib/ops/table/image.def \
	lib/ops/table/index.def \
	lib/ops/table/linalg.def \
	lib/ops/table/loss.def \
	lib/ops/table/matrix.def \
	lib/ops/table/nn.def \
	lib/ops/table/norm.def \
	lib/ops/table/random.def \
	lib/ops/table/pairs.def \
	lib/ops/table/recurrent.def \
	lib/ops/table/order.def \
	lib/ops/table/pointwise.def \
	lib/ops/table/polynomial.def \
	lib/ops/table/put.def \
	lib/ops/table/rank.def \
	lib/ops/table/reduce.def \
	lib/ops/table/shape.def \
	lib/ops/table/special.def \
	lib/ops/table/transfer.def \
	lib/ops/table/view.def \
	lib/ops/table/window.def
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
# The operator reference for people.
dist_doc_DATA += docs/operators.md
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
	tests/ops/test_einsum \
	tests/ops/test_options \
	tests/ops/test_random_bits tests/ops/test_sample tests/ops/test_long_rows \
	tests/ops/test_strides \
	tests/ops/test_conv
tests_ops_test_conv_SOURCES = tests/ops/test_conv.c
check_PROGRAMS += tests/ops/test_pool

dist_check_SCRIPTS += tests/ops/test_generate.sh

# Every row, misused.
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
tests_ops_test_linalg_SOURCES = tests/ops/test_linalg.c
tests_ops_test_linalg_batches_SOURCES = tests/ops/test_linalg_batches.c
tests_ops_test_mistakes_windows_SOURCES = tests/ops/test_mistakes_windows.c
tests_ops_test_options_SOURCES = tests/ops/test_options.c \
	tests/ops/test_options_cxx.cc
