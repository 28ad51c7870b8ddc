# Build rules of this folder, in the form that Makefile.am describes.
libtenon_la_SOURCES += \
	lib/compile/compiled.c \
	lib/compile/capture.c lib/compile/capture.h lib/compile/compare.c \
	lib/compile/passes.h lib/compile/values.c lib/compile/repeats.c \
	lib/compile/copies.c lib/compile/fills.c lib/compile/recompute.c \
	lib/compile/space.c lib/compile/space.h \
	lib/compile/window.c lib/compile/window.h lib/compile/dead.c \
	lib/compile/fuse.c lib/compile/fuse.h lib/compile/fit.c \
	lib/compile/neighbours.c lib/compile/order.c \
	lib/compile/fuse_command.c \
	lib/compile/epilogue.c lib/compile/epilogue.h \
	lib/compile/arena.c lib/compile/arena.h \
	lib/compile/list.c lib/compile/list.h \
	lib/compile/donate.c lib/compile/donate.h \
	lib/compile/freeze.h lib/compile/constants.c lib/compile/prepare.c \
	lib/compile/instance.h lib/compile/instance.c \
	lib/compile/program.c lib/compile/program.h \
	lib/compile/check.c lib/compile/check.h \
	lib/compile/report.c lib/compile/report.h
tenoninclude_HEADERS += include/tenon/compile.h
EXTRA_DIST += lib/compile/README.md
check_PROGRAMS += tests/compile/test_compile
tests_compile_test_compile_SOURCES = tests/compile/test_compile.c \
	tests/compile/compiled.h
check_PROGRAMS += tests/compile/test_list
tests_compile_test_list_SOURCES = tests/compile/test_list.c \
	tests/compile/compiled.h
check_PROGRAMS += tests/compile/test_random
tests_compile_test_random_SOURCES = tests/compile/test_random.c \
	tests/compile/compiled.h
check_PROGRAMS += tests/compile/test_passes
tests_compile_test_passes_SOURCES = tests/compile/test_passes.c \
	tests/compile/compiled.h
check_PROGRAMS += tests/compile/test_step
tests_compile_test_step_SOURCES = tests/compile/test_step.c
check_PROGRAMS += tests/compile/test_arena
tests_compile_test_arena_SOURCES = tests/compile/test_arena.c
check_PROGRAMS += tests/compile/test_compile_faults
tests_compile_test_compile_faults_SOURCES = \
	tests/compile/test_compile_faults.c tests/fault_sweep.h \
	tests/malloc_faults.h
check_PROGRAMS += tests/compile/test_epilogue
tests_compile_test_epilogue_SOURCES = tests/compile/test_epilogue.c \
	tests/compile/compiled.h
check_PROGRAMS += tests/compile/test_same_work tests/compile/test_mistakes
tests_compile_test_same_work_SOURCES = tests/compile/test_same_work.c
tests_compile_test_mistakes_SOURCES = tests/compile/test_mistakes.c
check_PROGRAMS += tests/compile/test_freeze
tests_compile_test_freeze_SOURCES = tests/compile/test_freeze.c
