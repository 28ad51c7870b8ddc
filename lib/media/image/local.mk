# Build rules of this folder, in the form that Makefile.am describes.
libtenon_media_la_SOURCES += \
	lib/media/image/image_tensor.c lib/media/image/image_tensor.h \
	lib/media/image/format.h lib/media/image/format.c \
	lib/media/image/exif.c \
	lib/media/image/png.c lib/media/image/jpeg.c \
	lib/media/image/raster.c lib/media/image/raster.h \
	lib/media/image/formats.h lib/media/image/formats.c \
	lib/media/image/file.c \
	lib/media/image/resample.h lib/media/image/axis.c \
	lib/media/image/resample.c lib/media/image/resize.c \
	lib/media/image/convert.h lib/media/image/convert.c \
	lib/media/image/crop.c lib/media/image/warp.c \
	lib/media/image/color.c lib/media/image/random.c \
	lib/media/image/grid.c lib/media/image/folder.c \
	lib/media/image/digits.c
tenoninclude_HEADERS += include/tenon/image.h include/tenon/transform.h
dist_manual_DATA += docs/images.md
EXTRA_DIST += lib/media/image/README.md
