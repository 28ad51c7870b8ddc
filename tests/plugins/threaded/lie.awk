# lie.awk: puts one deliberate fault of lies.txt into one source file. In these
# tests a fault is called a "lie".
#
#   awk -v lie=NAME -v file=NAME.c -f lie.awk lies.txt NAME.c
#
# Prints the changed file. Exit status 1: lines that the fault replaces are
# missing or occur more than once. Exit status 3: the fault does not change
# this file.
function stripped(line)
{
    sub(/^[ \t]+/, "", line)
    return line
}
FNR == 1 { files++ }
files == 1 {
    if ($1 == "lie")
        is_here = $2 == lie
    else if (is_here && $1 == "@") {
        is_in = $2 == file
        hunks += is_in
    } else if (is_here && is_in && /^-/)
        old[hunks, ++olds[hunks]] = stripped(substr($0, 2))
    else if (is_here && is_in && /^\+/)
        new[hunks, ++news[hunks]] = substr($0, 2)
    next
}
{ source[++lines] = $0 }
END {
    if (!hunks)
        exit 3
    for (h = 1; h <= hunks; h++) {
        found = 0
        for (i = 1; i <= lines; i++) {
            for (k = 1; k <= olds[h]; k++)
                if (stripped(source[i + k - 1]) != old[h, k])
                    break
            if (k > olds[h]) {
                found++
                at = i
            }
        }
        if (found != 1) {
            print lie ": found " found + 0 " times: " old[h, 1] >"/dev/stderr"
            exit 1
        }
        rest = at + olds[h]
        count = 0
        for (i = 1; i < at; i++)
            result[++count] = source[i]
        for (k = 1; k <= news[h]; k++)
            result[++count] = new[h, k]
        for (i = rest; i <= lines; i++)
            result[++count] = source[i]
        lines = count
        for (i = 1; i <= lines; i++)
            source[i] = result[i]
    }
    for (i = 1; i <= lines; i++)
        print source[i]
}
