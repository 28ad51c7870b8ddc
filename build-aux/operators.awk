# operators.awk: writes the operator reference, docs/operators.md. Its input is the
# list of operators with wider tolerances, the list of operators that run on the
# host, and the operator table:
#
#   awk -f needs.awk -f operators.awk \
#       tests/golden/looser.def tests/golden/host.def lib/ops/*/*.def

function trim(s)
{
    sub(/^[ \t]+/, "", s)
    sub(/[ \t]+$/, "", s)
    return s
}
BEGIN {
    autocast["lower"] = "in the half type"
    autocast["f32"] = "in float32"
    autocast["f32_not_f16"] = "in float32; an error with autocast to float16"
    autocast["widest"] = "in the widest dtype of its tensors"
}
# Formats the row that was read, and appends the text to that of its family, or to
# that of the inner operators.
function finish(    name, text, names, n, i, wider)
{
    if (line["op"] == "")
        return
    name = line["op"]
    sub(/\(.*/, "", name)
    text = "### " name "\n\n`" line["op"] "`\n\n"
    text = text capitalised(line["doc"], line["op"]) ".\n\n"
    if (line["torch"] != "" && line["torch"] != name)
        text = text "- PyTorch: " list(line["torch"]) "\n"
    if (line["kernel"] != "")
        text = text "- kernel: `" line["kernel"] "`" \
            (line["rows"] != "" ? ", rows along `" line["rows"] "`" : "") "\n"
    if (line["with"] != "")
        text = text "- with " line["with"] "\n"
    if (line["native"] != "")
        text = text "- implementation: C, with the primitives of the device\n"
    if (line["composite"] != "")
        text = text "- implementation: composed of other operators\n"
    text = text needs("bounds") needs("needs")
    text = text "- gradient: " gradient() "\n"
    if (line["autocast"] != "")
        text = text "- autocast: " autocast[line["autocast"]] "\n"
    if (has("inplace"))
        text = text "- in place: `" name "_`\n"
    if (has("view"))
        text = text "- view: shares the memory of its input\n"
    if (has("host"))
        text = text "- **host**: runs in the core on a copy in host memory, unless the device has the extension `lapack`\n"
    names = line["torch"] == "" ? name : line["torch"]
    n = split(names, word, " ")
    for (i = 1; i <= n; i++)
        if (word[i] in looser)
            wider = wider looser[word[i]]
    text = text "- tolerance: " \
        (wider == "" ? "that of its dtype" : "wider: " substr(wider, 3)) "\n\n"
    if (has("inner")) {
        inner = inner "- `" line["op"] "`: " line["doc"] "\n"
        inner_count++
    } else {
        family[families] = family[families] text
        count++
    }
    split("", line)
    last = ""
}
# Returns the row's lines that begin with the word `key`, as items of a list.
function needs(key,    text, n, i, part)
{
    n = split(line[key], part, "; ")
    for (i = 1; i <= n; i++)
        text = text "- `" need_option(part[i]) "`: " \
            need_words(key, part[i]) "\n"
    return text
}
function has(flag)
{
    return (" " line["flags"] " ") ~ (" " flag " ")
}
function list(names)
{
    gsub(/ /, "`, `", names)
    return "`" names "`"
}
function gradient()
{
    if (has("nograd"))
        return "none"
    if (line["grad"] != "")
        return line["grad"]
    if (line["kernel"] != "")
        return "derived from the kernel"
    if (line["composite"] != "")
        return "that of the operators it is composed of"
    return "a rule in C (lib/autograd)"
}

# Reads one call LOOSER("names" "more names", dtype, relative, absolute, reason),
# which may have several lines.
function wider(text,    names, rest, part, name, n, i)
{
    sub(/^LOOSER\(/, "", text)
    while (match(text, /^ *"[^"]*"/)) {
        names = names substr(text, RSTART, RLENGTH)
        text = substr(text, RLENGTH + 1)
    }
    gsub(/"/, "", names)
    split(text, part, /, */)
    n = split(names, name, " ")
    for (i = 1; i <= n; i++)
        looser[name[i]] = looser[name[i]] "; " tolower(substr(part[2], 4)) \
            ": relative " part[3] ", absolute " part[4]
}
FILENAME ~ /looser\.def$/ {
    if (/^[A-Z]/)
        entry = ""
    entry = entry " " trim($0)
    if (/\)$/ && trim(entry) ~ /^LOOSER/)
        wider(trim(entry))
    next
}
FILENAME ~ /host\.def$/ {
    if (/^HOST/) {
        split($0, part, "\"")
        host = host "- `" part[2] "`\n"
    }
    next
}
FNR == 1 {
    finish()
    title[++families] = FILENAME
    sub(/.*\//, "", title[families])
    sub(/\.def$/, "", title[families])
    opening = 1
}
/^#/ {
    if (opening)
        intro[families] = intro[families] trim(substr($0, 2)) "\n"
    next
}
{ opening = 0 }
/^[ \t]*$/ { next }
/^[a-z]/ {
    key = $1
    value = trim(substr($0, length(key) + 1))
    if (key == "op")
        finish()
    line[key] = line[key] == "" ? value : line[key] "; " value
    last = key
    next
}
{ line[last] = line[last] " " trim($0) }

END {
    finish()
    print "# Operators\n"
    print "Made from `lib/ops/*/*.def` at build time: " count " operators in " \
        families " families, and " inner_count " inner operators that they" \
        " use.\n\n" \
        "A signature shows the arguments with their kinds and defaults. An" \
        " argument without a\nkind is a tensor, and `?` marks one that may be" \
        " absent. Arguments after `;` are options:\nfields of the option" \
        " struct in C. An option \"with max_norm only\" is an error without\n" \
        "max_norm, unless its value is the default.\n\n" \
        "[kernel-language.md](kernel-language.md) explains the kernel" \
        " language. In gradients, `g` is\nthe gradient of the output and" \
        " `out` the output. The tolerance is that of the comparison\nwith" \
        " results of PyTorch (tests/golden). tests/golden/looser.def has the" \
        " reason of each wider\none.\n"
    for (i = 1; i <= families; i++)
        print "- [" title[i] "](#" title[i] ")"
    print "- [on the host](#on-the-host)\n- [inner rows](#inner-rows)\n"
    for (i = 1; i <= families; i++)
        printf "## %s\n\n%s\n%s", title[i], intro[i], family[i]
    print "## On the host\n\nPyTorch's names of the operators that run in the" \
        " core on a copy in host memory, as a\nwhole or in part, on any device" \
        " without the extension `lapack`: those marked **host** and\nthose" \
        " composed of them. For all others `tn_host_runs()` stays 0.\n\n" host
    print "## Inner rows\n\nParts of the operators above. Their names appear" \
        " in traces and messages. They have no C\nfunction.\n\n" inner
}
