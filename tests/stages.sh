# stages.sh: the stages of ./quickstart test, which sources this file. Each
# stage prints its name, its failures and its time, and adds its TAP results to
# the totals. The last line is 'N passed, N failed, N skipped'.

# Tests that run under the thread sanitizer, with more threads than this
# machine may have.
tsan_tests="tests/base/test_thread tests/base/test_scope tests/dist/test_engine
    tests/device/test_random_programs tests/training/test_shared
    tests/training/test_threads"
# Tests that run under valgrind, which also detects uninitialized values. The
# sanitizers do not.
valgrind_tests="tests/base/test_memory tests/base/test_scope
    tests/device/test_random_programs tests/training/test_shared
    tests/training/test_threads"
# Tests that are cross-compiled for arm64 and run by qemu, to compare the
# portable code with the interpreter. (test_thread is not one of them:
# qemu-user 7.2 fails an assertion of its own if a process with threads forks.)
arm64_tests="tests/base/test_scope tests/kernel/test_eval
    tests/kernel/test_interpret tests/device/test_random_programs"

# Failed allocations return NULL, as without a sanitizer, because tests need
# them. intercept_tls_get_addr=0 avoids a bug of the leak checker up to clang 16
# and gcc 13: it takes a block of thread-local memory that begins 16 bytes into
# a page for one with the header of glibc 2.19, reads a wrong address and
# length, and ends with "Tracer caught signal 11"
# (github.com/google/sanitizers/issues/1322).
sanitizer_options="UBSAN_OPTIONS=print_stacktrace=1 \
    ASAN_OPTIONS=allocator_may_return_null=1:quarantine_size_mb=8:intercept_tls_get_addr=0"

passed=0 failed=0 skipped=0

# tally PASSED FAILED SKIPPED: adds the numbers to the totals
tally() {
    passed=$((passed + $1)) failed=$((failed + $2)) skipped=$((skipped + $3))
}

# leave_out WHY: counts a stage that cannot run on this machine as one skip.
leave_out() {
    echo "   skipped: $1"
    tally 0 0 1
}

# failures FOLDER: prints the failed checks of a tree with the lines below them,
# and the end of the logs without passed checks, since a sanitizer may end a
# test after an "ok"
failures() {
    find "$1/tests" -name '*.trs' -exec \
        grep -lE '^:global-test-result: (FAIL|ERROR)' {} + |
        while read -r result; do
            echo "   ${result%.trs}"
            log=${result%.trs}.log
            {
                grep -A 12 '^not ok' "$log" |
                    grep -vE '^(--|(ok|PASS:|SKIP:|FAIL:) )' | head -n 80
                echo "..."
                grep -vE '^(not ok|ok|PASS:|SKIP:|FAIL:) ' "$log" | tail -n 25
            } | sed 's/^/     /'
        done
}

# longest FOLDER: prints the five tests that took the most processor time
longest() {
    sh tests/times.sh "$1" | head -n 5 |
        sed 's/^\([^ ]*\) \(.*\)/   \1 s of processor time: \2/'
}

