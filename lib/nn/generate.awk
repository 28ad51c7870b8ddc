# generate.awk: makes up to three files from layers.def, whose first comment
# describes its rows:
#   header   <tenon/nn_layers.h>
#   source   the rows as a table in C, for layer.c
#   makers   functions for tests/golden that create a layer from PyTorch's
#            arguments
# It makes each file whose path is given, such as -v header=PATH.

function fail(why)
{
    printf "%s:%d: %s\n", FILENAME, FNR, why >"/dev/stderr"
    failed = 1
    exit 1
}

function trim(s)
{
    gsub(/^[ \t]+|[ \t]+$/, "", s)
    return s
}

# Prints text as a C comment in lines of at most 80 columns.
function comment(text, file,    n, i, word, line)
{
    n = split(text, word, " ")
    line = "/*"
    for (i = 1; i <= n; i++) {
        if (length(line " " word[i]) > 77) {
            print line >file
            line = " *"
        }
        line = line " " word[i]
    }
    print line " */" >file
}

BEGIN {
    c_type["int"] = c_type["size"] = c_type["axis"] = "int64_t"
    c_type["dim"] = "int"
    c_type["float"] = "double"
    c_type["bool"] = "bool"
    c_type["string"] = "const char *"
    c_type["tensor"] = "tn_tensor *"
    c_type["dims"] = c_type["pad"] = "tn_dims_list"
    c_type["floats"] = "const double *"
    none["int"] = none["size"] = "TN_NONE_INT"
    none["float"] = "TN_NONE_FLOAT"
    none["tensor"] = none["floats"] = "NULL"
    letter["int"] = "i"; letter["dim"] = "d"; letter["size"] = "s"; letter["axis"] = "a"
    letter["float"] = "f"; letter["dims"] = "l"; letter["pad"] = "p"
    kind["int64_t"] = "TN_OPTION_WHOLE"
    kind["double"] = "TN_OPTION_NUMBER"
    kind["const char *"] = "TN_OPTION_STRING"
    kind["tn_dims_list"] = "TN_OPTION_LIST"
    kind["bool"] = kind["tn_tensor *"] = kind["const double *"] = "TN_OPTION_PLAIN"
}

# ---- reading ---------------------------------------------------------------

