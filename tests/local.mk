# Build rules of test scripts that check the whole tree, and of PyTorch's samples,
# which are unpacked to the build folder before the tests run.

EXTRA_DIST += tests/README.md tests/prototypes.awk tests/malloc_faults.h tests/mutate.py \
	tests/fault_sweep.h \
	tests/same_bits.h tests/tap.h tests/tap.sh \
	tests/stages.sh tests/timed.sh tests/times.sh tests/slow.txt \
	tests/circles.txt \
	tests/options/use.h tests/options/use.c tests/options/use.cpp \
	tests/options/use.py \
	tests/driver_leaks.supp tests/gpu.sh \
	$(golden_samples) \
	tests/abi/README.md tests/abi/update.sh tests/abi/opaque.awk \
	tests/abi/libtenon.abi tests/abi/plugin.abi

check_PROGRAMS += tests/options/test_needs
tests_options_test_needs_SOURCES = tests/options/test_needs.c

dist_check_SCRIPTS += \
	tests/test_tap.sh \
	tests/test_layers.sh \
	tests/test_links.sh \
	tests/test_headers.sh \
	tests/options/test_options.sh \
	tests/test_abi.sh \
	tests/test_install.sh \
	tests/test_alone.sh \
	tests/test_quickstart.sh

# Each archive has at most 2 MB.
golden_samples = \
	tests/golden/samples_fourier.tar.xz \
	tests/golden/samples_layers.tar.xz \
	tests/golden/samples_layers_more.tar.xz \
	tests/golden/samples_ops_a_m.tar.xz \
	tests/golden/samples_ops_n.tar.xz \
	tests/golden/samples_ops_o_z.tar.xz \
	tests/golden/samples_training.tar.xz \
	tests/golden/samples_training_more.tar.xz
check_DATA += tests/golden/samples/.stamp
tests/golden/samples/.stamp: $(golden_samples)
	$(AM_V_GEN)rm -rf $(@D) && $(MKDIR_P) $(@D)
	$(AM_V_at)for pack in $(golden_samples); do \
	  test -f $$pack || pack=$(srcdir)/$$pack; \
	  xz -dc $$pack | (cd $(@D) && tar -xf -) || exit 1; \
	done
	$(AM_V_at)touch $@
clean-local: clean-samples
clean-samples:
	-rm -rf tests/golden/samples tests/lm/tokenizers
.PHONY: clean-samples

# check-short runs the quick tests, for use during development. It omits the tests
# that took more than SHORT_SECONDS of processor time when tests/slow.txt was
# written. A new test is not in slow.txt, so it is run. short_anyway lists slow
# tests that are run nevertheless. They start first, so that none of them runs
# alone at the end.
SHORT_SECONDS = 7
short_anyway = tests/test_golden.sh
check-short:
	@tests=`printf '%s\n' $(short_anyway) $(TESTS) | \
	  $(AWK) -v limit=$(SHORT_SECONDS) -v anyway='$(short_anyway)' ' \
	    BEGIN { n = split(anyway, name); for (i = 1; i <= n; i++) keep[name[i]] } \
	    FILENAME != "-" { if ($$1 + 0 > limit) slow[$$2]; next } \
	    { test = $$1; sub(/\.sh$$/, "", test) } \
	    ($$1 in keep || !(test in slow)) && !seen[$$1]++' \
	    $(srcdir)/tests/slow.txt -` && \
	$(MAKE) $(AM_MAKEFLAGS) check TESTS="$$tests"
.PHONY: check-short
