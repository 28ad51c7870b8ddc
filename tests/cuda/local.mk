# The CUDA plugin's tests, on the simulated driver of tests/sim: see the head of
# Makefile.am.

EXTRA_DIST += tests/cuda/declarations.c
if HAVE_CUDA
check_PROGRAMS += tests/cuda/test_products
tests_cuda_test_products_SOURCES = tests/cuda/test_products.c \
	tests/cuda/on_sim.h tests/device/products.h tests/plugins/folder.h
tests_cuda_test_products_LDADD = libtenon.la $(TN_LIBS)
dist_check_SCRIPTS += tests/cuda/test_cuda.sh
endif
