# Compares docs/environment.md with the sources: the page must list each
# environment variable that they read, and no other.
. "$top_srcdir/tests/tap.sh"
cd "$top_srcdir" || exit 99

page=docs/environment.md
sources=$(find lib backends plugins tools -name '*.c')

# Finds variables that are read by name, and options of plugins, whose
# variables begin with the plugin's name.
{
    # shellcheck disable=SC2086 # a list of paths without spaces
    cat $sources | grep -oE '(tn__env|[^_]getenv)\("[A-Z_]+"' |
        grep -oE '[A-Z_]{3,}' | grep -vE '^TENON_TEST_(PLUGIN|GPU)$'
    # the variables of launchers
    grep -oE '"[A-Z][A-Z_]{3,}"' lib/dist/place.c | tr -d '"'
    for plugin in cpu cuda opencl; do
        cat backends/$plugin/*.c |
            grep -oE '(->option|option_is)\("[a-z0-9]+"|\.option = "[a-z]+"' |
            sed 's/.*"\(.*\)"/\1/' | tr a-z A-Z |
            sed "s/^/TENON_$(echo $plugin | tr a-z A-Z)_/"
    done
} | sort -u >"$scratch/read"
sed '/^What the test programs read/,$d' $page | grep -E '^\| `' |
    cut -d'|' -f2 | grep -oE '[A-Z][A-Z0-9_]+' | sort -u >"$scratch/named"

is_str "$(test "$(wc -l <"$scratch/read")" -ge 30 || cat "$scratch/read")" "" \
    "the sources read at least 30 variables"
is_empty "$(comm -23 "$scratch/read" "$scratch/named")" \
    "each variable that the sources read is on the page"
is_empty "$(comm -13 "$scratch/read" "$scratch/named")" \
    "and no other is"
done_testing
