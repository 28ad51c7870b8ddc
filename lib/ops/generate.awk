# generate.awk: makes C from the operator table.
#
#   awk -v header=ops.h -v source=table.c -v externs=table.h \
#       -v gradients=gradient_table.c -f needs.awk -f generate.awk */*.def
#
# It makes one pass: each row is read, checked, and added to the text of each
# output. END writes the outputs. README.md describes the table.

function fail(text)
{
    printf "%s:%d: %s\n", row_file, row_line, text > "/dev/stderr"
    failed = 1
}
function trim(s)
{
    sub(/^[ \t]+/, "", s)
    sub(/[ \t]+$/, "", s)
    return s
}
function quote(s)
{
    gsub(/\\/, "\\\\", s)
    gsub(/"/, "\\\"", s)
    return "\"" s "\""
}
# Splits s at each `by` that is outside brackets and quotes into part[1..n].
function split_top(s, by, part,    n, i, c, depth, quoted, word)
{
    n = depth = quoted = 0
    word = ""
    for (i = 1; i <= length(s); i++) {
        c = substr(s, i, 1)
        if (c == "\"")
            quoted = !quoted
        if (!quoted && (c == "(" || c == "["))
            depth++
        if (!quoted && (c == ")" || c == "]"))
            depth--
        if (c == by && !depth && !quoted) {
            part[++n] = trim(word)
            word = ""
        } else {
            word = word c
        }
    }
    if (trim(word) != "" || n > 0)
        part[++n] = trim(word)
    return n
}
# Replaces each word g in text.
function replace_g(text, by,    out)
{
    out = ""
    while (match(text, /(^|[^A-Za-z0-9_.])g([^A-Za-z0-9_]|$)/)) {
        if (substr(text, RSTART, 1) != "g")
            RSTART++
        out = out substr(text, 1, RSTART - 1) by
        text = substr(text, RSTART + 1)
    }
    return out text
}
# Returns whether the kernel text mentions this word.
function mentions(text, word)
{
    return (" " text " ") ~ ("[^A-Za-z0-9_.]" word "[^A-Za-z0-9_]")
}
function has_kind(i, kind)
{
    return ("|" kinds[i] "|") ~ ("[|]" kind "[|]")
}

# ---- reading ---------------------------------------------------------------

function finish_line(    word, rest, at, arg)
{
    if (line == "")
        return
    match(line, /^[a-z]+/)
    word = substr(line, 1, RLENGTH)
    rest = trim(substr(line, RLENGTH + 1))
    line = ""
    if (word == "op") {
        finish_row()
        row_file = line_file
        row_line = line_number
        signature = rest
        in_row = 1
        return
    }
    if (!in_row) {
        row_file = line_file
        row_line = line_number
        fail("this line precedes the first op: " word)
        return
    }
    if (word == "grad" || word == "with") {
        at = index(rest, ":")
        if (!at) {
            fail("write: " word " ARGUMENT: TEXT")
            return
        }
        arg = trim(substr(rest, 1, at - 1))
        rest = trim(substr(rest, at + 1))
        if (word == "grad") {
            grad_text[arg] = rest
            grad_names = grad_names " " arg
        } else {
            with_name = arg
            with_text = rest
        }
        return
    }
    if (word == "saves") {
        save_lines[++save_count] = rest
        return
    }
    if (word == "needs" || word == "bounds") {
        need_lines[++need_count] = rest
        need_word[need_count] = word
        return
    }
    if (word !~ /^(torch|doc|kernel|native|composite|rows|rule|select|flags|autocast|named|floats)$/) {
        fail("unknown line: " word)
        return
    }
    if (word in field)
        fail("an operator may have only one line " word)
    field[word] = rest
}

FNR == 1 { finish_line() }
/^[ \t]*(#|$)/ { next }
/^[ \t]/ {
    if (line == "") {
        row_file = FILENAME
        row_line = FNR
        fail("an indented line must follow the line that it continues")
    }
    line = line " " trim($0)
    next
}
{
    finish_line()
    line = trim($0)
    line_file = FILENAME
    line_number = FNR
}

# ---- one operator -----------------------------------------------------------

function parse_argument(i, s,    at)
{
    fallback[i] = ""
    has_fallback[i] = optional[i] = row_input[i] = 0
    kinds[i] = "tensor"
    at = index(s, "=")
    if (at) {
        fallback[i] = trim(substr(s, at + 1))
        has_fallback[i] = 1
        s = trim(substr(s, 1, at - 1))
    }
    at = index(s, ":")
    if (at) {
        kinds[i] = trim(substr(s, at + 1))
        gsub(/ /, "", kinds[i])
        s = trim(substr(s, 1, at - 1))
    }
    if (kinds[i] == "row") {
        kinds[i] = "tensor"
        row_input[i] = 1
    }
    if (s ~ /\?$/) {
        optional[i] = 1
        s = substr(s, 1, length(s) - 1)
    }
    if (s !~ /^[A-Za-z][A-Za-z0-9_]*$/)
        fail("bad name of an argument: " s)
    arg_name[i] = s
    if (("|" kinds[i] "|") !~ /^[|]((tensors?|number|int|float|bool|dims|floats|string|dtype|device)[|])+$/)
        fail("argument " s " has unknown kinds: " kinds[i])
}

function parse_signature(    at, close_at, inside, semi, part, n, i, results)
{
    results = ""
    at = index(signature, "->")
    if (at) {
        results = trim(substr(signature, at + 2))
        signature = trim(substr(signature, 1, at - 1))
    }
    at = index(signature, "(")
    if (!at || signature !~ /\)$/) {
        fail("a signature must be name(arguments), not " signature)
        return 0
    }
    name = trim(substr(signature, 1, at - 1))
    if (name !~ /^[a-z][a-z0-9_]*$/) {
        fail("bad name: " name)
        return 0
    }
    inside = substr(signature, at + 1, length(signature) - at - 1)
    arg_count = positional = 0
    delete part
    semi = split_top(inside, ";", part)
    if (semi > 2)
        fail("a signature may have only one ';'")
    options_text = semi == 2 ? part[2] : ""
    inside = semi ? part[1] : ""
    delete part
    n = split_top(inside, ",", part)
    for (i = 1; i <= n; i++)
        parse_argument(++arg_count, part[i])
    positional = arg_count
    delete part
    n = split_top(options_text, ",", part)
    for (i = 1; i <= n; i++) {
        parse_argument(++arg_count, part[i])
        if (!optional[arg_count] && !has_fallback[arg_count])
            fail("option " arg_name[arg_count] " has no default")
    }
    out_count = 1
    out_name[1] = "out"
    listed = results ~ /\*$/
    if (results != "" && !listed)
        out_count = split_top(results, ",", out_name)
    if (arg_count > 24)
        fail("an operator may have at most 24 arguments")
    return 1
}

