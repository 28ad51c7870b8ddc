# Build rules of this folder, in the form that Makefile.am describes.
check_PROGRAMS += \
	tests/training/test_amp \
	tests/training/test_average \
	tests/training/test_bar \
	tests/training/test_checkpoint \
	tests/training/test_faults \
	tests/training/test_long \
	tests/training/test_metric \
	tests/training/test_save_faults \
	tests/training/test_serving \
	tests/training/test_shared \
	tests/training/test_states \
	tests/training/test_threads \
	tests/training/test_train
tests_training_test_amp_SOURCES = tests/training/test_amp.c
tests_training_test_average_SOURCES = tests/training/test_average.c
tests_training_test_bar_SOURCES = tests/training/test_bar.c
tests_training_test_checkpoint_SOURCES = tests/training/test_checkpoint.c
tests_training_test_faults_SOURCES = tests/training/test_faults.c
tests_training_test_long_SOURCES = tests/training/test_long.c
tests_training_test_metric_SOURCES = tests/training/test_metric.c
tests_training_test_save_faults_SOURCES = tests/training/test_save_faults.c
tests_training_test_serving_SOURCES = tests/training/test_serving.c
tests_training_test_shared_SOURCES = tests/training/test_shared.c
tests_training_test_states_SOURCES = tests/training/test_states.c
tests_training_test_threads_SOURCES = tests/training/test_threads.c
tests_training_test_train_SOURCES = tests/training/test_train.c

# test_resume.sh runs and kills this program.
noinst_PROGRAMS += tests/training/resume
tests_training_resume_SOURCES = tests/training/resume.c
tests_training_resume_LDADD = libtenon.la
dist_check_SCRIPTS += tests/training/test_resume.sh

# test_train.sh runs and kills this program.
noinst_PROGRAMS += tests/training/train_run
tests_training_train_run_SOURCES = tests/training/train_run.c
tests_training_train_run_LDADD = libtenon.la
dist_check_SCRIPTS += tests/training/test_train.sh

check_PROGRAMS += tests/training/test_forks
tests_training_test_forks_SOURCES = tests/training/test_forks.c

# test_modes tests that process-wide settings, such as the locale, do not change
# results. It uses a locale with a decimal comma, which is made here if localedef
# and its sources are installed (Debian: locales).
check_PROGRAMS += tests/training/test_modes
tests_training_test_modes_SOURCES = tests/training/test_modes.c tests/modes.h \
	$(printed_sources)
check_PROGRAMS += tests/training/test_library_modes
tests_training_test_library_modes_SOURCES = \
	tests/training/test_library_modes.c tests/modes.h tests/onnx/writer.h
tests_training_test_library_modes_LDADD = libtenon-media.la libtenon-onnx.la \
	libtenon-lm.la libtenon.la $(TN_LIBS)
check_DATA += tests/locale/.stamp
tests/locale/.stamp:
	$(AM_V_GEN)$(MKDIR_P) $(@D)
	$(AM_V_at)localedef -i de_DE -f UTF-8 $(@D)/de_DE.UTF-8 >/dev/null 2>&1 || :
	$(AM_V_at)touch $@
clean-local: clean-locale
clean-locale:
	-rm -rf tests/locale
.PHONY: clean-locale

check_PROGRAMS += tests/training/test_first_use
tests_training_test_first_use_SOURCES = tests/training/test_first_use.c
check_PROGRAMS += tests/training/test_stack
tests_training_test_stack_SOURCES = tests/training/test_stack.c
