# Counts the instructions and memory accesses of the CUDA plugin's kernels
# without a GPU (bench/sass.py). No count may exceed that in bench/sass.json by
# more than 5 %, and a count that does must be found. To accept other counts:
# bench/sass.py --update bench/sass.json
. "$top_srcdir/tests/tap.sh"

cd "$top_builddir" || exit 99
python=${TENON_BENCH_PYTHON:-python3}

counted() {
    "$python" "$top_srcdir/bench/sass.py" "$@" >"$scratch/output" 2>&1
}

if [ ! -x bench/sass_cases ]; then
    skip "counts of CUDA kernels" "built without CUDA"
    done_testing
elif ! "$python" -c "" 2>/dev/null; then
    skip "counts of CUDA kernels" "no python3"
    done_testing
fi

# The two largest training steps take as long as all other cases together. They
# are counted by hand, not here.
counted --check "$top_srcdir/bench/sass.json" \
    --without "step of GPT-2" --without "step of ResNet-50"
status=$?
if grep '^skipped: ' "$scratch/output" >"$scratch/why"; then
    skip "counts of CUDA kernels" "$(sed 's/^skipped: //' "$scratch/why")"
    done_testing
fi
is_empty "$([ $status = 0 ] || cat "$scratch/output")" \
    "no count of a CUDA kernel is 5 % worse"

sed 's/"instructions": 1/"instructions": /' "$top_srcdir/bench/sass.json" \
    >"$scratch/less.json"
counted --check "$scratch/less.json" clone
is_str "$?" 1 "a worse count is found"
is_str "$(grep -c '^clone: instructions' "$scratch/output")" 1 "and named"
done_testing
