# chart.awk: draws the output of bench/compare --json as a chart in SVG.
#
#     awk -f bench/chart.awk run.json >run.svg
#
# A bar for each workload shows PyTorch's time divided by Tenon's, on a
# logarithmic scale. A bar to the right of the line at 1 means that Tenon is
# faster. The bar is for PyTorch with a malloc that keeps freed memory, the
# tick for PyTorch as installed.

# Returns the median time of `who` (a bench_who) in this line of the JSON file,
# or 0 if it was not measured.
function median(who,    at) {
    at = index($0, "\"" who "\": {\"median_ns\": ")
    return at ? substr($0, at + length(who) + 17) + 0 : 0
}

# Returns the value of a text field of this line.
function text(field,    at, rest) {
    at = index($0, "\"" field "\": \"")
    if (!at)
        return ""
    rest = substr($0, at + length(field) + 5)
    return substr(rest, 1, index(rest, "\"") - 1)
}

function escaped(s) {
    gsub(/&/, "\\&amp;", s)
    gsub(/</, "\\&lt;", s)
    return s
}

# Returns the horizontal position of a ratio, clamped to the chart.
function place(ratio) {
    ratio = ratio < least ? least : ratio > most ? most : ratio
    return left + width * log(ratio / least) / log(most / least)
}

/^  "date"/ { date = substr(text("date"), 1, 10) }
/^  "cpu"/ { cpu = text("cpu") }
/^  "torch"/ { torch = text("torch") }
/^  "threads"/ { threads = $2 + 0 }
/"group": / && (ours = median("tenon")) > 0 {
    count++
    name[count] = text("group") ": " text("name")
    tuned[count] = median("tuned") / ours
    plain[count] = median("torch") / ours
}

END {
    least = 0.25; most = 64; left = 300; width = 440; top = 80; row = 20
    bottom = top + row * count
    printf "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"800\" " \
           "height=\"%d\" font-family=\"sans-serif\" font-size=\"12\">\n", \
           bottom + 30
    print "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>"
    printf "<text x=\"16\" y=\"24\" font-size=\"15\">PyTorch %s eager: time " \
           "over Tenon's</text>\n", escaped(torch ? torch : "(not at hand)")
    printf "<text x=\"16\" y=\"44\" fill=\"#555\">%s, %d thread%s, %s; bar: " \
           "malloc keeps memory, tick: as installed</text>\n", \
           escaped(cpu), threads, threads == 1 ? "" : "s", date
    for (r = least; r <= most; r *= 2) {
        printf "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\" " \
               "stroke=\"%s\"/>\n", place(r), place(r), top - 6, bottom, \
               r == 1 ? "#333" : "#ddd"
        for (y = top - 12; y <= bottom + 16; y += bottom - top + 28)
            printf "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\" " \
                   "fill=\"#555\">%g</text>\n", place(r), y, r
    }
    for (i = 1; i <= count; i++) {
        y = top + row * (i - 1)
        printf "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text>\n", \
               left - 8, y + 13, escaped(name[i])
        if (tuned[i] > 0) {
            from = place(1); to = place(tuned[i])
            printf "<rect x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"12\" " \
                   "fill=\"%s\"/>\n", from < to ? from : to, y + 3, \
                   from < to ? to - from : from - to, \
                   from < to ? "#3a7d44" : "#c8553d"
            printf "<text x=\"%.1f\" y=\"%d\" fill=\"#333\">%.2f</text>\n", \
                   left + width + 12, y + 13, tuned[i]
        }
        if (plain[i] > 0)
            printf "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\" " \
                   "stroke=\"#000\" stroke-width=\"2\"/>\n", \
                   place(plain[i]), place(plain[i]), y + 1, y + 17
    }
    print "</svg>"
}
