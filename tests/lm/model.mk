# Build rules of the tests of lib/lm/model, in the form that Makefile.am describes.
noinst_PROGRAMS += tests/lm/golden
tests_lm_golden_SOURCES = tests/lm/golden.c tests/lm/golden.h
tests_lm_golden_LDADD = libtenon-lm.la libtenon.la $(TN_LIBS)
check_PROGRAMS += tests/lm/test_models tests/lm/test_lm tests/lm/test_generate tests/lm/test_calls \
	tests/lm/test_faults
tests_lm_test_models_SOURCES = tests/lm/test_models.c tests/lm/golden.h
tests_lm_test_models_LDADD = libtenon-lm.la libtenon.la $(TN_LIBS)
tests_lm_test_lm_SOURCES = tests/lm/test_lm.c
tests_lm_test_lm_LDADD = libtenon-lm.la libtenon.la $(TN_LIBS)
tests_lm_test_generate_SOURCES = tests/lm/test_generate.c
tests_lm_test_generate_LDADD = libtenon-lm.la libtenon.la $(TN_LIBS)
tests_lm_test_faults_SOURCES = tests/lm/test_faults.c tests/fault_sweep.h
tests_lm_test_faults_LDADD = libtenon-lm.la libtenon.la $(TN_LIBS)
tests_lm_test_calls_SOURCES = tests/lm/test_calls.c
tests_lm_test_calls_LDADD = libtenon-lm.la libtenon.la $(TN_LIBS)
EXTRA_DIST += tests/lm/make_models.py tests/lm/data
