# Build rules of this folder, in the form that Makefile.am describes.
tenoninclude_HEADERS += include/tenon/chat.h
libtenon_lm_la_SOURCES += \
	lib/lm/generate/chat.c \
	lib/lm/generate/batch.c \
	lib/lm/generate/kv_cache.c \
	lib/lm/generate/kv_cache.h \
	lib/lm/generate/decode.c \
	lib/lm/generate/embed.c \
	lib/lm/generate/generate.c \
	lib/lm/generate/sample.c \
	lib/lm/generate/sample.h
EXTRA_DIST += lib/lm/generate/README.md
