# Tests the output of generate.awk, which generates the operators' functions,
# for small tables that this script writes.
. "$top_srcdir/tests/tap.sh"

# table ROW...: prints the descriptors that generate.awk makes for a table of
# these lines
table() {
    printf '%s\n' "$@" >"$scratch/rows.def"
    LC_ALL=C ${AWK:-awk} -v header="$scratch/ops.h" -v externs="$scratch/table.h" \
        -v gradients="$scratch/gradients.c" -v source="$scratch/table.c" \
        -f "$top_srcdir/lib/ops/needs.awk" \
        -f "$top_srcdir/lib/ops/generate.awk" "$scratch/rows.def" \
        2>"$scratch/why" && cat "$scratch/table.c"
}

role() { grep -o '\.role = "[^"]*"' | head -n 1; }

is_str "$(table 'op      both(input, other)' 'doc     their product' \
    'kernel  input * other' | role)" '.role = "OO"' \
    "arguments that a kernel names feed it"
is_str "$(table 'op      first(input, other)' 'doc     input' \
    'kernel  input' | role)" '.role = "O-"' \
    "one that nothing names does not: it has no gradient"
is_str "$(table 'op      first(input, other)' 'doc     input' \
    'kernel  input' 'grad    input: g' 'grad    other: none' | role)" \
    '.role = "O-"' "nor one that has none"
is_str "$(table 'op      first(input, other)' 'doc     input' \
    'kernel  input' 'grad    input: g' 'grad    other: 2 * g' | role)" \
    '.role = "OO"' "one that has a gradient feeds the kernel, which ignores it"
is_str "$(table 'op      first(input, other)' 'doc     input' \
    'kernel  input' 'grad    input: g * other' | role)" \
    '.role = "OO"' "and so does one that a gradient names"
table 'op      first(input)' 'doc     input' 'kernel  input' \
    'grad    other: g' >/dev/null
is_str "$(sed 's/.*rows.def:[0-9]*: //' "$scratch/why")" \
    "grad names no argument: other" "a gradient by no argument is refused"

source_of() { grep -o 'Source: torch[^ ]*' "$scratch/ops.h"; }

table 'op      own(input)' 'doc     input' 'kernel  input' >/dev/null
is_str "$(source_of)" "Source: torch.own." "a row serves its own name in PyTorch"
table 'op      own(input)' 'torch   none' 'doc     input' 'kernel  input' \
    >/dev/null
is_str "$(grep -c 'Source: torch' "$scratch/ops.h")" 0 \
    "and its function names no source there"

# Tests requirements on the values of options, in the header and in the manual.
limits="a: with b only
c: without b only
d: with m = sum or mean only
a: above 0
a: not b
c: at least -1
c: at most 1"
table 'op      limited(input; a: float = 1, b?: float, c: int = 0,' \
    '            d: bool = false, m: string = "sum")' 'doc     input' \
    'kernel  input' 'needs   a: b' 'needs   c: !b' \
    'needs   d: m = sum|mean' 'bounds  a: > 0' 'bounds  a: != b' \
    'bounds  c: >= -1' 'bounds  c: <= 1' >/dev/null
is_str "$(sed -n 's/^ \*   \([a-d]: .*\)/\1/p' "$scratch/ops.h")" \
    "$limits" "the header says what options need and what numbers may be"
LC_ALL=C ${AWK:-awk} -f "$top_srcdir/lib/ops/needs.awk" \
    -f "$top_srcdir/build-aux/operators.awk" "$scratch/rows.def" \
    >"$scratch/operators.md"
is_str "$(sed -n 's/^- `\([a-d]\)`\(: .*\)/\1\2/p' "$scratch/operators.md" |
    sort)" "$(echo "$limits" | sort)" "and so does the manual"

# Tests the lines that name the values that gradient functions need.
table 'op      kept(input, other?, last) -> a, b' 'doc     input' \
    'native  kept' 'saves   input: other adds' 'saves   other, last: input out1' \
    >/dev/null
is_str "$(grep -o 'tn__grad_kept, .*' "$scratch/gradients.c")" \
    "tn__grad_kept, {{2 | TN__SAVES_ADDS, 0}, {1, 2}, {1, 2}}}," \
    "lines of saves become bits of inputs and outputs"
table 'op      kept(input) -> a, b' 'doc     input' 'native  kept' \
    'saves   input: out2' >/dev/null
is_str "$(grep -o 'saves: .*' "$scratch/why")" \
    "saves: no tensor and no output: out2" "and an output that is not there fails"

done_testing
