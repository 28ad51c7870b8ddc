# needs.awk: what generate.awk (the headers) and operators.awk (the manual) share
# of the words about a row: its lines "needs" and "bounds" as words, and its doc
# as a sentence.
#
#   needs  norm_type: max_norm     norm_type: with max_norm only
#   needs  dx: !x                  dx: without x only
#   needs  sparse: mode = sum|mean sparse: with mode = sum or mean only
#   bounds lambd: >= 0             lambd: at least 0
#   bounds mode: = sum|mean|max    mode: sum, mean or max

# The argument that a line is about, and the rest of it.
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
# "sum, mean or max" of "sum|mean|max".
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
# A row's doc with a capital letter, unless it begins with a formula or with the
# name of an argument of op, the row's signature.
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