function argument_of(arg, line_name,    i)
{
    for (i = 1; i <= arg_count; i++)
        if (arg_name[i] == arg)
            return i
    fail(line_name " names no argument: " arg)
    return 0
}

function reset_row()
{
    delete field
    delete grad_text
    grad_names = with_name = with_text = ""
    need_count = save_count = 0
    in_row = 0
}

function finish_row(    n, sorts, i, parts)
{
    if (!in_row)
        return
    if (!parse_signature()) {
        reset_row()
        return
    }
    sorts = ("kernel" in field) + ("native" in field) + ("composite" in field)
    if (sorts != 1)
        fail(name ": needs one line kernel, native or composite")
    if (!("doc" in field))
        fail(name ": needs a line doc")
    flags = " " field["flags"] " "
    n = split(field["flags"], parts, " ")
    for (i = 1; i <= n; i++)
        if (parts[i] !~ /^(inplace|view|host|nograd|nonempty|floating|widen|inner|mask|means)$/)
            fail(name ": unknown flag: " parts[i])
    if (flags ~ / floating / && !("kernel" in field))
        fail(name ": floating is for kernels; write floats ARG ...")
    if (("floats" in field) && !("composite" in field))
        fail(name ": floats is for composites")
    if (flags ~ / widen / && !("composite" in field))
        fail(name ": widen is for composites")
    if (("autocast" in field) && \
        field["autocast"] !~ /^(lower|f32|f32_not_f16|widest)$/)
        fail(name ": autocast is lower, f32, f32_not_f16 or widest")
    if (seen[name]++)
        fail(name ": an earlier row has this name")
    emit_row()
    if (flags ~ / inplace /) {
        if (!("kernel" in field))
            fail(name ": only kernel rows can be inplace")
        emit_row_inplace = 1
        name = name "_"
        emit_row()
        emit_row_inplace = 0
    }
    if (flags ~ / means /)
        emit_mean()
    reset_row()
}

# Returns a mask with a bit for each argument that must be floating. These are
# the arguments in the line `floats`, or with the flag `floating` all operands
# of a kernel.
function floats_mask(role,    i, n, parts, mask)
{
    mask = 0
    n = split(field["floats"], parts, " ")
    for (i = 1; i <= n; i++)
        mask += 2 ^ (argument_of(parts[i], "floats") - 1)
    for (i = 1; i <= arg_count && flags ~ / floating /; i++)
        if (substr(role, i, 1) == "O")
            mask += 2 ^ (i - 1)
    return mask
}

# Emits the row x_mean after the inner element-wise row x_each. It computes the
# mean of the result of x_each.
function emit_mean(    i)
{
    if (!sub(/_each$/, "_mean", name) || flags !~ / inner /)
        fail(name ": means is for inner rows called _each")
    field["kernel"] = "rmean(" field["kernel"] ")"
    field["doc"] = "the mean of that: " field["doc"]
    for (i in grad_text)
        grad_text[i] = replace_g(grad_text[i], "(g / like(rlen(), g))")
    emit_row()
}

# Returns the lines `saves` as an initializer: which tensors the gradient
# function of the row needs. A port is the number of a tensor argument whose
# gradient is wanted. There is one mask of inputs and outputs for port 0, one
# for port 1, and one for all later ports together.
function saved(    i, k, n, m, at, line_, ports, words, p, bit, inputs, outputs,
               port, text)
{
    p = 0
    for (i = 1; i <= arg_count; i++)
        if (has_kind(i, "tensor") || has_kind(i, "tensors"))
            port[arg_name[i]] = p++
    for (i = 1; i <= save_count; i++) {
        line_ = save_lines[i]
        at = index(line_, ":")
        if (!at) {
            fail(name ": write: saves ARGUMENTS: NAMES")
            return ""
        }
        n = split_top(substr(line_, 1, at - 1), ",", ports)
        m = split(substr(line_, at + 1), words, " ")
        for (k = 1; k <= n; k++) {
            if (!(ports[k] in port)) {
                fail(name ": saves names no tensor argument: " ports[k])
                return ""
            }
            p = port[ports[k]] > 2 ? 2 : port[ports[k]]
            for (at = 1; at <= m; at++) {
                bit = 0
                if (words[at] == "adds" || words[at] == "layout")
                    inputs[p, toupper(words[at])] = 1
                else if (words[at] in port)
                    inputs[p, port[words[at]]] = 1
                else if (words[at] ~ /^out[0-9]$/ && \
                         substr(words[at], 4) < out_count)
                    outputs[p, substr(words[at], 4)] = 1
                else if (words[at] == "out" && out_count == 1)
                    outputs[p, 0] = 1
                else
                    fail(name ": saves: no tensor and no output: " words[at])
            }
        }
    }
    text = ", {"
    for (p = 0; p < 3; p++) {
        n = m = 0
        for (i = 0; i < 6; i++)
            n += ((p, i) in inputs) * 2 ^ i
        for (i = 0; i < 8; i++)
            m += ((p, i) in outputs) * 2 ^ i
        text = text (p ? ", " : "") "{" n \
            ((p, "ADDS") in inputs ? " | TN__SAVES_ADDS" : "") \
            ((p, "LAYOUT") in inputs ? " | TN__SAVES_LAYOUT" : "") ", " m "}"
    }
    return text "}"
}

