#!/bin/sh
# gpu.sh: runs all tests and benchmarks that need an NVIDIA GPU, in one command.
#
#   tests/gpu.sh [-j N] [-o FOLDER] [PART...]
#                                          runs parts, from a built tree, an unpacked
#                                          tarball or a clone
#   tests/gpu.sh -p FILE.tar.gz            packs what the parts need from a built
#                                          tree, for a machine without compilers
#                                          (or .tar.xz, a quarter of the size)
#   tests/gpu.sh -x PART                   runs one part, and prints its output
#
# When a PART has ended, its time is in FOLDER/results.md and its output in
# FOLDER/PART.log. FOLDER/logs.tar.gz has all outputs. Most parts mainly compile
# kernels. With -j N these run at the same time, each with N processes; parts that
# measure times run alone. By default all PARTs run, in this order. A PART may also
# be the name of a group. Each group takes at most nine minutes on 16 processors:
#   first       device, learn, memcheck, limits
#   second      programs, bits, golden, suite, plugin, opencl
#   third       race, bench, profile
# The parts are:
#   device      what the plugin reports about the driver, the GPU, NVRTC and cuBLASLt
#   learn       the examples that train: digits, digits on all GPUs, and a GPT
#   memcheck    compute-sanitizer's memcheck
#   limits      times of launches, memory and products compared with direct calls of
#               the driver and cuBLASLt; of attention by Tenon's kernels and by cuDNN;
#               of products with block-quantised weights (runs alone)
#   programs    random programs and primitives; results must be bit-identical to
#               those of the reference plugin
#   bits        the samples of each operator, likewise
#   golden      PyTorch's samples of operators, layers, optimizers and training
#   suite       all test programs on the GPU, except those of other plugins
#   plugin      tenon-plugin-check
#   opencl      the parts programs and golden on the OpenCL of NVIDIA's driver
#   race        compute-sanitizer's racecheck, initcheck and synccheck
#   bench       bench/compare with PyTorch on the GPU: first that both train the same
#               networks, then training and GPT-2 compared with eager PyTorch and
#               torch.compile, then all other workloads (runs alone)
#   profile     Nsight Compute's report on the slowest kernels (runs alone)
# FOLDER (default: gpu-results) is created. Copy the results to docs/gpu.md. These
# environment variables are read, with their defaults in parentheses:
#
#   TENON_GPU_BUILD      the built tree (build); if it does not exist, it is built by
#                        configure and make
#   TENON_GPU_TESTS      the programs of the suite (all): "tests/ops/test_sort ..."
#   TENON_GPU_SECONDS    the time limit of a part in seconds (none), and
#   TENON_GPU_TEST_SECONDS  of a program of the suite (none)
#   TENON_CACHE_DIR      folder for compiled kernels (FOLDER-cache)
#   TENON_BENCH_PYTHON   a Python with torch (python3); its packages provide NVIDIA's
#                        libraries if the machine has no others
#   TENON_BENCH_ARGS     options of bench/compare (--quick for a first look)
# A part whose tool is missing (compute-sanitizer, torch) is left out, with a
# message. The exit status is 1 if any part failed.

set -u
unset CDPATH
root=$(cd "$(dirname "$0")/.." && pwd) || exit 1
build=${TENON_GPU_BUILD:-$root/build}
out="gpu-results"
jobs=1
pack=
alone=
command_line="tests/gpu.sh $*"

die() {
    echo "gpu.sh: $*" >&2
    exit 1
}

while getopts j:o:p:x: option; do
    case $option in
    j) jobs=$OPTARG ;;
    o) out=$OPTARG ;;
    p) pack=$OPTARG ;;
    x) alone=$OPTARG ;;
    *) die "usage: tests/gpu.sh [-j N] [-o FOLDER] [-p FILE.tar.gz] [-x PART] [PART...]" ;;
    esac
done
shift $((OPTIND - 1))
first="device learn memcheck limits"
second="programs bits golden suite plugin opencl"
third="race bench profile"
all="$first $second $third"
parts=
for part in $alone "$@"; do
    case " $all " in
    *" $part "*) parts="$parts $part" ;;
    *)
        case $part in
        first) parts="$parts $first" ;;
        second) parts="$parts $second" ;;
        third) parts="$parts $third" ;;
        *) die "no part $part; there are: $all" ;;
        esac
        ;;
    esac
