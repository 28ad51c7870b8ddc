# Build rules of this folder, in the form that Makefile.am describes.
lib_LTLIBRARIES += libtenon-onnx.la
libtenon_onnx_la_SOURCES = lib/base/library_lock.c lib/base/library_lock.h \
	lib/base/plain.c lib/base/plain.h \
	lib/onnx/onnx.h \
	lib/onnx/reader/wire.c lib/onnx/reader/wire.h lib/onnx/reader/reader.h \
	lib/onnx/reader/file.c lib/onnx/reader/tensor.c \
	lib/onnx/graph/build.c lib/onnx/graph/build.h lib/onnx/graph/names.c \
	lib/onnx/graph/scope.h lib/onnx/graph/slot.c lib/onnx/graph/node.c \
	lib/onnx/graph/weights.c lib/onnx/graph/function.c \
	lib/onnx/graph/imports.c \
	lib/onnx/graph/attribute.c lib/onnx/graph/port.c \
	lib/onnx/graph/read_model.c lib/onnx/graph/model.c \
	lib/onnx/run/run.c lib/onnx/run/run.h lib/onnx/run/call.c \
	lib/onnx/run/module.c lib/onnx/run/shape_cache.c lib/onnx/run/shape_cache.h \
	lib/onnx/ops/ops.h lib/onnx/ops/table.c lib/onnx/ops/math.c \
	lib/onnx/ops/activation.c lib/onnx/ops/reduce.c lib/onnx/ops/shape.c \
	lib/onnx/ops/index.c lib/onnx/ops/matrix.c lib/onnx/ops/conv.c \
	lib/onnx/ops/conv.h lib/onnx/ops/norm.c lib/onnx/ops/create.c \
	lib/onnx/ops/control.c lib/onnx/ops/recurrent.c \
	lib/onnx/ops/signal.c lib/onnx/ops/quantised.c lib/onnx/ops/loss.c \
	lib/onnx/ops/resize.c lib/onnx/ops/attention.c lib/onnx/ops/image.c \
	lib/onnx/ops/regions.c lib/onnx/ops/deform.c lib/onnx/ops/text.c \
	lib/onnx/ops/slice.c
libtenon_onnx_la_LDFLAGS = $(libtenon_la_LDFLAGS)
libtenon_onnx_la_LIBADD = libtenon.la $(TN_LIBS)
EXTRA_libtenon_onnx_la_DEPENDENCIES = lib/tenon.map
pkgconfig_DATA += tenon-onnx.pc
EXTRA_DIST += lib/onnx/README.md
tenoninclude_HEADERS += include/tenon/onnx.h
