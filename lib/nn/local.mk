# What this room adds to the build: see the head of Makefile.am.
libtenon_la_SOURCES += \
	lib/nn/nn_activation.c \
	lib/nn/nn_attention.c \
	lib/nn/nn_conv.c lib/nn/conv_other.c \
	lib/nn/embedding.c \
	lib/nn/nn_hooks.c \
	lib/nn/init.c lib/nn/init.h \
	lib/nn/nn_linear.c \
	lib/nn/module.c lib/nn/module_call.c lib/nn/tree.h \
	lib/nn/nn_norm.c \
	lib/nn/parameters.c \
	lib/nn/nn_pool.c \
	lib/nn/nn_recurrent.c \
	lib/nn/sequential.c lib/nn/sequence.c \
	lib/nn/nn_state.c \
	lib/nn/transformer.c
tenoninclude_HEADERS += include/tenon/nn.h include/tenon/nn_activation.h \
	include/tenon/nn_attention.h include/tenon/nn_conv.h \
	include/tenon/nn_embedding.h include/tenon/nn_recurrent.h \
	include/tenon/nn_norm.h include/tenon/sequence.h include/tenon/parameters.h
EXTRA_DIST += lib/nn/README.md

check_PROGRAMS += tests/nn/test_no_module tests/nn/test_module \
	tests/nn/test_error_info tests/nn/test_memory tests/nn/test_hooks \
	tests/nn/test_options tests/nn/test_error_calls tests/nn/test_sequence
tests_nn_test_sequence_SOURCES = tests/nn/test_sequence.c
tests_nn_test_error_calls_SOURCES = tests/nn/test_error_calls.c
tests_nn_test_hooks_SOURCES = tests/nn/test_hooks.c
tests_nn_test_no_module_SOURCES = tests/nn/test_no_module.c
tests_nn_test_module_SOURCES = tests/nn/test_module.c
tests_nn_test_error_info_SOURCES = tests/nn/test_error_info.c
tests_nn_test_memory_SOURCES = tests/nn/test_memory.c
tests_nn_test_options_SOURCES = tests/nn/test_options.c
