# Runs each kind of kernel under oclgrind, which detects every access outside of
# a buffer and every race, with the launch layout for CPUs and for GPUs. It must
# report nothing. Kernels are not optimized, since oclgrind 21.10 does not
# support all instructions of LLVM 14. (Its check of uninitialized values does
# not work with that LLVM: it reports every call of fma.) Only Tenon's own
# kernels run, since those of CLBlast 1.5.3 corrupt oclgrind's memory.
. "$top_srcdir/tests/tap.sh"

cd "$top_builddir" || exit 99
driver=
prefix=$(command -v oclgrind)
for folder in "${prefix%/bin/oclgrind}/lib" /usr/lib; do
    [ -f "$folder/oclgrind/liboclgrind-rt-icd.so" ] &&
        driver=$folder/oclgrind/liboclgrind-rt-icd.so
done
if [ -z "$driver" ]; then
    skip "kernels under oclgrind" "oclgrind is not installed"
    done_testing
    exit
fi
for order in chunked grid; do
    : >"$scratch/log"
    succeeds "order $order: each class of kernel has the cpu's bits" \
        env TENON_OPENCL_ORDER=$order TENON_CACHE_DIR=off \
        TENON_OPENCL_MATMUL=own \
        TENON_OPENCL_OPTIONS=-cl-opt-disable OCL_ICD_VENDORS="$driver" \
        OCLGRIND_DATA_RACES=1 OCLGRIND_LOG="$scratch/log" \
        tests/opencl/test_classes
    is_str "$(grep -c '^# Oclgrind' "$scratch/output") $(grep -c SKIP \
        "$scratch/output")" "1 0" "order $order: under oclgrind"
    is_empty "$(cat "$scratch/log")" "order $order: oclgrind reports nothing"
done
done_testing
