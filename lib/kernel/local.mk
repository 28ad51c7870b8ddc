# Build rules of this folder, in the form that Makefile.am describes.

# the kernel language: compiles source text to programs
libtenon_la_SOURCES += \
	lib/kernel/kernel.h lib/kernel/program_hash.h \
	lib/kernel/arena.c lib/kernel/arena.h \
	lib/kernel/blocks.c lib/kernel/blocks.h \
	lib/kernel/lex.c lib/kernel/lex.h \
	lib/kernel/syntax_node.c lib/kernel/parser.c \
	lib/kernel/parse.c lib/kernel/parse.h \
	lib/kernel/builtin.c lib/kernel/def.c lib/kernel/def.h \
	lib/kernel/common_type.c lib/kernel/type.c \
	lib/kernel/type_builtin.c lib/kernel/levels.c \
	lib/kernel/type.h \
	lib/kernel/ssa.c lib/kernel/simplify.c lib/kernel/finish.c \
	lib/kernel/ssa.h \
	lib/kernel/derive.c lib/kernel/rules.c lib/kernel/compose.c \
	lib/kernel/merge.c lib/kernel/merge.h \
	lib/kernel/lower.c lib/kernel/listing.c \
	lib/kernel/print_c.c lib/kernel/nan.c lib/kernel/print_c.h

# the mathematical functions, which are written in the kernel language
kernel_math = $(srcdir)/lib/kernel/math/*.def
libtenon_la_SOURCES += \
	lib/kernel/math/functions.h lib/kernel/math/function_table.c \
	lib/kernel/math/math_parse.c lib/kernel/math/math_functions.c \
	lib/kernel/math/mathtext.c lib/kernel/math/mathtext.h
BUILT_SOURCES += lib/kernel/math/mathtext.c
MAINTAINERCLEANFILES += lib/kernel/math/mathtext.c
dist_manual_DATA += docs/math-errors.md
EXTRA_DIST += lib/kernel/README.md lib/kernel/math/README.md build-aux/embed.awk build-aux/bytes.awk \
	lib/kernel/math/base.def lib/kernel/math/elementary.def \
	lib/kernel/math/bessel_i.def lib/kernel/math/bessel_j.def \
	lib/kernel/math/error.def lib/kernel/math/gamma.def \
	lib/kernel/math/hyperbolic.def lib/kernel/math/normal.def \
	lib/kernel/math/polynomials.def \
	lib/kernel/math/inverse.def lib/kernel/math/power.def \
	lib/kernel/math/trig.def
lib/kernel/math/mathtext.c: $(kernel_math) $(top_srcdir)/build-aux/embed.awk
	$(AM_V_GEN)$(MKDIR_P) lib/kernel/math && LC_ALL=C $(AWK) \
	    -v list=tn__math_text -v header=kernel/math/mathtext.h -v folder=math/ \
	    -v comment='#' \
	    -f $(top_srcdir)/build-aux/embed.awk $(kernel_math) > $@.part && \
	    mv $@.part $@

# the interpreter
libtenon_la_SOURCES += \
	lib/kernel/eval.c lib/kernel/narrow_float.h lib/kernel/philox.h \
	lib/kernel/reduction.c lib/kernel/reduction.h \
	lib/kernel/interpret.c

# (check_program_sources, check_primitive_sources: tools/local.mk)
check_PROGRAMS += tests/device/test_random_programs
tests_device_test_random_programs_SOURCES = \
	tests/device/test_random_programs.c tests/device/by_name.h \
	$(check_program_sources)

dist_check_SCRIPTS += tests/device/test_plain_c.sh

check_PROGRAMS += tests/device/test_scan
tests_device_test_scan_SOURCES = \
	tests/device/test_scan.c tests/device/by_name.h \
	$(check_primitive_sources)

check_PROGRAMS += tests/device/test_primitives
tests_device_test_primitives_SOURCES = \
	tests/device/test_primitives.c tests/device/by_name.h \
	$(check_primitive_sources)

check_PROGRAMS += tests/device/test_sorts
tests_device_test_sorts_SOURCES = \
	tests/device/test_sorts.c tests/device/by_name.h \
	$(check_primitive_sources)

check_PROGRAMS += tests/kernel/test_eval tests/kernel/test_interpret
tests_kernel_test_eval_SOURCES = tests/kernel/test_eval.c
tests_kernel_test_interpret_SOURCES = tests/kernel/test_interpret.c

check_PROGRAMS += tests/kernel/test_derive
tests_kernel_test_derive_SOURCES = \
	tests/kernel/test_derive.c tests/kernel/run.h

check_PROGRAMS += tests/kernel/test_parse tests/kernel/test_type \
	tests/kernel/test_lower tests/kernel/test_compose
tests_kernel_test_parse_SOURCES = tests/kernel/test_parse.c
tests_kernel_test_type_SOURCES = tests/kernel/test_type.c tests/kernel/run.h
tests_kernel_test_lower_SOURCES = tests/kernel/test_lower.c tests/kernel/run.h
tests_kernel_test_compose_SOURCES = \
	tests/kernel/test_compose.c tests/kernel/run.h

check_PROGRAMS += tests/kernel/test_shared
tests_kernel_test_shared_SOURCES = tests/kernel/test_shared.c

check_PROGRAMS += tests/kernel/test_math
tests_kernel_test_math_SOURCES = tests/kernel/test_math.c
tests_kernel_test_math_LDADD = $(LDADD) $(MPFR_LIBS)
tests_kernel_test_math_CPPFLAGS = $(AM_CPPFLAGS)
if HAVE_MPFR
tests_kernel_test_math_CPPFLAGS += -DHAVE_MPFR
endif

check_PROGRAMS += tests/kernel/test_print_c
tests_kernel_test_print_c_SOURCES = tests/kernel/test_print_c.c

check_PROGRAMS += tests/kernel/test_special
tests_kernel_test_special_SOURCES = tests/kernel/test_special.c \
	tests/kernel/special_values.def

printed_sources = tests/kernel/printed.c tests/kernel/printed.h \
	$(check_program_sources)
check_PROGRAMS += tests/kernel/test_print
tests_kernel_test_print_SOURCES = tests/kernel/test_print.c \
	$(printed_sources)

check_PROGRAMS += tests/kernel/test_nvrtc
tests_kernel_test_nvrtc_SOURCES = tests/kernel/test_nvrtc.c \
	tests/kernel/joined.c tests/kernel/joined.h $(printed_sources)
tests_kernel_test_nvrtc_CPPFLAGS = $(AM_CPPFLAGS) \
	-DTENON_CUDA_FOLDER='"$(CUDA_FOLDER)"'
