# Build rules of this folder, in the form that Makefile.am describes.
check_PROGRAMS += \
	tests/io/test_csv \
	tests/io/test_idx \
	tests/io/test_own_formats \
	tests/io/test_replace \
	tests/io/test_safetensors
tests_io_test_csv_SOURCES = tests/io/test_csv.c
tests_io_test_idx_SOURCES = tests/io/test_idx.c
tests_io_test_own_formats_SOURCES = tests/io/test_own_formats.c
tests_io_test_replace_SOURCES = tests/io/test_replace.c
tests_io_test_safetensors_SOURCES = tests/io/test_safetensors.c
