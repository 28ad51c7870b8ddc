# Tests the messages of ./quickstart if something is missing, without changing
# this machine: it runs in a temporary folder, with a PATH of few programs.
. "$top_srcdir/tests/tap.sh"

mkdir "$scratch/bin" "$scratch/tree"
cp "$top_srcdir/quickstart" "$scratch/tree/"
for needed in sh dirname date mkdir grep sed tail cat; do
    ln -s "$(command -v $needed)" "$scratch/bin/$needed"
done
# provide NAME TEXT: makes a program of this name that prints the text
provide() {
    printf '#!%s\n%s\n' "$(command -v sh)" "$2" >"$scratch/bin/$1"
    chmod +x "$scratch/bin/$1"
}
# quickstart ARGUMENT...: runs quickstart and prints its exit status, then its
# output
quickstart() {
    (cd "$scratch/tree" && env -i PATH="$scratch/bin" sh ./quickstart "$@" \
        </dev/null >"$scratch/said" 2>&1)
    echo "status $?" >>"$scratch/said"
}
# says TEXT NAME: passes if the output contains the text
says() {
    if grep -qF -e "$1" "$scratch/said"; then
        pass "$2"
    else
        fail "$2"
        note <"$scratch/said"
    fi
}

quickstart train
says "usage: ./quickstart" "an unknown word is answered with the usage"
says "status 1" "and fails"

provide id "echo 1000"
provide apt-get "exit 1"
quickstart
says "su -c 'apt-get update && apt-get install -y" \
    "without rights, the one command to type is printed"
says " autoconf automake libtool make " "the command names what is missing"
says "status 1" "and quickstart fails"

provide sudo 'test "$1" = -n && exit 1; echo "asked for a password"'
quickstart
says "su -c 'apt-get" "a sudo that wants a password is not asked off a terminal"

provide id "echo 0"
provide apt-get 'echo "E: no such mirror"; exit 100'
quickstart
says "E: no such mirror" "a failed installation shows what apt-get said"
says "status 1" "and quickstart fails"

provide apt-get "exit 0"
quickstart
says "still missing: autoconf" \
    "an installation that installed nothing is an error"

rm "$scratch/bin/apt-get"
quickstart
says "missing, by Debian's names: autoconf" \
    "without apt-get the packages are named"

done_testing
