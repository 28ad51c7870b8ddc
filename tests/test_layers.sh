# Checks the dependencies between the source folders ("rooms"): a room includes
# headers of lower rooms only, backends include only the plugin ABI, programs
# only public headers; and libtenon exports only what TN_API marks.
. "$top_srcdir/tests/tap.sh"

# ---- includes ----------------------------------------------------------------

# Finds every include of our own headers, as "FILE<tab>ROOM/HEADER" or
# "FILE<tab>tenon/HEADER", in whatever form it is written. "x.h" is a file in
# the folder of the includer. Generated sources are in the build folder.
cd "$top_srcdir" || exit 99
sources() {
    find include lib backends plugins tools examples bench -type f \
        \( -name '*.[ch]' -o -name '*.cc' -o -name '*.def' -o -name '*.inc' \) |
        sort
}
rooms=$(cd lib && ls -d -- */ | tr -d '/' | tr '\n' ' ')
cat >"$scratch/includes.awk" <<'AWK'
    BEGIN {
        n = split(rooms " tenon backends plugins tools", name, " ")
        for (i = 1; i <= n; i++) ours[name[i]] = 1
    }
    /^[ \t]*#[ \t]*include[ \t]*[<"]/ {
        quoted = $0 ~ /^[^<]*"/
        sub(/^[^<"]*[<"]/, ""); sub(/[>"].*/, "")
        split($0, target, "/")
        if (/\// && target[1] in ours)
            print FILENAME "\t" $0 "\t" quoted
        if (!quoted || (/\// && target[1] in ours)) next
        folder = FILENAME
        sub(/\/[^\/]*$/, "", folder)
        while (sub(/^\.\.\//, "")) sub(/\/[^\/]*$/, "", folder)
        sub(/^lib\//, "", folder)
        print FILENAME "\t" folder "/" $0 "\t" quoted
    }
AWK
sources | xargs awk -v rooms="$rooms" -f "$scratch/includes.awk" \
    >"$scratch/includes"
made=$(cd "$top_builddir" && pwd)
if [ "$made" != "$(pwd)" ]; then
    (cd "$made" && sources | xargs awk -v rooms="$rooms" \
        -f "$scratch/includes.awk") >>"$scratch/includes"
fi

# Counts all includes in lib/ in a simpler way, to check that none was missed.
is_str "$(grep -c '^lib/' "$scratch/includes")" \
    "$({ sources; [ "$made" = "$(pwd)" ] || (cd "$made" &&
        sources | sed "s|^lib/|$made/&|"); } | grep -E "^lib/|^$made/lib/" |
        xargs cat | grep -E '^[[:blank:]]*#[[:blank:]]*include' |
        grep -cE "\"|<(tenon|$(echo $rooms | tr ' ' '|'))/")" \
    "every include of our own in lib is seen"
is_empty "$(awk -F '\t' '/^lib\// && $3 { print $1 ": \"" $2 "\"" }' \
    "$scratch/includes")" "lib includes its own as <room/header.h>"

# The rank of every room, and the room of every public header. A room may
# include itself and rooms with a lower rank. nn, optim and distributions may
# not include each other; train may include all of them; all four may read
# JSON, and include base's headers for such rooms: library_lock, nearest,
# plain. The rooms from graph to data have the same rank, and each may include
# those to its left (data reads files through io). kernel may include only base
# and the plugin ABI.
cat >"$scratch/rooms.awk" <<'AWK'
    BEGIN {
        n = split("base json device tensor kernel source ops autograd graph compile trace io " \
                  "data", order, " ")
        for (i = 1; i <= n; i++) rank[order[i]] = i
        n = split("nn optim distributions", order, " ")
        for (i = 1; i <= n; i++) rank[order[i]] = 20

        n = split("base device tensor autograd graph compile trace io data dist nn " \
                  "optim distributions", order, " ")
        for (i = 1; i <= n; i++) room_of[order[i] ".h"] = order[i]
        room_of["types.h"] = room_of["plugin.h"] = "abi"
        room_of["plugin_program.h"] = room_of["plugin_primitives.h"] = "abi"
        room_of["plugin_extensions.h"] = room_of["comm_plugin.h"] = "abi"
        room_of["error.h"] = room_of["options.h"] = "base"
        room_of["schedule.h"] = room_of["grad_scaler.h"] = "optim"
        room_of["hook.h"] = room_of["recompute.h"] = "autograd"
        n = split("ops op op_register random autocast relaxed", family, " ")
        for (i = 1; i <= n; i++) room_of[family[i] ".h"] = "ops"
        n = split("activation norm recurrent attention conv embedding layers loss parametrize prune", family, " ")
        for (i = 1; i <= n; i++) room_of["nn_" family[i] ".h"] = "nn"
        room_of["nn_init.h"] = room_of["nn_container.h"] = "nn"
        room_of["sequence.h"] = "nn"
        # lists of parameters, which nn returns and optim accepts
        room_of["parameters.h"] = "parameters"
        # belongs to train, which is above nn and optim
        room_of["checkpoint.h"] = room_of["average.h"] = "train"
        room_of["metric.h"] = room_of["train.h"] = "train"
        room_of["lm.h"] = room_of["tokenizer.h"] = room_of["gguf.h"] = "lm"
        room_of["chat.h"] = "lm"
        room_of["onnx.h"] = "onnx"
        room_of["parallel.h"] = room_of["sharded.h"] = "parallel"
        n = split("npy torch_file dlpack safetensors_shards image transform vision sound events curves", media, " ")
        for (i = 1; i <= n; i++) room_of[media[i] ".h"] = "media"
        room_of["tenon.h"] = "all"
        rank["abi"] = 0
        rank["parameters"] = 19
        rank["train"] = 21
        rank["lm"] = 22
        rank["onnx"] = 22
        rank["media"] = 22
        rank["dist"] = 22
        rank["parallel"] = 23
        rank["all"] = 99
    }
    # Returns why room `from` may not depend on room `to`, or "" if it may.
    # public: whether the dependency is in a public header.
    function wrong(from, to, public) {
        if (!(from in rank)) return from " is no room"
        if (!(to in rank)) return to " is no room"
        if (from == to) return ""
        if (rank[from] >= 20 && from != "all") {
            if (to == "json") return ""
            if (!public) return from " uses public headers alone"
            if (to == "all") return ""
        }
        if (from == "kernel" && to != "base" && to != "abi")
            return "kernel needs base and the plugin ABI alone"
        if (from == "source" && to != "kernel" && to != "base" && to != "abi")
            return "source needs kernel, base and the plugin ABI alone"
        return rank[to] >= rank[from] ? "the arrow points up" : ""
    }
AWK
awk -F '\t' -f "$scratch/rooms.awk" -f - "$scratch/includes" \
    >"$scratch/upward" <<'AWK'
    function complain(why) { print $1 ": includes " $2 ": " why }
    {
        split($1, file, "/"); split($2, target, "/")
        public = target[1] == "tenon"
        if (public && !(target[2] in room_of)) {
            print $1 ": <" $2 "> has no room: tell tests/test_layers.sh"
            next
        }
        to = public ? room_of[target[2]] : target[1]
    }
    file[1] == "lib" || file[1] == "include" {
        from = file[1] == "lib" ? file[2] : room_of[file[3]]
        why = wrong(from, to, public)
        if (rank[from] >= 20 && $2 ~ /^base\/(library_lock|nearest|plain)\.h$/) why = ""
        if (why) complain(why)
        else if (from != to && rank[from] >= 20 && from != "all" &&
                 to == "abi" && target[2] ~ /^plugin/)
            complain(from " knows no plugin")
        next
    }
    file[1] == "backends" || file[1] == "plugins" {
        folder = file[1] "/" file[2] "/"
        if (public && to != "abi")
            complain("a plugin sees <tenon/plugin.h> alone")
        else if (!public && index($2, folder) != 1 &&
                 index($2, "backends/shared/") != 1 &&
                 !(folder == "plugins/mpi/" && $2 == "plugins/local/sum.h"))
            complain("a plugin includes only its own and shared files")
        next
    }
    # The conformance kit contains the interpreter, with which it compares
    # results, and the cache, which is one of the services of a host.
    {
        if (public && target[2] ~ /^plugin/ && file[1] != "tools")
            complain("examples and benchmarks know no plugin")
        else if (file[1] == "tools" && file[2] == "check" &&
                 (target[1] == "base" || target[1] == "kernel" ||
                  target[1] == "source" ||
                  $2 == "device/cache.h")) next
        else if (file[1] == "tools" && $2 == "json/json.h") next
        else if (!public && target[1] != file[1])
            complain("programs use public headers alone")
    }
AWK

# about PATTERN NAME: passes if no upward dependency matches the pattern
about() { is_empty "$(grep -E "^($1)" "$scratch/upward")" "$2"; }
about 'include/' "public headers include only lower ones"
about 'lib/(base|device|tensor|kernel|ops|autograd)/' \
    "the rooms from base to autograd include downward"
about 'lib/(graph|trace|io|data)/' \
    "graph, trace, io and data include downward"
about 'lib/(nn|optim|train|dist|parallel)/' \
    "nn, optim, train, dist and parallel use public headers only"
about 'backends/|plugins/' "plugins include <tenon/plugin.h> only"
about 'tools/|examples/|bench/' "programs use public headers alone"
is_empty "$(awk -F '\t' '$2 ~ /^device\/memory\// &&
    $1 !~ /^lib\/device\/memory\// { print $1 ": " $2 }' "$scratch/includes")" \
    "only the allocator's files include its headers"

# ---- symbols -----------------------------------------------------------------

# The objects of a room may need only symbols of lower rooms. This finds
# dependencies without an include, since a declaration may be in any file. Only
# objects whose source exists are checked, since a build folder keeps the
# objects of deleted sources.
cd "$top_builddir" || exit 99
for room in $rooms; do
    found=0
    for source in $(cd "$top_srcdir" && find "lib/$room" -name '*.c') \
        $(find "lib/$room" -name '*.c'); do
        object=${source%/*}/.libs/${source##*/}
        object=${object%.c}.o
        [ -f "$object" ] || # libtool adds the library's name to the objects of
                            # separate libraries
            for object in "${object%/*}"/lib*_la-"${object##*/}"; do :; done
        [ -f "$object" ] || object=${source%.c}.o
        [ -f "$object" ] || continue
        found=$((found + 1))
        echo "$object"
    done
    [ "$found" -gt 0 ] || echo "$room" >>"$scratch/rooms-without"
done | sort -u >"$scratch/objects"
is_empty "$(cat "$scratch/rooms-without" 2>/dev/null)" \
    "every room of lib has objects"
xargs nm -A -g <"$scratch/objects" 2>/dev/null >"$scratch/needs"
awk -f "$scratch/rooms.awk" -f - "$scratch/needs" "$scratch/needs" \
    >"$scratch/upward" <<'AWK'
    { split($1, file, "/"); object = $1; sub(/:[^:]*$/, "", object) }
    FNR == NR {
        if ($(NF - 1) ~ /^[A-TV-Z]$/) # functions of parameters.h have a room
                                      # of their own (see above)
            home[$NF] = $NF ~ /^tn_parameters_/ ? "parameters" : file[2]
        next
    }
    $(NF - 1) ~ /^[Uw]$/ && $NF in home {
        seen++
        why = wrong(file[2], home[$NF], $NF ~ /^tn_[a-z]/)
        # of library_lock.h and plain.h
        if (rank[file[2]] >= 20 && $NF ~ /^tn__(library_(un)?lock|read_float)$/)
            why = ""
        if (why) print object ": needs " $NF " of " home[$NF] ": " why
    }
    END { if (seen < 1000) print "only " seen + 0 " needs between objects" }
AWK
is_empty "$(cat "$scratch/upward")" \
    "rooms need symbols of lower rooms only"

for built in .libs/libtenon.so .libs/libtenon-lm.so .libs/libtenon-onnx.so .libs/libtenon-media.so .libs/libtenon-parallel.so .libs/libtenon-test.a tenon-1/tn_cpu.so; do
    [ -f "$built" ] || bail_out "$built was not built"
done

# exports FILE: prints the names that the file exports, without those that
# sanitizers add
exports() {
    nm -D --defined-only "$1" |
        awk '$2 ~ /[B-Z]/ { sub(/@.*/, "", $3); print $3 }' |
        grep -vE '^__|^_(init|fini)$' | sort -u
}

# Finds what TN_API marks: after preprocessing, a declaration with default
# visibility. Its name is before the first parenthesis or at the end.
# shellcheck disable=SC2086 # CC may hold options
for header in "$top_srcdir"/include/tenon/*.h include/tenon/*.h; do
    [ -f "$header" ] && echo "#include \"$header\""
done | ${CC:-cc} -std=c11 -E -P -Iinclude -I"$top_srcdir/include" -x c - |
tr '\n' ' ' | tr ';{' '\n\n' |
sed -n 's/.*visibility("default") *)) *//p' |
sed -e 's/(.*//' -e 's/[[:space:]]*$//' -e 's/.*[^A-Za-z0-9_]//' |
grep '^tn_' | sort -u >"$scratch/declared"

{ exports .libs/libtenon.so && exports .libs/libtenon-lm.so &&
    exports .libs/libtenon-onnx.so && exports .libs/libtenon-media.so &&
    exports .libs/libtenon-parallel.so; } |
    sort -u >"$scratch/exported"
is_empty "$(grep -v '^tn_[a-z0-9]' "$scratch/exported")" \
    "libtenon exports only tn_ names"
if nm -D .libs/libtenon.so | grep -q ' A TENON_0$'; then
    is_empty "$(nm -D --defined-only .libs/libtenon.so |
        awk '$2 ~ /[B-Z]/ && $3 !~ /@@?TENON_/')" \
        "each of them has a version"
else
    skip "each of them has a version" "the linker has no symbol versions"
fi
is_empty "$(comm -23 "$scratch/exported" "$scratch/declared")" \
    "each export is declared in a public header"
is_empty "$(comm -13 "$scratch/exported" "$scratch/declared")" \
    "what TN_API marks is exported"

for plugin in tenon-1/*.so; do
    case $plugin in
    */comm_*) entry=tenon_comm_v1 ;;
    *) entry=tenon_plugin_v1 ;;
    esac
    is_str "$(exports "$plugin" | tr '\n' ' ')" "$entry " \
        "$(basename "$plugin") exports $entry alone"
    is_empty "$(nm -D --undefined-only "$plugin" | grep -E ' tn_')" \
        "$(basename "$plugin") links nothing of Tenon"
