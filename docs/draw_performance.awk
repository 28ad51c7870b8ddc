# draw_performance.awk: draws performance.svg, which shows PyTorch's time divided by
# Tenon's.
#
#     awk -f docs/draw_performance.awk docs/performance.tsv >docs/performance.svg
#
# To use a new run, convert the output of bench/compare --json to such a table:
#
#     awk -v table=1 -f docs/draw_performance.awk run.json >docs/performance.tsv
#
# Each row of the picture is a family of workloads. A grey line shows the range of
# the ratios to the faster of PyTorch's two eager columns, cut at the edge of the
# picture. A mark shows the median for each way to run PyTorch.

BEGIN {
    FS = "\t"
    ways = split("torch tuned compiled libtorch", way, " ")
    label["torch"] = "eager"
    label["tuned"] = "eager, cached malloc"
    label["compiled"] = "torch.compile"
    label["libtorch"] = "libtorch (C++)"
    # The rows of the picture in order: each has a title and groups of bench/compare.
    families = split("Call of an operator: dispatch|" \
                     "Elementwise, sum, softmax: bandwidth rows|" \
                     "Special functions: special|" \
                     "Normalisation: norm|Losses: loss|" \
                     "Indexing, sorting: indexing order|" \
                     "Matrix products: matmul|Linear algebra: linalg|" \
                     "Convolution, pooling: vision window|" \
                     "Attention, recurrence: sequence|" \
                     "Optimizer steps: optim|Loading data: data|" \
                     "Inference, one sample: inference|" \
                     "Training steps: training", family, "|")
    for (f = 1; f <= families; f++) {
        split(family[f], part, ": ")
        title[f] = part[1]
        n = split(part[2], group, " ")
        for (i = 1; i <= n; i++)
            family_of[group[i]] = f
    }
}

# ---- input: a table, or the JSON of bench/compare -----------------------------

# Returns the median of `who` on this line of JSON, or 0 if it was not measured.
function median_of(who,    at) {
    at = index($0, "\"" who "\": {\"median_ns\": ")
    return at ? substr($0, at + length(who) + 17) + 0 : 0
}

# Returns the text of a field of this line of JSON.
function text_of(field,    at, rest) {
    at = index($0, "\"" field "\": \"")
    if (!at)
        return ""
    rest = substr($0, at + length(field) + 5)
    return substr(rest, 1, index(rest, "\"") - 1)
}

# Adds one workload. ratio[] has PyTorch's time divided by Tenon's for each way to
# run PyTorch.
function add(group, workload,    f, w, best) {
    if (table) {
        printf "%s\t%s", group, workload
        for (w = 1; w <= ways; w++)
            printf "\t%s", (ratio[w] > 0 ? sprintf("%.4g", ratio[w]) : "-")
        print ""
        return
    }
    if (!(group in family_of)) {
        print "draw_performance.awk: no row for the group " group | "cat 1>&2"
        failed = 1; exit 1
    }
    f = family_of[group]
    count[f]++
    for (w = 1; w <= ways; w++)
        if (ratio[w] > 0)
            value[f, w, ++values[f, w]] = ratio[w]
    best = ratio[1] > 0 && (ratio[2] <= 0 || ratio[1] < ratio[2]) ? ratio[1] \
                                                                 : ratio[2]
    if (best > 0) {
        if (!(f in least) || best < least[f]) least[f] = best
        if (!(f in most) || best > most[f]) most[f] = best
        if (best < 1) below++
        total++
    }
}

/^  "(date|cpu|torch|threads)": / {
    key = $0; gsub(/^ *"|":.*/, "", key)
    value_ = key == "threads" ? substr($0, index($0, ":") + 2) + 0 : text_of(key)
    if (key == "date") value_ = substr(value_, 1, 10)
    about[key] = value_
    if (table) print "#" key "\t" value_
    next
}
/"group": / {
    ours = median_of("tenon")
    for (w = 1; w <= ways; w++)
        ratio[w] = ours > 0 ? median_of(way[w]) / ours : 0
    if (table && !headed++)
        print "group\tworkload\ttorch\ttuned\tcompiled\tlibtorch"
    add(text_of("group"), text_of("name"))
    next
}
/^#/ { if (NF == 2) about[substr($1, 2)] = $2; next }
NF == 6 && $1 != "group" {
    for (w = 1; w <= ways; w++)
        ratio[w] = $(w + 2) + 0
    add($1, $2)
}

# ---- the picture --------------------------------------------------------------

# Returns the median of the ratios of family f for way w of running PyTorch.
function median(f, w,    n, i, j, x, sorted) {
    n = values[f, w]
    for (i = 1; i <= n; i++) {
        x = value[f, w, i]
        for (j = i - 1; j > 0 && sorted[j] > x; j--)
            sorted[j + 1] = sorted[j]
        sorted[j + 1] = x
    }
    return n % 2 ? sorted[(n + 1) / 2] : (sorted[n / 2] + sorted[n / 2 + 1]) / 2
}

function escaped(s) {
    gsub(/&/, "\\&amp;", s)
    gsub(/</, "\\&lt;", s)
    return s
}

# Returns the x coordinate of a ratio, clamped to the axis.
function place(r) {
    r = r < low ? low : r > high ? high : r
    return left + width * log(r / low) / log(high / low)
}

