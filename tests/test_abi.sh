# How the ABI of what was built differs from the baseline in tests/abi. It is
# reported, as comments, and fails nothing before version 1.0: until then the
# ABI changes. What fails is a baseline that cannot be read.
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
    fail "abidw reads what was built"
    done_testing
fi
for file in libtenon.abi plugin.abi; do
    baseline=$top_srcdir/tests/abi/$file
    if ! grep -q '<class-decl' "$scratch/$file"; then
        skip "$file" "built without debug information"
        continue
    fi
    # bits of its status: 1 and 2 an error, 4 a difference, 8 an incompatible one
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
        "$file is no larger than a repository bears"
done
done_testing
