#!/bin/sh
# Writes down the ABI of a built tree: what libtenon exports, and what plugins
# are loaded by, as abidw (Debian: abigail-tools) reads both from the debug
# information.
#
#     tests/abi/update.sh [BUILD [FOLDER]]     build, tests/abi
#
# The files in tests/abi are the baseline. Write them anew in a commit that says
# what changed for programs or plugins, and why; tests/test_abi.sh reports how a
# built tree differs from them.
set -e
here=$(dirname "$0")
build=${1:-build} folder=${2:-$here}

# LIBRARY FILE: types are those of the public headers; what is defined in other
# files is opaque to programs.
write() {
    abidw --no-corpus-path --no-show-locs --no-comp-dir-path --no-elf-needed \
        --exported-interfaces-only --suppressions "$here/public.suppr" \
        --out-file "$folder/$2" "$build/$1"
}
write .libs/libtenon.so libtenon.abi
write tenon-1/tn_reference.so plugin.abi
