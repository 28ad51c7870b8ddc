# nulls.awk: the calls of test_nulls.c, from the public headers.
#
# For each function that TN_API marks and that takes a pointer, a function here
# that calls it with NULL for pointer `at` (all of them for -1) and a plausible
# value for whatever else, PLAUSIBLE_<type>; and a row of a table with the
# names. Types without a plausible value are told by the table. Where bad.h
# knows of the type, BAD_<type> is given instead of NULL, which is that, or an
# object that is gone, or of another kind; a bit in the row says so. A type of
# which bad.h knows neither BAD_<type> nor NO_OBJECT_<type> is an error.

# What stands for a parameter that is given: of this function's, or of its type.
function plausible(fn,   own, type) {
    own = substr(fn, 4) "_" nm
    type = mangle(ty)
    if (!known[own] && !known[type] && !told[type]++)
        print "#error \"test_nulls.c: PLAUSIBLE_" type " is wanted, for " \
            fn "()\""
    return "PLAUSIBLE_" (known[own] ? own : type)
}

# What stands for one that is wrong: NULL where bad.h knows no other. A list
# that is read is const, one that is written is not.
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
        if (ty ~ /_options \*$/) { # stands for the defaults, everywhere
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

# Structs of options stand for the defaults.
function options_found(call, list) {}

FILENAME ~ /\/nulls\// { # the values
    if (match($0, /PLAUSIBLE_[A-Za-z0-9_]+/) && /^#define/)
        known[substr($0, RSTART + 10, RLENGTH - 10)] = 1
    if (match($0, /BAD_[A-Za-z0-9_]+/) && /^#define/)
        wrong[substr($0, RSTART + 4, RLENGTH - 4)] = 1
    if (match($0, /NO_OBJECT_[A-Za-z0-9_]+/) && /^#define/)
        plain[substr($0, RSTART + 10, RLENGTH - 10)] = 1
    next
}
END { print "static const call calls[] = {\n" table "};" }