# ---- arrays that rows share --------------------------------------------------

# Returns the name of an array of this type with these lines as initializers.
# Rows whose arrays are equal share one.
function shared(type, prefix, lines,    key)
{
    key = type SUBSEP lines
    if (!(key in array_name)) {
        array_name[key] = prefix (++array_count)
        array_type[array_count] = type
        array_lines[array_count] = lines
        array_owner[array_count] = array_name[key]
    }
    return array_name[key]
}
# Writes the arrays. One whose lines begin another array is a name for that
# array: callers know how many elements they use.
function write_arrays(    i, k, whole)
{
    for (i = 1; i <= array_count; i++) {
        whole = 0
        for (k = 1; k <= array_count && !whole; k++)
            if (k != i && array_type[k] == array_type[i] && \
                length(array_lines[k]) > length(array_lines[i]) && \
                index(array_lines[k], array_lines[i]) == 1)
                whole = k
        if (whole)
            print "#define " array_owner[i] " " array_owner[whole] > source
        else
            print "static const " array_type[i] " " array_owner[i] "[] = {\n" \
                array_lines[i] "};" > source
    }
}

# ---- values as C -----------------------------------------------------------

function kind_bits(i,    bits, k, n, part)
{
    n = split(kinds[i], part, "|")
    bits = ""
    for (k = 1; k <= n; k++)
        bits = bits (k > 1 ? " | " : "") "1u << TN_VALUE_" toupper(part[k])
    return bits
}

