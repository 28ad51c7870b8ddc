# Build rules of this folder, in the form that Makefile.am describes.
check_PROGRAMS += tests/media/sound/test_faults tests/media/sound/test_sound \
	tests/media/sound/test_wav
tests_media_sound_test_faults_SOURCES = tests/media/sound/test_faults.c \
	tests/fault_sweep.h tests/media/vision/stored.h
tests_media_sound_test_faults_LDADD = $(media_test_libs)
tests_media_sound_test_sound_SOURCES = tests/media/sound/test_sound.c \
	tests/media/vision/stored.h
tests_media_sound_test_sound_LDADD = $(media_test_libs)
tests_media_sound_test_wav_SOURCES = tests/media/sound/test_wav.c \
	tests/media/vision/stored.h
tests_media_sound_test_wav_LDADD = $(media_test_libs)
EXTRA_DIST += tests/media/sound/README.md tests/media/sound/data/sound.gz \
	tests/media/sound/make_sound.py
