# PyTorch's own results on every device that this build has: the runner prints
# a line for each operator, layer and training run.
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
    # its lines, numbered through
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
        "$scratch/$device")" 1 "$device: the runner came to its end"
    # The same samples, held against themselves in other layouts: for the cpu
    # that is a test program of its own.
    [ $device = cpu ] && continue
    TENON_DEVICE=$device succeeds "$device: inputs in other layouts" \
        tests/golden/layouts
    sed 's/^/# /' "$scratch/output"
done

# What runs on the host is what host.def and so the manual names: no more, which
# the runner sees to, and no less.
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
is_empty "$(diff "$scratch/named" "$scratch/manual")" "and so does the manual"
done_testing