done

# Names that several files share must begin with tn_. A name that only one file
# uses, apart from tests, should be static there.
nm -A -g .libs/libtenon-test.a >"$scratch/symbols"
awk '$(NF - 1) ~ /^[A-TV-Z]$/ && $NF !~ /^(tn_|__|_GLOBAL_)/ {
        print $NF ": " $1 }' "$scratch/symbols" >"$scratch/unprefixed"
is_empty "$(cat "$scratch/unprefixed")" \
    "names shared between files of the library begin with tn_"

# ---- circles ----------------------------------------------------------------

# Files that depend on each other in a circle can only be understood together.
# Those that exist are listed in tests/circles.txt, which may only become
# shorter.
cd "$top_builddir" || exit 99
# For generated files, such as the operator table, uses the names of the files
# that they are generated from.
(cd "$top_srcdir" && find lib backends plugins -name '*.c') |
    grep -vE '/(table|gradient_table|mathtext|device_text)\.c$' |
    sed 's|^\(.*\)/\([^/]*\)\.c$|\1/.libs/\2.o &\n\1/.libs/*-\2.o &|' |
    while read -r object source; do
        for object in $object; do
            [ -f "$object" ] && echo "$object $source"
        done
    done >"$scratch/compiled"
cut -d ' ' -f 1 "$scratch/compiled" | xargs nm -A -g |
    sed 's|:| |' >"$scratch/needs"
