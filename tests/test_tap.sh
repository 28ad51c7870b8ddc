# Tests the test functions themselves: what tap.h and tap.sh print for checks
# that fail.
. "$top_srcdir/tests/tap.sh"

mkdir "$scratch/tests"
cd "$scratch" || exit 99

# fails NAME COMMAND...: passes if the command's status is 1 and its output is
# that in the file want
fails() {
    name=$1
    shift
    "$@" >got 2>&1
    is_str "$?" 1 "$name: the status is 1"
    is_empty "$(diff want got)" "$name: each failure prints its place and values"
}

cat >tests/fails.c <<'END'
#include <tap.h>

int main(void)
{
    int i = 0;
    plan_later();
    ok(i++ == 1, "%s, %d", "a condition", 1);
    is_int(i++, 3, "integers");
    is_int(i++, 2, "a # and a \n in a description");
    is_str("a", NULL, "texts");
    is_double_near(1, 1.5, 0.25, "numbers");
    is_int(i, 3, "each argument is evaluated once");
    skip(1, "a reason");
    return done_testing();
}
END
cat >want <<'END'
not ok 1 - a condition, 1
#   at tests/fails.c:7: i++ == 1
not ok 2 - integers
#   at tests/fails.c:8: i++
# got 1, want 3
ok 3 - a \# and a \n in a description
not ok 4 - texts
#   at tests/fails.c:10: "a"
# got  a
# want (NULL)
not ok 5 - numbers
#   at tests/fails.c:11: 1
# got 1, want 1.5 within 0.25
ok 6 - each argument is evaluated once
ok 7 # SKIP a reason
1..7
END
unset TENON_PLUGIN_PATH # tap.h looks for the plugin otherwise
if succeeds "a program with tap.h compiles" \
    $CC -std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror -I"$top_srcdir/tests" \
    -o fails tests/fails.c -lm
then
    fails "tap.h" ./fails
fi

cat >tests/ends.c <<'END'
#include <tap.h>

int main(void)
{
    plan_later();
    bail_out("no %s", "device");
}
END
if succeeds "a program that bails out compiles" \
    $CC -std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror -I"$top_srcdir/tests" \
    -o ends tests/ends.c -lm
then
    ./ends >got
    is_str "$?" 99 "bail_out: the status is 99"
    is_str "$(cat got)" "#   at tests/ends.c:6
Bail out! no device" "bail_out: it prints its place and the reason"
fi

cp "$top_srcdir/tests/tap.sh" tests/
cat >tests/fails.sh <<'END'
. "$top_srcdir/tests/tap.sh"
device=cpu
is_empty "" "nothing"
is_empty "a
b" "two lines"
is_str "a b" "c" "texts on $device"
succeeds "a command" sh -c 'echo output; exit 3'
skip "a device" "a reason"
done_testing
END
cat >want <<'END'
ok 1 - nothing
not ok 2 - two lines
#   at tests/fails.sh:5
# a
# b
not ok 3 - texts on cpu
#   at tests/fails.sh
# got  a b
# want c
not ok 4 - a command
#   at tests/fails.sh:7
# sh -c echo output; exit 3
# output
ok 5 - a device # SKIP a reason
1..5
END
fails "tap.sh" env top_srcdir="$scratch" sh tests/fails.sh
done_testing
