# Build rules of this folder, in the form that Makefile.am describes.
libtenon_media_la_SOURCES += \
	lib/media/run/curve_list.c \
	lib/media/run/curves.c lib/media/run/curves.h \
	lib/media/run/event_file.c lib/media/run/event_file.h \
	lib/media/run/event_image.c \
	lib/media/run/events.c \
	lib/media/run/histogram.c \
	lib/media/run/hyperparameters.c \
	lib/media/run/message.c lib/media/run/message.h \
	lib/media/run/plot.c \
	lib/media/run/read_events.c
tenoninclude_HEADERS += include/tenon/curves.h include/tenon/events.h
EXTRA_DIST += lib/media/run/README.md
