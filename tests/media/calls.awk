# calls.awk: generates the calls of test_calls.c from the headers of
# libtenon-media: awk -f calls.awk -f ../prototypes.awk FILE...
#
# PENDING_STATUS(fn, call): fn returns a status; the call passes zeros.
# WRONG_KIND(fn, call): fn reads an object of libtenon-media; the call passes
# `wrong` for that object, and zeros otherwise.

function zero(   type) {
    type = ty
    if (type ~ /^function_/)
        return "NULL"
    return "(" type "){0}"
}

function call_found(proto,   args, n, i, fn, ret, list, values, wrong,
                    objects) {
    if (!match(proto, /tn_[a-z0-9_]+ *\(/)) {
        print "#error \"calls.awk: not understood: " proto "\""
        return
    }
    fn = substr(proto, RSTART, RLENGTH - 1)
    ret = trim(substr(proto, 1, RSTART - 1))
    args = substr(proto, RSTART + RLENGTH)
    sub(/\)[^)]*$/, "", args)
    n = split_args(args, list)
    values = wrong = ""
    objects = 0
    for (i = 1; i <= n; i++) {
        take(list[i])
        values = values (i > 1 ? ", " : "") zero()
        if (i == 1 && is_object(ty)) {
            wrong = "wrong"
            objects++
        } else {
            wrong = wrong (i > 1 ? ", " : "") zero()
        }
    }
    if (ret == "tn_status")
        print "PENDING_STATUS(" fn ", " fn "(" values "))"
    if (objects)
        print "WRONG_KIND(" fn ", " fn "(" wrong "))"
}

# Returns whether a pointer is to an object that these headers declare.
function is_object(t) {
    sub(/^const /, "", t)
    sub(/ \*$/, "", t)
    return t ~ /^tn_(npz|torch_file|safetensors_shards|image_folder)$/ ||
        t ~ /^tn_(mean_ap|events|curves)$/
}

# Ignores structs of options: a call passes NULL, which means the defaults.
function options_found(call, list) {}