done
parts=${parts:-$all}

# ---- the tree ------------------------------------------------------------------

# A built tree, perhaps moved from another machine. Programs are in .libs if
# libtool made a script for them, since that script works in one folder only.
if [ ! -e "$build/.libs/libtenon.so.0" ]; then
    [ -x "$root/configure" ] || (cd "$root" && autoreconf -fi) ||
        die "no built tree in $build, and no configure to make one"
    mkdir -p "$build" &&
        (cd "$build" && { [ -f Makefile ] || "$root/configure"; } &&
            make -j"$(nproc)" && make -j"$(nproc)" check TESTS=) ||
        die "the tree cannot be built"
fi
build=$(cd "$build" && pwd)

if [ -n "$pack" ]; then
    case $pack in
    /*) ;;
    *) pack=$PWD/$pack ;;
    esac
    name=${build#"$root"/}
    [ "$build" != "$root" ] || name=.
    case $name in
    /*) die "$build does not lie within $root: it cannot be packed" ;;
    esac
    cd "$root" || exit 1
    find "$name/tests" "$name/tools" "$name/bench" "$name/examples" \
        "$name/.libs" "$name/tenon-1" \( -type f -o -type l \) \
        ! -name '*.o' ! -name '*.lo' ! -name '*.a' ! -name '*.la' \
        ! -name '*.log' ! -name '*.trs' ! -path '*/cache/*' \
        ! -path '*/tests/cpu/*' ! -path '*/tests/opencl/*' \
        ! -path '*/tests/sim/*' ! -path '*/tests/locale/*' >"$pack.list"
    mkdir -p "$pack.tree/lib" || exit 1
    tar -cf - -T "$pack.list" tests/gpu.sh tests/tap.sh tests/*/*.txt \
        tests/*/*.safetensors tests/fuzz/corpus tests/*/data data \
        docs/kernel-language.md bench/*.py bench/*.tsv |
        tar -xf - -C "$pack.tree"
    # copies the libraries that the programs are linked with and that other
    # machines may lack
    ldd "$build/.libs/libtenon.so.0" "$build"/tests/golden/.libs/run |
        awk '/jansson|libz/ { print $3 }' | sort -u |
        xargs -I{} cp -L {} "$pack.tree/lib"
    find "$pack.tree" -type f -perm -100 -exec strip {} + 2>/dev/null
    # The programs have much in common, at distances above xz's default of 8 MiB.
    XZ_OPT=${XZ_OPT--6 --lzma2=preset=6,dict=384MiB} \
        tar -caf "$pack" -C "$pack.tree" --sort=name .
    rm -rf "$pack.list" "$pack.tree"
    ls -l "$pack"
    exit
fi

# Prints the path of the program of that name that runs in any folder.
program() {
    if [ -x "$build/$(dirname "$1")/.libs/$(basename "$1")" ]; then
        echo "$build/$(dirname "$1")/.libs/$(basename "$1")"
    else
        echo "$build/$1"
    fi
}

python=${TENON_BENCH_PYTHON:-python3}

# The folders of NVIDIA's libraries among Python's packages, after the others.
packages() {
    "$python" -c 'import glob, nvidia
for path in nvidia.__path__:
    for folder in sorted(glob.glob(path + "/*/lib")):
        print(folder, end=":")' 2>/dev/null
}
LD_LIBRARY_PATH=$build/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
[ -n "$alone" ] || LD_LIBRARY_PATH=$LD_LIBRARY_PATH:$(packages)$root/lib
TENON_PLUGIN_PATH=$build/tenon-1
TENON_DEVICE=cuda
TENON_TEST_PLUGIN=cuda
TENON_TEST_GPU=1
TENON_TEST_THREADS=1
top_srcdir=$root
top_builddir=$build
export LD_LIBRARY_PATH TENON_PLUGIN_PATH TENON_DEVICE TENON_TEST_PLUGIN \
    TENON_TEST_GPU TENON_TEST_THREADS top_srcdir top_builddir
mkdir -p "$out" || exit 1
out=$(cd "$out" && pwd)
: "${TENON_CACHE_DIR:=$out-cache}"
export TENON_CACHE_DIR
cd "$build" || exit 1
tenon=$(program tools/tenon)
samples=tests/golden/samples
digits=$root/data/digits.csv.gz

