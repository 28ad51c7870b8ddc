# Runs bench/compare. Its table and its JSON must be well-formed,
# and the chart must be drawn from the JSON. Times are not checked.
. "$top_srcdir/tests/tap.sh"

cd "$top_builddir" || exit 99

# on_cuda COMMAND...: runs the command on the simulated driver
on_cuda() {
    LD_LIBRARY_PATH=$PWD/tests/sim/driver${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} \
        TENON_CUDA_CODE=ptx TENON_DEVICE=cuda "$@"
}

json=$scratch/run.json
TENON_BENCH_PYTHON=false succeeds "compare runs without torch" \
    bench/compare --quick --only dispatch --json "$json"
cp "$scratch/output" "$scratch/table"
is_str "$(awk '$1 == "dispatch" { print $2 }' "$scratch/table" | tr '\n' ' ')" \
    "add add_recorded matmul relu sum chain start " "each workload has a line"
is_str "$(grep -c 'PyTorch is not measured' "$scratch/table")" 1 \
    "it reports that there is no torch"

# Parses the JSON in awk. No text may be left after the value.
is_str "$(tr -d '\n' <"$json" | awk '{
    gsub(/"([^"\\]|\\.)*"/, "0")
    gsub(/true|false|null|[0-9][0-9.]*/, "0")
    gsub(/[ \t]/, "")
    do {
        before = $0
        gsub(/\{0:0(,0:0)*\}|\[0(,0)*\]|\{\}|\[\]/, "0")
    } while ($0 != before)
    print
}')" 0 "the JSON is well-formed"
is_str "$(grep -c '"tenon": {"median_ns": [0-9.]*[1-9]' "$json")" 7 \
    "the JSON has a time for each workload"

# Replaces the missing times of torch by invented ones. The chart must then
# have a bar for each.
sed 's/"torch": null, "tuned": null/"torch": {"median_ns": 9000.0, "x": 0}, "tuned": {"median_ns": 8000.0, "x": 0}/' \
    "$json" | awk -f "$top_srcdir/bench/chart.awk" >"$scratch/run.svg"
is_str "$(grep -c 'height="12"' "$scratch/run.svg")" 7 \
    "the chart has a bar for each workload"
is_str "$(grep -c 'dispatch: add 1<' "$scratch/run.svg")" 1 \
    "and its name"

is_str "$(TENON_BENCH_PYTHON=false bench/compare --quick --only dispatch.add |
    awk '$1 == "dispatch" { print $2 }' | tr '\n' ' ')" "add add_recorded " \
    "--only selects a part of a group"
TENON_BENCH_PYTHON=false bench/compare --quick --only rows.add_row \
    --json "$scratch/limit.json" >"$scratch/output"
is_str "$(sed -n 's/.*"tenon": .*rounds_ns": \[\([^]]*\)\].*"limit": .*rounds_ns": \[\([^]]*\)\].*/\1 \2/p' \
    "$scratch/limit.json" | awk '{ print ($1 ~ /,/), (NF > 2), ($NF ~ /,/) }')" \
    "1 1 0" "the limit is that of its quickest round, not of a disturbed one"
is_str "$(awk '$1 == "rows" { print $NF }' "$scratch/output")" memory \
    "what it is of is told"
# limit_of WORKLOAD: prints 1 for each of three limits, and 1 if the output
# names the greatest one. Which one that is depends on the machine.
limit_of() {
    TENON_BENCH_PYTHON=false bench/compare --quick --only "$1" \
        --json "$scratch/limit.json" | awk -v name="${1#*.}" \
        '$2 == name { print $NF }' >"$scratch/output"
    sed -n 's/.*"memory_ns": \([0-9.]*\), "multiply_ns": \([0-9.]*\), "any_ns": \([0-9.]*\)}.*/\1 \2 \3/p' \
        "$scratch/limit.json" | head -n 1 |
        awk -v named="$(cat "$scratch/output")" '{
            name = $1 >= $2 && $1 >= $3 ? "memory" : $2 >= $3 ? "fma" : "any"
            print ($1 > 0), ($2 > 0), ($3 > 0), (name == named)
        }'
}
is_str "$(limit_of special.erfinv)" "1 1 1 1" \
    "a function has limits of instructions and of memory"
