# prototypes.awk: parses the public headers for scripts that generate a test of
# each function: awk -f SCRIPT -f prototypes.awk FILE...
#
# For each function that TN_API marks it calls call_found(proto) with the text
# of the prototype; for each TN_OPTIONS_STRUCT it calls options_found(call,
# list), while rows[list] has the lines of the list of options. split_args() and
# take() split a prototype into parameters. SCRIPT comes first, and ends with
# `next` for lines of files that are not headers.

function trim(s) { gsub(/^[ \t]+|[ \t]+$/, "", s); return s }

function mangle(t,   s) {
    s = t
    gsub(/const|struct /, "", s)
    gsub(/\*/, " p ", s)
    s = trim(s)
    gsub(/[^A-Za-z0-9_]+/, "_", s)
    return s
}

# Splits the parameters at commas outside parentheses.
function split_args(text, out,   i, c, depth, n, at) {
    n = 0; depth = 0; at = ""
    for (i = 1; i <= length(text); i++) {
        c = substr(text, i, 1)
        if (c == "(") depth++
        if (c == ")") depth--
        if (c == "," && !depth) { out[++n] = trim(at); at = "" }
        else at = at c
    }
    if (trim(at) != "" && trim(at) != "void") out[++n] = trim(at)
    return n
}

# Sets ty and nm to the type and the name of a parameter.
function take(arg) {
    if (match(arg, /\(\*[a-z_0-9]*\)/)) {
        nm = substr(arg, RSTART + 2, RLENGTH - 3)
        ty = "function_" nm
        return
    }
    if (match(arg, /\[[A-Z_0-9a-z]*\]$/)) {
        arg = substr(arg, 1, RSTART - 1)
        match(arg, /[A-Za-z_0-9]+$/)
        nm = substr(arg, RSTART)
        ty = trim(substr(arg, 1, RSTART - 1)) " *"
        return
    }
    match(arg, /[A-Za-z_0-9]+$/)
    nm = substr(arg, RSTART)
    ty = trim(substr(arg, 1, RSTART - 1))
}

function is_pointer(t) {
    return t ~ /^function_/ || t ~ /\*/ || t ~ /_(hook|fn|closure|visit)$/
}

FNR == 1 { in_comment = in_list = 0 }
{
    line = $0
    if (line ~ /^#define TN_[A-Z0-9_]+\(X\)/) {
        in_list = 1
        list = line
        sub(/^#define /, "", list)
        sub(/\(X\).*/, "", list)
        sub(/^#define [A-Z0-9_]+\(X\)/, "", line)
    }
    if (in_list) {
        in_list = line ~ /\\$/
        sub(/\\$/, "", line)
        gsub(/\/\*([^*]|\*[^\/])*\*\//, "", line)
        rows[list] = rows[list] " " line
        next
    }
    if (line ~ /^ *#/) next
    gsub(/\/\*([^*]|\*[^\/])*\*\//, "", line)
    if (in_comment) {
        if (line !~ /\*\//) next
        sub(/^.*\*\//, "", line)
        in_comment = 0
    }
    if (line ~ /\/\*/) { sub(/\/\*.*$/, "", line); in_comment = 1 }
    if (line ~ /^TN_OPTIONS_STRUCT\(/) { in_struct = 1; text = "" }
    if (in_struct) {
        text = text line
        if (line ~ /;/) {
            in_struct = 0
            sub(/^TN_OPTIONS_STRUCT\(/, "", text)
            sub(/\).*/, "", text)
            split(text, part, ",")
            options_found(trim(part[1]), trim(part[2]))
        }
        next
    }
    if (line ~ /^TN_API/) { in_proto = 1; text = ""; sub(/^TN_API/, "", line) }
    if (in_proto) {
        text = text " " line
        if (line ~ /;/) {
            sub(/;.*/, "", text)
            sub(/__attribute__.*/, "", text)
            in_proto = 0
            call_found(trim(text))
        }
    }
}