# ---- parts ---------------------------------------------------------------------

# A part's function reports on stdout. It returns 0, 1, or 77 if the part is
# left out; its last line is then the reason.
left_out() {
    echo "left out: $*"
    return 77
}

part_device() {
    nvidia-smi 2>/dev/null || echo "nvidia-smi is not there"
    "$tenon" devices -v
    "$tenon" info
}

# in_shares NAME COMMAND...: runs COMMAND in as many processes at once as there
# are jobs, each with a share of the lines of stdin as last arguments, and
# prints their outputs one after the other.
in_shares() {
    shares=$out/$1.shares
    shift
    rm -rf "$shares" && mkdir "$shares" || return
    awk -v n="$jobs" -v to="$shares/" '{ print >to NR % n ".list" }'
    for list in "$shares"/*.list; do
        # shellcheck disable=SC2046 # a list of paths without spaces
        ("$@" $(cat "$list") >"${list%list}out" 2>&1
            echo $? >"${list%list}rc") &
    done
    wait
    cat "$shares"/*.out
    ! grep -qvx 0 "$shares"/*.rc
    status=$?
    rm -r "$shares"
    return $status
}

# in_turn NAME COMMAND...: like in_shares, but each process takes the next line
# when it is done with one, so that none is idle while another has a list of long
# ones. The order of the lines is kept.
in_turn() {
    shares=$out/$1.shares
    shift
    rm -rf "$shares" && mkdir "$shares" || return
    cat >"$shares/list"
    : >"$shares/lock"
    exec 3<"$shares/list" # the processes share the file's offset
    i=0
    while [ $((i += 1)) -le "$jobs" ]; do
        # shellcheck disable=SC2016 # the inner shell expands it
        while line=$(flock "$shares/lock" sh -c \
            'IFS= read -r line <&3 && printf %s "$line"'); do
            "$@" "$line" || echo 1 >>"$shares/failed"
        done >"$shares/$i.out" 2>&1 &
    done
    wait
    exec 3<&-
    cat "$shares"/*.out
    test ! -e "$shares/failed"
    status=$?
    rm -r "$shares"
    return $status
}

# each_program NAME...: runs test programs of the folder tests/device
each_program() {
    failed=0
    for test in "$@"; do
        "$(program tests/device/$test)" || failed=1
    done
    return $failed
}

part_programs() {
    TENON_TEST_PROGRAMS=${TENON_TEST_PROGRAMS:-2000}
    export TENON_TEST_PROGRAMS
    printf '%s\n' test_random_programs test_primitives test_sorts |
        in_shares programs each_program
}

# The operators' samples, one folder of links for each share.
bits_of() {
    folder=$(mktemp -d "$out/bits.XXXXXX") || return
    mkdir "$folder/ops" && ln -s "$@" "$folder/ops" &&
        "$(program tests/golden/bits)" cuda "$folder" 1 1
    status=$?
    rm -rf "$folder"
    return $status
}

# The core's matrix products have the reference's bits. Those of a library do
# not, nor does attention.
part_bits() {
    [ -d $samples ] || left_out "no $samples" || return
    TENON_CUDA_MATMUL=own
    TENON_MASK=attention,lapack
    export TENON_CUDA_MATMUL TENON_MASK
    find "$PWD/$samples/ops" -name '*.safetensors' | sort |
        in_shares bits bits_of
}

part_golden() {
    [ -d $samples ] || left_out "no $samples" || return
    find $samples -name '*.safetensors' | sort |
        in_shares golden "$(program tests/golden/run)"
}

# Work is synchronous, because many programs check an error right after its
# call.
suite_of() {
    failed=0
    for test in "$@"; do
        log=$out/suite.$(echo "$test" | tr /: ..).log
        begun=$(date +%s)
        # it counts operators that run on the host, so no library may run them
        case $test in
        */test_linalg) mask=lapack ;;
        *) mask=${TENON_MASK-} ;;
        esac
        case $test in
        *:*) part=TENON_TEST_PART=${test#*:} ;;
        *) part= ;;
        esac
        env TENON_MASK="$mask" $part timeout "${TENON_GPU_TEST_SECONDS:-0}" \
            "$(program "${test%:*}")" >"$log" 2>&1
        status=$?
        took=$(($(date +%s) - begun))
        if [ $status = 0 ] || [ $status = 77 ]; then
            echo "ok $test $(grep -c '^ok' "$log")" \
                "$(grep -c '^ok.* SKIP' "$log") skipped, $took s"
        else
            echo "not ok $test: status $status, $took s"
            grep -vE '^ok' "$log" | tail -n "${TENON_GPU_TEST_LINES:-15}"
            failed=1
        fi
        rm -f "$log"
    done
    return $failed
}

