# Kernels printed as plain C (TN_TARGET_C) must compile without a warning and
# give the interpreter's bits. tests/plugins/compiled.c runs them. Compiling a
# program takes about 50 ms, so there are few; TENON_TEST_PROGRAMS sets how
# many.
. "$top_srcdir/tests/tap.sh"

cd "$top_builddir" || exit 99
[ -f .libs/tn_compiled.so ] || bail_out "tn_compiled.so was not built"
compiler=${CC:-cc}
# shellcheck disable=SC2086 # it may hold options
if ! echo 'int main(void) { return 0; }' >"$scratch/try.c" ||
    ! $compiler "$scratch/try.c" -o "$scratch/try" 2>"$scratch/output"
then
    skip "kernels in plain C" "$compiler does not run here"
    done_testing
fi
TENON_PLUGIN_PATH=$PWD/.libs
TENON_TEST_PLUGIN=compiled
TENON_TEST_THREADS=2
TENON_COMPILED_CC=$compiler
export TENON_PLUGIN_PATH TENON_TEST_PLUGIN TENON_TEST_THREADS TENON_COMPILED_CC

# programs SEED COUNT FLAGS: compiles and runs COUNT random programs
programs() {
    succeeds "$2 programs from seed $1 with $3" \
        env TENON_TEST_SEED="$1" TENON_TEST_PROGRAMS="$2" \
        TENON_COMPILED_FLAGS="$3" tests/device/test_random_programs
}
count=${TENON_TEST_PROGRAMS:-24}
programs 1 "$count" "-O0 -Wall -Wextra -Wpedantic -Werror"
programs 501 $((count / 4)) -O2
for what in primitives skew; do
    succeeds "test_$what" env TENON_TEST_CASES=20 \
        TENON_COMPILED_FLAGS="-O1 -Wall -Wextra -Wpedantic -Werror" \
        tests/device/test_$what
done
done_testing
