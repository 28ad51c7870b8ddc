# Compares the results of the cpu and the reference plugin with PyTorch's
# samples (tests/golden). The runner prints a line for each operator, layer and
# training run. opencl/test_samples.sh does so for OpenCL.
. "$top_srcdir/tests/tap.sh"

cd "$top_builddir" || exit 99
if ! [ -x tests/golden/run ]; then
    skip "reference samples" "jansson was not there when configure ran; the programs of tests/golden and tests/trace are not built"
    done_testing
fi
for device in cpu reference; do
    TENON_DEVICE=$device tests/golden/run tests/golden/samples \
        >"$scratch/$device" 2>&1
    echo "status $?" >>"$scratch/$device"
    # prints the lines of the runner with new numbers
    awk -v device=$device -v n="$tap_count" '
        /^(not )?ok / {
            line = $0
            sub(/ok [0-9]* - /, "ok " ++n " - " device ": ", line)
            print line
            next
        }
        /^Bail out/ { print; next }
        /^status/ { next }
        /^1\.\./ { next }
        { print "# " $0 }' "$scratch/$device"
    tap_count=$((tap_count + $(grep -cE '^(not )?ok ' "$scratch/$device")))
    tap_failed=$((tap_failed + $(grep -c '^not ok ' "$scratch/$device")))
    is_str "$(grep -cE '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$' \
        "$scratch/$device")" 1 "$device: the runner finished"
    # Every sample in a compiled function has the bits of a call without. The
    # reference plugin takes two minutes for all.
    every=1
    [ $device = reference ] && [ -z "$TENON_TEST_LONG" ] && every=12
    TENON_DEVICE=$device succeeds \
        "$device: compiled functions have the bits of eager calls" \
        tests/golden/run -c $every tests/golden/samples/ops \
        tests/golden/samples/layers tests/golden/samples/modules \
        tests/golden/samples/training
    tail -n 10 "$scratch/output" | sed 's/^/# /'
    # The same samples with inputs in other layouts. For the cpu,
    # tests/golden/layouts is a test of its own.
    [ $device = cpu ] && continue
    TENON_DEVICE=$device succeeds "$device: inputs in other layouts" \
        tests/golden/layouts
    sed 's/^/# /' "$scratch/output"
done

# Every layer that modules.txt lists must have a sample, except containers and
# layers whose results are random in every mode (tests/nn/test_layers).
sed -n 's/^\([A-Za-z0-9]*\) tn_nn_.*/\1/p' "$top_srcdir/tests/golden/modules.txt" |
    grep -vxE 'Sequential|Module(List|Dict)|ParameterList|Identity|FractionalMaxPool[23]d' |
    sort >"$scratch/named"
sed -n 's/^ok [0-9]* - \([A-Z][A-Za-z0-9]*\)_[0-9]*: 1 passed.*/\1/p' \
    "$scratch/cpu" | sort -u >"$scratch/ran"
is_empty "$(comm -23 "$scratch/named" "$scratch/ran")" \
    "$(wc -l <"$scratch/named") layers have samples"

# The manual must list exactly the operators of host.def as operators that run
# on the host. (The runner checks that no other operator runs there.)
sed -n 's/^HOST("\(.*\)")$/\1/p' "$top_srcdir/tests/golden/host.def" |
    sort >"$scratch/named"
for device in cpu reference; do
    sed -n 's/^# \(.*\): [0-9]* runs on the host$/\1/p' "$scratch/$device" |
        sort >"$scratch/ran"
    is_empty "$(diff "$scratch/named" "$scratch/ran")" \
        "$device: host.def names the $(wc -l <"$scratch/ran") operators that run on the host"
done
manual=docs/operators.md
[ -f $manual ] || manual=$top_srcdir/$manual
sed -n '/^## On the host/,/^## /s/^- `\(.*\)`$/\1/p' $manual | sort >"$scratch/manual"
is_empty "$(diff "$scratch/named" "$scratch/manual")" "the manual lists the same operators"
done_testing
