# Tests tenon scale: its predictions against the formulas of docs/scale.md, worked
# out by hand.
. "$top_srcdir/tests/tap.sh"

here=$(cd "$top_srcdir" && pwd)
cd "$top_builddir" || exit 99

# scale ARGUMENT...: sets $status; output in $scratch/out and $scratch/err
scale() {
    tools/tenon scale "$@" >"$scratch/out" 2>"$scratch/err"
    status=$?
}
# value ROW COLUMN: of the table of steps; ROW is the beginning of the line
value() { grep -m1 -E "^$1 +[0-9]" "$scratch/out" | sed -E "s/^$1 +//" | awk "{print \$$2}"; }
reduce() { awk -v n="$1" -v c="$2" '$1 == n {print $c; exit}' "$scratch/out"; }

# Collectives, with the constants that the help names.
scale --parameters 1000000 --step-ms 10 --bucket-mb 25 --gpus 8,64,4096
is_str "$status" 0 "tenon scale predicts"
# 20 us + 2 * 7 * 3 us + 2 * 7/8 * 25 MB / 360 GB/s
is_str "$(reduce 8 2)" 0.184 "all_reduce in a node"
# hops of (7 * 3 + 12) / 8 us: 20 us + 2 * 63 * 4.125 us + 2 * 63/64 * 25 / 360
is_str "$(reduce 64 2)" 0.676 "one ring over 64"
# 20 us + 2 * (21 us + 60.8 us + 20 us + 3 * 12 us + 7/8 * 25/8 MB / 45 GB/s)
is_str "$(reduce 64 4)" 0.417 "within nodes, then between"
is_str "$(reduce 4096 2)" 33.943 "one ring over 4096 is slow"

# Without latency, and with endless bandwidth, only compute is left.
free="--launch-us 0 --inside-us 0 --between-us 0 --inside-gbs 1e15
    --between-gbs 1e15 --memory-gbs 1e15"
scale --parameters 1e9 --layers 10 --step-ms 50 --gpus 16 $free
for row in "ddp 25 MB, one ring" "ddp 25 MB" "zero1 5 MB" "fsdp, 0 ahead" \
    "hsdp 64, 1 ahead"; do
    is_str "$(value "$row" 1)" 50.00 "$row: compute alone"
    is_str "$(value "$row" 2)" 1.000 "all of it"
done

# Nothing hidden: one bucket, which is full at the end.
scale --parameters 1e9 --step-ms 30 --gpus 2 --bucket-mb 4000 --node 2 $free \
    --inside-gbs 100
is_str "$(value "ddp 4000 MB" 1)" 50.00 "2 GB at 100 GB/s take 20 ms"
scale --parameters 1e9 --step-ms 30 --gpus 2 --bucket-mb 500 --node 2 $free \
    --inside-gbs 100
# 4 buckets of 5 ms each, full at 15, 20, 25, 30 ms
is_str "$(value "ddp 500 MB" 1)" 35.00 "all but the last bucket are hidden"
scale --parameters 1e9 --step-ms 30 --gpus 2 --bucket-mb 500 --node 2 $free \
    --inside-gbs 100 --busy 1
is_str "$(value "ddp 500 MB" 1)" 50.00 "unless compute stands still meanwhile"

scale --parameters 1e9 --step-ms 30 --gpus 1 $free --memory-gbs 100
# (2 * 2 + 2 + 2 * 12) bytes for the optimizer, and 4 * 2 for the buckets
is_str "$(value "ddp 25 MB" 1)" 410.00 "what passes through memory"

# Memory: 2 + 2 + 2 + 12 bytes a parameter, of which 12 are shared by 4; all by 4,
# and one of ten layers more.
scale --parameters 1e9 --layers 10 --step-ms 30 --gpus 4 --prefetch 0
is_str "$(value "ddp 25 MB" 3)" 18.00 "memory of ddp"
is_str "$(value "zero1 25 MB" 3)" 9.00 "of zero1"
is_str "$(value "fsdp, 0 ahead" 3)" 4.40 "of fsdp"
cat >"$scratch/step-1.txt" <<'EOT'
step on cpu:0
3 recorded calls of the device, 2 per replay
temporary tensors: 96 bytes, at most 96 at the same time, in an arena of 2000000000 bytes; no arena can have less than 64 bytes
EOT
scale --parameters 1e9 --layers 10 --step-ms 30 --gpus 4 --report "$scratch/step-1.txt"
is_str "$(value "ddp 25 MB" 3)" 20.00 "and of temporary tensors, from a report"

# The largest of 64 standard normal numbers is 2.337 (Blom's formula).
scale --parameters 1e6 --step-ms 100 --gpus 64 $free --jitter 0.1
is_str "$(value "ddp 25 MB" 1)" 123.37 "stragglers"

# A file of parameters says the same as their number.
scale --parameters "$here/tests/golden/packed.safetensors" --step-ms 1
is_str "$status" 0 "parameters from a safetensors file"

scale --parameters 1e6
is_str "$status" 2 "a time is needed"
scale --parameters 1e6 --step-ms 1 --gpus 8,none
is_str "$status" 2 "a list of numbers is needed"
is_str "$(head -1 "$scratch/err")" "tenon scale: --gpus 8,none" "the error names it"
scale --parameters 1e6 --step-ms -1
is_str "$status" 2 "times are above 0"
scale --parameters "$scratch/none.safetensors" --step-ms 1
is_str "$status" 1 "a file must exist"
scale --parameters 1e6 --step-ms 1 --report "$scratch/none.txt"
is_str "$status" 1 "also a report"

done_testing