ln -s needs "$scratch/again"
awk '
    FILENAME ~ /compiled$/ { source[$1] = $2; next }
    # a library is lib/, or one backend or one plugin
    {
        split($1, part, "/")
        library = part[1] == "lib" ? "lib" : part[2]
        from = source[$1]
    }
    FILENAME != previous { pass++; previous = FILENAME }
    pass == 1 {
        if ($(NF - 1) ~ /^[A-TV-Z]$/) home[library, $NF] = from
        next
    }
    $(NF - 1) == "U" && (library, $NF) in home && home[library, $NF] != from {
        to = home[library, $NF]
        if (!seen[from, to]++) { edges++; needs[from] = needs[from] " " to }
    }
    function walk(file,    n, next_, i) {
        n = split(needs[file], next_, " ")
        for (i = 1; i <= n; i++)
            if (!(next_[i] in reached)) { reached[next_[i]] = 1; walk(next_[i]) }
    }
    END {
        for (file in needs) {
            delete reached
            walk(file)
            if (file in reached) print file
        }
        if (edges < 1000) print "only " edges + 0 " needs between files"
    }' "$scratch/compiled" "$scratch/needs" "$scratch/again" |
    sort >"$scratch/circles"
sort "$top_srcdir/tests/circles.txt" | grep -v '^#' >"$scratch/known"
is_empty "$(comm -23 "$scratch/circles" "$scratch/known")" \
    "no new file is in a circle of dependencies"
is_empty "$(comm -13 "$scratch/circles" "$scratch/known")" \
    "each file of tests/circles.txt is in a circle"

# (_exit is allowed: it ends the child process that probes a plugin.)
is_empty "$(awk '
    $NF ~ /^(printf|__printf_chk|vprintf|puts|putchar|perror)$/ ||
    $NF ~ /^(abort|exit|quick_exit)$/' "$scratch/symbols")" \
    "the library neither prints nor ends the program"

find tests -name '*.o' -print0 | xargs -0 nm -A -g --undefined-only 2>/dev/null |
    awk '{ print $NF }' | sort -u >"$scratch/tested"
is_empty "$(awk '
    FNR == NR { tested[$1] = 1; next }
    {
        member = $1; sub(/:[^:]*$/, "", member)
        if ($(NF - 1) == "U") used[$NF] = 1
        else if ($NF ~ /^tn__/) home[$NF] = member
    }
    END {
        for (name in home)
            if (!(name in used) && !(name in tested))
                print name ": " home[name]
    }' "$scratch/tested" "$scratch/symbols" | sort)" \
    "a tn__ name is used by more than its own file"

done_testing
