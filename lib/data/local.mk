# Build rules of this folder, in the form that Makefile.am describes.
libtenon_la_SOURCES += \
	lib/data/collate.c \
	lib/data/dataset.c lib/data/dataset.h \
	lib/data/loader.c lib/data/loader_options.c lib/data/loader_options.h \
	lib/data/order.c lib/data/order.h \
	lib/data/parts.c \
	lib/data/progress.c \
	lib/data/stream.c lib/data/stream.h \
	lib/data/text_file.c \
	lib/data/upload.c lib/data/upload.h \
	lib/data/workers.c lib/data/workers.h
tenoninclude_HEADERS += include/tenon/data.h
EXTRA_DIST += lib/data/README.md
