# Tests what `make check` builds before it runs a test: with TESTS=PROGRAM only
# that program; without TESTS, with TESTS= or with a script every test program.
. "$top_srcdir/tests/tap.sh"
unset MAKEFLAGS MFLAGS MAKELEVEL

cd "$top_builddir" || exit 99
# built ARGUMENT...: prints the check programs that `make check ARGUMENT...`
# builds
built() {
    "${MAKE:-make}" -s --eval='
tn-list: ; @$(MAKE) -s $(AM_MAKEFLAGS) tn-built
tn-built: ; @echo $(check_PROGRAMS)' tn-list "$@"
}
one=tests/ops/test_edges two=tests/base/test_error
all=$(built)
is_str "$(echo "$all" | tr ' ' '\n' | grep -cx "$one\|$two")" 2 \
    "make check builds every check program"
is_str "$(built TESTS=)" "$all" "so does make check TESTS="
is_str "$(built TESTS=tests/test_layers.sh)" "$all" "and TESTS=SCRIPT"
is_str "$(built TESTS="$one tests/test_layers.sh")" "$all" \
    "and TESTS with a script and a program"
is_str "$(built TESTS=$one)" $one "one program is built alone"
is_str "$(built TESTS="$one $two")" "$one $two" "so are two programs"
is_str "$(built check_PROGRAMS="$one $two" TESTS="$one $two")" "$one $two" \
    "check_PROGRAMS may be given too"

done_testing
