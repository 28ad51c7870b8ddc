# Build rules of the tests of the simulated CUDA driver (tests/sim) and of the CUDA
# plugin, which run on that driver. Makefile.am describes the form of these rules.

EXTRA_DIST += tests/cuda/README.md tests/cuda/declarations.c tests/cuda/full.sh
if HAVE_CUDA
check_PROGRAMS += tests/cuda/test_sim tests/cuda/test_bugs
tests_cuda_test_sim_SOURCES = tests/cuda/test_sim.c tests/cuda/calls.h \
	$(cuda_sim_la_SOURCES)
tests_cuda_test_sim_CFLAGS = $(cuda_sim_la_CFLAGS)
tests_cuda_test_bugs_SOURCES = tests/cuda/test_bugs.c tests/cuda/bugs.h \
	tests/cuda/calls.h $(cuda_sim_la_SOURCES)
tests_cuda_test_bugs_CFLAGS = $(cuda_sim_la_CFLAGS)
check_PROGRAMS += tests/cuda/test_bugs_kernels
tests_cuda_test_bugs_kernels_SOURCES = tests/cuda/test_bugs_kernels.c \
	tests/cuda/bugs.h tests/cuda/calls.h $(cuda_sim_la_SOURCES)
tests_cuda_test_bugs_kernels_CFLAGS = $(cuda_sim_la_CFLAGS)
check_PROGRAMS += tests/cuda/test_opcodes
tests_cuda_test_opcodes_SOURCES = tests/cuda/test_opcodes.c tests/cuda/calls.h \
	$(cuda_sim_la_SOURCES)
tests_cuda_test_opcodes_CFLAGS = $(cuda_sim_la_CFLAGS)
check_PROGRAMS += tests/cuda/test_warp
tests_cuda_test_warp_SOURCES = tests/cuda/test_warp.c tests/cuda/calls.h \
	$(cuda_sim_la_SOURCES)
tests_cuda_test_warp_CFLAGS = $(cuda_sim_la_CFLAGS)
check_PROGRAMS += tests/cuda/test_products
tests_cuda_test_products_SOURCES = tests/cuda/test_products.c \
	tests/cuda/on_sim.h tests/device/products.h tests/plugins/folder.h
tests_cuda_test_products_LDADD = libtenon.la $(TN_LIBS)
check_PROGRAMS += tests/cuda/test_conv
tests_cuda_test_conv_SOURCES = tests/cuda/test_conv.c \
	tests/cuda/on_sim.h tests/device/convolutions.h tests/plugins/folder.h
tests_cuda_test_conv_LDADD = libtenon.la $(TN_LIBS)
check_PROGRAMS += tests/cuda/test_scatter
tests_cuda_test_scatter_SOURCES = tests/cuda/test_scatter.c \
	tests/cuda/on_sim.h tests/plugins/folder.h
tests_cuda_test_scatter_LDADD = libtenon.la $(TN_LIBS)
check_PROGRAMS += tests/cuda/test_attention
tests_cuda_test_attention_SOURCES = tests/cuda/test_attention.c \
	tests/cuda/on_sim.h tests/plugins/folder.h
tests_cuda_test_attention_LDADD = libtenon.la $(TN_LIBS)
check_PROGRAMS += tests/cuda/test_linear
tests_cuda_test_linear_SOURCES = tests/cuda/test_linear.c \
	tests/cuda/on_sim.h tests/plugins/folder.h
tests_cuda_test_linear_LDADD = libtenon.la $(TN_LIBS)
check_PROGRAMS += tests/cuda/test_lapack
tests_cuda_test_lapack_SOURCES = tests/cuda/test_lapack.c \
	tests/cuda/on_sim.h tests/plugins/folder.h
tests_cuda_test_lapack_LDADD = libtenon.la $(TN_LIBS)
check_PROGRAMS += tests/cuda/test_dnn
tests_cuda_test_dnn_SOURCES = tests/cuda/test_dnn.c \
	backends/cuda/cuda.h backends/cuda/cudnn.h backends/cuda/cudnn.c \
	backends/cuda/cuda_conv.c backends/cuda/cuda_attention.c
tests_cuda_test_dnn_CPPFLAGS = $(tn_cuda_la_CPPFLAGS)
tests_cuda_test_dnn_LDADD = libtenon.la $(TN_LIBS)
check_PROGRAMS += tests/cuda/test_attention_check
tests_cuda_test_attention_check_SOURCES = tests/cuda/test_attention_check.c \
	backends/cuda/cuda.h backends/cuda/cudnn.h \
	backends/cuda/attention_check.c
tests_cuda_test_attention_check_LDADD = $(TN_LIBS)
check_PROGRAMS += tests/cuda/test_dnn_attention
tests_cuda_test_dnn_attention_SOURCES = tests/cuda/test_dnn_attention.c \
	tests/plugins/folder.h
tests_cuda_test_dnn_attention_LDADD = libtenon.la $(TN_LIBS)
check_PROGRAMS += tests/cuda/test_dnn_conv
tests_cuda_test_dnn_conv_SOURCES = tests/cuda/test_dnn_conv.c \
	tests/plugins/folder.h
tests_cuda_test_dnn_conv_LDADD = libtenon.la $(TN_LIBS)
check_LTLIBRARIES += cuda_accepting.la
cuda_accepting_la_SOURCES = tests/cuda/accepting_driver.c
cuda_accepting_la_LDFLAGS = $(cuda_sim_la_LDFLAGS)
check_DATA += tests/sim/accepting/libcuda.so.1
tests/sim/accepting/libcuda.so.1: cuda_accepting.la
	$(AM_V_GEN)$(MKDIR_P) $(@D) && rm -f $@ && \
	  $(LN_S) ../../../.libs/cuda_accepting.so $@
check_PROGRAMS += tests/cuda/test_compile
tests_cuda_test_compile_SOURCES = tests/cuda/test_compile.c \
	tests/cuda/on_sim.h tests/device/by_name.h tests/plugins/folder.h \
	tools/check/by_hand.c tools/check/by_hand.h
check_PROGRAMS += tests/cuda/test_far
tests_cuda_test_far_SOURCES = tests/cuda/test_far.c \
	tests/cuda/on_sim.h tests/plugins/folder.h
tests_cuda_test_far_LDADD = libtenon.la $(TN_LIBS)
check_PROGRAMS += tests/cuda/test_failures
tests_cuda_test_failures_SOURCES = tests/cuda/test_failures.c \
	tests/ops/outside.h \
	tests/cuda/on_sim.h tests/plugins/folder.h
tests_cuda_test_failures_LDADD = libtenon.la $(TN_LIBS)
check_PROGRAMS += tests/cuda/test_devices
tests_cuda_test_devices_SOURCES = tests/cuda/test_devices.c \
	tests/cuda/on_sim.h tests/plugins/folder.h
tests_cuda_test_devices_LDADD = libtenon.la $(TN_LIBS)
check_PROGRAMS += tests/cuda/test_each_call
tests_cuda_test_each_call_SOURCES = tests/cuda/test_each_call.c \
	tests/cuda/on_sim.h tests/device/by_name.h tests/plugins/folder.h \
	tools/check/by_hand.c tools/check/by_hand.h
dist_check_SCRIPTS += tests/cuda/test_cuda.sh tests/cuda/test_suite.sh \
	tests/cuda/test_gpu.sh

# Runs all tests on the simulated driver, which takes too long for `make check`.
check-cuda-full:
	$(MAKE) $(AM_MAKEFLAGS) check TESTS=tests/cuda/full.sh TEST_SECONDS=0
endif
.PHONY: check-cuda-full