# Programs that take minutes are split, each process with a part of the cases:
# NAME:1/8 and so on. The longest come first, so that none is left at the end.
in_parts() {
    awk '/test_(misuse|gradients|backward|hard_points|strides|rows|workers)$/ ||
        /test_(random_programs|linalg_batches|calls|objects|devices|dnn)$/ {
            print
            next
        }
        { rest = rest $0 "\n" }
        END { printf "%s", rest }' | while read -r test; do
        case $test in
        */test_misuse | */test_hard_points | */test_gradients)
            for i in 1 2 3 4 5 6 7 8; do echo "$test:$i/8"; done
            ;;
        *) echo "$test" ;;
        esac
    done
}

part_suite() {
    TENON_CUDA_BLOCKING=1
    export TENON_CUDA_BLOCKING
    for test in ${TENON_GPU_TESTS:-tests/*/test_*}; do
        case $test in
        *.* | *~ | tests/cpu/* | tests/opencl/* | tests/sim/*) continue ;;
        esac
        [ -f "$test" ] && [ -x "$test" ] && echo "$test"
    done | in_parts | in_turn suite suite_of
}

part_plugin() {
    "$(program tools/tenon-plugin-check)" --timeout 1800 tenon-1/tn_cuda.so
}

# NVIDIA's driver shows its GPUs to OpenCL, too.
part_opencl() {
    TENON_DEVICE="opencl:NVIDIA" TENON_TEST_PLUGIN=opencl
    TENON_TEST_PROGRAMS=${TENON_TEST_PROGRAMS:-500}
    export TENON_DEVICE TENON_TEST_PLUGIN TENON_TEST_PROGRAMS
    "$tenon" info || left_out "the driver has no OpenCL" || return
    {
        printf '%s\n' test_random_programs test_primitives test_sorts
        find $samples -name '*.safetensors' | sort
    } | in_shares opencl opencl_of
}

# opencl_of NAME...: runs programs of tests/device, and files of samples
opencl_of() {
    failed=0
    files=
    for name in "$@"; do
        case $name in
        */*) files="$files $name" ;;
        *) each_program "$name" || failed=1 ;;
        esac
    done
    # shellcheck disable=SC2086 # a list of paths without spaces
    "$(program tests/golden/run)" $files || failed=1
    return $failed
}

