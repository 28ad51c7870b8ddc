# Compares the ABI of the build with the baseline in tests/abi. Before version
# 1.0 a difference is printed and is not a failure, since the ABI still changes.
# A baseline that cannot be read is a failure.
. "$top_srcdir/tests/tap.sh"

for tool in abidw abidiff; do
    if ! command -v $tool >/dev/null; then
        skip "the ABI is compared" "$tool is missing (Debian: abigail-tools)"
        done_testing
    fi
done
if ! sh "$top_srcdir/tests/abi/update.sh" "$top_builddir" "$scratch" \
        >"$scratch/output" 2>&1; then
    note <"$scratch/output"
    fail "abidw reads the built libraries"
    done_testing
fi
for file in libtenon.abi plugin.abi; do
    baseline=$top_srcdir/tests/abi/$file
    if ! grep -q '<class-decl' "$scratch/$file"; then
        skip "$file" "built without debug information"
        continue
    fi
    # bits of its status: 1 and 2 an error, 4 a difference, 8 an incompatible
    # one
    abidiff --harmless "$baseline" "$scratch/$file" >"$scratch/report" 2>&1
    status=$?
    echo "# $file:"
    if [ $((status & 12)) = 0 ]; then
        echo "# as in the baseline"
    else
        grep -v '^ *$' "$scratch/report" | head -n 60 | note
    fi
    is_empty "$([ $((status & 3)) = 0 ] || head -n 20 "$scratch/report")" \
        "$file is compared"
    is_empty "$(find "$baseline" -size +2048k)" \
        "$file is no larger than 2 MiB"
done
done_testing