is_str "$(limit_of indexing.rand)" "1 1 1 1" "so have random numbers"
is_str "$(TENON_BENCH_PYTHON=false bench/compare --quick --only linalg.inv |
    awk '$1 == "linalg" { print $NF }' | uniq)" - \
    "a workload of unknown work has no limit"
is_str "$(bench/compare --only nothing 2>/dev/null; echo $?)" 2 \
    "an unknown group is refused"
is_str "$(bench/compare --only nothing 2>&1 | head -n 1)" \
    'compare: --only: no workload has the name "nothing"' "and named"
is_str "$(bench/compare --beside tuned,faster 2>&1 | head -n 1)" \
    'compare: --beside: unknown way "faster"' "so is an unknown way of PyTorch's"
is_str "$(TENON_BENCH_PYTHON=false bench/compare --quick --only dispatch.add \
    --beside libtorch | awk '$1 == "workload" { print $4, $5, $6, $7, $8 }')" \
    "median spread /Tenon limit of" "columns are those that were asked for"

is_str "$(TENON_BENCH_PYTHON=false bench/compare --losses --only training.mlp \
    --beside torch 2>&1 >/dev/null; echo $?)" "compare: torch cannot be started
1" "losses beside nobody are a failure"

# The groups layer and optimizer. Their workloads are rows of files. There must
# be at least one row for each layer and each optimizer, and each row must run.
named() { # FILE: prints the classes of the file's rows
    sed '/^#/d; s/[._\t].*//' "$top_srcdir/bench/$1" | sort -u
}
if bench/compare --only nothing 2>&1 | grep -q '^groups:.* layer optimizer'; then
    sed -n 's/^\([A-Za-z0-9]*\) tn_nn_.*/\1/p' \
        "$top_srcdir/tests/golden/modules.txt" |
        grep -vxE 'Sequential|Module(List|Dict)|ParameterList|Identity' | sort \
        >"$scratch/layers"
    named layers.tsv >"$scratch/rows"
    is_empty "$(comm -23 "$scratch/layers" "$scratch/rows")" \
        "$(wc -l <"$scratch/layers") layers have a row"
    sed -n 's/^TN_API tn_optim \**tn_optim_\([a-z]*\)_with(.*/\1/p
            s/^tn_optim_\([a-z]*\)_with(tn_parameter_list.*/\1/p' \
        "$top_srcdir/include/tenon/optim.h" | sort -u >"$scratch/optimizers"
    named optimizers.tsv | tr '[:upper:]' '[:lower:]' | sort -u >"$scratch/rows"
    is_empty "$(diff "$scratch/optimizers" "$scratch/rows")" \
        "so have $(wc -l <"$scratch/optimizers") optimizers"
    for group in layer optimizer; do
        TENON_NUM_THREADS=1 TENON_BENCH_PYTHON=false succeeds \
            "each row of $group runs" \
            bench/compare --quick --rounds 1 --sorted --only $group
        is_str "$(sed '1,/^by PyTorch/d' "$scratch/output" | wc -l)" \
            "$(grep -vc '^#' "$top_srcdir/bench/${group}s.tsv")" \
            "and is in the table by the ratio"
    done
    # a program that acts as a Python with torch: relu takes 1 ms, everything
    # else 2 ms
    cat >"$scratch/python" <<'EOF'
#!/bin/sh
echo torch made-up
while read -r word name size; do
    case $word in
    open) slow=2e9; [ "$name" = layer.ReLU ] && slow=1e9; echo ready ;;
    *) echo $slow ;;
    esac
