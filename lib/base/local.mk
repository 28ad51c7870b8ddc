# Build rules of this folder, in the form that Makefile.am describes.
libtenon_la_SOURCES += \
	lib/base/platform.c lib/base/platform.h \
	lib/base/error.c lib/base/error.h lib/base/error_handler.c \
	lib/base/context.c lib/base/context.h \
	lib/base/location.c lib/base/location.h \
	lib/base/plain.c lib/base/plain.h \
	lib/base/lock.c lib/base/lock.h \
	lib/base/text.c lib/base/log.c \
	lib/base/bytes.c lib/base/bytes.h \
	lib/base/memory.c lib/base/raw_memory.c lib/base/memory.h lib/base/size.h \
	lib/base/state.c lib/base/state.h \
	lib/base/object_pool.c \
	lib/base/openblas.c lib/base/openblas.h \
	lib/base/object.c lib/base/object.h \
	lib/base/check.c lib/base/quarantine.c lib/base/lifetime.c \
	lib/base/scope.c \
	lib/base/thread.c lib/base/thread.h \
	lib/base/timeline.c lib/base/timeline.h \
	lib/base/user_object.c lib/base/fpu.h lib/base/guard.h lib/base/nearest.h lib/base/hash.h lib/base/utf8.h \
	lib/base/dtype.c \
	lib/base/options.c lib/base/options.h
EXTRA_DIST += lib/base/README.md
check_PROGRAMS += tests/base/test_handler
tests_base_test_handler_SOURCES = tests/base/test_handler.c
check_PROGRAMS += tests/base/test_error tests/base/test_dtype \
	tests/base/test_quarantine \
	tests/base/test_memory tests/base/test_scope tests/base/test_thread \
	tests/base/test_openblas tests/base/test_platform tests/base/test_options
tests_base_test_error_SOURCES = tests/base/test_error.c
tests_base_test_options_SOURCES = tests/base/test_options.c
tests_base_test_quarantine_SOURCES = tests/base/test_quarantine.c
tests_base_test_dtype_SOURCES = tests/base/test_dtype.c
tests_base_test_memory_SOURCES = tests/base/test_memory.c
tests_base_test_scope_SOURCES = tests/base/test_scope.c
tests_base_test_thread_SOURCES = tests/base/test_thread.c
tests_base_test_platform_SOURCES = tests/base/test_platform.c
tests_base_test_openblas_SOURCES = tests/base/test_openblas.c
dist_check_SCRIPTS += tests/base/test_guest.sh
EXTRA_DIST += tests/base/guest.c tests/base/guest.py
