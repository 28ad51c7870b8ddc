#!/bin/sh
# draw_architecture.sh: draws architecture.svg, the map of the folders of lib/,
# which the documents call rooms, and of the plugins.
#
#     sh docs/draw_architecture.sh >docs/architecture.svg
#
# The rooms and their ranks come from tests/test_layers.sh, which checks that a
# room includes only rooms of lower rank. The purpose of each room comes from the
# table in architecture.md. Plugins are the folders of backends/ and plugins/ that
# have a manifest. It is an error if the picture lacks a room, or shows a room
# above one of higher rank.
cd "$(dirname "$0")/.." || exit 1
{
    # prints "rank ROOM NUMBER" for the two lists of rooms in tests/test_layers.sh
    awk '/rank\[order\[i\]\] = / && !/room_of/ {
            step = $0 ~ /= i/
            n = split(list, room, " ")
            for (i = 1; i <= n; i++)
                print "rank", room[i], step ? i : 20
        }
        /n = split\("/ { list = ""; within = 1 }
        within {
            line = $0
            if (!match(line, /"[^"]*"/)) next
            list = list substr(line, RSTART + 1, RLENGTH - 2)
            if (line ~ /order, " "\)/) within = 0
        }
        match($0, /rank\["(train|lm|onnx|media|dist|parallel)"\] = /) {
            split($0, part, "\""); sub(/.*= /, ""); print "rank", part[2], $0
        }' \
        tests/test_layers.sh
    for room in lib/*/; do
        room=${room%/}
        echo "there ${room#lib/}"
    done
    for manifest in backends/*/tn_*.conf plugins/*/tn_*.conf; do
        echo "plugin ${manifest%/*}"
    done
    # prints "idea ROOM TEXT", where TEXT is the room's purpose: the first sentence
    # of the second column of the table
    awk -F '|' '/^\| room/ { on = 1; next } on && !/^\|/ { exit }
        on && $2 ~ /`/ {
            gsub(/[` ,]+/, " ", $2); sub(/^ */, "", $3); sub(/ *$/, "", $3)
            n = split($2, room, " "); m = split($3, part, "; ")
            for (i = 1; i <= n; i++)
                print "idea", room[i], (m >= n ? part[i] : $3)
        }' docs/architecture.md
} | awk '
$1 == "rank" { rank[$2] = $3 }
$1 == "there" { there[$2] = 1 }
$1 == "plugin" { plugin[++plugins] = $2 }
$1 == "idea" { name = $2; sub(/^idea [^ ]* /, ""); idea[name] = $0 }

function escaped(s) { gsub(/&/, "\\&amp;", s); gsub(/</, "\\&lt;", s); return s }

# Draws a box with a bold name, and below the name the text in small letters.
function box(name, text, x, y, w, h, class,    words, n, i, line, k, lines) {
    printf "<rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" " \
           "rx=\"6\"/>\n", class, x, y, w, h
    lines = 0; line = ""
    n = split(text, words, " ")
    for (i = 1; i <= n; i++) {
        if (line != "" && length(line " " words[i]) * 6.2 > w - 16) {
            part[++lines] = line; line = words[i]
        } else
            line = line (line == "" ? "" : " ") words[i]
    }
    if (line != "") part[++lines] = line
    k = y + h / 2 + 5 - lines * 8
    printf "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\" " \
           "font-weight=\"bold\">%s</text>\n", x + w / 2, k, escaped(name)
    for (i = 1; i <= lines; i++)
        printf "<text class=\"idea\" x=\"%d\" y=\"%d\" " \
               "text-anchor=\"middle\">%s</text>\n", x + w / 2, k + 16 * i, \
               escaped(part[i])
}

function fail(why) {
    print "draw_architecture.sh: " why | "cat 1>&2"
    failed = 1
}

# Draws a room of lib. level is its level in the picture; 1 is the lowest.
function draw_room(name, x, y, w, h, level) {
    if (!(name in there)) fail("lib/" name " is not there")
    if (!(name in rank)) fail("tests/test_layers.sh has no rank of " name)
    if (!(name in idea)) fail("architecture.md says nothing of " name)
    drawn[name] = level; from[name] = x; to[name] = x + w
    box(name, idea[name], x, y, w, h, "room s" level)
}