# sanitize TOOL:PROGRAM...: runs each program under the tool of
# compute-sanitizer
sanitize() {
    failed=0
    TENON_TEST_PROGRAMS=40 TENON_TEST_CASES=20 TENON_TEST_FLOAT32=1
    export TENON_TEST_PROGRAMS TENON_TEST_CASES TENON_TEST_FLOAT32
    for pair in "$@"; do
        echo "== $(echo "$pair" | tr : ' ')"
        compute-sanitizer --tool "${pair%:*}" --error-exitcode 9 \
            --print-limit 5 "$(program "${pair#*:}")" || failed=1
    done
    return $failed
}

# with_tools TOOL...: runs each tool on the programs with most kinds of kernels
with_tools() {
    command -v compute-sanitizer >/dev/null ||
        left_out "compute-sanitizer is not in PATH" || return
    for tool in "$@"; do
        for test in test_primitives test_sorts test_random_programs; do
            echo "$tool:tests/device/$test"
        done
    done | in_shares "$1" sanitize
}

# Leaks are not checked, since the allocator never frees its pool.
part_memcheck() {
    with_tools memcheck
}

part_race() {
    with_tools racecheck initcheck synccheck
}

part_learn() {
    gpus=$("$tenon" devices | grep -o 'cuda:[0-9]*' | sort -u | tr '\n' ' ')
    # shellcheck disable=SC2086 # a list of words
    "$(program examples/digits)" "$digits" &&
        "$(program examples/two_devices)" $gpus "$digits" &&
        "$(program examples/char_gpt)" "$root/docs/kernel-language.md" 200
}

part_limits() {
    "$(program bench/cuda)" &&
        echo "== attention by our own kernels alone" &&
        TENON_CUDA_ATTENTION=own "$(program bench/cuda)" attention &&
        echo "== products with weights in blocks" &&
        "$(program bench/quantised)"
}

part_bench() {
    "$python" -c 'import torch; assert torch.cuda.is_available()' 2>&1 ||
        left_out "$python has no torch with a GPU" || return
    TENON_BENCH_PYTHON=$python
    TENON_BENCH_FOLDER=$root/bench # the path of bench/ on this machine
    export TENON_BENCH_PYTHON TENON_BENCH_FOLDER
    compare=$(program bench/compare)
    failed=0
    "$compare" --losses --beside torch || failed=1
    for group in training large; do
        # shellcheck disable=SC2086 # a list of words
        "$compare" ${TENON_BENCH_ARGS-} --only $group \
            --beside torch,compiled --json "$out/$group.json" || failed=1
    done
    # shellcheck disable=SC2086
    "$compare" --except training,large --json "$out/compare.json" \
        ${TENON_BENCH_ARGS-} || failed=1
    return $failed
}

part_profile() {
    command -v ncu >/dev/null || left_out "ncu is not in PATH" || return
    ncu --clock-control none --target-processes all --csv --page raw \
        --metrics "gpu__time_duration.sum,dram__bytes.sum,$(
            )launch__registers_per_thread,launch__grid_size,$(
            )dram__throughput.avg.pct_of_peak_sustained_elapsed,$(
            )sm__warps_active.avg.pct_of_peak_sustained_active" \
        "$(program bench/cuda)" bandwidth attention
}

if [ -n "$alone" ]; then
    "part_$alone"
    exit
fi

# ---- results -------------------------------------------------------------------

# Prints the head of the table: the command, the GPU, the version, the machine.
head_of_results() {
    echo "$(date -u '+%Y-%m-%d %H:%M UTC'): $command_line"
    echo
    gpu=$(nvidia-smi --query-gpu=name,driver_version,memory.total \
        --format=csv,noheader 2>/dev/null) || gpu=
    echo "- GPU: ${gpu:-$("$tenon" devices 2>&1 | grep cuda | head -n 1)}"
    commit=$(cd "$root" && git rev-parse --short HEAD 2>/dev/null)
    echo "- Tenon: $("$tenon" info | head -n 1)${commit:+, commit $commit}"
    echo "- machine: $(uname -srm), $(nproc) processors"
    echo
    echo "| part | result | seconds | its last line |"
    echo "|---|---|---|---|"
}

"$tenon" info >"$out/info" 2>&1 || {
    cat "$out/info" >&2
    die "no GPU: nothing to see"
}
rm -f "$out/info"
head_of_results >"$out/results.md"
cat "$out/results.md"
# one PART: runs it and adds its row to the table
one() {
    begun=$(date +%s)
    timeout "${TENON_GPU_SECONDS:-0}" sh "$root/tests/gpu.sh" -j "$jobs" \
        -o "$out" -x "$1" >"$out/$1.log" 2>&1
    code=$?
    case $code in
    0) result=passed ;;
    77) result="left out" ;;
    124)
        result="ended after $TENON_GPU_SECONDS s"
        cat "$out/$1.shares"/*.out >>"$out/$1.log" 2>/dev/null
        ;;
    *) result=FAILED ;;
    esac
    echo "| $1 | $result | $(($(date +%s) - begun)) | $(tail -n 1 \
        "$out/$1.log" | tr '|' ' ' | cut -c1-160) |" |
        tee -a "$out/results.md"
}

for part in $parts; do
    case $jobs:$part in
    1:* | *:limits | *:bench | *:profile)
        wait
        one "$part"
        ;;
    *) one "$part" & ;;
    esac
done
wait
(cd "$out" && tar -czf logs.tar.gz results.md ./*.log ./*.json 2>/dev/null)
! grep -qE '^\| [a-z]+ \| (FAILED|ended)' "$out/results.md"
