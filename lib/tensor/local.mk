# Build rules of this folder, in the form that Makefile.am describes.
libtenon_la_SOURCES += \
	lib/tensor/array.c \
	lib/tensor/print.c \
	lib/tensor/tensor_errors.c \
	lib/tensor/shape.c \
	lib/tensor/tensor.c \
	lib/tensor/tensor.h
EXTRA_DIST += lib/tensor/README.md

check_PROGRAMS += tests/tensor/test_tensor tests/tensor/test_print
tests_tensor_test_tensor_SOURCES = tests/tensor/test_tensor.c
tests_tensor_test_print_SOURCES = tests/tensor/test_print.c
