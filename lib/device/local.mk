# Build rules of this folder, in the form that Makefile.am describes.
libtenon_la_SOURCES += \
	lib/device/device.h lib/device/deferred_error.h lib/device/registry.h lib/device/cache.h \
	lib/device/memory/allocator.h lib/device/memory/bins.h \
	lib/device/manifest.c lib/device/plugin_search.c lib/device/plugin_loader.c \
	lib/device/registry.c \
	lib/device/host.c lib/device/spec.c lib/device/device.c \
	lib/device/current.c lib/device/host_ops.c \
	lib/device/dtypes.c \
	lib/device/probe.c lib/device/report.c \
	lib/device/memory/allocator.c lib/device/memory/slab.c lib/device/memory/large.c lib/device/memory/holders.c \
	lib/device/memory/small.c lib/device/memory/stats.c \
	lib/device/transfer.c lib/device/transfer.h \
	lib/device/access.c lib/device/access.h lib/device/recorder.c lib/device/replay.c lib/device/epilogue.c lib/device/command.h \
	lib/device/built.c lib/device/plugin_errors.c lib/device/copies.c lib/device/work.c lib/device/work.h lib/device/recorder.h \
	lib/device/launch.c lib/device/cache.c lib/device/extension.c \
	lib/device/tally.c lib/device/tally.h \
	lib/device/lane.c lib/device/lane.h lib/device/mark.c
EXTRA_DIST += lib/device/README.md lib/device/memory/README.md
check_PROGRAMS += tests/device/test_abi tests/device/test_plugins \
	tests/device/test_spec tests/device/test_allocator \
	tests/device/test_launch tests/device/test_manifest \
	tests/device/test_cache tests/device/test_mark tests/device/test_skew \
	tests/device/test_dtypes tests/device/test_transfer \
	tests/device/test_rounding
tests_device_test_rounding_SOURCES = tests/device/test_rounding.c \
	tests/plugins/folder.h
tests_device_test_transfer_SOURCES = tests/device/test_transfer.c \
	tests/plugins/folder.h
tests_device_test_dtypes_SOURCES = tests/device/test_dtypes.c \
	tests/plugins/folder.h
tests_device_test_skew_SOURCES = tests/device/test_skew.c \
	tests/plugins/folder.h
tests_device_test_mark_SOURCES = tests/device/test_mark.c
tests_device_test_cache_SOURCES = tests/device/test_cache.c
tests_device_test_abi_SOURCES = tests/device/test_abi.c
tests_device_test_plugins_SOURCES = tests/device/test_plugins.c \
	tests/plugins/folder.h
tests_device_test_spec_SOURCES = tests/device/test_spec.c \
	tests/plugins/folder.h
tests_device_test_allocator_SOURCES = tests/device/test_allocator.c \
	tests/plugins/folder.h
tests_device_test_launch_SOURCES = tests/device/test_launch.c \
	tests/plugins/folder.h
tests_device_test_manifest_SOURCES = tests/device/test_manifest.c
dist_check_SCRIPTS += tests/device/test_one_plugin.sh
