# Runs programs of examples/programs with few steps. Each must reach the
# expected loss or accuracy, and print the same on every run and for any number
# of threads. Those that are quick enough also run on the reference device.
. "$top_srcdir/tests/tap.sh"
. "$top_srcdir/tests/programs.sh"

# agrees WORDS NAME [ARGUMENT ...]: passes if the number after the last WORDS
# on the reference device equals that on the cpu to a hundredth. (The devices
# round the sums in matrix products differently, and training amplifies the
# difference.)
agrees() {
    words=$1 name=$2
    shift
    TENON_DEVICE=cpu "$programs/$@" >"$scratch/cpu" 2>&1
    TENON_DEVICE=reference succeeds "$* runs on reference" "$programs/$@"
    mv "$scratch/output" "$scratch/reference"
    is_empty "$(awk -v a="$(number_after cpu "$words")" \
        -v b="$(number_after reference "$words")" 'BEGIN {
        if (a == "" || (a - b) ^ 2 > (a / 100) ^ 2) print a, "and", b }')" \
        "$name: $words is that of the cpu"
}

# Compares the numbers of lines. README.md in that folder has the table.
succeeds "no program has more than 1.8 times PyTorch's lines" \
    sh "$top_srcdir/examples/programs/count.sh"
is_str "$(sed -n '/^| program | what/,/^$/p' \
    "$top_srcdir/examples/programs/README.md" | sed '/^$/d')" \
    "$(cat "$scratch/output")" "README.md has the table of count.sh"

# The speed differs from run to run, so it is not compared.
TENON_DEVICE=cpu succeeds "device_check runs" \
    "$programs/device_check" cpu reference
mv "$scratch/output" "$scratch/device_check"
prints device_check '^cpu:.* ok$'
prints device_check '^reference:.* ok$'
"$programs/device_check" nothing >"$scratch/device_check" 2>&1
is_str $? 1 "device_check fails for a device that does not exist"
prints device_check '^nothing: .*nothing'

runs linear_regression 3
below linear_regression loss 0.00012
agrees loss linear_regression 3

runs cnn "$digits" 3
above cnn "test accuracy" 0.95

runs vae "$digits" 10
below vae loss 26
agrees loss vae "$digits" 1

# A uniform guess among the characters of this text has a loss of more than 4
# nats.
runs char_lstm "$text" 3
below char_lstm loss 3.2

runs physics 500
below physics "greatest error" 0.1
agrees loss physics 10

runs own_module 4
above own_module accuracy 0.8
prints own_module 'norm\): Standardize\(momentum=0.1\)'
agrees accuracy own_module 2

# A missing file must be reported, and the program must fail.
for name in cnn vae char_lstm; do
    "$programs/$name" missing.csv >"$scratch/output" 2>&1
    is_str $? 1 "$name fails without its data"
    is_str "$(grep -c "^$name: .*missing.csv: No such file" \
        "$scratch/output")" 1 "$name names the file"
done

echo short >"$scratch/short"
"$programs/char_lstm" short >"$scratch/output" 2>&1
is_str "$(cat "$scratch/output")" "char_lstm: the text short is too short" \
    "a text that is too short is reported"

done_testing
