# Build rules of this folder, in the form that Makefile.am describes.
libtenon_la_SOURCES += \
	lib/io/categories.c \
	lib/io/csv.c lib/io/csv.h lib/io/csv_number.c \
	lib/io/file.c lib/io/file.h \
	lib/io/gzip.c \
	lib/io/idx.c lib/io/idx.h \
	lib/io/own_formats.c \
	lib/io/replace.c \
	lib/io/safetensors.c lib/io/safetensors.h \
	lib/io/safetensors_header.c \
	lib/io/safetensors_save.c
tenoninclude_HEADERS += include/tenon/io.h
EXTRA_DIST += lib/io/README.md
