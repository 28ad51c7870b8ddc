# Build rules of this folder, in the form that Makefile.am describes.
noinst_PROGRAMS += bench/compare bench/scaling bench/memory
bench_compare_SOURCES = bench/bench.h bench/bench.c bench/limit.c \
	bench/limit_kernels.inc bench/dispatch.c bench/bandwidth.c bench/rows.c \
	bench/indexing.c bench/order.c bench/special.c bench/matmul.c \
	bench/linalg.c bench/vision.c bench/window.c bench/norm.c bench/loss.c \
	bench/sequence.c bench/models.h bench/models.c bench/training.c \
	bench/inference.c bench/optim.c bench/loading.c \
	bench/compare.c bench/count.c bench/report.h bench/report.c \
	bench/losses.c \
	bench/peer.c
# The folder of compare.py.
bench_compare_CPPFLAGS = $(AM_CPPFLAGS) \
	-DBENCH_FOLDER='"$(abs_top_srcdir)/bench"'
bench_compare_LDADD = libtenon.la
if HAVE_JANSSON
# The groups whose workloads are rows of files. The functions that make layers and
# optimizers are shared with the golden tests.
bench_compare_SOURCES += bench/table.h bench/table.c bench/layers.c \
	bench/optimizers.c tests/golden/layer.h tests/golden/layer.c \
	tests/golden/parametrized.c \
	tests/golden/optimizer.h tests/golden/optimizer.c
bench_compare_CPPFLAGS += -DBENCH_TABLES -I$(top_srcdir)/tests \
	-I$(top_builddir)/tests $(JANSSON_CFLAGS)
bench_compare_LDADD += $(JANSSON_LIBS)
endif
bench_scaling_SOURCES = bench/bench.h bench/bench.c bench/scaling.c \
	bench/count.c bench/limit.c bench/limit_kernels.inc bench/bandwidth.c bench/rows.c \
	bench/matmul.c bench/vision.c bench/sequence.c bench/models.h \
	bench/models.c bench/training.c bench/optim.c
bench_scaling_LDADD = libtenon.la
bench_memory_SOURCES = bench/memory.c
bench_memory_CPPFLAGS = $(AM_CPPFLAGS) \
	-DBENCH_FOLDER='"$(abs_top_srcdir)/bench"'
bench_memory_LDADD = libtenon.la

noinst_PROGRAMS += bench/ddp_peer
bench_ddp_peer_SOURCES = bench/ddp_peer.c
bench_ddp_peer_LDADD = libtenon-parallel.la libtenon.la
EXTRA_DIST += bench/ddp_peer.py

noinst_PROGRAMS += bench/compile
bench_compile_SOURCES = bench/bench.h bench/bench.c bench/compile.c bench/peer.c \
	bench/models.h bench/models.c bench/training.c bench/inference.c
bench_compile_CPPFLAGS = $(AM_CPPFLAGS) \
	-DBENCH_FOLDER='"$(abs_top_srcdir)/bench"'
bench_compile_LDADD = libtenon.la

noinst_PROGRAMS += bench/frozen
bench_frozen_SOURCES = bench/frozen.c bench/models.h bench/models.c
bench_frozen_LDADD = libtenon.la
EXTRA_DIST += bench/frozen.py

noinst_PROGRAMS += bench/dist
bench_dist_SOURCES = bench/dist.h bench/dist.c bench/dist_rank.c \
	bench/models.h bench/models.c
bench_dist_CPPFLAGS = $(AM_CPPFLAGS) \
	-DBENCH_FOLDER='"$(abs_top_srcdir)/bench"'
bench_dist_LDADD = libtenon-parallel.la libtenon.la

noinst_PROGRAMS += bench/quantised
bench_quantised_SOURCES = bench/quantised.c
bench_quantised_LDADD = libtenon.la

noinst_PROGRAMS += bench/language
bench_language_SOURCES = bench/bench.h bench/language.c bench/peer.c
bench_language_CPPFLAGS = $(AM_CPPFLAGS) \
	-DBENCH_FOLDER='"$(abs_top_srcdir)/bench"'
bench_language_LDADD = libtenon-lm.la libtenon.la

if HAVE_OPENCL
noinst_PROGRAMS += bench/opencl bench/opencl_matmul
bench_opencl_SOURCES = bench/opencl.c
bench_opencl_LDADD = libtenon.la $(TN_LIBS)
bench_opencl_matmul_SOURCES = bench/opencl_matmul.c
bench_opencl_matmul_LDADD = libtenon.la $(TN_LIBS)
endif

if HAVE_CUDA
noinst_PROGRAMS += bench/cuda
bench_cuda_SOURCES = bench/cuda.c
bench_cuda_LDADD = libtenon.la $(TN_LIBS)

# sass.py runs this program on the simulated driver in tests/sim.
noinst_PROGRAMS += bench/sass_cases
bench_sass_cases_SOURCES = bench/sass_cases.c bench/models.h bench/models.c
bench_sass_cases_LDADD = libtenon.la $(TN_LIBS)
endif

# lanes.c is not built here: it is compiled by hand with the commands in its opening
# comment.
EXTRA_DIST += bench/README.md bench/lanes.c bench/sass.py bench/sass.json bench/compare.py bench/compile.py bench/compare_basic.py \
	bench/compare_families.py bench/compare_networks.py bench/compare_layers.py \
	bench/layers.tsv bench/optimizers.tsv bench/libtorch.cpp bench/memory.py bench/language.py bench/start_onnx.py bench/onnx.py bench/char_gpt.py bench/chart.awk
dist_manual_DATA += docs/scale.md docs/performance.md docs/performance.svg docs/performance.tsv \
	docs/performance_layers.tsv

dist_check_SCRIPTS += tests/test_bench.sh tests/test_sass.sh

noinst_PROGRAMS += bench/images
bench_images_SOURCES = bench/images.c
bench_images_LDADD = libtenon-media.la libtenon.la
EXTRA_DIST += bench/images.py bench/dist.py
