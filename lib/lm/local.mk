# Build rules of this folder, in the form that Makefile.am describes. Each
# folder lists its own files.
lib_LTLIBRARIES += libtenon-lm.la
libtenon_lm_la_SOURCES = lib/base/library_options.c lib/base/plain.c lib/base/plain.h \
	lib/json/json.h lib/json/json_read.c lib/json/json_write.c
libtenon_lm_la_CFLAGS = $(AM_CFLAGS) # objects of its own
libtenon_lm_la_LDFLAGS = $(libtenon_la_LDFLAGS)
libtenon_lm_la_LIBADD = libtenon.la $(TN_LIBS)
EXTRA_libtenon_lm_la_DEPENDENCIES = lib/tenon.map
pkgconfig_DATA += tenon-lm.pc
EXTRA_DIST += lib/lm/README.md

include lib/lm/tokenizer/local.mk
include lib/lm/gguf/local.mk
include lib/lm/model/local.mk
include lib/lm/template/local.mk
include lib/lm/generate/local.mk
