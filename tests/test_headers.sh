# Each public header must compile alone with strict warnings, as C11 and as
# C++17, with gcc and with clang if they are installed.
. "$top_srcdir/tests/tap.sh"

headers=$(cd "$top_srcdir/include" && ls tenon/*.h
          cd "$top_builddir/include" 2>/dev/null && ls tenon/*.h 2>/dev/null)
headers=$(printf '%s\n' "$headers" | sort -u)
strict="-fsyntax-only -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wundef
        -Werror -I$top_builddir/include -I$top_srcdir/include"

# alone LANGUAGE STANDARD WARNINGS COMPILER...: compiles each header alone
alone() {
    language=$1 standard=$2 more=$3
    shift 3
    for compiler do
        if ! command -v "$compiler" >/dev/null; then
            skip "$language, $compiler" "$compiler is not installed"
            continue
        fi
        for header in $headers; do
            printf '#include <%s>\n#include <%s>\n' "$header" "$header" \
                >"$scratch/alone.$language"
            # shellcheck disable=SC2086 # lists of options
            succeeds "<$header> compiles alone: $compiler $standard" \
                "$compiler" "$standard" $strict $more "$scratch/alone.$language"
        done
    done
}

# Public structs must have a size field, or a comment that says that fields are
# never added.
cd "$top_srcdir/include" || exit 99
is_empty "$(awk '
    FNR == 1 { closed = 0 }
    /(Closed|is closed)[.;:]/ { closed = 1 }
    /^(typedef )?struct tn_[a-z_0-9]+ \{/ {
        name = $0; sub(/ \{.*/, "", name); sub(/.* /, "", name)
        inside = name; sized = 0
    }
    inside && /^    (size_t|uint32_t|uint16_t) size[;,]/ { sized = 1 }
    inside && /^}/ {
        if (!sized && !closed) print FILENAME ": " inside
        inside = ""; closed = 0
    }' $(ls tenon/*.h | grep -v plugin))" \
    "public structs have a size field or are closed"

# The opening comment of each header must say what threads may share.
is_empty "$(for header in $headers; do
    file=$top_srcdir/include/$header
    [ -f "$file" ] || file=$top_builddir/include/$header
    case $header in *plugin*) continue ;; esac
    sed '/\*\//q' "$file" | grep -q '^ \* Threads: ' || echo "$header"
done)" "public headers say what threads may share"

# Regions may be nested and repeated, also on one line: their variables do not
# shadow each other.
regions() {
    language=$1 standard=$2
    shift 2
    cat >"$scratch/regions.$language" <<END
#include <tenon/tenon.h>
#define TWICE TN_NO_GRAD TN_NO_GRAD
int main(void)
{
    int runs = 0;
    TN_NO_GRAD { TN_NO_GRAD { runs++; } TN_NO_GRAD { runs++; } }
    TN_NO_GRAD TN_NO_GRAD runs++;
    TWICE { TN_AUTOCAST(TN_BF16) TN_AUTOCAST(TN_F16) runs++; }
    TN_DETECT_ANOMALY TN_DETECT_ANOMALY { TN_NO_GRAD_HERE; TN_NO_GRAD_HERE; runs++; }
    TN_SCOPE(a) TN_SCOPE(b) { TN_SCOPE(c) { runs++; } TN_SCOPE(c) runs++; }
    TN_RELAXED(true) { TN_RELAXED_HERE(false); TN_RELAXED(true) runs++; }
    { TN_AUTOCAST_HERE(TN_BF16); { TN_AUTOCAST_HERE(TN_F16); runs++; } }
    return runs;
}
END
    for compiler do
        if ! command -v "$compiler" >/dev/null; then
            skip "regions: $compiler $standard" "$compiler is not installed"
            continue
        fi
        # shellcheck disable=SC2086 # lists of options
        succeeds "regions on one line: $compiler $standard" \
            "$compiler" "$standard" $strict "$scratch/regions.$language"
    done
}
regions c -std=c11 gcc clang
regions cpp -std=c++17 g++ clang++

# The macros for a program's own modules. (g++ warns about every member that an
# initialiser omits.)
modules() {
    language=$1 standard=$2
    shift 2
    cat >"$scratch/modules.$language" <<END
#include <tenon/tenon.h>
struct net {
    tn_module base;
    tn_module *fc;
    tn_tensor *scale, *mean;
};
static tn_tensor *net_forward(tn_module *self, tn_tensor *x)
{
    struct net *net = (struct net *)self;
    return tn_mul(tn_forward(net->fc, tn_sub(x, net->mean)), net->scale);
}
static const tn_module_class net_class =
    TN_MODULE_CLASS(struct net, "Net", .forward = net_forward);
int main(void)
{
    struct net *net = (struct net *)tn_module_new(&net_class);
    TN_MODULE_ADD(net, fc, tn_nn_linear(2, 3));
    TN_MODULE_ADD_PARAMETER(net, scale, tn_ones(tn_dims(1)));
    if (net)
        TN_MODULE_ADD_BUFFER(net, mean, tn_zeros(tn_dims(2)));
    else
        return 1;
    return !tn_forward((tn_module *)net, tn_ones(tn_dims(2)));
}
END
    for compiler do
        if ! command -v "$compiler" >/dev/null; then
            skip "modules: $compiler $standard" "$compiler is not installed"
            continue
        fi
        # shellcheck disable=SC2086 # lists of options
        succeeds "modules of one's own: $compiler $standard" \
            "$compiler" "$standard" $strict -Wno-missing-field-initializers \
            "$scratch/modules.$language"
    done
}
modules c -std=c11 gcc clang
modules cpp -std=c++20 g++ clang++

alone c -std=c11 -Wstrict-prototypes gcc clang
alone cpp -std=c++17 "" g++ clang++
done_testing
