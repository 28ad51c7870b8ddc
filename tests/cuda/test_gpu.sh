# Packs tests/gpu.sh with the files that it needs, unpacks it in another
# folder, and runs it on the simulated driver. So an error in the script is
# found before it runs on a rented machine with a GPU. `make check-cuda-full`
# also runs the programs of the parts that take long here.
. "$top_srcdir/tests/tap.sh"

cd "$top_builddir" || exit 99
driver=$PWD/tests/sim/driver${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
name=${PWD#"$(cd "$top_srcdir" && pwd)"/}

# refuses TEXT NAME OPTION...: passes if gpu.sh fails and prints the text
refuses() {
    text=$1 fact=$2
    shift 2
    if TENON_GPU_BUILD=$top_builddir sh "$top_srcdir/tests/gpu.sh" "$@" \
        >"$scratch/output" 2>&1
    then
        fail "$fact"
    else
        is_str "$(grep -cF "$text" "$scratch/output")" 1 "$fact"
    fi
    note <"$scratch/output"
}

refuses "no part nothing; there are: device" "an unknown part is refused" nothing
unset TENON_CUDA_CODE
if TENON_DEVICE=cuda tools/tenon info >/dev/null 2>&1; then
    skip "no GPU: nothing to see" "there is one"
else
    refuses "no GPU: nothing to see" "without a GPU nothing is run" \
        -o "$scratch/none"
fi

TENON_CUDA_CODE=ptx
export TENON_CUDA_CODE
if ! TENON_DEVICE=cuda LD_LIBRARY_PATH=$driver tools/tenon info \
    >"$scratch/output" 2>&1
then
    skip "a packed tree" "$(tail -n 1 "$scratch/output")"
    done_testing
    exit
fi
case $name in
/*)
    skip "a packed tree" "the build does not lie within the source tree"
    done_testing
    exit
    ;;
esac
TENON_GPU_BUILD=$PWD
export TENON_GPU_BUILD
succeeds "a built tree is packed" \
    sh "$top_srcdir/tests/gpu.sh" -p "$scratch/tree.tar.gz"
note <"$scratch/output"
mkdir "$scratch/elsewhere"
succeeds "and unpacked" \
    tar -xzf "$scratch/tree.tar.gz" -C "$scratch/elsewhere"

# on_sim OPTION...: runs the packed script on the simulated driver
on_sim() {
    unset TENON_PLUGIN_PATH TENON_CACHE_DIR top_srcdir top_builddir
    TENON_GPU_BUILD=$scratch/elsewhere/$name LD_LIBRARY_PATH=$driver \
        sh "$scratch/elsewhere/tests/gpu.sh" -o "$scratch/results" "$@"
}

# result PART: prints the result of the part from the table
result() {
    awk -F ' *[|] *' -v part="$1" '$2 == part { print $3 }' \
        "$scratch/results/results.md"
}

(
    cd "$scratch" || exit
    TENON_TEST_PROGRAMS=4 TENON_TEST_CASES=2 TENON_TEST_FLOAT32=1 \
        on_sim -j 2 device programs memcheck bench
) >"$scratch/output" 2>&1
is_str "$?" 0 "parts run from there, on the simulated driver"
note <"$scratch/output"
is_str "$(result device) $(result programs)" "passed passed" \
    "the table says which passed"
if command -v compute-sanitizer >/dev/null; then
    skip "the sanitizer is left out" "it is there, and looks for a GPU"
else
    is_str "$(result memcheck)" "left out" "and which could not run"
fi
is_str "$(result bench)" "left out" "as nothing is beside PyTorch without a GPU"
is_str "$(grep -c "$scratch/elsewhere/$name/tenon-1/tn_cuda.so" \
    "$scratch/results/device.log")" 1 "the plugin is the one that was unpacked"
(
    cd "$scratch" || exit
    TENON_GPU_SECONDS=1 on_sim golden
) >"$scratch/output" 2>&1
is_str "$?" 1 "a part that takes longer than it may is a failure"
is_str "$(result golden)" "ended after 1 s" "which the table tells"

# Writes a program that acts as a Python with torch if the unpacked script runs
# it.
moved=$scratch/elsewhere/bench
cat >"$scratch/python" <<EOF
#!/bin/sh
[ "\$1" != "$moved/compare.py" ] || echo torch unpacked
EOF
chmod +x "$scratch/python"
is_str "$(TENON_BENCH_FOLDER=$moved TENON_BENCH_PYTHON=$scratch/python \
    bench/compare --quick --only dispatch.add --beside torch 2>&1 |
    grep -c '^PyTorch unpacked')" 1 "compare starts the script that was unpacked"
done_testing
