# embed.awk: converts text files to C source. Run it with LC_ALL=C:
#
#   awk -v list=tn__math_text -v header=kernel/math/mathtext.h -v folder=math/ \
#       -v comment='#' -f embed.awk a.def b.def > out.c
#
# This defines the array tn__math_text[], which the header declares. The array has
# two elements for each file: its path (`folder` and the file's name) and its text.
# Two NULLs end it. `comment` is the character that begins a comment; comments are
# omitted. With comment=C, comments in C's syntax and unnecessary blanks are
# omitted. Texts are arrays of characters, because a C compiler need not accept a
# string literal of more than 4095 characters.
#
# With -v form=text the output is one text, for build-aux/bytes.awk. For each file
# it has a NUL, the file's path, a NUL, and the file's text.

function end_of_file() {
    if (count && form != "text")
        print "    0};"
}

# Returns the line without C comments and without unnecessary blanks: those at its
# ends, all but one of several adjacent blanks, and those around the operators
# below. Preprocessor directives keep the latter, because a blank ends a macro's
# name. Strings lose blanks too; the strings in these texts do not depend on them.
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