done
EOF
    chmod +x "$scratch/python"
    is_str "$(TENON_BENCH_PYTHON=$scratch/python bench/compare --quick \
        --rounds 2 --sorted --beside torch --only layer.R |
        sed '1,/^by PyTorch/d' | awk '$5 < r { bad++ } { r = $5 }
            END { print NR, bad + 0 }')" \
        "$(grep -c '^R' "$top_srcdir/bench/layers.tsv") 0" \
        "which begins with the lowest"
    mkdir "$scratch/bench"
    for text in 'Linear' 'Linear	[]	normal:2x2' 'Linear	{"in_features": 2' ; do
        echo "$text" >"$scratch/bench/layers.tsv"
        is_str "$(TENON_BENCH_FOLDER=$scratch/bench bench/compare 2>&1)" \
            "compare: layers.tsv, line 1: the line must have three columns: a name, a JSON object and a text" \
            "a row is refused: $(echo "$text" | tr '\t' ' ')"
    done
    touch "$scratch/bench/optimizers.tsv"
    for row in 'Lineal {} normal:2x2=such layer' \
        'ReLU {} odd:2x2=such kind of input'; do
        echo "${row%=*}" | tr ' ' '\t' >"$scratch/bench/layers.tsv"
        is_str "$(TENON_BENCH_FOLDER=$scratch/bench TENON_BENCH_PYTHON=false \
            bench/compare --quick --only layer 2>&1 >/dev/null |
            sed 's/^compare: .*layers.tsv: //')" \
            "$(echo "${row%% *}: there is no ${row#*=}")" \
            "a row that cannot run is refused: ${row%=*}"
    done
    rm "$scratch/bench/layers.tsv"
    is_str "$(TENON_BENCH_FOLDER=$scratch/bench bench/compare 2>&1 |
        sed 's|^compare: .*/||')" "layers.tsv: No such file or directory" \
        "a missing table is reported"
else
    skip "layers and optimizers" \
        "jansson was not there when configure ran"
fi
for n in 0 1001 2x ''; do
    is_str "$(bench/compare --rounds "$n" 2>&1 | head -n 1)" \
        "compare: --rounds needs a number from 1 to 1000" "--rounds \"$n\" is refused"
done

# A small GPT-2, whose losses must be the same on every device.
losses() {
    "$@" bench/compare --losses --only large --size 1,8,1 2>&1
}
python=${TENON_BENCH_PYTHON-python3}
export TENON_BENCH_PYTHON=false
is_str "$(bench/compare --quick --only large --size 1,8,1 |
    awk '$1 == "large" { print $2, $3 }' | tr '\n' ' ')" \
    "gpt2 1x8x1 gpt2_f32 1x8x1 " "workloads have the sizes that are asked for"
is_str "$(bench/compare --size 8,0 2>&1 | head -n 1)" \
    "compare: --size needs one to three numbers, such as 8,1024,12" "no others"
is_str "$(bench/compare --only large --size 8,16 2>&1 | head -n 1)" \
    "compare: --size: gpt2 has 3 sizes, not 2" "and as many as there are"
is_str "$(bench/compare --quick --only data --except data 2>&1 | head -n 1)" \
    'compare: --only: no workload has the name "data"' "a group can be left out"
is_str "$(bench/compare --except data,dat 2>&1 | head -n 1)" \
    'compare: --except: "data,dat" contains an unknown group' "if there is such a group"
is_str "$( (trap '' XFSZ; ulimit -f 16
    bench/compare --losses --only training.mlp 2>&1) |
    sed 's/bench-[^ ]*/bench-X/')" \
    "compare: the file /tmp/tenon-bench-X cannot be written: File too large" \
    "a full disk is reported"
losses env >"$scratch/losses"
is_str "$(grep -cE '^large gpt2.*  tenon 10\.[0-9]+ 10\.[0-9]+ 10\.[0-9]+$' \
    "$scratch/losses")" 2 "GPT-2 learns, in bfloat16 and in float32"
if on_cuda tools/tenon info >"$scratch/output" 2>&1; then
    losses on_cuda >"$scratch/on_cuda"
    is_str "$(paste "$scratch/losses" "$scratch/on_cuda" | awk '
        { for (i = 4; i < 7; i++) if (($i - $(i + 6)) ^ 2 < 1e-6) same++ }
        END { print same }')" 6 "with the same losses by CUDA, to 1e-3"
    note <"$scratch/on_cuda"
else
    skip "with the same losses by CUDA" "$(tail -n 1 "$scratch/output")"
fi

# A program that acts as a PyTorch without the first workload, and with
# different losses for the second one.
cat >"$scratch/python" <<'EOF'
#!/bin/sh
echo torch made-up
while read -r word count file name size; do
    case $name in
    *_f32) echo 1 2 3 ;;
    *) echo none ;;
    esac
