# Build rules of this folder, in the form that Makefile.am describes.
libtenon_media_la_SOURCES += \
	lib/media/vision/anchors.c \
	lib/media/vision/boxes.c \
	lib/media/vision/boxes.h \
	lib/media/vision/iou.c \
	lib/media/vision/mean_ap.c \
	lib/media/vision/nms.c \
	lib/media/vision/regions.c \
	lib/media/vision/sparse.c \
	lib/media/vision/sparse.h
tenoninclude_HEADERS += include/tenon/vision.h
dist_manual_DATA += docs/vision.md
EXTRA_DIST += lib/media/vision/README.md
