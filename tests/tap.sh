# tap.sh: the checks of tap.h for tests in sh. A test sources this file, with
# top_srcdir and top_builddir set.
#
#   . "$top_srcdir/tests/tap.sh"
#   is_empty "$(grep ...)" "no file prints"     each line of text is a failure
#   succeeds "the program runs" ./program -x    shows its output if it fails
#   done_testing
#
# $scratch is an empty folder for the test. It is removed when the test ends.

: "${top_srcdir:?run me by make check}" "${top_builddir:?run me by make check}"
tap_count=0 tap_failed=0
scratch=$(mktemp -d "${TMPDIR:-/tmp}/tenon-test.XXXXXX") || exit 99
trap 'rm -rf "$scratch"' EXIT
trap 'exit 99' HUP INT TERM

# note: prints its standard input as lines of explanation
note() { sed 's/^/# /'; }

pass() {
    tap_count=$((tap_count + 1))
    echo "ok $tap_count - $1"
}

# fail NAME: reports a failed check. Also prints the line of the script, if the
# script contains the description verbatim. (dash has no line numbers.)
fail() {
    tap_count=$((tap_count + 1)) tap_failed=$((tap_failed + 1))
    echo "not ok $tap_count - $1"
    tap_line=$(grep -nF -m 1 -e "\"$1\"" "$top_srcdir/tests/${0##*tests/}")
    echo "#   at tests/${0##*tests/}${tap_line:+:${tap_line%%:*}}"
}

# skip NAME WHY: reports a check that cannot run, and the reason
skip() {
    tap_count=$((tap_count + 1))
    echo "ok $tap_count - $1 # SKIP $2"
}

# is_empty TEXT NAME: passes if TEXT is empty, and prints TEXT otherwise
is_empty() {
    if [ -z "$1" ]; then
        pass "$2"
    else
        fail "$2"
        printf '%s\n' "$1" | note
    fi
}

# is_str GOT WANT NAME: passes if two texts are equal
is_str() {
    if [ "$1" = "$2" ]; then
        pass "$3"
    else
        fail "$3"
        printf 'got  %s\nwant %s\n' "$1" "$2" | note
    fi
}

# succeeds NAME COMMAND...: passes if the command succeeds. Leaves the command's
# output in $scratch/output.
succeeds() {
    tap_name=$1
    shift
    if "$@" >"$scratch/output" 2>&1; then
        pass "$tap_name"
    else
        fail "$tap_name"
        printf '%s\n' "$*" | note
        note <"$scratch/output"
        return 1
    fi
}

# bail_out WHY: ends the test, because later checks would be meaningless
bail_out() {
    echo "Bail out! $1"
    exit 99
}

done_testing() {
    echo "1..$tap_count"
    [ "$tap_failed" = 0 ]
    exit
}
