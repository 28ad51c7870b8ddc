#!/bin/sh
# Records the ABI of a built tree: the functions that libtenon exports and the
# interface of plugins, as abidw (Debian: abigail-tools) reads both from the
# debug information.
#
#     tests/abi/update.sh [BUILD [FOLDER]]     build, tests/abi
#
# The files in tests/abi are the baseline, with which tests/test_abi.sh compares
# a built tree. Change them in a commit that says what changed for programs or
# plugins, and why.
set -e
here=$(dirname "$0")
build=${1:-build} folder=${2:-$here}
headers=$here/../../include

# Lists the structs that public headers define, as "|tn_batch|tn_value|...".
public=$(cat "$headers"/tenon/*.h "$build"/include/tenon/*.h |
    sed -nE 's/^(typedef )?struct (tn_[a-z_0-9]+) \{.*/\2/p' | sort -u |
    tr '\n' '|')

# write LIBRARY FILE: writes the ABI of the library to the file
write() {
    abidw --no-corpus-path --no-show-locs --no-comp-dir-path --no-elf-needed \
        --drop-private-types --headers-dir "$headers" \
        --headers-dir "$build/include" "$build/$1" >"$folder/$2.part"
    awk -v public="|$public" -f "$here/opaque.awk" "$folder/$2.part" \
        >"$folder/$2"
    rm "$folder/$2.part"
}
write .libs/libtenon.so libtenon.abi
write tenon-1/tn_reference.so plugin.abi
