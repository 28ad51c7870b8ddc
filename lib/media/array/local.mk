# Build rules of this folder, in the form that Makefile.am describes.
libtenon_media_la_SOURCES += lib/media/array/source.c \
	lib/media/array/source.h lib/media/array/host.c lib/media/array/host.h \
	lib/media/array/text.c lib/media/array/text.h \
	lib/media/array/npy_header.c lib/media/array/npy_header.h \
	lib/media/array/npy.h lib/media/array/npy_load.c \
	lib/media/array/npy_save.c lib/media/array/npz.c \
	lib/media/array/zip.h lib/media/array/zip_read.c \
	lib/media/array/zip_write.c \
	lib/media/array/pickle.h lib/media/array/pickle.c \
	lib/media/array/pickle_call.c lib/media/array/pickle_value.c \
	lib/media/array/pickle_make.h lib/media/array/pickle_make.c \
	lib/media/array/pickle_numpy.c \
	lib/media/array/torch_file.h \
	lib/media/array/torch_file.c lib/media/array/torch_read.c \
	lib/media/array/torch_tensor.c lib/media/array/torch_module.c \
	lib/media/array/dlpack.h lib/media/array/dlpack_abi.h \
	lib/media/array/dlpack_export.c lib/media/array/dlpack_import.c \
	lib/media/array/dlpack_exchange.c lib/media/array/shards_save.c \
	lib/media/array/shards_open.c
# The JSON reader and writer are compiled into libtenon-media, because libtenon does
# not export them.
libtenon_media_la_SOURCES += lib/base/plain.c lib/base/plain.h \
	lib/json/json.h lib/json/json_read.c lib/json/json_write.c
tenoninclude_HEADERS += include/tenon/npy.h include/tenon/torch_file.h \
	include/tenon/dlpack.h \
	include/tenon/safetensors_shards.h
EXTRA_DIST += lib/media/array/README.md