done
EOF
chmod +x "$scratch/python"
is_str "$(TENON_BENCH_PYTHON=$scratch/python bench/compare --losses \
    --only large --size 1,8,1 --beside torch >"$scratch/output" 2>&1; echo $?)" \
    1 "another network is a failure"
is_str "$(sed 's/  tenon.*  torch/ torch/' "$scratch/output")" \
    "large gpt2 torch none
large gpt2_f32 torch 1.00000 2.00000 3.00000 (9e-01: too different)" \
    "and is reported, as is a missing one"

TENON_BENCH_PYTHON=$python
if "$python" -c 'import torch' >/dev/null 2>&1; then
    # Different convolution algorithms round differently. In resnet20 that grows
    # to 2e-4 in the second step and 3.5e-3 in the third; with direct sums it is
    # 6e-7.
    succeeds "PyTorch's networks have the losses of ours" \
        env TENON_CPU_WINOGRAD=0 bench/compare --losses --only training --beside torch
    note <"$scratch/output"
    succeeds "so does its GPT-2" \
        bench/compare --losses --only large --size 2,16,2 --beside torch
    note <"$scratch/output"
else
    skip "PyTorch's networks have the losses of ours" \
        "TENON_BENCH_PYTHON (python3) has no torch"
fi

# Measures how the time increases with the size and decreases with the threads.
is_str "$(TENON_NUM_THREADS=1 bench/scaling sizes --quick --up-to 4 add sum |
    awk '$1 == "add" || $1 == "sum" { print $1, NF, ($2 > 0), ($5 > 0) }')" \
    "add 7 1 1
sum 7 1 1" "times per element have a column for each size"
TENON_NUM_THREADS=2 bench/scaling threads --quick l2 rows.add \
    >"$scratch/output" 2>&1
is_str "$(awk '/^(l2|rows)/ { print $1, NF, $7, ($8 > 0) }' "$scratch/output")" \
    "l2.exp 8 fma 1
l2.gelu 8 fma 1
rows.add_row 8 memory 1" "scaling is measured beside a raw loop's"
is_str "$(TENON_NUM_THREADS=1 bench/scaling threads 2>&1 >/dev/null)" \
    "scaling: Tenon uses one thread only; set TENON_NUM_THREADS to more" "scaling threads needs two threads"
is_str "$(bench/scaling sizes --up-to 0 2>&1 | head -n 1 | cut -c 1-14)" \
    "usage: scaling" "a size of nothing is refused"

# Measures the memory of training steps.
is_str "$(TENON_BENCH_PYTHON=false bench/memory |
    awk '{ print $1, ($2 > 0), $3 }' | tr '\n' ' ')" \
    "model 1 PyTorch mlp 1 - cnn 1 - lstm 1 - encoder 1 - deep 1 - process 1 - " \
    "each model and the process have a peak"
if "$python" -c 'import torch' >/dev/null 2>&1; then
    TENON_BENCH_PYTHON=$python bench/memory >"$scratch/output"
    is_str "$(awk 'NR > 1 && $4 >= 1 { n++ } END { print n }' \
        "$scratch/output")" 6 "no more than PyTorch's"
    note <"$scratch/output"
else
    skip "no more than PyTorch's" "TENON_BENCH_PYTHON (python3) has no torch"
fi

# Runs bench/cuda, if the simulated driver can be used.
if ! on_cuda tools/tenon info >"$scratch/output" 2>&1; then
    skip "bench/cuda" "$(tail -n 1 "$scratch/output")"
else
    succeeds "bench/cuda runs" \
        on_cuda bench/cuda --glance launch bandwidth matmul
    is_str "$(grep -cE '^(launch:|[a-z].* [0-9.]+ %$)' "$scratch/output")" 27 \
        "launches, programs and products are compared with the driver's"
    is_str "$(grep -cE '^memory of the open device without tensors: [0-9.]+ MiB' "$scratch/output")" 1 \
        "and the memory that an open device takes"
    is_str "$(TENON_SIM_DEVICES=0 on_cuda bench/cuda launch 2>&1 |
        grep -c '^cuda: .*the CUDA driver has no device')" 1 \
        "a driver without a device is reported"
    is_str "$(bench/cuda sideways 2>&1 | cut -c 1-12)" "usage: cuda " \
        "an unknown part is refused"
fi

done_testing