/^# ---- / {
    section[count + 1] = substr($0, 8)
    next
}
/^[ \t]*(#|$)/ { next }
$1 == "layer" {
    count++
    name[count] = $2
    text = $0
    sub(/^layer[ ]+[a-z_0-9]+[ ]+/, "", text)
    if (text !~ /^[A-Za-z0-9]+\(.*\)$/)
        fail("write: layer NAME CLASS(ARGUMENTS)")
    class[count] = text
    sub(/\(.*/, "", class[count])
    sub(/^[^(]*\(/, "", text)
    sub(/\)$/, "", text)
    given[count] = text
    sub(/;.*/, "", given[count])
    options[count] = ""
    if (text ~ /;/) {
        options[count] = text
        sub(/^[^;]*;/, "", options[count])
    }
    axes[count] = $2 ~ /[123]d$/ ? substr($2, length($2) - 1, 1) : 0
    if ($2 ~ /^(fold|unfold)$/)
        axes[count] = 2
    next
}
$1 ~ /^(op|run|check|print|golden|doc)$/ {
    key = $1
    text = $0
    sub(/^[a-z]+[ ]+/, "", text)
    row[count, key] = text
    next
}
{ fail("unknown line: " $1) }

# ---- writing ---------------------------------------------------------------

# Splits a list of arguments "name: type = default, ...". Stores the parts of
# argument i in what[i], type[i] and fallback[i]. Returns the number of
# arguments.
function split_arguments(text,    n, i, part, at)
{
    n = trim(text) == "" ? 0 : split(text, part, ",")
    for (i = 1; i <= n; i++) {
        part[i] = trim(part[i])
        at = index(part[i], ":")
        what[i] = substr(part[i], 1, at - 1)
        type[i] = trim(substr(part[i], at + 1))
        fallback[i] = ""
        if (type[i] ~ /=/) {
            fallback[i] = trim(substr(type[i], index(type[i], "=") + 1))
            type[i] = trim(substr(type[i], 1, index(type[i], "=") - 1))
        }
        default_of[i] = ""
        if (sub(/\?$/, "", type[i]))
            fallback[i] = none[type[i]]
        if (!(type[i] in c_type))
            fail("unknown type: " type[i])
        if (fallback[i] ~ /^[a-z_]+$/ && fallback[i] !~ /^(true|false)$/) {
            default_of[i] = fallback[i]
            fallback[i] = none[type[i]]
        }
    }
    return n
}

# Describes the members of the option struct of layer l, list forms included, in
# member_type[1..member_count], member[] and value[] (the default). For a
# default that is another argument, such as stride = kernel_size, adds the rule
# "stride@kernel_size" to defaults_text.
function read_options(l,    n, i)
{
    member_count = 0
    defaults_text = ""
    n = split_arguments(options[l])
    for (i = 1; i <= n; i++) {
        add_member(c_type[type[i]], what[i], fallback[i])
        if (type[i] == "size")
            add_member("tn_dims_list", what[i] "s", "TN_NONE_DIMS")
        if (default_of[i] != "")
            defaults_text = defaults_text " " what[i] "@" default_of[i]
    }
    n = split_arguments(given[l])
    for (i = 1; i <= n; i++)
        if (type[i] == "size")
            add_member("tn_dims_list", what[i] "s", "TN_NONE_DIMS")
}

function add_member(t, m, v)
{
    member_type[++member_count] = t
    member[member_count] = m
    value[member_count] = v
}

function joined(a, b)
{
    return a ~ /\*$/ ? a b : a " " b
}

function prototype(l, n, has_options,    s, i)
{
    s = "tn_module *tn_nn_" name[l] (has_options ? "_with(" : "(")
    for (i = 1; i <= n; i++)
        s = s (i > 1 ? ", " : "") joined(c_type[type[i]], what[i])
    if (has_options)
        s = s (n ? ", " : "") "const tn_nn_" name[l] "_options *options"
    else if (!n)
        s = s "void"
    return s ")"
}

# Prints a declaration, or the head of a function, in lines of at most 80
# columns.
function wrap(text, file,    at, cut)
{
    while (length(text) > 80) {
        cut = 0
        for (at = 1; at <= 80; at++)
            if (substr(text, at, 2) == ", ")
                cut = at
        if (!cut)
            cut = index(text, "(")
        print substr(text, 1, cut) >file
        text = "    " trim(substr(text, cut + 1))
    }
    print text >file
}

function list_macro(l,    key, i, s)
{
    key = ""
    for (i = 1; i <= member_count; i++)
        key = key member_type[i] "," member[i] "," value[i] ";"
    if (key in list_of)
        return list_of[key]
    list_of[key] = "TN_NN_" toupper(name[l]) "_OPTIONS_LIST"
    print "#define " list_of[key] "(X) \\" >header
    for (i = 1; i <= member_count; i++)
        print "    X(" member_type[i] ", " member[i] ", " value[i] ")" \
              (i < member_count ? " \\" : "") >header
    return list_of[key]
}

function write_header(    l, i, n, upper, list, macros, overloads, s)
{
    while ((getline s <head) > 0)
        print s >header
    macros = overloads = ""
    for (l = 1; l <= count; l++) {
        if (l in section) {
            print "" >header
            s = "/* ---- " section[l] " "
            while (length(s) < 76)
                s = s "-"
            print s " */" >header
        }
        read_options(l)
        n = split_arguments(given[l])
        upper = "TN_NN_" toupper(name[l])
        print "" >header
        if (member_count) {
            list = list_macro(l)
            wrap("TN_OPTIONS_STRUCT(tn_nn_" name[l] ", " list ");", header)
            print "#define " upper "_OPTIONS \\" >header
            print "    TN_OPTIONS_DEFAULTS(tn_nn_" name[l] ", \\" >header
            print "                        " list ")" >header
        }
        s = row[l, "doc"]
        if (s ~ /^[a-z]+[ :,]/) # no formula
            s = toupper(substr(s, 1, 1)) substr(s, 2)
        comment(s ". Source: torch.nn." class[l] ".", header)
        wrap("TN_API " prototype(l, n, member_count > 0) ";", header)
        if (!member_count)
            continue
        macros = macros "#define tn_nn_" name[l] "(...) \\\n    TN_CALL_" n \
                 "(tn_nn_" name[l] ", __VA_ARGS__" (n ? ", " : "") ")\n"
        overloads = overloads "TN_OVERLOAD_" n "(tn_module *, tn_nn_" name[l]
        for (i = 1; i <= n; i++)
            overloads = overloads ", " c_type[type[i]]
        overloads = overloads ")\n"
    }
    print "\n#ifndef __cplusplus" >header
    printf "%s", macros >header
    print "#else\n} /* extern \"C\" */" >header
    printf "%s", overloads >header
    print "extern \"C\" {\n#endif\n\n#ifdef __cplusplus\n}\n#endif\n#endif" \
        >header
}

# Writes a table of the options of layer l and of their defaults, unless an
# earlier layer has the same options. Returns the name of the layer whose table
# is to be used.
function option_table(l,    key, i, t)
{
    key = ""
    for (i = 1; i <= member_count; i++)
        key = key member_type[i] "," member[i] "," value[i] ";"
    if (key in table_of)
        return table_of[key]
    table_of[key] = name[l]
    t = "tn_nn_" name[l] "_options"
    print "static const " t " " name[l] "_defaults =" >source
    print "    TN_NN_" toupper(name[l]) "_OPTIONS;" >source
    print "static const tn_option " name[l] "_option[] = {" >source
    for (i = 1; i <= member_count; i++)
        print "    {\"" member[i] "\", offsetof(" t ", " member[i] \
              "), sizeof(" member_type[i] "), " kind[member_type[i]] "}," \
            >source
    print "};" >source
    print "_Static_assert(sizeof(" t ") <= TN__NN_OPTION_BYTES, \"\");" >source
    return name[l]
}

# Returns the offset of a string in the C struct `tn__nn_texts`, to which it adds
# the string at its first use. The struct has several members, because a C
# compiler need not accept a literal of more than 4095 characters.
function place(text)
{
    if (!(text in place_of)) {
        if (!parts || part_bytes[parts] + length(text) + 1 > 4000)
            parts++
        place_of[text] = text_bytes + 0
        text_bytes += length(text) + 1
        part_text[parts] = part_text[parts] \
                           (part_bytes[parts] ? "\\0\"" : "") \
                           "\n     \"" text
        part_bytes[parts] += length(text) + 1
    }
    return place_of[text]
}

# Writes the names of all arguments and options, each once and ended by a NUL.
function write_names(    l, i, n, text, seen)
{
    for (l = 1; l <= count; l++) {
        n = split_arguments(given[l] (options[l] == "" ? "" : \
                            (given[l] == "" ? "" : ", ") options[l]))
        for (i = 1; i <= n; i++)
            if (!(what[i] in seen)) {
                seen[what[i]] = 1
                text = text "\n    \"" what[i] "\\0\""
            }
    }
    print "\nstatic const char all_names[] =" text ";" >source
}

function write_source(    l, i, n, table, names, kinds, call, op, rows, at)
{
    print "/* Made from layers.def by generate.awk. layer_setting.c has the " \
          "strings, layer.c\n * the rest. */\n#ifndef TN__NN_STRINGS" >source
    rows = ""
    for (l = 1; l <= count; l++) {
        read_options(l)
        n = split_arguments(given[l])
        table = member_count ? option_table(l) : ""
        names = kinds = call = ""
        for (i = 1; i <= n; i++) {
            names = names (i > 1 ? ", " : "") what[i]
            kinds = kinds letter[type[i]]
            call = call ", " (type[i] ~ /^(dims|pad)$/ ? "&" : "") what[i]
        }
        if (member_count) {
            print "static const tn_options_type " name[l] "_type = {" >source
            print "    sizeof(tn_options_type), \"nn_" name[l] "\", \"" names \
                  "\"," >source
            print "    &" table "_defaults, sizeof(tn_nn_" name[l] \
                  "_options), " table "_option, " member_count "};" >source
            print "TN_OPTIONS_LISTED(" name[l] "_type);" >source
        }
        at = place("nn_" name[l])
        op = (l, "run") in row ? place("") \
           : (l, "op") in row ? place(row[l, "op"]) : at + 3
        rows = rows "    {" (member_count ? "&" name[l] "_type" : "NULL") \
               ", " ((l, "run") in row ? "tn__nn_" row[l, "run"] : "NULL") \
               ",\n     " at ", " place(class[l]) ", " place(names) ", " \
               place(kinds) ", " place(trim(row[l, "check"] defaults_text)) \
               ", " place(row[l, "print"]) ", " op ", " axes[l] "},\n"
    }
    print "\n#else\nstatic const struct {" >source
    for (i = 1; i <= parts; i++)
        print "    char part" i "[" part_bytes[i] "];" >source
    print "} all_texts = {" >source
    for (i = 1; i <= parts; i++)
        print "    " part_text[i] "\"," >source
    print "};" >source
    print "const char *const tn__nn_texts = (const char *)&all_texts;" >source
    print "_Static_assert(sizeof all_texts < 65536, \"\");" >source
    write_names()
    print "#endif\n\n#ifndef TN__NN_STRINGS" >source
    printf "\nstatic const tn__nn_row rows[] = {\n%s};\n", rows >source
    for (l = 1; l <= count; l++) {
        read_options(l)
        n = split_arguments(given[l])
        call = ""
        for (i = 1; i <= n; i++)
            call = call ", " (type[i] ~ /^(dims|pad)$/ ? "&" : "") what[i]
        print "" >source
        wrap(prototype(l, n, member_count > 0), source)
        print "{" >source
        print "    return make(&rows[" l - 1 "], " \
              (member_count ? "options" : "NULL") call ");" >source
        print "}" >source
    }
    print "#endif" >source
}

# Returns the C expression by which a maker reads argument i of layer l from
# PyTorch's arguments.
function reading(i, l,    torch, n, pair, k)
{
    torch = what[i]
    n = split(row[l, "golden"], pair, " ")
    for (k = 1; k <= n; k++)
        if (index(pair[k], what[i] ":") == 1)
            torch = substr(pair[k], length(what[i]) + 2)
    torch = "args, \"" torch "\""
    if (type[i] == "axis")
        return "axis(args, " axes[l] ", " i - 1 ")"
    if (type[i] == "dim")
        return "(int)whole(" torch ", -1)"
    if (type[i] == "int")
        return "whole(" torch ", " (fallback[i] == "" ? "0" : fallback[i]) ")"
    if (type[i] == "size")
        return "number_only(" torch ", " \
               (fallback[i] == "" ? "TN_NONE_INT" : fallback[i]) ")"
    if (type[i] == "float")
        return "number(" torch ", " \
               (fallback[i] == "" ? "TN_NONE_FLOAT" : fallback[i]) ")"
    if (type[i] == "bool")
        return "truth(" torch ", " fallback[i] ")"
    if (type[i] == "string")
        return "word(" torch ", " fallback[i] ")"
    if (type[i] == "tensor")
        return "ones(" torch ")"
    return "dims(" torch ")"
}

function list_reading(i, l,    s)
{
    s = reading(i, l)
    sub(/^number_only\(/, "list_only(", s)
    sub(/, [^,]*\)$/, ")", s)
    return "." what[i] "s = " s
}

function write_makers(    l, i, n, m, call, lists)
{
    print "/* Made from lib/nn/layers.def by generate.awk. */" >makers
    for (l = 1; l <= count; l++) {
        n = split_arguments(given[l])
        call = lists = ""
        for (i = 1; i <= n; i++) {
            call = call (i > 1 ? ",\n        " : "") reading(i, l)
            if (type[i] == "size")
                lists = lists ",\n        " list_reading(i, l)
        }
        m = split_arguments(options[l])
        for (i = 1; i <= m; i++) {
            if (type[i] == "floats")
                continue # tests/golden has no samples of these layers
            call = call (n || i > 1 ? ",\n        " : "") "." what[i] " = " \
                   reading(i, l)
            if (type[i] == "size")
                lists = lists ",\n        " list_reading(i, l)
        }
        print "static tn_module *make_" name[l] "(const json_t *args)\n{" \
            >makers
        if (!n && !m)
            print "    (void)args;" >makers
        print "    return tn_nn_" name[l] "(\n        " call lists ");\n}" \
            >makers
    }
    print "#define LAYER_ROWS \\" >makers
    for (l = 1; l <= count; l++)
        print "    {\"" class[l] "\", make_" name[l] ", run_row}," \
              (l < count ? " \\" : "") >makers
}

# Reports an error unless each word of the lines `check` and `print` begins with
# the name of an argument of layer l, or is a constant such as mode='mean'.
function check_names(l,    n, i, word, k, known)
{
    n = split_arguments(given[l] (options[l] == "" ? "" : \
        trim(given[l]) == "" ? options[l] : "," options[l]))
    if (n > 8)
        wrong(l, "has more than 8 arguments (TN__NN_PARAMETERS)")
    for (i = 1; i <= n; i++) {
        known[what[i]]
        if (length(what[i]) > 19)
            wrong(l, what[i] " is too long (TN__NN_NAME)")
        if (type[i] == "axis")
            known["output_size"]
        if (what[i] == "output_size")
            known["size"]
    }
    n = split(row[l, "check"] " " row[l, "print"], word, " ")
    for (i = 1; i <= n; i++) {
        k = word[i]
        sub(/^!/, "", k)
        if (k ~ /^[a-z_]+='?[A-Za-z]+'?$/ && k !~ /\|/)
            continue
        sub(/[^a-z_0-9].*/, "", k)
        if (!(k in known))
            wrong(l, word[i] " names no argument")
    }
}

function wrong(l, why)
{
    printf "layers.def: %s: %s\n", name[l], why >"/dev/stderr"
    failed = 1
}

END {
    for (l = 1; l <= count && !failed; l++)
        check_names(l)
    if (failed)
        exit 1
    if (header)
        write_header()
    if (source)
        write_source()
    if (makers)
        write_makers()
}
