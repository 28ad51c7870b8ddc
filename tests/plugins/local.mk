# Build rules of the fake device and of plugins with faults. `make check` builds
# them, and they are never installed.
tn_test_plugin_flags = -rpath /nowhere $(PLUGIN_LINK_FLAGS)

check_LTLIBRARIES += tn_fake.la
tn_fake_la_SOURCES = tests/plugins/fake.c tests/plugins/fake.h
tn_fake_la_LDFLAGS = $(tn_test_plugin_flags)
check_LTLIBRARIES += tn_badmajor.la
tn_badmajor_la_SOURCES = tests/plugins/badmajor.c tests/plugins/fake.h
tn_badmajor_la_LDFLAGS = $(tn_test_plugin_flags)
check_LTLIBRARIES += tn_badslot.la
tn_badslot_la_SOURCES = tests/plugins/badslot.c tests/plugins/fake.h
tn_badslot_la_LDFLAGS = $(tn_test_plugin_flags)
check_LTLIBRARIES += tn_short.la
tn_short_la_SOURCES = tests/plugins/short.c tests/plugins/fake.h
tn_short_la_LDFLAGS = $(tn_test_plugin_flags)
check_LTLIBRARIES += tn_needy.la
tn_needy_la_SOURCES = tests/plugins/needy.c tests/plugins/fake.h
tn_needy_la_LDFLAGS = $(tn_test_plugin_flags)
check_LTLIBRARIES += tn_prints.la
tn_prints_la_SOURCES = tests/plugins/prints.c tests/plugins/fake.h
tn_prints_la_LDFLAGS = $(tn_test_plugin_flags)
check_LTLIBRARIES += tn_aborts.la
tn_aborts_la_SOURCES = tests/plugins/aborts.c tests/plugins/fake.h
tn_aborts_la_LDFLAGS = $(tn_test_plugin_flags)
check_LTLIBRARIES += tn_hangs.la
tn_hangs_la_SOURCES = tests/plugins/hangs.c tests/plugins/fake.h
tn_hangs_la_LDFLAGS = $(tn_test_plugin_flags)
check_LTLIBRARIES += tn_exits.la
tn_exits_la_SOURCES = tests/plugins/exits.c tests/plugins/fake.h
tn_exits_la_LDFLAGS = $(tn_test_plugin_flags)
check_LTLIBRARIES += tn_declines.la
tn_declines_la_SOURCES = tests/plugins/declines.c tests/plugins/fake.h
tn_declines_la_LDFLAGS = $(tn_test_plugin_flags)
check_LTLIBRARIES += tn_misnamed.la
tn_misnamed_la_SOURCES = tests/plugins/misnamed.c tests/plugins/fake.h
tn_misnamed_la_LDFLAGS = $(tn_test_plugin_flags)
check_LTLIBRARIES += tn_longer.la
tn_longer_la_SOURCES = tests/plugins/longer.c tests/plugins/fake.h
tn_longer_la_LDFLAGS = $(tn_test_plugin_flags)
check_LTLIBRARIES += tn_exact.la
tn_exact_la_SOURCES = tests/plugins/exact.c tests/plugins/fake.h
tn_exact_la_LDFLAGS = $(tn_test_plugin_flags)
check_LTLIBRARIES += tn_halfset.la
tn_halfset_la_SOURCES = tests/plugins/halfset.c tests/plugins/fake.h
tn_halfset_la_LDFLAGS = $(tn_test_plugin_flags)
check_LTLIBRARIES += tn_nosymbol.la
tn_nosymbol_la_SOURCES = tests/plugins/nosymbol.c
tn_nosymbol_la_LDFLAGS = -rpath /nowhere -module -avoid-version -shared \
	-no-undefined

# The reference plugin with one deliberate fault at a time, which the conformance
# kit (tenon-plugin-check) must find.
check_LTLIBRARIES += tn_lying.la
tn_lying_la_SOURCES = tests/plugins/lying/lying.c \
	plugins/reference/numbers.c plugins/reference/reference_matmul.c \
	plugins/reference/reference_scatter.c plugins/reference/reference_scan.c \
	plugins/reference/reference_sort.c
tn_lying_la_LDFLAGS = $(tn_test_plugin_flags)
tn_lying_la_LIBADD = -lm -lpthread
EXTRA_DIST += tests/plugins/lying/README.md

# A plugin that prints kernels as plain C and compiles them by the C compiler.
check_LTLIBRARIES += tn_compiled.la
tn_compiled_la_SOURCES = tests/plugins/compiled.c
tn_compiled_la_LDFLAGS = $(tn_test_plugin_flags)
tn_compiled_la_LIBADD = -lm -lpthread

# An asynchronous device, and the deliberate faults for it. The test builds them.
EXTRA_DIST += tests/plugins/threaded/README.md \
	tests/plugins/threaded/threaded.c tests/plugins/threaded/lies.txt \
	tests/plugins/threaded/lie.awk tests/plugins/threaded/vendor.c
dist_check_SCRIPTS += tests/tools/test_plugin_check.sh \
	tests/tools/test_lies.sh
