# `tenon checkpoint`: what four processes have saved is listed, checked and
# joined; what is damaged is an error in one line.
. "$top_srcdir/tests/tap.sh"
tenon=$top_builddir/tools/tenon
trains=$top_builddir/tests/dist/test_sharded
for built in "$tenon" "$trains"; do
    [ -x "$built" ] || bail_out "$built was not built"
done
# checkpoint ARGUMENT...: sets status, and writes $scratch/out and $scratch/err
checkpoint() {
    timeout -k 1 20 "$tenon" checkpoint "$@" >"$scratch/out" 2>"$scratch/err"
    status=$?
}
# out PATTERN NAME: passes if a line of the output matches
out() {
    if grep -qE -e "$1" "$scratch/out"; then
        pass "$2"
    else
        fail "$2"
        note <"$scratch/out"
    fi
}

timeout -k 1 60 "$tenon" run -n 4 "$trains" "train:$scratch" \
    >"$scratch/out" 2>&1
is_str "$?" 0 "four processes train and save"
is_str "$(cd "$scratch/4" && echo *)" step-000000000003 "in one folder"
step=$scratch/4/step-000000000003
is_str "$(ls "$step" | tr '\n' ' ')" "COMPLETE rank-00000-of-00004.safetensors \
rank-00001-of-00004.safetensors rank-00002-of-00004.safetensors \
rank-00003-of-00004.safetensors " "four files, and COMPLETE"

checkpoint info "$scratch/4"
is_str "$status" 0 "info succeeds"
out "^$step\$" "it says which checkpoint is the latest"
out '^step 3, [0-9]+ tensors in 4 files$' "its step"
out '^float32 +\[3, 32\] +1 piece +module\.5\.weight$' "a tensor in one file"
out '^float32 +\[6, 8\] +4 pieces +other\.block$' "and one in pieces"
checkpoint info -v "$step"
out '^    \[6, 2\] at \[0, 4\] in rank-00002-of-00004\.safetensors$' \
    "-v says where they are"

checkpoint verify "$step"
is_str "$status" 0 "verify succeeds"
out 'all hashes are right$' "and says so"
checkpoint merge "$step" "$scratch/one.safetensors"
is_str "$status" 0 "merge succeeds"
checkpoint info "$scratch/one.safetensors"
out '^step 3, [0-9]+ tensors in 1 file$' "the file is a checkpoint"
out '^float32 +\[6, 8\] +1 piece +other\.block$' "without pieces"
checkpoint verify "$scratch/one.safetensors"
out 'a file of one process has no hashes$' "which has no hashes"
is_str "$(ls "$scratch" | grep -c tmp)" 0 "nothing is left beside it"

file=$step/rank-00002-of-00004.safetensors
size=$(wc -c <"$file")
printf X | dd of="$file" bs=1 seek=$((size - 9)) conv=notrunc 2>/dev/null
checkpoint verify "$step"
is_str "$status" 1 "a damaged file is an error"
is_str "$(grep -c 'rank-00002-of-00004.safetensors: damaged: ".*" does not have its hash$' "$scratch/err")" \
    1 "that names the file and the tensor"
rm "$step/COMPLETE"
checkpoint info "$scratch/4"
is_str "$status" 1 "without COMPLETE there is no checkpoint"
is_str "$(cat "$scratch/err")" \
    "tenon: sharded_open: $scratch/4: no complete checkpoint is there" \
    "and the message says so"
for wrong in "" info "info a b" "merge a" "verify" other; do
    checkpoint $wrong
    is_str "$status" 2 "a wrong command line: $wrong"
done
done_testing
