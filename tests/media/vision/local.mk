# Build rules of this folder, in the form that Makefile.am describes.
check_PROGRAMS += \
	tests/media/vision/test_mean_ap \
	tests/media/vision/test_vision \
	tests/media/vision/test_vision_calls
tests_media_vision_test_mean_ap_SOURCES = tests/media/vision/test_mean_ap.c \
	tests/media/vision/stored.h
tests_media_vision_test_mean_ap_LDADD = $(media_test_libs)
tests_media_vision_test_vision_SOURCES = tests/media/vision/test_vision.c \
	tests/media/vision/stored.h
tests_media_vision_test_vision_LDADD = $(media_test_libs)
tests_media_vision_test_vision_calls_SOURCES = \
	tests/media/vision/test_vision_calls.c tests/media/vision/stored.h
tests_media_vision_test_vision_calls_LDADD = $(media_test_libs)
EXTRA_DIST += tests/media/vision/README.md tests/media/vision/data/vision.gz \
	tests/media/vision/make_vision.py tests/media/vision/stored.py
