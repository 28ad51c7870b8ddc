# Build rules of this folder, in the form that Makefile.am describes.
bin_PROGRAMS += tools/tenon
tools_tenon_SOURCES = tools/tenon.c tools/tenon_trace.c tools/tenon_trace.h \
	tools/tenon_lm.c tools/tenon_lm.h tools/tenon_generate.c \
	tools/tenon_tokenize.c tools/tenon_tokenize.h \
	tools/tenon_onnx.c tools/tenon_onnx.h \
	tools/tenon_plot.c tools/tenon_plot.h \
	tools/tenon_run.c tools/tenon_run_hosts.c tools/tenon_run.h \
	tools/tenon_scale.c tools/tenon_scale.h \
	tools/tenon_scale_model.c tools/tenon_scale_model.h \
	tools/tenon_program.c tools/tenon_program.h \
	tools/tenon_checkpoint.c tools/tenon_checkpoint.h \
	lib/base/plain.c lib/base/plain.h \
	lib/json/json.h lib/json/json_read.c
tools_tenon_CFLAGS = $(AM_CFLAGS) # objects of its own
tools_tenon_LDADD = libtenon-parallel.la libtenon-lm.la libtenon-onnx.la libtenon-media.la libtenon.la $(TN_LIBS)
EXTRA_DIST += tools/README.md tools/check/README.md
dist_check_SCRIPTS += tests/tools/test_tenon.sh
dist_check_SCRIPTS += tests/tools/test_scale.sh
dist_check_SCRIPTS += tests/tools/test_from_pytorch.sh
dist_check_SCRIPTS += tests/tools/test_environment.sh

# The conformance kit (tenon-plugin-check). Tests also use its random programs and
# primitives.
check_primitive_sources = \
	tools/check/by_hand.c tools/check/by_hand.h \
	tools/check/primitives.c tools/check/primitives.h \
	tools/check/extensions.c tools/check/extensions.h \
	tools/check/windows.c tools/check/windows.h \
	tools/check/check_attention.c tools/check/check_attention.h \
	tools/check/check_lapack.c tools/check/check_lapack.h \
	tools/check/check_quantised.c tools/check/check_quantised.h \
	tools/check/check_epilogue.c tools/check/check_epilogue.h \
	tools/check/operand.c tools/check/operand.h \
	tools/check/random_source.c tools/check/random_source.h
check_program_sources = \
	tools/check/by_hand.c tools/check/by_hand.h \
	tools/check/run_case.c tools/check/run_case.h \
	tools/check/random_program.c tools/check/random_program.h \
	tools/check/random_layout.c tools/check/random_layout.h \
	tools/check/random_library.c tools/check/random_library.h \
	tools/check/random_source.c tools/check/random_source.h \
	tools/check/random_print.c
bin_PROGRAMS += tools/tenon-plugin-check
tools_tenon_plugin_check_SOURCES = \
	tools/check/main.c tools/check/check.h \
	tools/check/check_options.c tools/check/child.c \
	tools/check/level0.c tools/check/level1.c tools/check/level2.c \
	tools/check/events.c tools/check/launches.c \
	tools/check/unknown.c \
	tools/check/memory_guard.c tools/check/memory_guard.h \
	tools/check/elf_file.c tools/check/elf_file.h \
	tools/check/process.c tools/check/process.h \
	tools/check/origin.c tools/check/origin.h \
	tools/check/one_form.c tools/check/one_case.c tools/check/one_case.h \
	tools/check/primitives.c tools/check/primitives.h \
	tools/check/extensions.c tools/check/extensions.h \
	tools/check/windows.c tools/check/windows.h \
	tools/check/check_attention.c tools/check/check_attention.h \
	tools/check/check_lapack.c tools/check/check_lapack.h \
	tools/check/check_quantised.c tools/check/check_quantised.h \
	tools/check/check_epilogue.c tools/check/check_epilogue.h \
	tools/check/operand.c tools/check/operand.h \
	$(check_program_sources)
tools_tenon_plugin_check_LDFLAGS = -Wl,--as-needed
