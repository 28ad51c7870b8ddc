# Build rules of this folder, in the form that Makefile.am describes.
libtenon_la_SOURCES += \
	lib/nn/nn_activation.c \
	lib/nn/nn_attention.c \
	lib/nn/nn_compile.c \
	lib/nn/nn_conv.c \
	lib/nn/embedding.c \
	lib/nn/nn_hooks.c \
	lib/nn/init.c lib/nn/init.h lib/nn/nn_init.c \
	lib/nn/layer.c lib/nn/layer.h lib/nn/layer_check.c \
	lib/nn/layer_print.c lib/nn/layer_run.c lib/nn/layer_setting.c \
	lib/nn/nn_linear.c \
	lib/nn/clone.c lib/nn/containers.c lib/nn/module.c lib/nn/module_call.c lib/nn/tree.h \
	lib/nn/nn_loss.c \
	lib/nn/nn_norm.c \
	lib/nn/load.c lib/nn/parameters.c \
	lib/nn/computed.c lib/nn/computed_cache.c lib/nn/print.c lib/nn/parametrize.c lib/nn/parametrizations.c \
	lib/nn/prune.c \
	lib/nn/upsample.c \
	lib/nn/nn_recurrent.c lib/nn/nn_recurrent_cell.c lib/nn/recurrent.h \
	lib/nn/sequential.c lib/nn/sequence.c lib/nn/summary.c \
	lib/nn/nn_state.c \
	lib/nn/transformer.c
tenoninclude_HEADERS += include/tenon/nn.h include/tenon/nn_activation.h \
	include/tenon/nn_attention.h include/tenon/nn_container.h \
	include/tenon/nn_conv.h \
	include/tenon/nn_embedding.h include/tenon/nn_init.h \
	include/tenon/nn_parametrize.h include/tenon/nn_prune.h \
	include/tenon/nn_recurrent.h \
	include/tenon/nn_loss.h include/tenon/nn_norm.h \
	include/tenon/sequence.h include/tenon/parameters.h
EXTRA_DIST += lib/nn/README.md

# Files generated from the table of layers: a public header, the rows as C, and
# functions that make layers for tests/golden.
layers_made = include/tenon/nn_layers.h tests/golden/layers.inc
tenoninclude_HEADERS += include/tenon/nn_layers.h
BUILT_SOURCES += lib/nn/layers.inc $(layers_made)
MAINTAINERCLEANFILES += lib/nn/layers.inc $(layers_made)
EXTRA_DIST += lib/nn/layers.def lib/nn/generate.awk lib/nn/nn_layers.h.in \
	lib/nn/layers.inc tests/golden/layers.inc
lib/nn/layers.inc: lib/nn/layers.def lib/nn/generate.awk lib/nn/nn_layers.h.in
	$(AM_V_GEN)$(MKDIR_P) include/tenon lib/nn tests/golden && \
	LC_ALL=C $(AWK) -v head=$(srcdir)/lib/nn/nn_layers.h.in \
	    -v header=include/tenon/nn_layers.h \
	    -v makers=tests/golden/layers.inc -v source=lib/nn/layers.inc.part \
	    -f $(srcdir)/lib/nn/generate.awk $(srcdir)/lib/nn/layers.def && \
	mv lib/nn/layers.inc.part lib/nn/layers.inc && touch $(layers_made)
$(layers_made): lib/nn/layers.inc
	@test -f $@ || { rm -f lib/nn/layers.inc; \
	  $(MAKE) $(AM_MAKEFLAGS) lib/nn/layers.inc; }

check_PROGRAMS += tests/nn/test_nn_compile
tests_nn_test_nn_compile_SOURCES = tests/nn/test_nn_compile.c
check_PROGRAMS += tests/nn/test_no_module tests/nn/test_module \
	tests/nn/test_error_info tests/nn/test_memory tests/nn/test_hooks \
	tests/nn/test_options tests/nn/test_error_calls tests/nn/test_layers tests/nn/test_init \
	tests/nn/test_forward tests/nn/test_clone tests/nn/test_parametrize \
	tests/nn/test_load tests/nn/test_container \
	tests/nn/test_summary tests/nn/test_module_faults tests/nn/test_sequence
tests_nn_test_layers_SOURCES = tests/nn/test_layers.c
tests_nn_test_sequence_SOURCES = tests/nn/test_sequence.c
tests_nn_test_error_calls_SOURCES = tests/nn/test_error_calls.c
tests_nn_test_forward_SOURCES = tests/nn/test_forward.c
tests_nn_test_clone_SOURCES = tests/nn/test_clone.c
tests_nn_test_parametrize_SOURCES = tests/nn/test_parametrize.c
tests_nn_test_load_SOURCES = tests/nn/test_load.c
tests_nn_test_container_SOURCES = tests/nn/test_container.c
tests_nn_test_summary_SOURCES = tests/nn/test_summary.c
tests_nn_test_module_faults_SOURCES = tests/nn/test_module_faults.c
tests_nn_test_init_SOURCES = tests/nn/test_init.c
tests_nn_test_hooks_SOURCES = tests/nn/test_hooks.c
tests_nn_test_no_module_SOURCES = tests/nn/test_no_module.c
tests_nn_test_module_SOURCES = tests/nn/test_module.c
tests_nn_test_error_info_SOURCES = tests/nn/test_error_info.c
tests_nn_test_memory_SOURCES = tests/nn/test_memory.c
tests_nn_test_options_SOURCES = tests/nn/test_options.c
