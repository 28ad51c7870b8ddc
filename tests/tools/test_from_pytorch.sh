# Tests the code in docs/from-pytorch.md: every line in its right column must
# compile without a warning and run without an error. In the page, `c functions`
# is a block of code at file scope, `c ready` the declarations that precede each
# row's code, and a row is "| PyTorch | Tenon |", whose code spans are the code,
# with <br> between lines. Code that ends in ; or } is statements, otherwise an
# expression.
. "$top_srcdir/tests/tap.sh"

page=$top_srcdir/docs/from-pytorch.md
library=$top_builddir/.libs/libtenon.so
if [ ! -e "$library" ]; then
    skip "the rows of docs/from-pytorch.md" "no shared library"
    done_testing
elif nm -D "$library" | grep -qE ' __(asan|tsan)_'; then
    skip "the rows of docs/from-pytorch.md" "sanitizers must be linked first"
    done_testing
fi

# Writes rows.c, and rows.txt with lines "number<TAB>line of the
# page<TAB>PyTorch".
awk -v page=docs/from-pytorch.md -v list="$scratch/rows.txt" '
# Returns the code spans of a cell, joined. Between spans there is "<br>" or ",
# ".
function spans(cell,    text, at) {
    text = ""
    while ((at = index(cell, "`")) > 0) {
        cell = substr(cell, at + 1)
        at = index(cell, "`")
        text = text (text == "" ? "" : "\n") substr(cell, 1, at - 1)
        cell = substr(cell, at + 1)
    }
    gsub(/\\\|/, "|", text)
    return text
}
# Splits the line at bars without a backslash before them. Returns the number
# of cells.
function split_row(line,    count, i, c, cell) {
    count = 0
    cell = ""
    for (i = 2; i <= length(line); i++) {
        c = substr(line, i, 1)
        if (c == "|" && substr(line, i - 1, 1) != "\\") {
            cells[++count] = cell
            cell = ""
        } else
            cell = cell c
    }
    return count
}
/^```c functions$/ { block = "functions"; next }
/^```c ready$/ { block = "ready"; next }
/^```/ { block = block == "" ? "other" : ""; next }
block == "functions" { functions = functions $0 "\n" }
block == "ready" { ready = ready "    " $0 "\n" }
block != "" { next }
/^## / { tenon = 0 }
/^\| PyTorch \| Tenon \|$/ { tenon = 1; next }
/^\|---/ { next }
/^\| / && tenon {
    if (split_row($0) != 2) {
        print page ":" NR ": not two cells" > "/dev/stderr"
        exit bad = 1
    }
    code = spans(cells[2])
    if (code == "") {
        print page ":" NR ": no code" > "/dev/stderr"
        exit bad = 1
    }
    name = spans(cells[1])
    if (name == "")
        name = cells[1]
    gsub(/\n/, "; ", name)
    gsub(/^ +| +$/, "", name)
    printf "%d\t%d\t%s\n", ++rows, NR, name > list
    start[rows] = NR
    text[rows] = code ~ /[;}]( *\/\*.*\*\/)?$/ ? code : "(void)(" code ");"
}
END {
    if (bad)
        exit 1
    print "#include <stdio.h>\n#include <stdlib.h>\n#include <tenon/tenon.h>\n"
    print functions
    for (i = 1; i <= rows; i++) {
        print "static void row_" i "(void)\n{\n" ready "    {"
        print "#line " start[i] " \"" page "\""
        print text[i] "\n    }\n}\n"
    }
    print "static void (*const rows[])(void) = {"
    for (i = 1; i <= rows; i++)
        print "    row_" i ","
    print "};"
}' "$page" >"$scratch/rows.c" || {
    fail "the page can be read"
    done_testing
}

# Runs each row in a scope of its own, from the same modes, random numbers and
# device. Writes a line for each row to the file in the argument, with errors
# and objects that the row has left behind.
cat >>"$scratch/rows.c" <<'END'

int main(int argc, char **argv)
{
    FILE *said = argc == 2 ? fopen(argv[1], "w") : NULL;
    if (!said)
        return 2;
    for (int i = 0; i < (int)(sizeof rows / sizeof rows[0]); i++) {
        tn_device_set(NULL);
        tn_manual_seed(1);
        tn_scope *scope = tn_scope_open();
        rows[i]();
        if (!tn_error())
            tn_device_synchronize(NULL);
        fprintf(said, "%s\n", tn_error() ? tn_error() : "");
        fflush(said);
        tn_error_clear();
        tn_scope_close(scope);
        if (tn_error())
            return fprintf(stderr, "closing: %s\n", tn_error()), 1;
    }
    return 0;
}
END

count=$(wc -l <"$scratch/rows.txt")
echo "# $count rows on ${TENON_DEVICE-auto}"
is_str "$(test "$count" -ge 100 || echo "$count")" "" \
    "the page has at least 100 rows"

# A row may declare a variable that it does not use, and a hook may not use its
# arguments.
succeeds "all rows compile as C11 without a warning" \
    ${CC:-cc} -std=gnu11 -Wall -Werror -Wno-unused-variable \
    -Wno-unused-but-set-variable -I"$top_builddir/include" \
    -I"$top_srcdir/include" "$scratch/rows.c" -o "$scratch/rows" \
    -L"$top_builddir/.libs" -ltenon || done_testing

LD_LIBRARY_PATH=$top_builddir/.libs
export LD_LIBRARY_PATH
(cd "$scratch" && ./rows said) >"$scratch/output" 2>&1
is_str "$?" 0 "the program ends as it should"
tab=$(printf '\t')
paste "$scratch/rows.txt" "$scratch/said" >"$scratch/both"
while IFS= read -r row; do
    number=${row%%"$tab"*} rest=${row#*"$tab"}
    line=${rest%%"$tab"*} rest=${rest#*"$tab"}
    name=$(printf '%s' "${rest%%"$tab"*}" | tr '#' ' ')
    message=${rest#*"$tab"}
    if [ "$number" -gt "$(wc -l <"$scratch/said")" ]; then
        message="it did not end"
    fi
    is_empty "$message" "line $line: $name"
done <"$scratch/both"
done_testing
