#!/bin/sh
# new.sh: starts a device plugin of your own, outside Tenon's tree.
#
#   new.sh NAME FOLDER
#
# Copies the reference plugin to FOLDER under your name, with a Makefile that
# needs only pkg-config and tenon-plugin.pc. The copy works, but slowly. Replace
# one primitive after the other, and run tenon-plugin-check after each.
# `pkg-config --variable=template tenon-plugin` prints the folder of new.sh.
set -eu
if [ $# != 2 ]; then
    echo "usage: new.sh NAME FOLDER" >&2
    exit 2
fi
name=$1 folder=$2
case $name in
'' | [!a-z]* | *[!a-z0-9_]*)
    echo "new.sh: the name of a plugin consists of a-z, 0-9 and _ and begins with a-z, not '$name'" >&2
    exit 2 ;;
esac
if [ -e "$folder" ]; then
    echo "new.sh: $folder already exists" >&2
    exit 1
fi
here=$(cd "$(dirname "$0")" && pwd)
template=$here/reference # its place in an installation; in the source tree it
                         # is below
[ -d "$template" ] || template=$here/../../plugins/reference

upper=$(printf %s "$name" | tr a-z A-Z)
mkdir -p "$folder"
# renamed FILE: copies FILE to the new folder and replaces the name "reference"
renamed() {
    to=$(basename "$1" | sed "s/reference/$name/")
    sed -e "s/reference/$name/g" -e "s/REFERENCE/$upper/g" "$1" >"$folder/$to"
}
for file in "$template"/*.c "$template"/*.h "$template"/tn_reference.conf; do
    renamed "$file"
done
renamed "$here/plugin.mk"
mv "$folder/plugin.mk" "$folder/Makefile"
echo "cd $folder && make && make check"
