# bytes.awk: converts a gzip file, as the numbers that od prints, to C source:
#
#   gzip -9nc texts | od -An -v -tu1 |
#       awk -v name=tn__source_texts -v header=source/device_text.h -f bytes.awk
#
# This defines name_packed[] and name_packed_bytes, and for the unpacked text the buffer
# name_unpacked[] and name_unpacked_bytes. Its size is in the last four bytes.

BEGIN {
    print "/* Made by build-aux/bytes.awk: change the texts. */"
    print "#include <" header ">"
    print "\nconst unsigned char " name "_packed[] = {"
}

{
    line = "   "
    for (i = 1; i <= NF; i++) {
        line = line " " $i ","
        last[count++ % 4] = $i
    }
    print line
}

END {
    for (i = 3; i >= 0; i--)
        bytes = bytes * 256 + last[(count + i) % 4]
    print "};"
    print "const size_t " name "_packed_bytes = " count ";"
    print "char " name "_unpacked[" bytes + 1 "];"
    print "const size_t " name "_unpacked_bytes = " bytes ";"
}
