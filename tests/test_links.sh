# Checks the references of the documents: the target of every relative link, the
# heading of every anchor, and every path of the source tree, in a code span or
# in plain text, must exist. The pictures in docs/ must equal the output of
# their scripts.
. "$top_srcdir/tests/tap.sh"
made=$(cd "$top_builddir" && pwd)
cd "$top_srcdir" || exit 99

# Lists the files of the tree, without build folders (which have a
# config.status) and what is installed below them, and the files that the build
# makes in its own folder.
{
    find . -name config.status 2>/dev/null | sed 's|/[^/]*$||' |
        grep -vx . >"$scratch/builds"
    find . \( -name .git -o -name .libs -o -name autom4te.cache \) -prune -o \
        -print | sed 's|^\./||' | awk -v builds="$scratch/builds" '
        BEGIN {
            while ((getline line < builds) > 0)
                build[++n] = substr(line, 3) "/"
        }
        { for (i = 1; i <= n; i++) if (index($0 "/", build[i]) == 1) next
          print }'
    (cd "$made" && find include lib docs backends -type f ! -path '*/.*' \
        2>/dev/null)
    # programs, which local.mk lists
    find . -name local.mk -exec grep -hoE \
        '(tests|bench|tools|examples)/[a-z_0-9/]+' {} +
} | sort -u >"$scratch/tree"
grep '\.md$' "$scratch/tree" | while read -r page; do
    [ -f "$page" ] && echo "$page"
done >"$scratch/pages"

cat >"$scratch/links.awk" <<'AWK'
# Returns a path without "." and "..".
function resolved(path,    part, n, i, out, k) {
    n = split(path, part, "/"); k = 0
    for (i = 1; i <= n; i++)
        if (part[i] == ".." && k > 0) k--
        else if (part[i] != "." && part[i] != "") out[++k] = part[i]
    path = out[1]
    for (i = 2; i <= k; i++) path = path "/" out[i]
    return path
}
# Returns the anchor of a heading: lower case, dashes instead of spaces, no
# punctuation.
function slug(heading) {
    gsub(/^#+ */, "", heading)
    gsub(/\[|\]\([^)]*\)/, "", heading)
    heading = tolower(heading)
    gsub(/[^a-z0-9 _-]/, "", heading)
    gsub(/ /, "-", heading)
    return heading
}
function complain(what) { print FILENAME ":" FNR ": " what }

# Returns whether the path exists: relative to this page, relative to the top,
# or as the end of a path. A folder's README may omit the prefix of its files
# (cuda_plugin.c), and a command may contain a path in the build folder.
function there(path,    own) {
    sub(/\/$/, "", path)
    if (resolved(folder path) in tree || resolved(path) in ending) return 1
    own = folder; sub(/\/$/, "", own); sub(/.*\//, "", own)
    if ((folder own "_" path) in tree) return 1
    return sub(/^(\.\.\/)+/, "", path) && path ~ /\// && path in tree
}
function check_link(link,    at, anchor, page) {
    if (link ~ /^[a-z]+:/) return
    at = index(link, "#")
    anchor = at ? substr(link, at + 1) : ""
    if (at) link = substr(link, 1, at - 1)
    page = link == "" ? FILENAME : resolved(folder link)
    if (!(page in tree)) complain("no " link)
    else if (anchor != "") wanted[page "#" anchor] = FILENAME ":" FNR
}
# Returns whether a text is the path of a file or folder: it has a slash, or
# the suffix of a source file.
function is_path(text) {
    if (text !~ /^[A-Za-z0-9_.][A-Za-z0-9_.+\/-]*$/) return 0
    if (text ~ /^(tn_|\.[a-z]*$|[0-9.]+$|-)|\.log$/) return 0
    if (text ~ /\.(c|h|cc|cpp|def|inc|awk|py|sh|md|mk)$/) return 1
    return text ~ /^(lib|tests|docs|backends|bench|include|plugins|tools|examples)\/./
}
FILENAME ~ /\/tree$/ {
    tree[$0] = 1
    path = $0
    do ending[path] = 1; while (sub(/^[^\/]*\//, "", path))
    next
}
FILENAME ~ /\/others$/ { other[$1] = 1; next }
FNR == 1 {
    folder = FILENAME
    if (!sub(/[^\/]*$/, "", folder)) folder = ""
    code = 0
    pages++
}
/^ *```/ { code = !code; next }
code { next }
/^#/ { anchors[FILENAME "#" slug($0)] = 1 }
{
    line = $0
    while (match(line, /\]\([^)# ]*(#[^) ]*)?\)/)) {
        check_link(substr(line, RSTART + 2, RLENGTH - 3))
        links++
        line = substr(line, RSTART + RLENGTH)
    }
    line = $0
    gsub(/\]\([^)]*\)/, "]", line)
    gsub(/https?:[^ )]*/, "", line)
    n = split(line, word, /[^A-Za-z0-9_.+\/*{}~$<>=-]+/)
    for (i = 1; i <= n; i++) {
        text = word[i]
        sub(/[.]+$/, "", text)
        if (!is_path(text) || text in other) continue
        paths++
        if (!there(text)) complain("no " text)
    }
}
END {
    for (link in wanted)
        if (!(link in anchors)) print wanted[link] ": no heading of " link
    if (pages < 20 || links < 50 || paths < 300)
        print "only", pages, "pages,", links + 0, "links,", paths + 0, "paths"
}
AWK

# Names of files that are not in the tree: files of a user or of another
# project, and files that a test makes.
cat >"$scratch/others" <<'END'
train.c
CL/cl.h
gpu-results/results.md
tests/sim/nvrtc
llama.cpp
END
is_empty "$(xargs awk -f "$scratch/links.awk" "$scratch/tree" \
    "$scratch/others" <"$scratch/pages")" "what the documents name is there"

# ---- pictures ----------------------------------------------------------------

sh docs/draw_architecture.sh >"$scratch/architecture.svg" 2>&1
is_empty "$(cmp "$scratch/architecture.svg" docs/architecture.svg 2>&1)" \
    "docs/architecture.svg is what docs/draw_architecture.sh draws"
sh docs/draw_structure.sh >"$scratch/structure.svg" 2>&1
is_empty "$(cmp "$scratch/structure.svg" docs/structure.svg 2>&1)" \
    "docs/structure.svg is what docs/draw_structure.sh draws"
awk -f docs/draw_performance.awk docs/performance.tsv \
    >"$scratch/performance.svg" 2>&1
is_empty "$(cmp "$scratch/performance.svg" docs/performance.svg 2>&1)" \
    "docs/performance.svg is what docs/draw_performance.awk draws"
done_testing
