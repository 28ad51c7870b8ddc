# Build rules of this folder, in the form that Makefile.am describes.
check_PROGRAMS += tests/media/run/test_events tests/media/run/test_curves
tests_media_run_test_events_SOURCES = tests/media/run/test_events.c
tests_media_run_test_events_LDADD = $(media_test_libs)
tests_media_run_test_curves_SOURCES = tests/media/run/test_curves.c
tests_media_run_test_curves_LDADD = $(media_test_libs)
dist_check_SCRIPTS += tests/media/run/test_tensorboard.sh
EXTRA_DIST += tests/media/run/read_back.py