# Returns the default of argument i as an initializer of a tn_value.
function fallback_value(i,    v, n, part, k, list)
{
    v = fallback[i]
    if (!has_fallback[i])
        return "{TN_VALUE_NONE, 0, {.i = 0}}"
    if (v ~ /^"/)
        return "{TN_VALUE_STRING, 0, {.string = " v "}}"
    if (v == "true" || v == "false")
        return "{TN_VALUE_BOOL, 0, {.i = " (v == "true") "}}"
    if (has_kind(i, "dims")) {
        if (v !~ /^-?[0-9]+$/)
            fail(name ": default of " arg_name[i] " is one number")
        if (!(v in dims_seen))
            dims_text = dims_text "static const tn_dims_list dims_" \
                dims_id(v) " = {1, {" v "}};\n"
        dims_seen[v] = 1
        return "{TN_VALUE_DIMS, 0, {.dims = &dims_" dims_id(v) "}}"
    }
    if (v !~ /^-?[0-9.]+(e-?[0-9]+)?$/)
        fail(name ": bad default of " arg_name[i] ": " v)
    if (has_kind(i, "number"))
        return v ~ /^-?[0-9]+$/ ? \
            "{TN_VALUE_NUMBER, TN_SCALAR_INT, {.i = " v "}}" : \
            "{TN_VALUE_NUMBER, TN_SCALAR_FLOAT, {.f = " v "}}"
    if (has_kind(i, "int"))
        return "{TN_VALUE_INT, 0, {.i = " v "}}"
    return "{TN_VALUE_FLOAT, 0, {.f = " v "}}"
}
function dims_id(v)
{
    gsub(/-/, "minus_", v)
    return v
}

# Adds a member to the option struct of the row. `type` and `value`, its
# default, are C text.
function add_option(type, member, value, comment)
{
    option_type[++option_count] = type
    option_member[option_count] = member
    option_default[option_count] = value
    option_comment[option_count] = comment
}
function number_default(i)
{
    return has_fallback[i] ? fallback[i] : "TN_NONE_FLOAT"
}
function add_options(i,    n)
{
    n = arg_name[i]
    if (has_kind(i, "tensor"))
        add_option("tn_tensor *", n, "NULL", "")
    else if (has_kind(i, "dims") && n ~ /s$/)
        add_option("tn_dims_list ", n, "TN_NONE_DIMS", "")
    else if (has_kind(i, "dims")) {
        add_option("int64_t ", n, has_fallback[i] ? fallback[i] : \
            "TN_NONE_INT", n ~ /^dim$/ ? "one dimension" : "of all dimensions")
        add_option("tn_dims_list ", n "s", "TN_NONE_DIMS", \
            n ~ /^dim$/ ? "or several" : "or of each")
        if (has_kind(i, "string"))
            add_option("const char *", n "_rule", "NULL", "or by name")
    } else if (has_kind(i, "floats")) {
        add_option("const double *", n, "NULL", "")
        add_option("int ", n "_count", "0", "how many")
    } else if (has_kind(i, "bool"))
        add_option("bool ", n, fallback[i], "")
    else if (has_kind(i, "string"))
        add_option("const char *", n, has_fallback[i] ? fallback[i] : "NULL", \
            "")
    else if (has_kind(i, "dtype"))
        add_option("tn_dtype ", n, "TN_DTYPE_NONE", "")
    else if (has_kind(i, "device"))
        add_option("tn_device *", n, "NULL", "")
    else if (has_kind(i, "int"))
        add_option("int64_t ", n, has_fallback[i] ? fallback[i] : \
            "TN_NONE_INT", "")
    else
        add_option("double ", n, number_default(i), "")
}
function option_kind(k)
{
    if (option_type[k] ~ /^tn_dims_list/)
        return "TN_OPTION_LIST"
    if (option_type[k] ~ /^const char/)
        return "TN_OPTION_STRING"
    return option_type[k] ~ /^int64_t/ ? "TN_OPTION_WHOLE" : \
        option_type[k] ~ /^double/ ? "TN_OPTION_NUMBER" : "TN_OPTION_PLAIN"
}
# Returns the comment of option k: its default, and a note if it is a list of
# dimensions.
function option_note(k,    value)
{
    value = option_default[k]
    if (value ~ /^TN_|^NULL$/)
        value = "none"
    return value (option_comment[k] == "" ? "" : "; " option_comment[k])
}

# Returns the declaration of an operator's option struct, for C and for C++,
# with its defaults.
function options_struct(    i, k, text, type)
{
    option_count = 0
    for (i = positional + 1; i <= arg_count; i++)
        add_options(i)
    type = "tn_" name "_options"
    text = "typedef struct " type " {\n    const char *given TN_DEFAULT(\"*\");\n" \
        "    size_t size TN_DEFAULT(sizeof(" type "));\n"
    for (k = 1; k <= option_count; k++)
        text = text "    " option_type[k] option_member[k] " TN_DEFAULT(" \
            option_default[k] "); /* " option_note(k) " */\n"
    text = text "} " type ";\n#ifdef __cplusplus\n#define TN_" toupper(name) \
        "_OPTIONS {}\n#else\n#define TN_" toupper(name) "_OPTIONS \\\n    {"
    for (k = 1; k <= option_count; k++)
        text = text "." option_member[k] " = " option_default[k] ", "
    text = text "\\\n     .size = sizeof(" type "), .given = \"*\"}\n#endif\n"
    return text
}

# Returns the descriptors of the options, by which the library checks them. Rows
# with the same options share the defaults and the list of options.
function options_type(    i, k, text, type, arguments, key, list)
{
    type = "tn_" name "_options"
    key = ""
    for (k = 1; k <= option_count; k++)
        key = key option_type[k] option_member[k] "=" option_default[k] ";"
    text = ""
    if (!(key in options_of)) {
        options_of[key] = name
        text = "static const " type " defaults_" name " = TN_" toupper(name) \
            "_OPTIONS;\n"
    }
    list = ""
    for (k = 1; k <= option_count; k++)
        list = list (k > 1 ? ";" : "") option_type[k] option_member[k]
    if (!(list in option_list_of)) {
        option_list_of[list] = name
        text = text "static const tn_option options_" name "[] = {\n"
        for (k = 1; k <= option_count; k++)
            text = text "    {" quote(option_member[k]) ", offsetof(" type ", " \
                option_member[k] "), sizeof(((" type " *)0)->" \
                option_member[k] "), " option_kind(k) "},\n"
        text = text "};\n"
    }
    arguments = ""
    for (i = 1; i <= positional; i++)
        arguments = arguments (i > 1 ? ", " : "") arg_name[i]
    return text "static const tn_options_type type_" name " = {\n" \
        "    sizeof(tn_options_type), NAME(" name "), " quote(arguments) \
        ", &defaults_" options_of[key] ",\n    sizeof(" type "), options_" \
        option_list_of[list] ", " option_count "};\nTN_OPTIONS_LISTED(type_" \
        name ");\n"
}

# Returns an initializer for a line `bounds`: "bounds ARG: >= 0", with >, >=, <=
# or != and a number or an argument, or "bounds ARG: = word|word".
function bound_row(option, rest,    sign, how)
{
    sign = rest
    sub(/[^<>!=].*/, "", sign)
    rest = trim(substr(rest, length(sign) + 1))
    how = sign == ">" ? "ABOVE" : sign == ">=" ? "AT_LEAST" : \
        sign == "<=" ? "AT_MOST" : sign == "!=" ? "OTHER" : ""
    if (sign == "=")
        return "    {" argument_of(option, "bounds") - 1 ", -1, " \
            "TN__NEED_WORD, " quote(rest) ", 0},\n"
    if (how == "")
        fail("bounds must have >, >=, <=, != or =, not " sign)
    return "    {" argument_of(option, "bounds") - 1 ", " \
        (rest ~ /^[a-z]/ ? argument_of(rest, "bounds") - 1 : -1) \
        ", TN__NEED_" how ", NULL, " (rest ~ /^[a-z]/ ? 0 : rest) "},\n"
}

# Returns the initializers for the lines `bounds` and `needs` of a row:
#   needs OPTION: OTHER              OTHER must be given
#   needs OPTION: !OTHER             OTHER must be absent
#   needs OPTION: OTHER = word|word  OTHER must be one of the words
# Bounds come first, so that a misspelt word is reported as such and not as a
# missing option.
function need_rows(    i, at, option, other, how, words, text)
{
    text = ""
    for (i = 1; i <= need_count; i++)
        if (need_word[i] == "bounds")
            text = text bound_row(need_option(need_lines[i]), \
                need_rest(need_lines[i]))
    for (i = 1; i <= need_count; i++) {
        if (need_word[i] == "bounds")
            continue
        option = need_option(need_lines[i])
        other = need_rest(need_lines[i])
        how = "GIVEN"
        words = ""
        if (sub(/^!/, "", other))
            how = "ABSENT"
        if ((at = index(other, "="))) {
            how = "VALUE"
            words = trim(substr(other, at + 1))
            other = trim(substr(other, 1, at - 1))
        }
        text = text "    {" argument_of(option, "needs") - 1 ", " \
            argument_of(other, "needs") - 1 ", TN__NEED_" how ", " \
            (words == "" ? "NULL" : quote(words)) ", 0},\n"
    }
    return text
}

# Returns C code that rejects the option in a line "named ARG: what to call from
# C". Only calls by name can use it, because it changes the number of outputs.
function refuse_named(    at, arg)
{
    if (!("named" in field))
        return ""
    at = index(field["named"], ":")
    arg = trim(substr(field["named"], 1, at - 1))
    argument_of(arg, "named")
    return "    if (o_->" arg ")\n        return tn__fail_null(" \
        "TN_ERR_UNSUPPORTED, \"" name ": ." arg ": tn_" name " returns one " \
        "tensor; call " trim(substr(field["named"], at + 1)) "\");\n"
}

# Returns a C expression for the tn_value of option i, read from the struct that
# o_ points to.
function option_value(i,    n, make)
{
    n = arg_name[i]
    if (has_kind(i, "tensor"))
        return "tn__value_optional(o_->" n ")"
    if (has_kind(i, "dims") && n ~ /s$/)
        return "tn__value_axes(TN_NONE_INT, &o_->" n ", &" n "_one_)"
    if (has_kind(i, "dims")) {
        make = "tn__value_axes(o_->" n ", &o_->" n "s, &" n "_one_)"
        if (has_kind(i, "string"))
            make = "o_->" n "_rule ? tn__value_string(o_->" n "_rule) : " make
        return make
    }
    if (has_kind(i, "floats"))
        return "tn__value_floats(o_->" n ", o_->" n "_count)"
    if (has_kind(i, "bool") || has_kind(i, "string") || \
        has_kind(i, "dtype") || has_kind(i, "device"))
        return "tn__value_" kinds[i] "(o_->" n ")"
    if (has_kind(i, "number"))
        return "tn__value_number_of(o_->" n ")"
    return "tn__value_" (has_fallback[i] ? "" : "optional_") kinds[i] \
        "(o_->" n ")"
}

# Returns the declaration of positional argument i as a parameter of the C
# function.
function parameter(i, number)
{
    if (number)
        return "tn_scalar " arg_name[i]
    if (has_kind(i, "tensors"))
        return "tn_tensor *const *" arg_name[i] ", int " arg_name[i] "_count"
    if (has_kind(i, "floats"))
        return "const double *" arg_name[i] ", int " arg_name[i] "_count"
    if (has_kind(i, "tensor"))
        return "tn_tensor *" arg_name[i]
    if (has_kind(i, "dims"))
        return "tn_dims_list " arg_name[i]
    if (has_kind(i, "int"))
        return "int64_t " arg_name[i]
    if (has_kind(i, "float"))
        return "double " arg_name[i]
    if (has_kind(i, "bool"))
        return "bool " arg_name[i]
    if (has_kind(i, "string"))
        return "const char *" arg_name[i]
    if (has_kind(i, "dtype"))
        return "tn_dtype " arg_name[i]
    if (has_kind(i, "device"))
        return "tn_device *" arg_name[i]
    fail(name ": no C parameter for " arg_name[i])
}
function parameter_value(i, number)
{
    if (number)
        return "tn__value_number(" arg_name[i] ")"
    if (has_kind(i, "tensors"))
        return "tn__value_tensors(" arg_name[i] ", " arg_name[i] "_count)"
    if (has_kind(i, "floats"))
        return "tn__value_floats(" arg_name[i] ", " arg_name[i] "_count)"
    if (has_kind(i, "tensor"))
        return (optional[i] ? "tn__value_optional(" : "tn__value_tensor(") \
            arg_name[i] ")"
    if (has_kind(i, "dims"))
        return "tn__value_dims(&" arg_name[i] ")"
    if (has_kind(i, "int"))
        return "tn__value_int(" arg_name[i] ")"
    return "tn__value_" kinds[i] "(" arg_name[i] ")"
}

# ---- the functions of a row --------------------------------------------------

# Returns the name of the C function for one choice of tensors and numbers. Bit
# k of `choice` is set if the k-th argument of kinds tensor|number is a number.
function function_name(choice, both,    base)
{
    base = name
    sub(/_$/, "", base)
    if (choice == 0)
        return name
    return base (choice == 3 ? "_scalars" : both == 2 && choice == 1 ? \
        "_scalar_first" : "_scalar") (emit_row_inplace ? "_" : "")
}

# Returns the function that runs an operator whose n arguments are tensors or
# numbers, if there is one for these (call.c), else "".
function short_run(n,    i, kinds_)
{
    kinds_ = ""
    for (i = 1; i <= n; i++)
        kinds_ = kinds_ (is_number[i] ? "number " : \
            kinds[i] ~ /tensor/ && kinds[i] !~ /tensors/ && !optional[i] ? \
            "tensor " : "other ")
    return kinds_ == "tensor " ? "tn__op_run_unary" : \
        kinds_ == "tensor tensor " ? "tn__op_run_binary" : \
        kinds_ == "tensor number " ? "tn__op_run_number" : \
        kinds_ == "number tensor " ? "tn__op_run_number_first" : ""
}

function emit_function(choice, both,    cname, i, k, number, list, call, plain, \
                       macro, has_options, cpp, numbers, returns, run)
{
    cname = "tn_" function_name(choice, both)
    has_options = arg_count > positional
    list = call = macro = cpp = numbers = ""
    k = 0
    for (i = 1; i <= positional; i++) {
        number = kinds[i] == "number"
        if (kinds[i] == "tensor|number" || kinds[i] == "number|tensor")
            number = int(choice / (k++ ? 2 : 1)) % 2
        is_number[i] = number
        list = list (i > 1 ? ", " : "") parameter(i, number)
        call = call (i > 1 ? ", " : "") arg_name[i]
        macro = macro (i > 1 ? ", " : "") \
            (number ? "tn_num(" arg_name[i] ")" : arg_name[i])
        cpp = cpp (i > 1 ? ", " : "") \
            (number ? "Number" i " " arg_name[i] : parameter(i, 0))
        if (kinds[i] == "tensors" || kinds[i] == "floats") {
            call = call ", " arg_name[i] "_count"
            macro = macro ", " arg_name[i] "_count"
        }
        if (number)
            numbers = numbers (numbers == "" ? "" : ", ") "typename Number" i
    }
    if (listed) {
        list = list ", tn_tensor **out, int room"
        call = call ", out, room"
        macro = macro ", out, room"
        cpp = cpp ", tn_tensor **out, int room"
    }
    returns = listed ? "int " : "tn_tensor *"
    for (i = 2; i <= out_count; i++) {
        list = list ", tn_tensor **out_" out_name[i]
        call = call ", out_" out_name[i]
        macro = macro ", out_" out_name[i]
        cpp = cpp ", tn_tensor **out_" out_name[i]
    }
    plain = cname
    if (has_options && !sub(/_$/, "_with_", plain))
        plain = plain "_with"
    # the declaration and the macros
    h = h "TN_API " returns plain "(" (list == "" ? "void" : list) \
        (has_options ? ", const tn_" options_name "_options *options" : "") \
        ");\n"
    if (has_options) {
        c_macros = c_macros "#define " cname "(...) " \
            "TN__WITH_" toupper(function_name(choice, both)) \
            "(__VA_ARGS__, )\n" \
            "#define TN__WITH_" toupper(function_name(choice, both)) "(" call \
            ", ...) \\\n    " plain "(" macro ", TN__OPTIONS(tn_" \
            options_name "_options, __VA_ARGS__))\n"
        cpp_functions = cpp_functions (numbers == "" ? "" : \
            "template <" numbers ">\n") "inline " returns cname "(" cpp \
            ", tn_" options_name "_options options = {})\n{\n" \
            "    return " plain "(" macro ", &options);\n}\n"
    } else if (numbers != "") {
        c_macros = c_macros "#define " cname "(" call ") " cname "(" macro ")\n"
        cpp_functions = cpp_functions "template <" numbers ">\n" \
            "inline " returns cname "(" cpp ")\n{\n    return " cname "(" \
            macro ");\n}\n"
    }
    # the definition
    run = has_options || listed || out_count > 1 ? "" : short_run(positional)
    if (run != "") {
        c = c "\n" returns "(" plain ")(" list ")\n{\n    return " run "(" \
            call ", &tn__op_table[" id "]);\n}\n"
        return
    }
    c = c "\n" returns "(" plain ")(" (list == "" ? "void" : list) \
        (has_options ? ",\n    const tn_" options_name "_options *options" : "") \
        ")\n{\n"
    if (has_options)
        c = c "    tn_" options_name "_options room_;\n" \
            "    const tn_" options_name "_options *o_ = " \
            "tn__options_of(&type_" options_name ", options, &room_);\n" \
            "    if (!o_)\n        return " \
            (listed ? "TN_ERR_ARGUMENT" : "NULL") ";\n" refuse_named()
    for (i = positional + 1; i <= arg_count; i++)
        if (has_kind(i, "dims"))
            c = c "    tn_dims_list " arg_name[i] "_one_;\n"
    c = c "    const tn_value value_[] = {\n"
    for (i = 1; i <= arg_count; i++)
        c = c "        " (i <= positional ? parameter_value(i, is_number[i]) : \
            option_value(i)) ",\n"
    c = c "    };\n"
    if (listed) {
        c = c "    return tn__op_run(&tn__op_table[" id "], value_, " \
            arg_count ", out, room);\n}\n"
    } else if (out_count > 1) {
        c = c "    tn_tensor **const others_[] = {"
        for (i = 2; i <= out_count; i++)
            c = c (i > 2 ? ", " : "") "out_" out_name[i]
        c = c "};\n    return tn__op_run_outputs(&tn__op_table[" id "], value_, " \
            arg_count ", others_, " (out_count - 1) ");\n}\n"
    } else {
        c = c "    return tn__op_run1(&tn__op_table[" id "], value_, " \
            arg_count ");\n}\n"
    }
}

# Breaks the text into lines that start with `first` and then with `next_lines`.
function wrap(text, first, next_lines,    words, n, i, line_text, out)
{
    n = split(text, words, " ")
    line_text = first
    out = ""
    for (i = 1; i <= n; i++) {
        if (length(line_text) + length(words[i]) + 1 > 77 && \
            line_text != first && line_text != next_lines) {
            out = out line_text "\n"
            line_text = next_lines
        }
        line_text = line_text (line_text ~ / $/ ? "" : " ") words[i]
    }
    return out line_text
}
function torch_names()
{
    if (("torch" in field) && field["torch"] == "none")
        return ""
    if (emit_row_inplace)
        return name
    return ("torch" in field) ? field["torch"] : name
}
function sentence(    text)
{
    text = capitalised(field["doc"], signature)
    if (emit_row_inplace)
        text = text ". The result is written into input"
    return text "."
}
function doc_comment(    text, i, first_torch, parts)
{
    text = wrap(sentence(), "/* ", " * ") "\n"
    for (i = 1; i <= positional; i++) {
        if (kinds[i] == "tensor" && !optional[i])
            continue
        text = text wrap(arg_name[i] ": " describe(i) \
            (has_fallback[i] ? ", default " fallback[i] : "") \
            (optional[i] ? ", may be NULL" : ""), " *   ", " *     ") "\n"
    }
    for (i = 1; i <= need_count; i++)
        text = text wrap(need_option(need_lines[i]) ": " \
            need_words(need_word[i], need_lines[i]), " *   ", " *     ") "\n"
    if (listed)
        text = text wrap("returns the number of outputs, which are written into " \
            "out (of size room), or a negative status", " *   ", " *     ") "\n"
    if (!split(torch_names(), parts, " "))
        return text " * PyTorch has no such function. */\n"
    return text " * Source: torch." (emit_row_inplace ? "Tensor." : "") \
        parts[1] ". */\n"
}
function describe(i,    text)
{
    text = kinds[i]
    gsub(/\|/, " or ", text)
    return text
}

# ---- emitting one operator ---------------------------------------------------

function emit_row(    i, k, both, choice, rare, role, extra, text, n, parts, \
                      rows, keepdim, tensor_count, leading, sort_name, run, \
                      body, grads, g, any_grad, with_arg, differentiable, \
                      numbers, last_choice)
{
    id = row_count++
    h = c = c_macros = cpp_functions = ""
    options_name = name
    sub(/_$/, "", options_name)
    body = ("kernel" in field) ? field["kernel"] : ""
    text = body " " with_text

    # The enum of argument numbers and the prototype of a C function.
    if (!emit_row_inplace) {
        extern_text = extern_text "enum {"
        for (i = 1; i <= arg_count; i++)
            extern_text = extern_text (i > 1 ? ", " : " ") \
                "TN__ARG_" toupper(name) "_" toupper(arg_name[i]) " = " (i - 1)
        extern_text = extern_text (arg_count ? " };\n" : \
            " TN__ARG_" toupper(name) "_NONE };\n")
    }
    run = "tn__run_kernel"
    if ("native" in field)
        run = "tn__run_" field["native"]
    if ("composite" in field)
        run = "tn__run_" field["composite"]
    if ("rule" in field)
        run = "tn__run_" field["rule"]
    if ("select" in field)
        run = "tn__select_" field["select"]
    if (run != "tn__run_kernel" && !declared[run]++)
        extern_text = extern_text "tn_status " run "(tn__call *call);\n"
    extern_ids = extern_ids "    TN__OP_ID_" toupper(name) " = " id ",\n"

    # The descriptors of the row.
    tensor_count = 0
    leading = 1
    c_args = c_fall = ""
    for (i = 1; i <= arg_count; i++) {
        if (leading && has_kind(i, "tensor") && !optional[i] && \
            i <= positional)
            tensor_count++
        else
            leading = 0
        c_args = c_args "    {" quote(arg_name[i]) ", " kind_bits(i) ", " \
            (optional[i] ? "true" : "false") ", " \
            (i > positional ? "true" : "false") ", sizeof(tn_op_arg), " \
            (has_fallback[i] ? quote(fallback[i]) : "NULL") "},\n"
        c_fall = c_fall "    " fallback_value(i) ",\n"
    }
    any_grad = 0
    grads = ""
    n = split(grad_names, parts, " ")
    for (i = 1; i <= n; i++)
        if (!argument_of(parts[i], "grad"))
            return
    for (i = 1; i <= arg_count; i++) {
        g = arg_name[i] in grad_text
        any_grad += g
        if (g)
            text = text " " grad_text[arg_name[i]] \
                (grad_text[arg_name[i]] == "none" ? "" : " " arg_name[i])
        grads = grads "    " (g ? quote(grad_text[arg_name[i]]) : "NULL") ",\n"
    }
    # An argument that only a gradient names is an input of the kernel too,
    # since only inputs have gradients.
    role = ""
    for (i = 1; i <= arg_count; i++) {
        if (body == "" || !mentions(text, arg_name[i]))
            k = "-"
        else if (has_kind(i, "tensor"))
            k = "O"
        else if (has_kind(i, "dtype"))
            k = "T"
        else
            k = "P"
        role = role k
    }
    extra = (mentions(text, "element") ? " | TN__READS_ELEMENT" : "") \
        (mentions(text, "position") ? " | TN__READS_POSITION" : "") \
        (mentions(text, "seed") ? " | TN__READS_SEED" : "")
    row_inputs = 0
    for (i = 1; i <= arg_count; i++)
        row_inputs += row_input[i] * 2 ^ (i - 1)
    rows = keepdim = with_arg = -1
    if ("rows" in field)
        rows = argument_of(field["rows"], "rows") - 1
    for (i = 1; i <= arg_count; i++)
        if (arg_name[i] == "keepdim")
            keepdim = i - 1
    if (with_name != "")
        with_arg = argument_of(with_name, "with") - 1
    sort_name = ("kernel" in field) ? "KERNEL" : \
        ("native" in field) ? "NATIVE" : "COMPOSITE"
    differentiable = flags ~ / nograd / ? "false" : "true"
    mask = 0
    if (flags ~ / mask /)
        for (i = 1; i <= arg_count; i++)
            if (arg_name[i] ~ /^(mask|condition)$/)
                mask = i
    if (flags ~ / mask / && !mask)
        fail(name ": no argument is called mask or condition")
    rare = (need_count ? "\n        .need = " shared("tn__op_need", "needs_", \
            need_rows()) "," : "") \
        (flags ~ / host / ? "\n        .host = " run "," : "") \
        (with_name == "" ? "" : "\n        .with = " quote(with_text) ",") \
        (any_grad ? "\n        .grad = " shared("char *const", "grads_", \
            grads) "," : "") \
        (row_inputs ? "\n        .row_inputs = " row_inputs "," : "")
    if (!(rare in rare_number)) {
        rare_number[rare] = ++rare_count
        rares = rares "    {" (rare == "" ? "0" : rare) "},\n"
    }
    rows_text = rows_text "    {\n        .id = " id \
        ", .sort = TN__OP_" sort_name \
        (emit_row_inplace ? ", .inplace = true" : "") \
        (flags ~ / view / ? ", .view = true" : "") \
        (("rule" in field) && field["rule"] == "create" ? \
            ", .creates = true" : "") ", .differentiable = " differentiable \
        (flags ~ / nonempty / ? ", .nonempty = true" : "") \
        (flags ~ / widen / ? ", .widen = true" : "") \
        (flags ~ / inner / ? ", .inner = true" : "") \
        ",\n        .floats = " floats_mask(role) ", .mask = " mask \
        (("autocast" in field) ? ", .autocast = TN__AUTOCAST_" \
            toupper(field["autocast"]) : "") \
        (need_count ? ", .need_count = " need_count : "") \
        ",\n        .name = NAME(" name "),\n        .doc = " \
        quote(emit_row_inplace ? \
            "The operator without _. The result is written into input." : sentence()) \
        ",\n        .arg_count = " arg_count \
        ", .tensor_count = " tensor_count \
        (arg_count ? ", .arg = " shared("tn_op_arg", "args_", c_args) \
            ", .fallback = " shared("tn_value", "values_", c_fall) : "") \
        ",\n        .run = " (flags ~ / host / ? "tn__run_host_row" : run) \
        (body == "" ? "" : ",\n        .kernel = " quote(body)) \
        ",\n        .role = " quote(role) \
        (extra == "" ? "" : ", .extra = " substr(extra, 4)) \
        ", .with_arg = " with_arg ", .rows = " rows ", .keepdim = " keepdim \
        ",\n        .rare = &rare[" rare_number[rare] - 1 "], .cache = &cache[" id "],\n    },\n"

    # The names by which programs find the row: PyTorch's names and the C name.
    n = split(torch_names() " " name, parts, " ")
    delete own
    for (i = 1; i <= n; i++)
        if (!(parts[i] in own)) {
            own[parts[i]] = 1
            # under its own C name, an operator comes before others
            names[++name_count] = parts[i] " " \
                sprintf("%d%05d", parts[i] != name, id)
        }

    # The gradient function in autograd.
    if (differentiable == "true" && !any_grad && \
        (("native" in field) || ("rule" in field))) {
        gradient_externs = gradient_externs "TN__GRADIENT(tn__grad_" name ");\n"
        gradient_rows = gradient_rows "    {tn__grad_" name saved() "},\n"
    } else {
        if (save_count)
            fail(name ": saves is for rows with a gradient function")
        gradient_rows = gradient_rows "    {NULL, {{0, 0}, {0, 0}, {0, 0}}}, /* " name " */\n"
    }

    # The C functions: one for each choice of tensor or number.
    if (flags ~ / inner /)
        return
    both = numbers = 0
    for (i = 1; i <= positional; i++)
        if (kinds[i] == "tensor|number" || kinds[i] == "number|tensor")
            both++
        else if (has_kind(i, "tensor"))
            numbers++
    if (both > 2)
        fail(name ": more than two arguments of kinds tensor|number")
    if (arg_count > positional && !emit_row_inplace) {
        h = h options_struct()
        types_text = types_text options_type()
    }
    last_choice = both == 2 ? 3 : both
    for (choice = 0; choice <= last_choice; choice++) {
        # At least one argument must be a tensor, and so must an input that is
        # written in place.
        if (both == 2 && choice == 3 && !numbers)
            continue
        if (both == 2 && choice == 1 && emit_row_inplace)
            continue
        emit_function(choice, both)
    }
    header_text = header_text "\n" doc_comment() h
    if (c_macros != "")
        header_text = header_text "#ifndef __cplusplus\n" c_macros \
            "#else\n} /* extern \"C\" */\n" cpp_functions \
            "extern \"C\" {\n#endif\n"
    functions = functions c
}

# ---- writing --------------------------------------------------------------------

END {
    finish_line()
    finish_row()
    if (failed || !row_count) {
        if (!row_count)
            print "generate.awk: no rows" > "/dev/stderr"
        exit 1
    }
    made = "Made by lib/ops/generate.awk from the operator table."

    print "/* <tenon/ops.h>: the operators, named as in PyTorch.\n" \
        " * " made "\n *\n" \
        " * Each function returns a new tensor, which the open scope owns, or NULL with\n" \
        " * the error recorded. If an argument that must be given is NULL, it returns\n" \
        " * NULL. Options follow the arguments, by name: tn_sum(x, .dim = 0,\n" \
        " * .keepdim = true). An option \"with max_norm only\" is an error without\n" \
        " * max_norm, unless its value is the default. A name that ends in _scalar takes\n" \
        " * a C number. A name that ends in _ writes the result into the first input.\n" \
        " *\n" \
        " * Threads: Any thread may call any of them, several at once, on tensors shared\n" \
        " * as <tenon/tensor.h> says. Modes (recording, autocast), the current device and\n" \
        " * random numbers are the calling thread's. */\n" \
        "#ifndef TENON_OPS_H\n#define TENON_OPS_H\n\n#include <tenon/op.h>\n\n" \
        "#ifdef __cplusplus\nextern \"C\" {\n#endif" > header
    print header_text > header
    print "#ifdef __cplusplus\n}\n#endif\n#endif" > header
    close(header)

    print "/* " made " */\n#ifndef TN_LIB_OPS_TABLE_H\n" \
        "#define TN_LIB_OPS_TABLE_H\n\n#include <ops/engine/ops.h>\n" > externs
    print "enum {\n" extern_ids "    TN__OP_COUNT = " row_count "\n};\n" \
        "extern const tn_op tn__op_table[TN__OP_COUNT];\n\n" \
        "/* The names of operators, sorted, each with its rows in order. */\n" \
        "typedef struct tn__op_alias {\n    uint16_t name; /* its offset in the names */\n" \
        "    uint16_t id;\n" \
        "} tn__op_alias;\nextern const tn__op_alias tn__op_aliases[];\n" \
        "extern const int tn__op_alias_count;\n" \
        "const char *tn__op_alias_name(int i);\n" > externs
    print "/* The numbers of arguments, and the C functions of rows. */\n" \
        extern_text "\n#endif" > externs
    close(externs)

    print "/* " made " */\n#include <base/error.h>\n#include <base/options.h>\n#include <ops/engine/define.h>\n#include <ops/table.h>\n" \
        "#include <tenon/ops.h>\n\n" \
        "static struct tn__op_cache cache[TN__OP_COUNT];" > source
    sort_names()
    write_names()
    print dims_text > source
    write_arrays()
    print types_text "\nstatic const tn__op_rare rare[] = {\n" rares "};\n" \
        "const tn_op tn__op_table[TN__OP_COUNT] = {\n" rows_text "};\n" > source
    print functions > source
    close(source)

    print "/* " made " */\n#include <autograd/autograd.h>\n" > gradients
    print gradient_externs > gradients
    print "const tn__gradient_row tn__gradient_table[] = {\n" gradient_rows \
        "};\nconst int tn__gradient_table_count = " row_count ";" > gradients
    close(gradients)
}

# Sorts by bytes (the rule sets LC_ALL=C), like strcmp. The blank after a name
# sorts before all characters of names.
function sort_names(    i, j, word)
{
    for (i = 2; i <= name_count; i++) {
        word = names[i]
        for (j = i - 1; j >= 1 && names[j] > word; j--)
            names[j + 1] = names[j]
        names[j + 1] = word
    }
}

# Writes all names one after the other, and the aliases, which refer to a name
# by its offset.
function write_names(    i, part, last, member, members, texts, aliases)
{
    last = ""
    for (i = 1; i <= name_count; i++) {
        split(names[i], part, " ")
        if (part[1] != last) {
            member = "n_" part[1]
            gsub(/[.]/, "__", member)
            members = members "    char " member "[sizeof " quote(part[1]) \
                "];\n"
            texts = texts "    " quote(part[1]) ",\n"
        }
        last = part[1]
        aliases = aliases "    {offsetof(struct names, " member "), " \
            (substr(part[2], 2) + 0) "},\n"
    }
    print "static const struct names {\n" members "} name = {\n" texts "};\n" \
        "#define NAME(op) name.n_##op\n" \
        "const tn__op_alias tn__op_aliases[] = {\n" aliases "};\n" \
        "const int tn__op_alias_count = " name_count ";\n" \
        "const char *tn__op_alias_name(int i)\n{\n" \
        "    return (const char *)&name + tn__op_aliases[i].name;\n}\n" > source
}
