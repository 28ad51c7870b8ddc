# Build rules of this folder, in the form that Makefile.am describes.
check_PROGRAMS += \
	tests/data/test_faults \
	tests/data/test_loader \
	tests/data/test_position \
	tests/data/test_progress \
	tests/data/test_samplers \
	tests/data/test_sets \
	tests/data/test_skip \
	tests/data/test_text \
	tests/data/test_upload \
	tests/data/test_workers
tests_data_test_loader_SOURCES = tests/data/test_loader.c
tests_data_test_progress_SOURCES = tests/data/test_progress.c
tests_data_test_samplers_SOURCES = tests/data/test_samplers.c
tests_data_test_text_SOURCES = tests/data/test_text.c
tests_data_test_upload_SOURCES = tests/data/test_upload.c
tests_data_test_workers_SOURCES = tests/data/test_workers.c
tests_data_test_skip_SOURCES = tests/data/test_skip.c
tests_data_test_sets_SOURCES = tests/data/test_sets.c
tests_data_test_faults_SOURCES = tests/data/test_faults.c