END {
    left = 16; width = 828
    print "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"860\" " \
          "height=\"696\" viewBox=\"0 0 860 696\" font-family=\"sans-serif\" " \
          "font-size=\"15\">"
    print "<title>The rooms of Tenon</title>"
    print "<style>"
    print ".bg{fill:#fff}text{fill:#1f2328}.idea{font-size:12px;fill:#424a53}"
    print "rect.room,rect.out{stroke:#8c959f}rect.out{fill:#f3f4f6}"
    print ".s8{fill:#fdebd0}.s7{fill:#fde2c8}.s6{fill:#f9d3d3}" \
          ".s5{fill:#ead7f2}.s4{fill:#d8dcf7}.s3{fill:#cfe6f7}" \
          ".s2{fill:#cdeeea}.s1{fill:#dcefcc}"
    print ".abi{stroke:#57606a;stroke-width:2;stroke-dasharray:8 5}" \
          ".yours{stroke-dasharray:5 4}"
    print "@media (prefers-color-scheme:dark){"
    print ".bg{fill:#0d1117}text{fill:#e6edf3}.idea{fill:#b6bec8}"
    print "rect.room,rect.out{stroke:#5a636e}rect.out{fill:#1c2128}"
    print ".s8{fill:#4a3715}.s7{fill:#4d2f16}.s6{fill:#4f2326}" \
          ".s5{fill:#3e2a4b}.s4{fill:#2a2f57}.s3{fill:#1b3a54}" \
          ".s2{fill:#163f3d}.s1{fill:#253f1c}"
    print ".abi{stroke:#9198a1}"
    print "}"
    print "</style>"
    print "<rect class=\"bg\" width=\"100%\" height=\"100%\"/>"
    y = 12
    n = split("tools examples bench", out, " ")
    for (i = 1; i <= n; i++)
        box(out[i], i == 2 ? "programs, on public headers" : "", \
            left + (i - 1) * 279, y, 270, 44, "out")
    y += 52
    n = split("train lm onnx media dist parallel", storey, " ")
    for (i = 1; i <= n; i++)
        draw_room(storey[i], left + (i - 1) * 139.3, y, 131, 66, 8)
    y += 74
    n = split("nn optim distributions", storey, " ")
    for (i = 1; i <= n; i++)
        draw_room(storey[i], left + (i - 1) * 279, y, 270, 50, 7)
    y += 58
    n = split("graph compile trace io data", storey, " ")
    for (i = 1; i <= n; i++)
        draw_room(storey[i], left + (i - 1) * 167, y, 160, 50, 6)
    y += 58; draw_room("autograd", left, y, width, 50, 5)
    y += 58; draw_room("ops", left, y, width, 50, 4)
    y += 58; draw_room("tensor", left, y, 336, 50, 3); draw_room("source", left + 344, y, 336, 50, 3)
    y += 58; draw_room("device", left, y, 336, 50, 2); draw_room("kernel", left + 344, y, 336, 50, 2)
    draw_room("json", left + 688, y - 58, 140, 108, 2)
    y += 58; draw_room("base", left, y, width, 50, 1)
    y += 72
    printf "<line class=\"abi\" x1=\"6\" y1=\"%d\" x2=\"854\" y2=\"%d\"/>\n", y, y
    printf "<text x=\"%d\" y=\"%d\">tenon/plugin.h: all that a plugin sees; it " \
           "is loaded by dlopen and exports one symbol</text>\n", left, y + 24
    y += 40
    w = (width + 8) / (plugins + 1) - 8
    for (i = 1; i <= plugins; i++)
        box(plugin[i], "", left + (i - 1) * (w + 8), y, w, 40, "out")
    box("yours", "", left + plugins * (w + 8), y, w, 40, "out yours")
    printf "<text class=\"idea\" x=\"%d\" y=\"%d\">A room may include the " \
           "rooms below it, never one above or, in the three columns over base, " \
           "beside it.</text>\n", left, y + 62
    printf "<text class=\"idea\" x=\"%d\" y=\"%d\">Of graph, compile, trace, io " \
           "and data, each may include those to its left.</text>\n", left, y + 79
    print "</svg>"

    for (name in there) {
        if (!(name in drawn)) fail("lib/" name " is not in the picture")
        for (other in drawn)
            if (drawn[name] > drawn[other] && from[name] < to[other] &&
                from[other] < to[name] && rank[name] + 0 <= rank[other] + 0)
                fail(name " is drawn above " other ", which may include it")
    }
    exit failed
}'
