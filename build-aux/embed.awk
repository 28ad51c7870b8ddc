# embed.awk: text files as C. Run with LC_ALL=C:
#
#   awk -v list=tn__math_text -v header=kernel/math/mathtext.h -v folder=math/ \
#       -v comment='#' -f embed.awk a.def b.def > out.c
#
# gives tn__math_text[], which the header declares: a list of a file's name
# (behind the folder's) and its text, ended by two NULL. Comments, from the
# character to the line's end, are left out; with comment=C those of C, and with
# them blanks that say nothing. Characters, not a string: compilers
# need not take a string longer than 4095 characters.
#
# With -v form=text the result is not C but one text, for build-aux/bytes.awk:
# for each file a NUL, its name, a NUL and its text.

function end_of_file() {
    if (count && form != "text")
        print "    0};"
}

# The line without comments of C, blanks at its ends and all but one of those
# that stand together; none around these operators, but in directives, where one
# may end a macro's name. No string of the texts minds.
function squeezed(line,    out, at) {
    out = ""
    while (line != "") {
        if (in_comment) {
            at = index(line, "*/")
            line = at ? substr(line, at + 2) : ""
            in_comment = !at
        } else {
            at = index(line, "/*")
            out = out (at ? substr(line, 1, at - 1) " " : line)
            line = at ? substr(line, at + 2) : ""
            in_comment = at > 0
        }
    }
    gsub(/[ \t]+/, " ", out)
    sub(/^ /, "", out)
    sub(/ $/, "", out)
    gsub(/, /, ",", out)
    if (out !~ /^#/) {
        gsub(/ = /, "=", out)
        gsub(/ \+ /, "+", out)
        gsub(/ \* /, "*", out)
        gsub(/ < /, "<", out)
        gsub(/ \? /, "?", out)
        gsub(/ : /, ":", out)
        gsub(/; /, ";", out)
        gsub(/ \{/, "{", out)
    }
    return out
}

FNR == 1 {
    end_of_file()
    name = FILENAME
    sub(/^.*\//, "", name)
    names[++count] = name
    if (form == "text")
        printf "%c%s%c", 0, folder name, 0
    else if (count == 1) {
        print "/* Made by build-aux/embed.awk: change the texts. */"
        print "#include <" header ">"
    }
    if (form != "text")
        print "\nstatic const char text_" count "[] = {"
}

{
    if (comment == "C") {
        $0 = squeezed($0)
        if ($0 == "")
            next
    } else if (comment != "")
        sub("[ \t]*" comment ".*$", "")
    if (form == "text") {
        print
        next
    }
    line = "   "
    for (i = 1; i <= length($0); i++) {
        c = substr($0, i, 1)
        if (c == "\t")
            c = " "
        line = line " '" (c == "'" || c == "\\" ? "\\" c : c) "',"
        if (length(line) > 70) {
            print line
            line = "   "
        }
    }
    print line " '\\n',"
}

END {
    end_of_file()
    if (form == "text")
        exit
    print "\nconst char *const " list "[] = {"
    for (i = 1; i <= count; i++)
        print "    \"" folder names[i] "\", text_" i ","
    print "    0, 0};"
}
