# Kills a training run at twenty random steps, and resumes it each time from its
# last checkpoint. It must end with the same bits as an uninterrupted run. The
# last checkpoint holds weights, optimizer, loader, schedule and random state;
# its bytes are compared. TENON_TEST_SEED chooses other steps.
. "$top_srcdir/tests/tap.sh"

resume=$top_builddir/tests/training/resume
seed=${TENON_TEST_SEED:-$$}
echo "# TENON_TEST_SEED=$seed"

succeeds "a run without a break" "$resume" "$scratch/whole.ckpt" ||
    bail_out "there is nothing to compare with"
want=$(tail -n 1 "$scratch/output")
steps=$(sed -n 's/^steps 0 to //p' "$scratch/output")
succeeds "a second run" "$resume" "$scratch/again.ckpt"
is_str "$(tail -n 1 "$scratch/output")" "$want" "gives the same bits"

# Twenty rising steps, so that the run makes progress between kills.
awk -v seed="$seed" -v steps="$steps" 'BEGIN {
    srand(seed)
    for (i = 0; i < 20; i++) print int(rand() * steps)
}' </dev/null | sort -n >"$scratch/fatal"
echo "# killed in steps" $(cat "$scratch/fatal")
killed=0
while read -r step; do
    "$resume" "$scratch/broken.ckpt" "$step" >"$scratch/output" 2>&1
    [ $? -gt 128 ] && killed=$((killed + 1))
done <"$scratch/fatal" 2>/dev/null
is_str "$killed" 20 "the run is killed twenty times"
succeeds "and resumed a last time" "$resume" "$scratch/broken.ckpt"
first=$(sed -n 's/^steps \([0-9]*\) to .*/\1/p' "$scratch/output")
[ "${first:-0}" -gt 0 ] && pass "from where it was, not from the start" ||
    fail "from where it was, not from the start"
is_str "$(tail -n 1 "$scratch/output")" "$want" \
    "it ends with the bits of the uninterrupted run"
is_empty "$(find "$scratch" -name '*.tmp*')" "no half-written file is left"

done_testing
