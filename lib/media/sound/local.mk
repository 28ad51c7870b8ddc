# Build rules of this folder, in the form that Makefile.am describes.
libtenon_media_la_SOURCES += \
	lib/media/sound/mel.c \
	lib/media/sound/resample.c \
	lib/media/sound/sound.c \
	lib/media/sound/sound.h \
	lib/media/sound/spectrum.c \
	lib/media/sound/wav.c \
	lib/media/sound/wav.h \
	lib/media/sound/wav_header.c
tenoninclude_HEADERS += include/tenon/sound.h
dist_manual_DATA += docs/sound.md
EXTRA_DIST += lib/media/sound/README.md
