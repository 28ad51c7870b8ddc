# Compiles programs that call functions with options, with strict warnings as
# C11, C++17 and C++20, with gcc and with clang if they are installed, and runs
# them. A positional option must cause a warning and an error. A Python program
# passes options through ctypes.
. "$top_srcdir/tests/tap.sh"

here=$top_srcdir/tests/options
strict="-Wall -Wextra -Wpedantic -Wshadow -Werror -I$top_builddir/include
        -I$top_srcdir/include"
link="-L$top_builddir/.libs -ltenon -Wl,-rpath,$top_builddir/.libs"
LD_LIBRARY_PATH=$top_builddir/.libs
export LD_LIBRARY_PATH

# use STANDARD SOURCE COMPILER...: compiles and runs SOURCE with each compiler
# that is installed
use() {
    standard=$1 source=$2
    shift 2
    for compiler do
        if ! command -v "$compiler" >/dev/null; then
            skip "$compiler $standard" "$compiler is not installed"
            continue
        fi
        # shellcheck disable=SC2086 # lists of options
        succeeds "no warning: $compiler $standard" "$compiler" "$standard" \
            $strict "$here/$source" -o "$scratch/use" $link &&
            succeeds "it runs as written" "$scratch/use"
    done
}

use -std=c11 use.c gcc clang
use -std=c++17 use.cpp g++ clang++
use -std=c++20 use.cpp g++ clang++

# positional CALL MESSAGE: passes if the compilers warn about the call, and the
# program refuses it with the message
positional() {
    cat >"$scratch/positional.c" <<END
#include <stdio.h>
#include <tenon/tenon.h>
int main(void)
{
    tn_tensor *x = tn_ones(tn_dims(2, 2));
    tn_module *net = tn_nn_linear(2, 2);
    (void)x, (void)net;
    void *made = (void *)(($1));
    printf("%s\n", made ? "taken" : tn_error());
}
END
    for compiler in gcc clang; do
        command -v $compiler >/dev/null || continue
        # shellcheck disable=SC2086
        if $compiler $strict "$scratch/positional.c" -o "$scratch/positional" \
            $link 2>/dev/null
        then
            fail "$compiler warns of $1"
        else
            pass "$compiler warns of $1"
        fi
        # shellcheck disable=SC2086
        $compiler -w -I"$top_builddir/include" -I"$top_srcdir/include" \
            "$scratch/positional.c" -o "$scratch/positional" $link
        is_str "$("$scratch/positional")" "$2" "$compiler: $1 is refused"
    done
}
hint='is not an option: write options by name, as in'
positional 'tn_sum(x, 1)' "sum: \"1\" $hint tn_sum(input, .dim = 1)"
positional 'tn_sum(x, 0)' "sum: \"0\" $hint tn_sum(input, .dim = 0)"
positional 'tn_argmax(x, 1)' "argmax: \"1\" $hint tn_argmax(input, .dim = 1)"
positional 'tn_flatten(x, 1)' \
    "flatten: \"1\" $hint tn_flatten(input, .start_dim = 1)"
positional 'tn_nn_conv2d(1, 1, 3, 2)' "nn_conv2d: \"2\" $hint \
tn_nn_conv2d(in_channels, out_channels, kernel_size, .stride = 2)"
positional 'tn_sum(x, .dim = 1, true)' \
    "sum: \"1\" $hint tn_sum(input, .dim = 1)"

if python3 -c 'import ctypes' 2>/dev/null; then
    succeeds "ctypes" \
        python3 "$here/use.py" "$top_builddir/.libs/libtenon.so"
else
    skip "ctypes" "python3 is not installed"
fi
done_testing
