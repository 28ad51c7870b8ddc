# Build rules of this folder, in the form that Makefile.am describes.

# Sources that read the samples of operators, call the operators and compare the
# results.
golden_ops = tests/golden/golden.h tests/golden/op_file.c \
	tests/golden/sample.h tests/golden/bind.c \
	tests/golden/each.c \
	tests/golden/undefined.c tests/golden/undefined.def \
	tests/golden/align.c tests/golden/free.def \
	tests/golden/tensor.c tests/golden/compare.c tests/golden/looser.def \
	tests/golden/host.def

dist_check_SCRIPTS += tests/test_golden.sh
EXTRA_DIST += tests/golden/README.md tests/golden/make_training.py \
	tests/golden/make_modules.py tests/golden/modules.txt \
	tests/golden/make_layers_more.py tests/golden/make_fourier.py \
	tests/golden/make_packed.py tests/golden/packed.safetensors

if HAVE_JANSSON
# The runner accepts any folder of reference samples. `make` builds it, so that it
# can also be used with samples that are not in this tree.
noinst_PROGRAMS += tests/golden/run
tests_golden_run_SOURCES = tests/golden/run.c $(golden_ops) \
	tests/golden/module_file.c tests/golden/layer.c tests/golden/layer.h \
	tests/golden/parametrized.c tests/golden/optim_file.c \
	tests/golden/optimizer.c \
	tests/golden/optimizer.h \
	tests/golden/schedule_file.c tests/golden/distribution_file.c \
	tests/golden/training_file.c \
	tests/golden/compiled.h tests/golden/compiled.c \
	tests/golden/compiled_op.c tests/golden/compiled.def
tests_golden_run_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_builddir)/tests $(JANSSON_CFLAGS) \
	-DGOLDEN_TOP='"$(abs_top_srcdir)"'
tests_golden_run_LDADD = libtenon.la $(JANSSON_LIBS) -lm

# These programs compare operators with themselves for other layouts and dtypes.
# They link libtenon-test.la, because they make views that the public interface
# cannot make.
check_PROGRAMS += tests/golden/layouts tests/golden/halves tests/golden/bits \
	tests/golden/autocast tests/golden/misuse tests/golden/narrow
tests_golden_narrow_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
tests_golden_narrow_SOURCES = tests/golden/narrow.c tests/golden/narrow.def \
	$(golden_ops)
tests_golden_narrow_LDADD = libtenon-test.la $(JANSSON_LIBS) -lm
tests_golden_misuse_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
tests_golden_misuse_SOURCES = tests/golden/misuse.c $(golden_ops) \
	tests/ops/misuse.c tests/ops/misuse.h \
	tests/ops/work.c tests/ops/work.h
tests_golden_misuse_LDADD = libtenon-test.la $(JANSSON_LIBS) -lm
tests_golden_autocast_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
tests_golden_autocast_SOURCES = tests/golden/autocast.c $(golden_ops)
tests_golden_autocast_LDADD = libtenon-test.la $(JANSSON_LIBS) -lm
tests_golden_layouts_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
tests_golden_layouts_SOURCES = tests/golden/layouts.c $(golden_ops) \
	tests/golden/vendor.c tests/golden/vendor.h
tests_golden_layouts_LDADD = libtenon-test.la $(JANSSON_LIBS) -lm
tests_golden_halves_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
tests_golden_halves_SOURCES = tests/golden/halves.c \
	tests/golden/wider_halves.def $(golden_ops)
tests_golden_halves_LDADD = libtenon-test.la $(JANSSON_LIBS) -lm
tests_golden_bits_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
tests_golden_bits_SOURCES = tests/golden/bits.c \
	tests/golden/census.c tests/golden/census.h \
	tests/golden/other_bits.def $(golden_ops) \
	tests/golden/vendor.c tests/golden/vendor.h
tests_golden_bits_LDADD = libtenon-test.la $(JANSSON_LIBS) -lm
endif
