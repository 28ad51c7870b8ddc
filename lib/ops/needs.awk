# needs.awk: words about a row that generate.awk prints in the headers and
# operators.awk in the manual. Its functions turn the lines "needs" and "bounds"
# into phrases, and the doc into a sentence.
#
#   needs  norm_type: max_norm     norm_type: with max_norm only
#   needs  dx: !x                  dx: without x only
#   needs  sparse: mode = sum|mean sparse: with mode = sum or mean only
#   bounds lambd: >= 0             lambd: at least 0
#   bounds mode: = sum|mean|max    mode: sum, mean or max

# Return the argument before the colon of a line, and the text after the colon.
function need_option(text)
{
    sub(/[ \t]*:.*/, "", text)
    return text
}
function need_rest(text)
{
    sub(/^[^:]*:[ \t]*/, "", text)
    return text
}
# Returns "sum, mean or max" for "sum|mean|max".
function need_list(words)
{
    if (match(words, /[|][^|]*$/))
        words = substr(words, 1, RSTART - 1) " or " substr(words, RSTART + 1)
    gsub(/[|]/, ", ", words)
    return words
}
function need_words(word, text,    rest)
{
    rest = need_rest(text)
    if (word == "needs") {
        rest = need_list(rest) " only"
        return sub(/^![ \t]*/, "without ", rest) ? rest : "with " rest
    }
    if (sub(/^=[ \t]*/, "", rest))
        return need_list(rest)
    if (!sub(/^>=/, "at least", rest) && !sub(/^<=/, "at most", rest) && \
        !sub(/^!=/, "not", rest))
        sub(/^>/, "above", rest)
    return rest
}
# Returns a row's doc with a capital letter, unless it begins with a formula or
# with the name of an argument. op is the row's signature.
function capitalised(doc, op,    first)
{
    if (!match(doc, /^[a-z]+/))
        return doc
    first = substr(doc, 1, RLENGTH)
    if (substr(doc, RLENGTH + 1) ~ /^([^ ,.]| [-*+\/<>=&|^%])/ || \
        (first != "a" && op ~ "[(,; ]" first "[]?:,; )=]"))
        return doc
    return toupper(substr(doc, 1, 1)) substr(doc, 2)
}
