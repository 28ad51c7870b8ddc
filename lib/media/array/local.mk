# What this room adds to the build: see the head of Makefile.am.
libtenon_media_la_SOURCES += lib/media/array/source.c \
	lib/media/array/source.h lib/media/array/host.c lib/media/array/host.h \
	lib/media/array/npy_header.c lib/media/array/npy_header.h lib/media/array/npy.h \
	lib/media/array/npy_load.c lib/media/array/npy_save.c \
	lib/media/array/zip_read.c lib/media/array/zip_write.c \
	lib/media/array/zip.h lib/media/array/npz.c lib/media/array/text.c \
	lib/media/array/text.h lib/media/array/options.c
tenoninclude_HEADERS += include/tenon/npy.h
EXTRA_DIST += lib/media/array/README.md
