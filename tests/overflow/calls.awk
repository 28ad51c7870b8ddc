# calls.awk: generates the calls of test_calls.c from the public headers.
#
# For each function that TN_API marks and that has a parameter that is a number,
# sizes or options, it writes a function that draws them (VALUE_<type>), passes
# a plausible value for each pointer (PLAUSIBLE_<type>) and uses the result
# (END_<kind>); and a row of a table. Each field of an option struct is drawn
# one time in three. For a type without a value the compiler reports the missing
# macro.

# Returns whether a parameter is the length of an array. A length that exceeds
# the array would be the caller's mistake.
function is_length(name) {
    return name ~ /count$|bytes$|room$/
}

function draws_one(type, name) {
    return "VALUE_" type "(d, \"" name "\", " (is_length(name) ? 1 : 0) ")"
}

function plausible(fn,   own, type) {
    own = substr(fn, 4) "_" nm
    type = mangle(ty)
    return "PLAUSIBLE_" (known[own] ? own : type)
}

function result_kind(ret) {
    return ret == "void" ? "VOID" : ret == "tn_status" ? "STATUS" \
        : ret ~ /\*/ ? "POINTER_" mangle(ret) \
        : ret ~ /^(int|int64_t|bool|size_t|double|tn_dtype)$/ ? "NUMBER" \
        : "VOID"
}

function call_found(proto,   args, n, i, fn, ret, values, list, body, drawn,
                    kind) {
    if (!match(proto, /tn_[a-z0-9_]+ *\(/))
        return
    fn = substr(proto, RSTART, RLENGTH - 1)
    ret = trim(substr(proto, 1, RSTART - 1))
    args = substr(proto, RSTART + RLENGTH)
    sub(/\)[^)]*$/, "", args)
    n = split_args(args, list)
    values = body = ""
    drawn = 0
    for (i = 1; i <= n; i++) {
        if (list[i] == "...")
            return
        values = values (i > 1 ? ", " : "")
        take(list[i])
        if (ty ~ /_options \*$/) {
            type = ty
            sub(/^const /, "", type)
            sub(/^struct /, "", type)
            sub(/ *\*$/, "", type)
            body = body "    " type " a_" nm " = draw_" type "(d);\n"
            values = values "&a_" nm
            drawn++
        } else if (is_pointer(ty)) {
            values = values plausible(fn)
        } else {
            body = body "    " ty " a_" nm " = " draws_one(mangle(ty), nm) \
                ";\n"
            values = values "a_" nm
            drawn++
        }
    }
    if (!drawn || skipped[fn])
        return
    kind = result_kind(ret)
    print "static void call_" fn "(draws *d)\n{\n" body "    BEGIN(" fn ");"
    if (kind == "VOID")
        print "    " fn "(" values ");\n    END_VOID();\n}"
    else if (ret ~ /\*/)
        print "    " ret "result = " fn "(" values ");\n    END_POINTER(" fn \
            ", result);\n    USE_" mangle(ret) "(result);\n}"
    else
        print "    " ret " result = " fn "(" values ");\n    END_" kind \
            "(result);\n}"
    table = table "    {\"" fn "\", call_" fn "},\n"
}

# Writes the rows of a list of options, X(type, name, default), and of the
# lists that it includes.
function emit_rows(list,   text, row, part, type) {
    text = rows[list]
    while (match(text, /[A-Z_0-9]+\([^()]*(\([^()]*\)[^()]*)*\)/)) {
        row = substr(text, RSTART, RLENGTH)
        text = substr(text, RSTART + RLENGTH)
        if (row !~ /^X\(/) {
            sub(/\(.*/, "", row)
            emit_rows(row)
            continue
        }
        sub(/^X\(/, "", row)
        split(row, part, ",")
        type = mangle(part[1])
        if (is_pointer(trim(part[1])) && type != "char_p")
            continue
        print "    if (draw(d, 3) == 0)\n        o." trim(part[2]) " = " \
            draws_one(type, trim(part[2])) ";"
    }
}

function options_found(call, list,   name) {
    name = call
    sub(/^tn_/, "", name)
    print "__attribute__((unused)) static " call "_options draw_" call "_options(draws *d)\n{\n    " \
        call "_options o;\n    tn_options_init(\"" name \
        "\", &o, sizeof o);"
    emit_rows(list)
    print "    (void)d;\n    return o;\n}"
}

FILENAME ~ /\.c$/ { # reads the values, and the functions that are not called
    if (match($0, /PLAUSIBLE_[A-Za-z0-9_]+/) && /^#define/)
        known[substr($0, RSTART + 10, RLENGTH - 10)] = 1
    if (match($0, /SKIPPED\([a-z_0-9]+\)/))
        skipped[substr($0, RSTART + 8, RLENGTH - 9)] = 1
    next
}
END { print "static const call calls[] = {\n" table "};" }
