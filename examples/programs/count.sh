#!/bin/sh
# Prints a table of the programs in this folder: what each does (the first line
# of the Python file), its lines, those of its PyTorch counterpart, and their
# ratio. Lines that are blank or only comment (in Python also docstrings) do
# not count. Exits with status 1 if a ratio is above 1.8 or a program has no
# counterpart.
cd "$(dirname "$0")" || exit 99

c_lines() {
    awk '
    { line = $0; code = 0
      gsub(/"([^"\\]|\\.)*"/, "0", line) # a string may contain /* or //
      while (line != "") {
          end = index(line, "*/"); begin = index(line, "/*")
          if (comment) {
              comment = !end; line = end ? substr(line, end + 2) : ""
          } else {
              if (begin) comment = 1
              before = begin ? substr(line, 1, begin - 1) : line
              line = begin ? substr(line, begin + 2) : ""
              if (before ~ /\/\//) { comment = 0; line = "" }
              if (before !~ /^[ \t]*(\/\/|$)/) code = 1
          }
      }
      lines += code }
    END { print lines + 0 }' "$1"
}

python_lines() {
    awk '
    { line = $0; sub(/^[ \t]+/, "", line) }
    text { text = !index(line, "\"\"\""); next }
    line ~ /^"""/ { text = !index(substr(line, 4), "\"\"\""); next }
    line != "" && line !~ /^#/ { lines++ }
    END { print lines + 0 }' "$1"
}

failed=0
echo "| program | what it does | C lines | PyTorch lines | ratio |"
echo "|---|---|---|---|---|"
for source in *.c *.cc; do
    test -f "$source" || continue
    python=${source%.*}.py
    if ! test -f "$python"; then
        echo "count.sh: $python is missing" >&2
        failed=1
        continue
    fi
    text=$(sed -n '1s/^"""\([^"]*[^".]\).*/\1/p' "$python")
    c=$(c_lines "$source") py=$(python_lines "$python")
    echo "| \`$source\` | $text | $c | $py |" \
        "$(awk "BEGIN { printf \"%.2f\", $c / $py }") |"
    test $((10 * c)) -le $((18 * py)) || failed=1
done
exit $failed
