# Tests tenon-plugin-check: correct plugins must pass, and each fault of the
# plugin tests/plugins/lying must be found, with the right message.
. "$top_srcdir/tests/tap.sh"
unset TENON_LYING_LIE

cd "$top_builddir" || exit 99
kit=tools/tenon-plugin-check lying=.libs/tn_lying.so
for built in $kit tenon-1/tn_cpu.so tenon-1/tn_reference.so $lying; do
    [ -f "$built" ] || bail_out "$built was not built"
done
if nm -D "$kit" | grep -qE '__(asan|tsan)_init'; then
    skip "tenon-plugin-check" "sanitizers print and stand before malloc"
    done_testing
fi

# check ARGUMENT...: runs the kit; sets $status, output in $scratch/out
check() {
    $kit "$@" >"$scratch/out" 2>&1
    status=$?
}

# passes PLUGIN.so NAME ARGUMENT...: passes if the plugin passes all checks
passes() {
    file=$1 name=$2
    shift 2
    check "$@" "$file"
    is_empty "$(grep -v '^ok ' "$scratch/out" |
        grep -vE "^1\.\.[0-9]+$|^tenon-plugin-check [0-9.]+: $name [^ ]+ L2 \(L0 .* on .+$")" \
        "$name passes every check${1+ ($*)}"
    is_str "$status $(tail -n 1 "$scratch/out" | grep -c ' L2 (L0 ')" "0 1" \
        "and its last line says L2"
}
passes tenon-1/tn_reference.so reference
passes tenon-1/tn_cpu.so cpu --programs 1000
passes tenon-1/tn_cpu.so cpu --seed 5000 --mask buffer_map,buffer_wrap
passes $lying lying

# finds LIE CHECK REASON [ARGUMENT...]: the check of this name fails with this
# reason, an extended regular expression.
finds() {
    lie=$1 name=$2 reason=$3
    shift 3
    TENON_LYING_LIE=$lie
    export TENON_LYING_LIE
    check --programs 60 --timeout 20 "$@" $lying
    unset TENON_LYING_LIE
    if [ "$status" = 1 ] &&
        grep -qE "^not ok [0-9]+ - L[012] $name: .*($reason)" "$scratch/out"
    then
        pass "$lie: $name finds it"
    else
        fail "$lie: $name finds it"
        echo "exit status $status, looked for: $reason" | note
        note <"$scratch/out"
    fi
}
finds major "wrong major" "accepts a host of version 2" --level 0
finds slot slots "required slot scan is NULL" --level 0
finds size load "its table has 64 bytes" --level 0
finds locale state "changed the locale" --level 0
finds 'early thread' state "started a thread" --level 0
finds handler "state after use" "changed the handler of signal" --level 1
finds memory "larger than memory" "returns 0, not TN_ERR_MEMORY" --level 1
finds silent "larger than memory" "reports no reason" --level 1
finds copy "copies on the device" "byte [0-9]+ of the destination" --level 1
finds busy "threads with one queue" "computes already" --level 1
finds thread leaks "leaks threads: 8 more" --level 1
finds leak leaks "leaks memory: [0-9]+ blocks" --level 1
finds 'double free' sizes "ended by signal 6" --level 1
finds print leaks 'printed "computing"' --level 1
finds swallow gathers "status 0, not -5"
finds position gathers "index fault at 4 .*, not at 3"
finds stride LOAD "memory of operand 1, element"
finds order sums "memory of operand 1, element"
finds beyond STORE "memory of operand 1|writes [0-9]+ bytes behind"
finds sort sort "differ from the definition in plugin.h"
finds 'conv bias' conv "differ from the definition in plugin.h"
finds 'conv decline' conv "declines \(conv: no mood\), but has written"
finds 'pool index' pool "differ from the definition in plugin.h"
finds 'pool order' pool "differ from the definition in plugin.h"
finds 'conv kind' 'unknown to extensions' "the call returns 0, not -10"
finds reserved 'unknown to extensions' "a table for a reserved name"
finds rounding rounding "changed the floating-point state"
finds abort matmul "ended by signal 6"
finds exit matmul "ended the program with status 0"
finds sleep loops "did not end within 1 s" --only loops --timeout 1

# If the check `devices` fails, no further checks run. The report of a failure
# contains the types and the rule.
TENON_LYING_LIE=types
export TENON_LYING_LIE
check $lying
is_str "$status $(grep -cE '^(not )?ok ' "$scratch/out")" "1 8" \
    "the kit stops when the check devices fails"
is_str "$(grep '^# stopped' "$scratch/out")" \
    "# stopped: without devices no other check is meaningful" \
    "and prints that it stopped"
check --json $lying
is_str "$(sed -n 's/^ *"\(stopped_by.*\)", "summ.*/\1/p
    s/.*"device": "[^"]*", "\(stopped_by": "[a-z]*\)".*/\1/p' "$scratch/out")" \
    'stopped_by": "devices' "and --json says which check stopped it"
unset TENON_LYING_LIE
TENON_LYING_LIE=sort
export TENON_LYING_LIE
check --only sort $lying
is_str "$(sed -n 's/^# plugin.h: //p' "$scratch/out")" "tn_sort_args: a stable \
sort along the last dimension; NaN is greatest, -0 equals +0" \
    "a failure prints the rule"
words='sort with flags [01], in [FBI][0-9A-Z]+ \(.*: element [0-9]+ of'
is_str "$(grep -cE "^not ok 1 - L2 sort: $words" "$scratch/out")" 1 \
    "a failure names the call, the type and the element"
unset TENON_LYING_LIE

# A failure prints the command that repeats it.
TENON_LYING_LIE=position
export TENON_LYING_LIE
check --only 'random programs' $lying
replay=$(sed -n 's/^# replay: tenon-plugin-check//p' "$scratch/out")
first=$(grep '^not ok' "$scratch/out")
eval "$kit $replay" >"$scratch/again" 2>&1
is_str "$(grep '^not ok' "$scratch/again")" "${first:-a failure}" \
    "the printed command repeats the failure"
is_str "$(grep -c '^# operand 0: ' "$scratch/again")" 1 "and prints the program"
unset TENON_LYING_LIE

check --level 0 --json tenon-1/tn_cpu.so
is_str "$status $(grep -c '"result": "passed"' "$scratch/out")" "0 9" \
    "--json reports each check"
is_str "$(tr -d ' \n' <"$scratch/out" | sed 's/.*"level":0,"plugin":/level 0 of /
    s/,"version.*//')" 'level 0 of "cpu"' "and the level that passes"

is_str "$(nm -D --undefined-only $kit | grep -c ' tn_')" 0 \
    "the kit needs no installed libtenon"
check
is_str "$status" 2 "without a plugin it shows its usage"
check --mask matmul tenon-1/tn_cpu.so
is_str "$status" 2 "a required slot cannot be masked"
check --only pool --mask conv,pool tenon-1/tn_cpu.so
is_str "$(sed -n 's/^ok [0-9]* - L2 //p' "$scratch/out")" "pool without conv
pool without pool # SKIP the plugin has no extension pool
pool without conv,pool # SKIP the plugin has no extension pool" \
    "an extension can be masked by its name"
check --only nothing tenon-1/tn_cpu.so
is_str "$status" 2 "an unknown check is named"
check "$scratch/none.so"
is_str "$status" 2 "a file that is not there is named"
check .libs/tn_nosymbol.so
is_str "$status" 1 "a library that is no plugin fails"

done_testing