# make_check FOLDER ARGUMENT...: runs the test suite of a configured tree
make_check() {
    folder=$1
    shift
    make -C "$folder" -j"$jobs" check "$@" >"$folder/check.log" 2>&1
    status=$?
    # reads automake's summary, "# PASS:  12" and so on, which is missing if
    # the build failed
    totals=$(awk '
        /^# PASS: / { p = $3; seen = 1 }
        /^# (FAIL|ERROR|XPASS): / { f += $3 }
        /^# (SKIP|XFAIL): / { s += $3 }
        END { if (seen) print p + 0, f + 0, s + 0 }' "$folder/check.log")
    if [ -z "$totals" ]; then
        grep -E 'error:|warning:|\*\*\*' "$folder/check.log" | head -n 20
        tail -n 20 "$folder/check.log"
        totals="0 1 0"
    elif [ $status != 0 ]; then
        failures "$folder" | head -n 200
    fi
    echo "   $totals (passed, failed, skipped)"
    # shellcheck disable=SC2086 # three numbers
    tally $totals
    longest "$folder"
}

# each_test FOLDER COMMAND... -- PROGRAM...: runs programs of a built tree
# under a command; each program counts as one test, and is killed after 25
# minutes
each_test() {
    folder=$1 command=
    shift
    while [ "$1" != -- ]; do
        command="$command $1"
        shift
    done
    shift
    for test do
        if (cd "$folder" && top_srcdir=$root top_builddir=$PWD \
            TENON_PLUGIN_PATH=$PWD/tenon-1 TENON_DEVICE=cpu \
            timeout 1500 $command "$test") \
            >"$folder/each.log" 2>&1
        then
            echo "   ok $test"
            tally 1 0 0
        else
            echo "   not ok $test"
            grep -vE '^ok ' "$folder/each.log" | tail -n 30
            tally 0 1 0
        fi
    done
}

# ---- the stages --------------------------------------------------------------

stage_check() {
    make_check build
    # differences from the ABI's baseline are reported, and are no failure
    grep -E '^# ' build/tests/test_abi.log | grep -v ' processor time' |
        sed 's/^# /   /'
}

# The tarball builds in another folder, from read-only sources, and `make
# distclean` removes all that was built (the tests ran above). It holds every
# file of the repository, except those that only the repository needs. What is
# built has run in the check stage, so it is not optimized here.
stage_dist() {
    if make -C build -j"$jobs" distcheck TESTS=tests/test_layers.sh \
        DISTCHECK_CONFIGURE_FLAGS="CFLAGS=-O0 CXXFLAGS=-O0" \
        >build/distcheck.log 2>&1
    then
        echo "   ok distcheck"
        tally 1 0 0
    else
        echo "   not ok distcheck"
        tail -n 40 build/distcheck.log
        tally 0 1 0
        return
    fi
    if ! git rev-parse --git-dir >/dev/null 2>&1; then
        leave_out "not a git checkout: the tarball is not compared with it"
        return
    fi
    tar -tf "$(ls build/tenon-*.tar.xz)" | sed 's|^[^/]*/||' | sort \
        >build/dist.list
    left=$(git ls-files | grep -vxE '\.ci/.*|\.gitignore' | sort |
        comm -23 - build/dist.list)
    if [ -z "$left" ]; then
        echo "   ok the tarball holds every file of the repository"
        tally 1 0 0
    else
        echo "   not ok the tarball lacks (EXTRA_DIST in a local.mk):"
        printf '     %s\n' $left
        tally 0 1 0
    fi
}

# Tests of the OpenCL plugin's host code, on a PoCL device. Leaks are not
# checked, because the driver's compiler has some. The compiler also sets a
# signal stack for each of its threads if that of the sanitizer is smaller
# (which depends on the processor), and the sanitizer would unmap it when the
# thread ends; so use_sigaltstack=0.
asan_opencl_tests="tests/opencl/test_opencl tests/opencl/test_matmul
    tests/device/test_primitives
    tests/tensor/test_tensor tests/ops/test_calls"

# Uses clang if it is installed. clang's warnings are errors here, gcc's in the
# tsan stage. The compiler takes half of the stage's time. So programs are not
# optimized, only the libraries and plugins that they test, and -g1 leaves out
# what a report does not print: it has functions, files and lines. The device
# kernels are those that the check stage has compiled; tests of the compilation
# itself use no cache.
stage_asan() {
    kernels="TENON_CACHE_DIR=$root/build/cache/tenon \
        POCL_CACHE_DIR=$root/build/cache/pocl"
    compilers="CC=gcc CXX=g++"
    ! clang_sanitizes >/dev/null 2>&1 || compilers="CC=clang CXX=clang++"
    # shellcheck disable=SC2086 # two arguments
    configure_tree build/asan $compilers CFLAGS="-g1 -O1" --enable-werror \
        --enable-sanitizers=address,undefined
    make_check build/asan TESTS="$(programs build/asan)" \
        TN_PROGRAM_CFLAGS=-O0 \
        TESTS_ENVIRONMENT="$sanitizer_options $kernels \
            OCL_ICD_VENDORS=/nonexistent"
    if ! test -f build/asan/tn_opencl.la; then
        leave_out "OpenCL's headers are not installed"
        return
    fi
    # shellcheck disable=SC2086 # lists
    each_test build/asan env \
        $sanitizer_options:detect_leaks=0:use_sigaltstack=0 \
        POCL_DEVICES=basic POCL_WORK_GROUP_SPECIALIZATION=0 $kernels \
        -- $asan_opencl_tests
}

stage_tsan() {
    configure_tree build/tsan CC=gcc CFLAGS="-g -O1" --enable-werror \
        --enable-sanitizers=thread
    # shellcheck disable=SC2086 # one line for make
    set -- $tsan_tests
    make_check build/tsan check_PROGRAMS="$*" TESTS="$*" \
        TESTS_ENVIRONMENT="TENON_NUM_THREADS=8 TENON_TEST_PROGRAMS=100"
}

stage_valgrind() {
    if ! program valgrind >/dev/null; then
        leave_out "valgrind is not installed"
        return
    fi
    # shellcheck disable=SC2086 # lists
    make -C build -j"$jobs" $valgrind_tests >build/valgrind.log 2>&1
    # shellcheck disable=SC2086
    each_test build env TENON_TEST_PROGRAMS=20 \
        ./libtool --mode=execute valgrind -q --error-exitcode=9 \
        --leak-check=full --errors-for-leak-kinds=definite \
        -- $valgrind_tests
}

# There is no zlib for arm64 here. Its headers are enough, since the tests
# below do not call it. The linker resolves zlib's functions, which lib/source
# needs, to the address of the program's first byte, so a call would crash.
stage_arm64() {
    if ! program aarch64-linux-gnu-gcc >/dev/null ||
        ! program qemu-aarch64 >/dev/null
    then
        leave_out "aarch64-linux-gnu-gcc or qemu-aarch64 is not installed"
        return
    fi
    tree=build/arm64
    mkdir -p $tree/headers
    for file in zlib.h zconf.h; do
        echo "#include <$file>" | cc -E - |
            sed -n "s|^# 1 \"\\(/.*/$file\\)\".*|\\1|p" | head -n 1 |
            xargs -I{} cp {} $tree/headers/
    done
    here=-I$root/$tree/headers
    configure_tree $tree --host=aarch64-linux-gnu CC_FOR_BUILD=cc \
        ZLIB_CFLAGS="$here" ZLIB_LIBS=' '
    # shellcheck disable=SC2086 # a list
    if ! { make -C $tree generated &&
        make -C $tree -j"$jobs" tenon-1/.stamp &&
        make -C $tree -j"$jobs" LDFLAGS="-Wl,--defsym=inflate=0 \
            -Wl,--defsym=inflateInit2_=0 -Wl,--defsym=inflateEnd=0" \
            $arm64_tests; } \
        >$tree/make.log 2>&1
    then
        tail -n 40 $tree/make.log
        tally 0 1 0
        return
    fi
    # fewer programs than natively, because qemu is slow shellcheck
    # disable=SC2086
    each_test $tree env TENON_TEST_PROGRAMS=500 \
        qemu-aarch64 -L /usr/aarch64-linux-gnu -- $arm64_tests
}

clang_sanitizes() {
    echo 'int main(void) { return 0; }' |
        clang -fsanitize=address,undefined -x c - -o build/clang_sanitizes
}

# programs FOLDER: prints the test programs of a tree, without the scripts,
# which do not test memory accesses
programs() {
    make -C "$1" Makefile >/dev/null 2>&1 # its output is not part of the list
    make -s -C "$1" --eval='tn-list: ; @echo $(check_PROGRAMS)' tn-list
}

# ---- run them ----------------------------------------------------------------

# MPICH is as good, but its packages are three times as large.
mpi_compiles() { program mpicc.openmpi || program mpicc.mpich; }
mpi_runs() { program mpirun.openmpi || program mpirun.mpich; }

want_to_check() {
    want_to_build
    want xz-utils program xz
    want libjansson-dev header jansson.h
}
want_for_stages() {
    missing=
    want g++ program g++
    want clang program clang
    want libclang-rt-dev clang_sanitizes
    want strace program strace
    want locales test -f /usr/share/i18n/locales/de_DE
    want cmake program cmake
    want abigail-tools program abidiff
    want valgrind program valgrind
    want libmpfr-dev header mpfr.h
    want opencl-c-headers header CL/cl.h
    want ocl-icd-libopencl1 library libOpenCL.so.1
    want pocl-opencl-icd test -f /etc/OpenCL/vendors/pocl.icd
    want libclblast1 library libclblast.so.1
    want oclgrind program oclgrind
    want libopenmpi-dev mpi_compiles
    want openmpi-bin mpi_runs
    want gcc-aarch64-linux-gnu program aarch64-linux-gnu-gcc
    want libc6-dev-arm64-cross test -d /usr/aarch64-linux-gnu/include
    want qemu-user program qemu-aarch64
}

root=$PWD
stages=${*:-check dist asan tsan valgrind arm64}
for stage in $stages; do
    case $stage in
    check | dist | asan | tsan | valgrind | arm64) ;;
    *) die "quickstart: no stage '$stage': see the head of ./quickstart" ;;
    esac
done

install_missing want_to_check
# If what a stage needs cannot be installed, the stage reports it and counts as
# skipped.
want_for_stages
if [ "$(id -u)" = 0 ] || may_sudo; then
    # a tree that was configured without them does not use them
    [ -z "$missing" ] || rm -f build/Makefile
    (install_missing want_for_stages)
else
    [ -z "$missing" ] || echo "not installed:$missing"
fi
configure_tree build
# A tree that was configured without jansson lacks the tests that need it.
! grep -q '^HAVE_JANSSON_TRUE = #' build/Makefile ||
    (cd build && ./config.status --recheck && ./config.status) >/dev/null
run "make" make -C build -j"$jobs"
for stage in $stages; do
    echo "== $stage"
    begun=$(date +%s)
    "stage_$stage"
    echo "   $(($(date +%s) - begun)) s"
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
exit
