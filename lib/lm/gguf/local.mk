# Build rules of this folder, in the form that Makefile.am describes.
gguf_sources = \
	lib/lm/gguf/gguf.c lib/lm/gguf/gguf.h \
	lib/lm/gguf/gguf_parse.c lib/lm/gguf/gguf_parse.h \
	lib/lm/gguf/gguf_tensor.c \
	lib/lm/gguf/gguf_types.h \
	lib/lm/gguf/gguf_values.c
libtenon_lm_la_SOURCES += $(gguf_sources)
tenoninclude_HEADERS += include/tenon/gguf.h
EXTRA_DIST += lib/lm/gguf/README.md
