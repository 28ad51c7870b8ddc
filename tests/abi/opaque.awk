# opaque.awk: filters abidw's output: structs that no public header defines
# become declarations without fields. Programs only have pointers to them, so
# their fields are not part of the ABI.
#
#     awk -v public='|tn_batch|tn_value|' -f opaque.awk
function attribute(name,    text)
{
    if (!match($0, " " name "='[^']*'"))
        return ""
    text = substr($0, RSTART, RLENGTH)
    sub(/^[^']*'/, "", text)
    sub(/'$/, "", text)
    return text
}
depth {
    depth += gsub(/<class-decl [^>]*[^\/]>/, "&") - gsub(/<\/class-decl>/, "&")
    next
}
/^ *<class-decl name='tn_[^']*' size-in-bits/ &&
index(public, "|" attribute("name") "|") == 0 {
    if ($0 !~ /\/>$/)
        depth = 1
    match($0, /^ */)
    indent = substr($0, 1, RLENGTH)
    print indent "<class-decl name='" attribute("name") \
        "' is-struct='yes' visibility='default' is-declaration-only='yes'" \
        " id='" attribute("id") "'/>"
    next
}
{ print }
