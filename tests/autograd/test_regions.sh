# Compiles the macros for regions (TN_NO_GRAD and others) and for loops over
# batches as C and as C++, with each installed compiler. There must be no
# warning, and the C++ program must give the same results as the C program.
. "$top_srcdir/tests/tap.sh"

source=$top_srcdir/tests/autograd/test_regions.c
strict="-Wall -Wextra -Wpedantic -Wshadow -Werror
        -I$top_builddir/include -I$top_srcdir/include"

# compiles LANGUAGE STANDARD COMPILER...: compiles test_regions.c with each
# installed compiler
compiles() {
    language=$1 standard=$2
    shift 2
    for compiler do
        if ! command -v "$compiler" >/dev/null; then
            skip "$compiler $standard" "$compiler is not installed"
            continue
        fi
        # shellcheck disable=SC2086 # lists of options
        succeeds "regions compile without a warning: $compiler $standard" \
            "$compiler" -x "$language" "$standard" -fsyntax-only $strict \
            "$source"
    done
}

compiles c -std=c11 gcc clang
compiles c++ -std=c++17 g++ clang++
compiles c++ -std=c++20 g++ clang++

for compiler in g++ clang++; do
    if ! command -v "$compiler" >/dev/null; then
        skip "regions in C++" "$compiler is not installed"
    elif [ ! -e "$top_builddir/.libs/libtenon.so" ]; then
        skip "regions in C++" "no shared library"
    # shellcheck disable=SC2086 # a list of options
    elif succeeds "regions link: $compiler" "$compiler" -x c++ -std=c++17 \
        $strict "$source" -x none -o "$scratch/regions" \
        -L"$top_builddir/.libs" -ltenon; then
        succeeds "regions in C++ do what they do in C: $compiler" env \
            LD_LIBRARY_PATH="$top_builddir/.libs" "$scratch/regions"
    fi
done
done_testing
