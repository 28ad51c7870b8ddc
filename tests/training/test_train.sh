# Kills a run of tn_train in ten steps, and resumes it each time. It must end
# with the same weights and averages, bit for bit, as a run without
# interruption.
. "$top_srcdir/tests/tap.sh"

run=$top_builddir/tests/training/train_run
succeeds "a run without a break" "$run" "$scratch/whole.ckpt" ||
    bail_out "there is nothing to compare with"
want=$(tail -n 1 "$scratch/output")
killed=0
for step in 2 5 9 10 11 17 20 29 31 35; do
    "$run" "$scratch/broken.ckpt" "$step" >"$scratch/output" 2>&1
    [ $? -gt 128 ] && killed=$((killed + 1))
done 2>/dev/null
is_str "$killed" 10 "the run is killed ten times"
succeeds "and resumed a last time" "$run" "$scratch/broken.ckpt"
is_str "$(sed -n 's/^from //p' "$scratch/output" |
    awk '{ print ($1 > 20) }')" 1 "from its last checkpoint"
is_str "$(tail -n 1 "$scratch/output")" "$want" \
    "it ends with the bits of the uninterrupted run"
done_testing
