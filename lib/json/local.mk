# Build rules of this folder, in the form that Makefile.am describes.
libtenon_la_SOURCES += \
	lib/json/json.h lib/json/json_read.c lib/json/json_write.c
EXTRA_DIST += lib/json/README.md

check_PROGRAMS += tests/json/test_json
tests_json_test_json_SOURCES = tests/json/test_json.c
