# programs.sh: functions that test_programs.sh and test_larger_programs.sh
# share. They source it after tap.sh.

programs=$top_builddir/examples/programs
digits=$top_srcdir/data/digits.csv.gz
text=$top_srcdir/docs/kernel-language.md # any text will do
cd "$scratch" || exit 99

# Removes the times, which differ from run to run.
without_times() {
    sed -e 's/([0-9.]* s[^)]*)//' -e 's/\(cache: \)[0-9.]* s/\1/' "$1"
}

# runs NAME [ARGUMENT ...]: runs a program on the cpu, and again in one thread,
# and stores its output in $scratch/NAME
runs() {
    name=$1
    TENON_DEVICE=cpu succeeds "$name runs" "$programs/$@"
    mv "$scratch/output" "$scratch/$name"
    TENON_DEVICE=cpu TENON_NUM_THREADS=1 "$programs/$@" \
        >"$scratch/again" 2>&1
    is_str "$(without_times "$scratch/again")" \
        "$(without_times "$scratch/$name")" "$name prints the same again"
}

# prints NAME PATTERN: passes if a line of the output of NAME matches
prints() {
    if grep -Eq "$2" "$scratch/$1"; then
        pass "$1 prints $2"
    else
        fail "$1 prints $2"
        note <"$scratch/$1"
    fi
}

# below NAME WORDS LIMIT: passes if the number after the last WORDS in the
# output of NAME is at most LIMIT; above: if it is at least LIMIT
number_after() {
    sed -n "s/.*$2 \([-+0-9.e]*\).*/\1/p" "$scratch/$1" | tail -n 1
}
below() {
    number=$(number_after "$1" "$2")
    is_empty "$(awk -v number="$number" -v limit="$3" 'BEGIN {
        if (number == "" || number + 0 > limit) print "is " number }')" \
        "$1: $2 is at most $3"
}
above() {
    number=$(number_after "$1" "$2")
    is_empty "$(awk -v number="$number" -v limit="$3" 'BEGIN {
        if (number == "" || number + 0 < limit) print "is " number }')" \
        "$1: $2 is at least $3"
}
