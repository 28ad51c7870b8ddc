# Build rules of this folder, in the form that Makefile.am describes. libOpenCL
# is opened at run time; only its headers are needed here.

EXTRA_DIST += backends/opencl/README.md tests/opencl/full.sh
if HAVE_OPENCL
tenonplugin_LTLIBRARIES += tn_opencl.la
dist_tenonplugin_DATA += backends/opencl/tn_opencl.conf
tn_opencl_la_SOURCES = $(shared_plugin_sources) \
	backends/opencl/opencl_plugin.c \
	backends/opencl/opencl.h \
	backends/opencl/opencl_driver.c backends/opencl/opencl_driver.h \
	backends/opencl/opencl_device.c \
	backends/opencl/opencl_memory.c \
	backends/opencl/opencl_host.c \
	backends/opencl/opencl_queue.c \
	backends/opencl/opencl_compile.c \
	backends/opencl/opencl_launch.c \
	backends/opencl/measure.c \
	backends/opencl/tune.c \
	backends/opencl/choose.c \
	backends/opencl/clblast.c
tn_opencl_la_LDFLAGS = $(PLUGIN_LINK_FLAGS)
tn_opencl_la_LIBADD = $(TN_LIBS)

# A driver that crashes. A test lets the OpenCL loader load it.
check_LTLIBRARIES += crashing_icd.la
crashing_icd_la_SOURCES = tests/opencl/crashing_icd.c
crashing_icd_la_CFLAGS = $(AM_CFLAGS) -fvisibility=default
crashing_icd_la_LDFLAGS = -rpath /nowhere -module -avoid-version -shared \
	-no-undefined
# An OpenCL layer (a library between the loader and the driver) that makes calls of
# the driver fail, for tests. OpenCL's headers have declared layers since 2020.
if HAVE_OPENCL_LAYERS
check_LTLIBRARIES += failing_layer.la
failing_layer_la_SOURCES = tests/opencl/failing_layer.c
failing_layer_la_CFLAGS = $(crashing_icd_la_CFLAGS)
failing_layer_la_CPPFLAGS = $(AM_CPPFLAGS) -DCL_TARGET_OPENCL_VERSION=300
failing_layer_la_LDFLAGS = $(crashing_icd_la_LDFLAGS)
check_PROGRAMS += tests/opencl/test_failures
tests_opencl_test_failures_SOURCES = tests/opencl/test_failures.c \
	tests/ops/outside.h \
	tests/plugins/folder.h
tests_opencl_test_failures_LDADD = libtenon.la
endif
check_PROGRAMS += tests/opencl/test_opencl
tests_opencl_test_opencl_SOURCES = tests/opencl/test_opencl.c \
	tests/ops/outside.h \
	tests/plugins/folder.h
tests_opencl_test_opencl_LDADD = libtenon.la
check_PROGRAMS += tests/opencl/test_classes
tests_opencl_test_classes_SOURCES = tests/opencl/test_classes.c
tests_opencl_test_classes_LDADD = libtenon.la
check_PROGRAMS += tests/opencl/test_conv
tests_opencl_test_conv_SOURCES = tests/opencl/test_conv.c \
	tests/device/convolutions.h
tests_opencl_test_conv_LDADD = libtenon.la
check_PROGRAMS += tests/opencl/test_matmul
tests_opencl_test_matmul_SOURCES = tests/opencl/test_matmul.c \
	tests/device/products.h tests/plugins/folder.h
tests_opencl_test_matmul_LDADD = libtenon.la
dist_check_SCRIPTS += tests/opencl/test_programs.sh \
	tests/opencl/test_samples.sh \
	tests/opencl/test_oclgrind.sh

# Runs all tests on OpenCL. With PoCL they take too long for `make check`.
check-opencl-full:
	$(MAKE) $(AM_MAKEFLAGS) check TESTS=tests/opencl/full.sh TEST_SECONDS=0
endif
.PHONY: check-opencl-full
