#!/bin/sh
# draw_structure.sh: draws structure.svg, which compares the sizes of the source
# folders before and after large folders were split. Reads structure.txt.
#
#     sh docs/draw_structure.sh >docs/structure.svg
#     sh docs/draw_structure.sh --count LABEL CIRCLES
#
# The second form prints the counts of this tree under LABEL, for structure.txt.
# For each folder of lib, backends and plugins it prints the number of sources (.c,
# .h, .inc), their lines, the lines of the longest source, and the lines of the
# sources that the file CIRCLES lists (in the format of tests/circles.txt).
if [ "$1" = --count ]; then
    cd "$(dirname "$0")/.." || exit 1
    echo "state $2"
    find lib backends plugins -type f \( -name '*.[ch]' -o -name '*.inc' \) |
        sort | xargs awk -v circles="$3" '
            BEGIN {
                while ((getline file < circles) > 0) in_circle[file] = 1
            }
            FNR == 1 {
                folder = FILENAME
                sub(/\/[^\/]*$/, "", folder)
                files[folder]++
            }
            {
                lines[folder]++
                if (FNR > longest[folder]) longest[folder] = FNR
                if (FILENAME in in_circle) circle[folder]++
            }
            END {
                for (folder in files)
                    print folder, files[folder], lines[folder], \
                        longest[folder], circle[folder] + 0
            }' | sort
    exit
fi
awk '
/^#/ || NF == 0 { next }
/^state / { sub(/^state /, ""); label[++states] = $0; next }
{
    count[states]++
    folder[states, count[states]] = $1
    files[states, count[states]] = $2
    lines[states, count[states]] = $3
    longest[states, count[states]] = $4
    circle[states, count[states]] = $5
    if ($3 > most) most = $3
}
END {
    rows = count[1] > count[2] ? count[1] : count[2]
    row = 17; top = 92; bar = 150
    height = top + rows * row + 16
    printf "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"860\" " \
        "height=\"%d\" viewBox=\"0 0 860 %d\" font-family=\"sans-serif\" " \
        "font-size=\"12\">\n", height, height
    print "<title>The folders of sources, before and after</title>"
    print "<style>"
    print ".bg{fill:#fff}text{fill:#1f2328}.small{fill:#424a53}"
    print ".free{fill:#7fb2dd}.circle{fill:#d1495b}"
    print ".longest{stroke:#1f2328;stroke-width:2}"
    print "@media (prefers-color-scheme:dark){"
    print ".bg{fill:#0d1117}text{fill:#e6edf3}.small{fill:#b6bec8}"
    print ".free{fill:#2f6f9f}.circle{fill:#c4485a}.longest{stroke:#e6edf3}"
    print "}"
    print "</style>"
    print "<rect class=\"bg\" width=\"100%\" height=\"100%\"/>"
    print "<text x=\"16\" y=\"22\" font-weight=\"bold\">Lines of source by " \
        "folder</text>"
    print "<rect class=\"circle\" x=\"16\" y=\"32\" width=\"12\" " \
        "height=\"12\"/>"
    print "<text class=\"small\" x=\"34\" y=\"42\">in files that depend on " \
        "each other in a circle</text>"
    print "<rect class=\"free\" x=\"340\" y=\"32\" width=\"12\" " \
        "height=\"12\"/>"
    print "<text class=\"small\" x=\"358\" y=\"42\">in other files</text>"
    print "<line class=\"longest\" x1=\"470\" y1=\"31\" x2=\"470\" " \
        "y2=\"45\"/>"
    print "<text class=\"small\" x=\"478\" y=\"42\">lines of the longest " \
        "file</text>"
    for (s = 1; s <= 2; s++) {
        left = 16 + (s - 1) * 422
        all = 0
        for (i = 1; i <= count[s]; i++) all += files[s, i]
        printf "<text x=\"%d\" y=\"74\" font-weight=\"bold\">%s: %d folders, " \
            "%d files</text>\n", left, label[s], count[s], all
        for (i = 1; i <= count[s]; i++) {
            y = top + (i - 1) * row
            x = left + 150
            w = lines[s, i] / most * bar
            c = circle[s, i] / most * bar
            m = x + longest[s, i] / most * bar
            printf "<text class=\"small\" x=\"%d\" y=\"%d\">%s</text>\n", \
                left, y + 11, folder[s, i]
            printf "<rect class=\"free\" x=\"%d\" y=\"%d\" width=\"%.1f\" " \
                "height=\"12\"/>\n", x, y + 1, w
            if (c > 0)
                printf "<rect class=\"circle\" x=\"%d\" y=\"%d\" " \
                    "width=\"%.1f\" height=\"12\"/>\n", x, y + 1, c
            printf "<line class=\"longest\" x1=\"%.1f\" y1=\"%d\" " \
                "x2=\"%.1f\" y2=\"%d\"/>\n", m, y, m, y + 14
            printf "<text class=\"small\" x=\"%.1f\" y=\"%d\">%d files, %d" \
                "</text>\n", x + w + 5, y + 11, files[s, i], lines[s, i]
        }
    }
    print "</svg>"
}' "$(dirname "$0")/structure.txt"
