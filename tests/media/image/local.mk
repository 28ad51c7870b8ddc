# Build rules of this folder, in the form that Makefile.am describes.
check_PROGRAMS += \
	tests/media/image/test_images \
	tests/media/image/test_transforms \
	tests/media/image/test_image_sets \
	tests/media/image/test_image_misuse \
	tests/media/image/test_image_faults \
	tests/media/image/test_image_example
tests_media_image_test_images_SOURCES = tests/media/image/test_images.c \
	tests/media/image/golden.h
tests_media_image_test_images_LDADD = $(media_test_libs)
tests_media_image_test_transforms_SOURCES = \
	tests/media/image/test_transforms.c tests/media/image/golden.h
tests_media_image_test_transforms_LDADD = $(media_test_libs)
tests_media_image_test_image_sets_SOURCES = tests/media/image/test_image_sets.c
tests_media_image_test_image_sets_LDADD = $(media_test_libs) $(ZLIB_LIBS)
tests_media_image_test_image_misuse_SOURCES = \
	tests/media/image/test_image_misuse.c
tests_media_image_test_image_misuse_LDADD = $(media_test_libs)
tests_media_image_test_image_example_SOURCES = \
	tests/media/image/test_image_example.c
tests_media_image_test_image_example_LDADD = $(media_test_libs)
tests_media_image_test_image_faults_SOURCES = \
	tests/media/image/test_image_faults.c tests/fault_sweep.h
tests_media_image_test_image_faults_LDADD = $(media_test_libs)
EXTRA_DIST += tests/media/image/README.md tests/media/image/make_images.py \
	tests/media/image/images.tar.xz
check_DATA += tests/media/image/golden/.stamp
tests/media/image/golden/.stamp: tests/media/image/images.tar.xz
	$(AM_V_GEN)rm -rf $(@D) && $(MKDIR_P) $(@D)
	$(AM_V_at)xz -dc $< | (cd $(@D) && tar -xf -)
	$(AM_V_at)touch $@
clean-local: clean-images
clean-images:
	-rm -rf tests/media/image/golden
.PHONY: clean-images