# Formats a number with two significant digits, or as an integer if it is at least
# 10.
function short(r) {
    return r >= 10 ? sprintf("%.0f", r) : sprintf("%.1f", r)
}

# Draws the mark of way w at (x, y): a circle, ring, diamond or square.
function mark(w, x, y) {
    if (w == 1)
        printf "<circle class=\"w1\" cx=\"%.1f\" cy=\"%d\" r=\"5\"/>\n", x, y
    else if (w == 2)
        printf "<circle class=\"w2\" cx=\"%.1f\" cy=\"%d\" r=\"4.5\"/>\n", x, y
    else if (w == 3)
        printf "<path class=\"w3\" d=\"M%.1f %dl6 6l-6 6l-6 -6z\"/>\n", x, y - 6
    else
        printf "<rect class=\"w4\" x=\"%.1f\" y=\"%d\" width=\"9\" " \
               "height=\"9\"/>\n", x - 4.5, y - 4
}

END {
    if (table || failed)
        exit failed
    low = 0.5; high = 128; left = 240; width = 500; top = 104; row = 27
    bottom = top + row * families
    printf "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"840\" " \
           "height=\"%d\" viewBox=\"0 0 840 %d\" font-family=\"sans-serif\" " \
           "font-size=\"13\">\n", bottom + 62, bottom + 62
    print "<title>PyTorch's time over Tenon's, by family of workloads</title>"
    print "<style>"
    print ".bg{fill:#fff}text{fill:#1f2328}.dim{fill:#59636e}"
    print ".grid{stroke:#d8dee4}.one{stroke:#59636e;stroke-width:2}"
    print ".range{stroke:#c4ccd4;stroke-width:6;stroke-linecap:round}"
    print ".w1{fill:#0969da}.w2{fill:none;stroke:#0969da;stroke-width:2}"
    print ".w3{fill:#bc4c00}.w4{fill:#1a7f37}"
    print "@media (prefers-color-scheme:dark){"
    print ".bg{fill:#0d1117}text{fill:#e6edf3}.dim{fill:#9198a1}"
    print ".grid{stroke:#2b323b}.one{stroke:#9198a1}.range{stroke:#3d444d}"
    print ".w1{fill:#58a6ff}.w2{stroke:#58a6ff}.w3{fill:#f0883e}" \
          ".w4{fill:#3fb950}"
    print "}"
    print "</style>"
    print "<rect class=\"bg\" width=\"100%\" height=\"100%\"/>"
    print "<text x=\"16\" y=\"26\" font-size=\"17\" font-weight=\"bold\">" \
          "PyTorch's time / Tenon's time</text>"
    printf "<text class=\"dim\" x=\"16\" y=\"46\">%s, %d thread%s, PyTorch " \
           "%s, %s. At 2, Tenon needs half of PyTorch's time.</text>\n", \
           escaped(about["cpu"]), about["threads"], \
           about["threads"] == 1 ? "" : "s", escaped(about["torch"]), \
           about["date"]
    x = 22
    for (w = 1; w <= ways; w++) {
        mark(w, x, 66)
        printf "<text x=\"%d\" y=\"71\">%s</text>\n", x + 11, label[way[w]]
        x += 28 + 7.4 * length(label[way[w]])
    }
    printf "<line class=\"range\" x1=\"%d\" x2=\"%d\" y1=\"66\" y2=\"66\"/>\n", \
           x, x + 30
    printf "<text x=\"%d\" y=\"71\">least to greatest of the faster eager" \
           "</text>\n", x + 41
    for (r = low; r <= high; r *= 2) {
        printf "<line class=\"%s\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" " \
               "y2=\"%d\"/>\n", r == 1 ? "one" : "grid", place(r), place(r), \
               top - 2, bottom
        for (y = top - 8; y <= bottom + 17; y += bottom - top + 25)
            printf "<text class=\"dim\" x=\"%.1f\" y=\"%d\" " \
                   "text-anchor=\"middle\">%g</text>\n", place(r), y, r
    }
    printf "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">median</text>\n", \
           824, top - 8
    for (f = 1; f <= families; f++) {
        if (!count[f])
            continue
        y = top + row * (f - 0.5)
        printf "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s " \
               "<tspan class=\"dim\">%d</tspan></text>\n", left - 14, y + 5, \
               escaped(title[f]), count[f]
        if (f in least)
            printf "<line class=\"range\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" " \
                   "y2=\"%d\"/>\n", place(least[f]), place(most[f]), y, y
        for (w = ways; w >= 1; w--)
            if (values[f, w])
                mark(w, place(median(f, w)), y)
        for (w = 2; w >= 1 && !values[f, w]; w--)
            ;
        if (w)
            printf "<text x=\"824\" y=\"%d\" text-anchor=\"end\">%s</text>\n", \
                   y + 5, short(median(f, w))
    }
    printf "<text class=\"dim\" x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">" \
           "logarithmic; right of 1 Tenon is faster</text>\n", \
           left + width / 2, bottom + 36
    printf "<text class=\"dim\" x=\"16\" y=\"%d\">%d workloads, %d below 1. " \
           "Numbers: workloads per row; median: beside eager with a cached " \
           "malloc.</text>\n", bottom + 54, total, below
    print "</svg>"
}
