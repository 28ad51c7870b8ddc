# Build rules of this folder, in the form that Makefile.am describes. The
# driver, NVRTC, cuBLASLt, cuDNN and cuSOLVER are opened at run time and
# declared in cuda_driver.h, cublaslt.h, cudnn.h and cusolver.h: the build needs
# no toolkit.

EXTRA_DIST += backends/cuda/README.md
if HAVE_CUDA
tenonplugin_LTLIBRARIES += tn_cuda.la
dist_tenonplugin_DATA += backends/cuda/tn_cuda.conf
tn_cuda_la_SOURCES = $(shared_plugin_sources) \
	backends/cuda/cuda_plugin.c \
	backends/cuda/cuda.h \
	backends/cuda/cuda_driver.c backends/cuda/cuda_driver.h \
	backends/cuda/cuda_device.c \
	backends/cuda/cuda_memory.c \
	backends/cuda/cuda_error.c \
	backends/cuda/cuda_work.c \
	backends/cuda/cuda_queue.c \
	backends/cuda/cuda_compile.c \
	backends/cuda/cuda_launch.c \
	backends/cuda/cuda_graph.c \
	backends/cuda/cuda_product.c backends/cuda/cublaslt.h \
	backends/cuda/cudnn.c backends/cuda/cudnn.h \
	backends/cuda/cuda_conv.c \
	backends/cuda/cuda_attention.c backends/cuda/attention_check.c \
	backends/cuda/attention_choose.c \
	backends/cuda/cuda_factor.c backends/cuda/cusolver.h
tn_cuda_la_CPPFLAGS = $(AM_CPPFLAGS) -DTENON_CUDA_FOLDER='"$(CUDA_FOLDER)"'
tn_cuda_la_LDFLAGS = $(PLUGIN_LINK_FLAGS)
tn_cuda_la_LIBADD = $(TN_LIBS)
endif
