# Build rules of this folder, in the form that Makefile.am describes.
tenoninclude_HEADERS += include/tenon/tokenizer.h
libtenon_lm_la_SOURCES += \
	lib/lm/tokenizer/added.c \
	lib/lm/tokenizer/bpe.c \
	lib/lm/tokenizer/charsmap.c \
	lib/lm/tokenizer/decode.c \
	lib/lm/tokenizer/detokenize.c \
	lib/lm/tokenizer/encode.c \
	lib/lm/tokenizer/memory.c lib/lm/tokenizer/memory.h \
	lib/lm/tokenizer/model.c \
	lib/lm/tokenizer/normal_form.c \
	lib/lm/tokenizer/normalize.c \
	lib/lm/tokenizer/open_gguf.c \
	lib/lm/tokenizer/open_json.c \
	lib/lm/tokenizer/open_json_model.c \
	lib/lm/tokenizer/open_tiktoken.c \
	lib/lm/tokenizer/patterns.c lib/lm/tokenizer/patterns.h \
	lib/lm/tokenizer/pipeline.c lib/lm/tokenizer/pipeline.h \
	lib/lm/tokenizer/pretokenize.c \
	lib/lm/tokenizer/regex.h \
	lib/lm/tokenizer/regex_class.c \
	lib/lm/tokenizer/regex_compile.c \
	lib/lm/tokenizer/regex_match.c \
	lib/lm/tokenizer/regex_parse.c lib/lm/tokenizer/regex_parse.h \
	lib/lm/tokenizer/regex_property.c \
	lib/lm/tokenizer/set.c lib/lm/tokenizer/set.h \
	lib/lm/tokenizer/template.c \
	lib/lm/tokenizer/tokenizer.c \
	lib/lm/tokenizer/unicode.c lib/lm/tokenizer/unicode.h \
	lib/lm/tokenizer/unicode_data.h \
	lib/lm/tokenizer/vocab.c lib/lm/tokenizer/vocab.h
EXTRA_DIST += lib/lm/tokenizer/make_unicode.py lib/lm/tokenizer/README.md
