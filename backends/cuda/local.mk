# What this room adds to the build: see the head of Makefile.am. The driver,
# NVRTC, cuBLASLt, cuDNN and cuSOLVER are opened at run time and declared in
# driver.h, cublaslt.h, cudnn.h and cusolver.h: nothing of CUDA is needed here.

EXTRA_DIST += backends/cuda/README.md
if HAVE_CUDA
tenonplugin_LTLIBRARIES += tn_cuda.la
dist_tenonplugin_DATA += backends/cuda/tn_cuda.conf
tn_cuda_la_SOURCES = \
	backends/cuda/plugin.c \
	backends/cuda/cuda.h \
	backends/cuda/driver.c backends/cuda/driver.h \
	backends/cuda/device.c \
	backends/cuda/memory.c \
	backends/cuda/queue.c \
	backends/cuda/compile.c \
	backends/cuda/launch.c \
	backends/cuda/graph.c \
	backends/cuda/product.c backends/cuda/cublaslt.h \
	backends/cuda/cudnn.c backends/cuda/cudnn.h \
	backends/cuda/conv.c \
	backends/cuda/attention.c backends/cuda/attention_check.c \
	backends/cuda/factor.c backends/cuda/cusolver.h
tn_cuda_la_CPPFLAGS = $(AM_CPPFLAGS) -DTENON_CUDA_FOLDER='"$(CUDA_FOLDER)"'
tn_cuda_la_LDFLAGS = $(PLUGIN_LINK_FLAGS)
tn_cuda_la_LIBADD = $(TN_LIBS)
endif
