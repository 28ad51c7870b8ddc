# What this room adds to the build: see the head of Makefile.am.
libtenon_lm_la_SOURCES += \
	lib/lm/gguf/gguf.c lib/lm/gguf/gguf.h \
	lib/lm/gguf/gguf_parse.c lib/lm/gguf/gguf_parse.h \
	lib/lm/gguf/gguf_tensor.c \
	lib/lm/gguf/gguf_types.h \
	lib/lm/gguf/gguf_values.c
tenoninclude_HEADERS += include/tenon/gguf.h
EXTRA_DIST += lib/lm/gguf/README.md
