# What this room adds to the build: see the head of Makefile.am.
libtenon_media_la_SOURCES += \
	lib/media/image/host.c lib/media/image/host.h \
	lib/media/image/format.h lib/media/image/exif.c \
	lib/media/image/png.c lib/media/image/jpeg.c \
	lib/media/image/raster.c lib/media/image/raster.h \
	lib/media/image/file.c lib/media/image/options.c
tenoninclude_HEADERS += include/tenon/image.h include/tenon/transform.h
EXTRA_DIST += lib/media/image/README.md
