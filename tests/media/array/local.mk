# Build rules of this folder, in the form that Makefile.am describes.
array_tests = tests/media/array/arrays.h tests/tap.h
check_PROGRAMS += tests/media/array/test_goldens
tests_media_array_test_goldens_SOURCES = tests/media/array/test_goldens.c \
	$(array_tests)
tests_media_array_test_goldens_LDADD = $(media_test_libs)
check_PROGRAMS += tests/media/array/test_npy
tests_media_array_test_npy_SOURCES = tests/media/array/test_npy.c \
	$(array_tests)
tests_media_array_test_npy_LDADD = $(media_test_libs)
check_PROGRAMS += tests/media/array/test_npz
tests_media_array_test_npz_SOURCES = tests/media/array/test_npz.c \
	$(array_tests)
tests_media_array_test_npz_LDADD = $(media_test_libs)
check_PROGRAMS += tests/media/array/test_torch
tests_media_array_test_torch_SOURCES = tests/media/array/test_torch.c \
	$(array_tests)
tests_media_array_test_torch_LDADD = $(media_test_libs)
check_PROGRAMS += tests/media/array/test_dlpack
tests_media_array_test_dlpack_SOURCES = tests/media/array/test_dlpack.c \
	$(array_tests)
tests_media_array_test_dlpack_LDADD = $(media_test_libs)
check_PROGRAMS += tests/media/array/test_shards
tests_media_array_test_shards_SOURCES = tests/media/array/test_shards.c \
	$(array_tests)
tests_media_array_test_shards_LDADD = $(media_test_libs)
check_PROGRAMS += tests/media/array/test_array_faults
tests_media_array_test_array_faults_SOURCES = \
	tests/media/array/test_array_faults.c tests/fault_sweep.h $(array_tests)
tests_media_array_test_array_faults_LDADD = $(media_test_libs)
dist_check_SCRIPTS += tests/media/array/test_python.sh
EXTRA_DIST += tests/media/array/make_arrays.py \
	tests/media/array/arrays.tar.xz tests/media/array/tenon_ctypes.py \
	tests/media/array/with_numpy.py tests/media/array/with_torch.py \
	tests/media/array/with_safetensors.py \
	tests/media/array/dlpack_numpy.py tests/media/array/dlpack_torch.py
check_DATA += tests/media/array/arrays/.stamp
tests/media/array/arrays/.stamp: tests/media/array/arrays.tar.xz
	$(AM_V_GEN)rm -rf $(@D) && $(MKDIR_P) $(@D)
	$(AM_V_at)xz -dc $< | (cd $(@D) && tar -xf -)
	$(AM_V_at)touch $@
clean-local: clean-arrays
clean-arrays:
	-rm -rf tests/media/array/arrays
.PHONY: clean-arrays
