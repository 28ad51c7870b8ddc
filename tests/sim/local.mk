# Build rules of the simulated CUDA driver. Tests put its folder, tests/sim/driver,
# into LD_LIBRARY_PATH.

EXTRA_DIST += tests/sim/README.md
if HAVE_CUDA
check_LTLIBRARIES += cuda_sim.la
cuda_sim_la_SOURCES = \
	tests/sim/sim.h \
	tests/sim/driver.c \
	tests/sim/stream.c \
	tests/sim/graph.c \
	tests/sim/copy.c \
	tests/sim/memory.c \
	tests/sim/ptx.h tests/sim/ptx.def \
	tests/sim/ptx_parse.h tests/sim/ptx_parse.c \
	tests/sim/ptx_make.c \
	tests/sim/ptx_run.h \
	tests/sim/ptx_reach.c \
	tests/sim/ptx_run.c
cuda_sim_la_CFLAGS = $(AM_CFLAGS) -ffp-contract=off
cuda_sim_la_LDFLAGS = -rpath /nowhere -module -avoid-version -shared \
	-no-undefined
cuda_sim_la_LIBADD = $(TN_LIBS)

check_LTLIBRARIES += cublaslt_sim.la
cublaslt_sim_la_SOURCES = tests/sim/sim.h tests/sim/library.h \
	tests/sim/cublaslt.c
cublaslt_sim_la_LDFLAGS = $(cuda_sim_la_LDFLAGS)
cublaslt_sim_la_LIBADD = $(TN_LIBS)

check_LTLIBRARIES += cusolver_sim.la
cusolver_sim_la_SOURCES = tests/sim/sim.h tests/sim/library.h \
	tests/sim/cusolver.c
cusolver_sim_la_LDFLAGS = $(cuda_sim_la_LDFLAGS)
cusolver_sim_la_LIBADD = $(TN_LIBS)

check_LTLIBRARIES += nvrtc_sim.la
nvrtc_sim_la_SOURCES = tests/sim/sim.h tests/sim/nvrtc.c
nvrtc_sim_la_CPPFLAGS = $(tn_cuda_la_CPPFLAGS)
nvrtc_sim_la_LDFLAGS = $(cuda_sim_la_LDFLAGS)
nvrtc_sim_la_LIBADD = $(TN_LIBS)

check_DATA += tests/sim/driver/libcuda.so.1 \
	tests/sim/nvrtc/libnvrtc.so.12 \
	tests/sim/driver/libcublasLt.so.13 \
	tests/sim/driver/libcusolver.so.12 tests/sim/driver/libcudnn.so.9
tests/sim/driver/libcuda.so.1: cuda_sim.la
	$(AM_V_GEN)$(MKDIR_P) $(@D) && rm -f $@ && \
	  $(LN_S) ../../../.libs/cuda_sim.so $@
tests/sim/nvrtc/libnvrtc.so.12: nvrtc_sim.la
	$(AM_V_GEN)$(MKDIR_P) $(@D) && rm -f $@ && \
	  $(LN_S) ../../../.libs/nvrtc_sim.so $@
tests/sim/driver/libcublasLt.so.13: cublaslt_sim.la
	$(AM_V_GEN)$(MKDIR_P) $(@D) && rm -f $@ && \
	  $(LN_S) ../../../.libs/cublaslt_sim.so $@
# cuDNN is not simulated. A library of its name without its functions hides
# NVIDIA's cuDNN, if that is installed.
tests/sim/driver/libcusolver.so.12 tests/sim/driver/libcudnn.so.9: cusolver_sim.la
	$(AM_V_GEN)$(MKDIR_P) $(@D) && rm -f $@ && \
	  $(LN_S) ../../../.libs/cusolver_sim.so $@

# The driver for bench/sass.py, in another folder. The same file also has the names
# of cuDNN and cuSOLVER there. It lacks their functions, so the plugin does not use
# them.
check_LTLIBRARIES += cuda_counting.la
cuda_counting_la_SOURCES = tests/sim/counting.c tests/sim/sim.h \
	tests/sim/ptx.h tests/sim/ptx.def tests/sim/ptx_parse.h \
	tests/sim/ptx_parse.c tests/sim/ptx_make.c tests/sim/ptx_run.h \
	tests/sim/ptx_reach.c tests/sim/ptx_run.c
cuda_counting_la_CFLAGS = $(cuda_sim_la_CFLAGS)
cuda_counting_la_LDFLAGS = $(cuda_sim_la_LDFLAGS)
cuda_counting_la_LIBADD = $(TN_LIBS)
check_DATA += tests/sim/counting/libcuda.so.1
tests/sim/counting/libcuda.so.1: cuda_counting.la
	$(AM_V_GEN)$(MKDIR_P) $(@D) && for name in libcuda.so.1 \
	  libcublasLt.so.13 libcudnn.so.9 libcusolver.so.12; do \
	  rm -f $(@D)/$$name && $(LN_S) \
	    ../../../.libs/cuda_counting.so $(@D)/$$name || exit; \
	  done
endif

clean-local: clean-sim
clean-sim:
	-rm -rf tests/sim/driver tests/sim/nvrtc tests/sim/accepting \
	  tests/sim/counting
.PHONY: clean-sim
