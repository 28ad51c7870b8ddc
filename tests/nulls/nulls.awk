# nulls.awk: generates the calls of test_nulls.c from the public headers.
#
# For each function that TN_API marks and that has a pointer parameter, it
# writes a function that calls it with NULL for pointer `at` (-1: for all of
# them) and with PLAUSIBLE_<type> for the others, and a row of a table with the
# names. The table lists types without a plausible value. If bad.h defines
# BAD_<type>, that is passed instead of NULL: it is NULL, a dead object, or one
# of another kind; a bit in the row says so. A type for which bad.h defines
# neither BAD_<type> nor NO_OBJECT_<type> is an error.

# Returns the plausible value of a parameter: the value defined for this
# function's parameter if there is one, else that of the parameter's type.
function plausible(fn,   own, type) {
    own = substr(fn, 4) "_" nm
    type = mangle(ty)
    if (!known[own] && !known[type] && !told[type]++)
        print "#error \"test_nulls.c: PLAUSIBLE_" type " is wanted, for " \
            fn "()\""
    return "PLAUSIBLE_" (known[own] ? own : type)
}

# Returns the wrong value of a parameter: NULL if bad.h defines no other. A
# list that is read is const, one that is written is not.
function bad(   type) {
    type = mangle(ty)
    if (ty ~ /\*const \*$/)
        type = type "_list"
    if (type == "void_p")
        type = type "_" nm
    if (type ~ /^tn_.*_p$/ && !wrong[type] && !plain[type] && !told[type]++)
        print "#error \"bad.h: BAD_" type " or NO_OBJECT_" type \
            " is wanted\""
    return wrong[type] ? "BAD_" type : "NULL"
}

function result_kind(ret) {
    return ret == "void" ? "VOID" : ret == "tn_status" ? "STATUS" \
        : ret ~ /\*/ ? "POINTER" : ret == "double" ? "NUMBER" \
        : ret ~ /^(int|int64_t|bool|size_t|tn_dtype)$/ ? "WHOLE" : "STRUCT"
}

function call_found(proto,   args, n, i, fn, ret, pointers, values, names,
                    list, objects) {
    if (!match(proto, /tn_[a-z0-9_]+ *\(/)) {
        if (proto !~ /tenon_plugin_v1/)
            print "#error \"nulls.awk: not understood: " proto "\""
        return
    }
    fn = substr(proto, RSTART, RLENGTH - 1)
    ret = trim(substr(proto, 1, RSTART - 1))
    args = substr(proto, RSTART + RLENGTH)
    sub(/\)[^)]*$/, "", args)
    n = split_args(args, list)
    pointers = objects = 0
    values = names = ""
    for (i = 1; i <= n; i++) {
        values = values (i > 1 ? ", " : "")
        if (list[i] == "...") {
            values = values "NULL"
            continue
        }
        take(list[i])
        if (ty ~ /_options \*$/) { # NULL means the default options, in every
                                   # function
            values = values "NULL"
        } else if (is_pointer(ty)) {
            values = values "NULL_AT(" pointers ") ? " bad() " : " \
                plausible(fn)
            if (bad() != "NULL")
                objects += 2 ^ pointers
            names = names "\"" nm "\", "
            pointers++
        } else {
            values = values plausible(fn)
        }
    }
    if (!pointers)
        return
    print "CALL_" result_kind(ret) "(" fn ", " values ")"
    table = table "    {\"" fn "\", call_" fn ", " pointers ", {" names \
        "NULL}, " objects "},\n"
}

# Ignores structs of options: a call passes NULL, which means the defaults.
function options_found(call, list) {}

FILENAME ~ /\/nulls\// { # reads the plausible values
    if (match($0, /PLAUSIBLE_[A-Za-z0-9_]+/) && /^#define/)
        known[substr($0, RSTART + 10, RLENGTH - 10)] = 1
    if (match($0, /BAD_[A-Za-z0-9_]+/) && /^#define/)
        wrong[substr($0, RSTART + 4, RLENGTH - 4)] = 1
    if (match($0, /NO_OBJECT_[A-Za-z0-9_]+/) && /^#define/)
        plain[substr($0, RSTART + 10, RLENGTH - 10)] = 1
    next
}
END { print "static const call calls[] = {\n" table "};" }
