# What this room adds to the build: see the head of Makefile.am.
gguf_sources = \
	lib/lm/gguf/gguf.c lib/lm/gguf/gguf.h \
	lib/lm/gguf/gguf_parse.c lib/lm/gguf/gguf_parse.h \
	lib/lm/gguf/gguf_tensor.c \
	lib/lm/gguf/gguf_types.h \
	lib/lm/gguf/gguf_values.c
libtenon_lm_la_SOURCES += $(gguf_sources)
tenoninclude_HEADERS += include/tenon/gguf.h
EXTRA_DIST += lib/lm/gguf/README.md
