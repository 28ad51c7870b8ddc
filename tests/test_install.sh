# Installs Tenon and moves the installed tree to another folder. With
# pkg-config, the README's program and a plugin must compile, and run from /
# with an empty environment. Uninstalling must leave no file and no folder of
# Tenon.
. "$top_srcdir/tests/tap.sh"
unset MAKEFLAGS MFLAGS MAKELEVEL TENON_PLUGIN_PATH
stage=$scratch/stage moved=$scratch/moved

cd "$top_builddir" || exit 99
prefix=$(sed -n 's/^prefix = //p' Makefile)
succeeds "make install with DESTDIR" \
    "${MAKE:-make}" install DESTDIR="$stage" || done_testing
is_empty "$(find "$stage/" ! -type d | grep -v "^$stage$prefix/")" \
    "everything is installed below the prefix"
is_empty "$(find "$stage" -path '*/tenon-1/*' ! -name 'tn_*.so' \
    ! -name 'comm_*.so' ! -name '*.conf')" \
    "the plugin folder holds only plugins and manifests"

is_str "$(find "$stage" -path '*/include/tenon/*.h' -exec basename {} \; |
    sort | tr '\n' ' ')" \
    "$(for header in "$top_srcdir"/include/tenon/*.h include/tenon/*.h; do
        [ ! -f "$header" ] || basename "$header"
    done | sort -u | tr '\n' ' ')" "every public header is installed"

cp -R "$stage$prefix" "$moved"
succeeds "make uninstall" "${MAKE:-make}" uninstall DESTDIR="$stage"
is_empty "$(find "$stage" ! -type d)" "uninstalling leaves no file"
is_empty "$(cd "$stage$prefix" && find . -name '*tenon*')" \
    "and no folder of Tenon"
is_empty "$(cd "$stage$prefix" && find . ! -path . |
    grep -vxE './(bin|include|lib.*|share|share/doc)')" \
    "other than those that programs share"
succeeds "make install again" "${MAKE:-make}" install DESTDIR="$stage"
other=$(find "$stage" -name tn_cpu.so | sed 's/cpu/other/')
: >"$other"
succeeds "make uninstall again" "${MAKE:-make}" uninstall DESTDIR="$stage"
is_str "$(find "$stage" ! -type d)" "$other" \
    "another plugin is not removed"

# Checks the manual. A link must lead to an installed file, or to a file that
# docs/README.md describes as part of the source tree.
docs=$(dirname "$(find "$moved" -path '*/doc/*' -name NEWS)")
is_empty "$(for file in README.md NEWS LICENSE docs/operators.md; do
    [ -s "$docs/$file" ] || echo "$file"
done)" "README.md, NEWS, LICENSE and the operators' pages are installed"
is_empty "$(for file in "$top_srcdir"/docs/*.md "$top_srcdir"/examples/*.c; do
    cmp "$file" "$docs/${file#"$top_srcdir/"}" 2>&1
done)" "so are all of docs/ and the examples"
is_empty "$(cd "$docs" && find . -name '*.md' | while read -r page; do
    grep -oE '\]\([^)# ]+' "$page" | sed 's/^](//' | grep -v '^https*:' |
        while read -r link; do
            case $link in
            ../bench/* | ../include/* | ../examples/plugin/*) ;;
            ../CONTRIBUTING.md) ;;
            *) [ -f "$(dirname "$page")/$link" ] || echo "$page: $link" ;;
            esac
        done
done)" "their links lead to installed files"

pc=$(dirname "$(find "$moved" -name tenon.pc)")
# package ARGUMENT...: runs pkg-config for the moved tree
package() {
    PKG_CONFIG_PATH=$pc:${PKG_CONFIG_PATH-} \
        "${PKG_CONFIG:-pkg-config}" --define-variable=prefix="$moved" "$@"
}
libdir=$(package --variable=libdir tenon)
is_str "$(package --variable=plugindir tenon-plugin)" "$libdir/tenon-1" \
    "tenon-plugin.pc names the plugin folder"

is_str "$(package --print-requires-private tenon)" zlib \
    "tenon.pc requires no package but zlib"

# Checks the size of what a program needs at run time, in a build without
# sanitizers.
if nm -D "$libdir/libtenon.so" | grep -q __asan_; then
    skip "libtenon and the cpu plugin take at most 3.4 MB" "sanitizers"
else
    strip -o "$scratch/lib.so" "$libdir/libtenon.so" &&
        strip -o "$scratch/cpu.so" "$libdir/tenon-1/tn_cpu.so"
    bytes=$(cat "$scratch/lib.so" "$scratch/cpu.so" | wc -c)
    echo "# stripped: $bytes bytes"
    is_str "$(test "$bytes" -le 3400000 || echo "$bytes")" "" \
        "libtenon and the cpu plugin take at most 3.4 MB"
fi

# in_nowhere COMMAND...: runs the command in the folder / with an empty
# environment, except for the folder of the moved library
in_nowhere() { (cd / && env -i LD_LIBRARY_PATH="$libdir" "$@"); }

succeeds "tenon info runs from the moved tree" \
    in_nowhere "$moved/bin/tenon" info

awk '/^```c$/ && !seen { inside = seen = 1; next }
     /^```$/ { inside = 0 }
     inside' "$top_srcdir/README.md" >"$scratch/readme.c"
is_str "$(test -s "$scratch/readme.c" && echo found)" found \
    "README.md holds a program"
# shellcheck disable=SC2046,SC2086 # lists of options
succeeds "the README's program builds as C11 without a warning" \
    ${CC:-cc} -std=c11 -Wall -Wextra -Wpedantic -Werror \
    "$scratch/readme.c" -o "$scratch/readme" \
    $(package --cflags --libs tenon) &&
    succeeds "the README's program runs" in_nowhere "$scratch/readme"

# shellcheck disable=SC2046,SC2086
succeeds "an installed example builds" \
    ${CC:-cc} -std=c11 "$docs/examples/tensors.c" -o "$scratch/tensors" \
    $(package --cflags --libs tenon) &&
    succeeds "and runs" in_nowhere "$scratch/tensors"

# shellcheck disable=SC2046,SC2086
succeeds "the reference plugin builds with tenon-plugin.pc alone" \
    ${CC:-cc} -std=c11 -D_GNU_SOURCE -ffp-contract=off -fvisibility=hidden \
    -O1 -shared -fPIC $(package --cflags tenon-plugin) \
    "$top_srcdir"/plugins/reference/*.c -lm -o "$scratch/tn_reference.so"

# Tests CMake's find_package in the moved tree.
if command -v cmake >/dev/null; then
    mkdir "$scratch/cmake"
    cp "$scratch/readme.c" "$scratch/cmake/train.c"
    cat >"$scratch/cmake/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.5...3.25)
project(train C)
find_package(tenon ${WANTED} REQUIRED)
find_package(tenon REQUIRED)
add_executable(train train.c)
target_link_libraries(train PRIVATE tenon::tenon)
END
    # find_tenon VERSION: configures a project that requires this version
    find_tenon() {
        rm -rf "$scratch/cmake/build"
        CC=${CC:-cc} cmake -G "Unix Makefiles" -S "$scratch/cmake" \
            -B "$scratch/cmake/build" -DCMAKE_PREFIX_PATH="$moved" \
            -DWANTED="$1"
    }
    version=$(package --modversion tenon)
    succeeds "CMake finds any version" find_tenon "" &&
        succeeds "a program builds with tenon::tenon" \
            cmake --build "$scratch/cmake/build" &&
        succeeds "and runs" in_nowhere "$scratch/cmake/build/train"
    succeeds "CMake finds version ${version%.*}" find_tenon "${version%.*}"
    for wanted in 99 "${version%.*}.999"; do
        find_tenon "$wanted" >"$scratch/output" 2>&1 &&
            echo "version $wanted was found" >>"$scratch/found"
        grep -q "version: $version" "$scratch/output" ||
            cat "$scratch/output" >>"$scratch/found"
    done
    is_empty "$(cat "$scratch/found" 2>/dev/null)" \
        "later versions are not found, and CMake names the installed one"
else
    skip "find_package(tenon)" "cmake is not installed"
fi

# Creates, builds and checks a user's plugin outside of Tenon's tree, with the
# installed files only.
template=$(package --variable=template tenon-plugin)
doc=$(find "$moved" -name plugin-check.md)
is_str "${doc:+found}" found "the kit's manual is installed"
# start COMMAND...: runs the command in the new project's folder
start() {
    (cd "$scratch/abacus" &&
        PKG_CONFIG_PATH=$pc:${PKG_CONFIG_PATH-} CC=${CC:-cc} \
            PKG_CONFIG="${PKG_CONFIG:-pkg-config} --define-variable=prefix=$moved" \
            "$@")
}
succeeds "the installed new.sh starts a plugin" \
    sh "$template/new.sh" abacus "$scratch/abacus" &&
    succeeds "it builds with tenon-plugin.pc alone, without a warning" \
        start "${MAKE:-make}" -e CFLAGS="-O1 -Wall -Wextra -Werror" &&
    succeeds "and passes tenon-plugin-check" start "${MAKE:-make}" -e check
is_str "$(sed -n 's/.*: abacus .* \(L2\) (.*/\1/p' "$scratch/output")" L2 \
    "at level 2"
succeeds "it is installed" start "${MAKE:-make}" -e install
is_str "$(TENON_DEVICE=abacus in_nowhere "$moved/bin/tenon" devices |
    grep -c '^abacus')" 1 "and Tenon lists it"
succeeds "new.sh works in Tenon's tree, too" \
    sh "$top_srcdir/examples/plugin/new.sh" abacus2 "$scratch/abacus2"
is_empty "$(for file in "$scratch"/abacus/*.[ch] "$scratch/abacus/Makefile"; do
    other=$scratch/abacus2/$(basename "$file" | sed s/abacus/abacus2/)
    sed -e s/abacus/abacus2/g -e s/ABACUS/ABACUS2/g "$file" |
        cmp - "$other" 2>&1
done)" "with the same result"
sh "$template/new.sh" Abacus "$scratch/abacus3" 2>"$scratch/output"
is_str "$? $(cat "$scratch/output")" \
    "2 new.sh: the name of a plugin consists of a-z, 0-9 and _ and begins with a-z, not 'Abacus'" \
    "another name is refused"

done_testing
