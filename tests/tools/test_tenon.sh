# Tests the command line of the program tenon: its output and its errors.
. "$top_srcdir/tests/tap.sh"

cd "$top_builddir" || exit 99

# tenon DEVICE ARGUMENT...: sets $status to its exit status; its output is in
# $scratch/out and $scratch/err
tenon() {
    device=$1
    shift
    TENON_DEVICE=$device tools/tenon "$@" >"$scratch/out" 2>"$scratch/err"
    status=$?
}
# out PATTERN NAME, err PATTERN NAME: passes if the output, or the error
# output, matches the pattern
out() { matches "$scratch/out" "$@"; }
err() { matches "$scratch/err" "$@"; }
matches() {
    if grep -qE -e "$2" "$1"; then
        pass "$3"
    else
        fail "$3"
        note <"$1"
    fi
}

tenon cpu info
is_str "$status" 0 "tenon info succeeds"
out '^tenon +[0-9]+\.[0-9]+\.[0-9]+$' "it names its version"
out '^device +cpu:0 \(TENON_DEVICE=cpu\)$' "and the device, with the variable that chose it"
is_empty "$(cat "$scratch/err")" "and prints nothing on stderr"

TENON_NUM_THREADS=many tenon cpu info
out '^threads +[0-9]+, not the number that was requested' "info reports a refused thread count"

tenon reference info
out '^device +reference:0 ' "the reference plugin is chosen by its name"

tenon nosuch info
is_str "$status" 1 "a device that does not exist is an error"
err 'nosuch' "which names the device that was requested"
err 'cpu' "and the devices that there are"
is_str "$(wc -l <"$scratch/err")" 1 "in one line"

tenon cuda info
is_str "$status" 1 "cuda without its plugin is an error, not the cpu"
err 'cuda' "which names cuda"

tenon auto devices
is_str "$status" 0 "tenon devices succeeds"
out '^cpu:0: ' "it lists cpu:0"
out '^reference:0: ' "and reference:0"
is_empty "$(grep -F / "$scratch/out" | grep -F .so)" "and no files"

tenon auto devices -v
out "^cpu: .*tn_cpu\\.so: 1 device$" "-v prints each plugin's file"
out '^looked in: .*tenon-1' "and the folders that were searched"

(TENON_PLUGIN_PATH=$scratch/empty tools/tenon devices -v) >"$scratch/out" 2>&1
out '^cpu: ' "without a path, the plugins beside the library are found"

# Only one plugin is opened, and no library of a vendor.
if command -v strace >/dev/null && strace -o "$scratch/probe" true 2>&1; then
    TENON_DEVICE=cpu ./libtool --mode=execute \
        strace -f -e trace=open,openat -o "$scratch/trace" \
        tools/tenon info >"$scratch/out" 2>&1
    opened=$(grep -v ENOENT "$scratch/trace" |
        sed -n 's|.*"[^"]*/\([^"/]*\)".*|\1|p')
    is_str "$(printf '%s\n' "$opened" | grep '^tn_.*\.so')" tn_cpu.so \
        "TENON_DEVICE=cpu opens one plugin"
    is_empty "$(printf '%s\n' "$opened" |
        grep -iE 'libopencl|libcuda|nvrtc|openblas')" \
        "and neither OpenCL nor CUDA nor OpenBLAS"
else
    skip "TENON_DEVICE=cpu opens one plugin" "strace cannot be used"
fi

# ---- tenon trace -------------------------------------------------------------

traced=$scratch/trace.json
TENON_DEVICE=cpu tools/tenon trace -o "$traced" tools/tenon info \
    >"$scratch/out" 2>"$scratch/err"
is_str "$?" 0 "tenon trace runs a program and returns its exit status"
out '^tenon +[0-9]' "and passes on its output"

(cd "$top_srcdir" && TENON_DEVICE=cpu TENON_TRACE=$traced \
    "$OLDPWD/examples/tensors") >/dev/null 2>&1
tenon cpu trace --summary "$traced"
is_str "$status" 0 "a program is traced by the environment alone"
out '^[0-9.]+ ms; limits of cpu:0: [0-9.]+ GB/s, [0-9.]+ Gop/s$' "its limits"
out ' softmax$' "its operators, a line each"
tenon cpu trace --summary "$traced" --by shapes
out ' softmax [(]2, 3[)] float32' "or a line for each of their shapes"

# Work of a device that is reported later: 30 us were submitted within an
# operator, 10 us outside of all operators.
cat >"$scratch/lane.json" <<'END'
[{"name":"tenon","ph":"M","pid":1,"tid":0,"args":{"device":"cuda:0","bytes_per_second":1000000000,"operations_per_second":1000000000}},
{"name":"exp","cat":"op","ph":"X","pid":1,"tid":1,"ts":100.000,"dur":5.000,"args":{"calls":1,"bytes":15000,"operations":9}},
{"name":"neg","cat":"op","ph":"X","pid":1,"tid":1,"ts":110.000,"dur":50.000,"args":{"calls":1}},
{"name":"exp","cat":"device","ph":"X","pid":1,"tid":10000,"ts":200.000,"dur":30.000,"args":{"given":102.000,"thread":1,"calls":1,"bytes":15000,"operations":9}},
{"name":"copy","cat":"device","ph":"X","pid":1,"tid":10000,"ts":230.000,"dur":10.000,"args":{"given":190.000,"thread":1,"calls":1}}
]
END
tenon cpu trace --summary "$scratch/lane.json"
is_str "$status" 0 "a trace with device times is summarized"
out '^0.055 ms, 0.040 ms of the device; limits of cuda:0' "with both totals"
out '^ +own ms +device ms +share' "and each in a column"
out '^ +0.005 +0.030 +75.0 % +1 +30.00 +0.50 +0.00 +50 %  exp$' \
    "a line has the device time, and its percentage of the limit"
out '^ +0.000 +0.010 +25.0 % +1 +10.00 .*  copy$' "work outside of operators has a line, too"
is_str "$(sed -n 4p "$scratch/out" | sed 's/.* //')" exp \
    "the line with the longest device time comes first"

sed '$d' "$traced" >"$scratch/cut.json"
printf '{"name":"half' >>"$scratch/cut.json"
tenon cpu trace --summary "$scratch/cut.json"
is_str "$status" 0 "the trace of a killed program is summarized, too"

tenon cpu trace --summary "$scratch/none.json"
is_str "$status" 1 "no file is an error"
err 'none.json' "which names the file"
echo '[{"name":"other"}]' >"$scratch/other.json"
tenon cpu trace --summary "$scratch/other.json"
is_str "$status" 1 "so is a trace of something else"
echo 'no JSON' >"$scratch/other.json"
tenon cpu trace --summary "$scratch/other.json"
is_str "$status" 1 "and a file that is no JSON"
tenon cpu trace --summary "$traced" --by colour
is_str "$status" 2 "--by accepts op, module and shapes only"
tenon cpu trace
is_str "$status" 2 "tenon trace without a program is an error"
tenon cpu trace "$scratch/no-such-program"
is_str "$status" 1 "and with a program that does not exist"
err 'no-such-program' "which the error names"

# ---- language models ---------------------------------------------------------

models=$top_srcdir/tests/lm/data
tenon cpu lm info "$models/mistral"
is_str "$status" 0 "tenon lm info succeeds"
out '^family +mistral, a decoder$' "it names the family"
out '^kv heads +2$' "and the sizes"
tenon cpu generate -n 4 "$models/llama" 3,4,5
is_str "$status" 0 "tenon generate succeeds"
out '^[0-9]+ [0-9]+ [0-9]+ [0-9]+$' "it prints the tokens"
greedy=$(cat "$scratch/out")
tenon cpu generate -n 4 --temperature 0.7 --top-k 1 --seed 3 "$models/llama" "3 4 5"
is_str "$(cat "$scratch/out")" "$greedy" "drawing from one token is greedy"
tenon cpu generate "$models/llama" 3,4,900
is_str "$status" 1 "a token that is not in the vocabulary is an error"
err 'ids\[2\] is 900' "which names it"
tenon cpu generate "$models/llama" hello
is_str "$status" 1 "and so is a text"
tenon cpu generate --top-q 3 "$models/llama" 3
is_str "$status" 2 "an option that does not exist is a wrong command line"
tenon cpu embed --ids "$models/bert" 3,4 5
is_str "$status" 0 "tenon embed succeeds"
is_str "$(awk '{ print NF }' "$scratch/out" | tr '\n' ' ')" "32 32 " \
    "it prints a vector for each list"
tenon cpu embed "$models/bert" --ids --pooling sum 3
is_str "$status" 1 "a pooling that does not exist is an error"

# Generates text, with a tokenizer of 64 words. The word of id i is w<i>.
with_words() { # MODEL: copies it to the scratch folder and adds the tokenizer
    cp -r "$models/$1" "$scratch/$1"
    chmod -R u+w "$scratch/$1"
    awk 'BEGIN {
        printf "{\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"w0\",\"vocab\":{"
        for (i = 0; i < 64; i++)
            printf "%s\"w%d\":%d", i ? "," : "", i, i
        print "}},\"pre_tokenizer\":{\"type\":\"WhitespaceSplit\"}}"
    }' >"$scratch/$1/tokenizer.json"
}
with_words llama
with_words bert
tenon cpu generate "$scratch/llama" -n 4 -p "w3 w4 w5"
is_str "$status" 0 "tenon generate continues a text"
is_str "$(sed 's/w//g' "$scratch/out" | xargs)" "$greedy" \
    "by the same tokens as their ids"
err '^tenon: 3 \+ 4 tokens, the first after [0-9.]+ ms, then [0-9.]+ tokens/s' \
    "it prints the speed"
tenon cpu generate "$models/llama" -p "w3"
is_str "$status" 1 "a model without a tokenizer cannot read text"
err 'tokenizer.json' "which the error names"
tenon cpu generate "$models/llama" --tokenizer "$scratch/llama" -n 4 -p "w3 w4 w5"
is_str "$(sed 's/w//g' "$scratch/out" | xargs)" "$greedy" \
    "a tokenizer may be elsewhere"
tenon cpu generate "$scratch/llama" -n 4 -p ""
is_str "$status" 1 "an empty text is an error"
err 'the prompt is empty: it has no tokens' "which says so"
printf 'w3 w4 w5\n\nw3 w4 w5' >"$scratch/prompts"
TENON_DEVICE=cpu tools/tenon generate -i -n 4 "$scratch/llama" \
    <"$scratch/prompts" >"$scratch/out" 2>"$scratch/err"
is_str "$?" 1 "-i remembers a line that failed"
is_str "$(sed 's/w//g' "$scratch/out" | xargs)" "$greedy $greedy" \
    "and continues the others"
tenon cpu generate "$scratch/llama" -i -p w3
is_str "$status" 2 "-i and -p are not both allowed"
tenon cpu generate "$scratch/llama" --dtype int8 -p w3
is_str "$status" 1 "a dtype of integers is an error"
tenon cpu generate "$scratch/llama" --dtype half-precision -p w3
is_str "$status" 1 "and one that does not exist"
err 'half-precision' "which is named"
tenon cpu embed --ids "$models/bert" 3,4
vector=$(cat "$scratch/out")
tenon cpu embed "$scratch/bert" "w3 w4" "w5"
is_str "$(head -n 1 "$scratch/out")" "$vector" \
    "the embedding of a text is that of its ids"
is_str "$(wc -l <"$scratch/out" | xargs)" 2 "each text has a line"
tenon cpu lm info "$scratch/llama"
out '^tokenizer +64 tokens$' "tenon lm info describes the tokenizer"
tenon cpu lm info "$models/llama"
out '^tokenizer +none \(.*tokenizer.json' "or says that there is none"

# Tests chats.
tenon cpu generate --chat "$scratch/llama" -p w3
is_str "$status" 1 "a model without a chat template cannot chat"
err 'no chat template' "which the error says"
echo '{"chat_template": "{% for m in messages %}{{ m.content }} {% endfor %}"}' \
    >"$scratch/llama/tokenizer_config.json"
tenon cpu generate --chat "$scratch/llama" -n 4 -p "w3 w4 w5"
is_str "$(sed 's/w//g' "$scratch/out" | xargs)" "$greedy" "--chat renders a template"
tenon cpu generate --chat --system "w3 w4" "$scratch/llama" -n 4 -p w5
is_str "$(sed 's/w//g' "$scratch/out" | xargs)" "$greedy" "with a system message"
printf 'w3 w4\nw5\n' >"$scratch/prompts"
TENON_DEVICE=cpu tools/tenon generate --chat -i -n 2 "$scratch/llama" \
    <"$scratch/prompts" >"$scratch/out" 2>"$scratch/err"
is_str "$?" 0 "--chat -i answers each line"
err '^tenon: 5 \(3 reused\) \+ 2 tokens' "and computes what is new in it"
said=$(head -n 1 "$scratch/out")
tenon cpu generate "$scratch/llama" -n 2 -p "w3 w4 $said w5"
is_str "$(cat "$scratch/out")" "$(tenon_again() { TENON_DEVICE=cpu tools/tenon \
    generate --chat -i -n 2 "$scratch/llama" <"$scratch/prompts" 2>/dev/null |
    tail -n 1; }; tenon_again)" "and remembers the chat"
tenon cpu generate --chat "$scratch/llama" 3,4
is_str "$status" 2 "ids are no chat"
tenon cpu generate --system x "$scratch/llama" -p w3
is_str "$status" 2 "and a system message needs one"

# Tests a GGUF file.
gguf=$models/llama_h256-q4_K_M.gguf
tenon cpu lm info "$gguf"
is_str "$status" 0 "tenon lm info reads GGUF files"
out '^weights +0.9 MB, blocks and float32$' "with weights in blocks"
out '^vocabulary +512$' "and sizes"
tenon cpu generate "$gguf" -n 4 3,4,5
is_str "$status" 0 "tenon generate runs them"
tenon cpu generate "$gguf" --dtype float32 -n 4 3,4,5
is_str "$status" 0 "with dequantised weights, too"
head -c 500000 "$gguf" >"$scratch/short.gguf"
tenon cpu generate "$scratch/short.gguf" 3
is_str "$status" 1 "a file that is cut short is an error"
err 'short.gguf' "which is named"
tenon cpu lm info "$scratch/no-such-folder"
is_str "$status" 1 "and a folder that does not exist"
err 'no-such-folder/config.json: No such file' "which the error names"

# ---- ONNX --------------------------------------------------------------------

onnx=$top_srcdir/tests/onnx/data
tenon cpu onnx info "$onnx/silero_vad_seq.onnx"
is_str "$status" 0 "tenon onnx info describes a model"
out '^input +input: float32 [(]sequence_length, 576[)]$' "with its inputs"
out '^opset +16, IR version 8$' "and opset"
tenon cpu onnx check "$onnx/silero_vad_seq.onnx"
is_str "$status" 0 "tenon onnx check"
out '^everything is supported$' "finds no problem"
tenon cpu onnx run --size sequence_length=2 --seed 3 -o "$scratch/out.st" \
    "$onnx/silero_vad_seq.onnx"
is_str "$status" 0 "tenon onnx run runs it on random inputs"
is_str "$(test -s "$scratch/out.st" && echo yes)" yes "and writes the outputs"
tenon cpu onnx diff -i "$onnx/silero_vad_seq.safetensors" \
    "$onnx/silero_vad_seq.onnx"
is_str "$status" 0 "tenon onnx diff finds no difference from a golden file"
tenon cpu onnx diff --tolerance 1e-12 -i "$onnx/silero_vad_seq.safetensors" \
    "$onnx/silero_vad_seq.onnx"
is_str "$status" 1 "and some at a tolerance of 1e-12"
tenon cpu onnx diff -i "$onnx/silero_vad_seq.safetensors" \
    "$onnx/silero_vad_seq.onnx" "$onnx/silero_vad_seq.onnx"
is_str "$status" 0 "and none between a model and itself"
tenon cpu onnx bench -n 2 --nodes -i "$onnx/silero_vad_seq.safetensors" \
    "$onnx/silero_vad_seq.onnx"
is_str "$status" 0 "tenon onnx bench measures it"
out '^ +LSTM +[0-9.]+ ms in 1 nodes$' "and each kind of node"
tenon cpu onnx ops
out '^. Conv . 1 to 23 . ' "tenon onnx ops lists the operators"
is_str "$(sed -n '/^| operator | opsets/,$p' "$top_srcdir/docs/onnx.md" |
    diff - "$scratch/out")" "" "and docs/onnx.md has its table"
tenon cpu onnx run --size sequence=2 "$onnx/silero_vad_seq.onnx"
is_str "$status" 1 "a size of no dimension is an error"
err 'size sequence=2: no random input has' "which names it"
tenon cpu onnx run --size sequence_length=2x "$onnx/silero_vad_seq.onnx"
is_str "$status" 2 "a size must be a number"
tenon cpu onnx run -i "$scratch/out.st" "$onnx/silero_vad_seq.onnx"
is_str "$status" 1 "a file of inputs must have all of them"
err 'out.st has no tensor "in.input" or "input"' "the first one is named"
head -c 1000 "$onnx/silero_vad_seq.onnx" >"$scratch/short.onnx"
tenon cpu onnx info "$scratch/short.onnx"
is_str "$status" 1 "a file that is cut short is an error"
err 'short.onnx: ' "which is named"
tenon cpu onnx info
is_str "$status" 2 "a model must be given"
tenon cpu onnx diff "$onnx/silero_vad_seq.onnx"
is_str "$status" 2 "diff needs something to compare with"

# ---- program -----------------------------------------------------------------

cat >"$scratch/net-1.txt" <<'END'
net on cpu:0
3 recorded calls of the device, 2 per replay
temporary tensors: 96 bytes in an arena of 64 bytes; no arena can have less than 64 bytes
   0  matmul
   1  add + gelu<2> over (4, 8)
      not fused with matmul: it is not an element-wise or row kernel
arena:
      bytes 0 to 63 in calls 0 to 1: matmul
END
tenon cpu program "$scratch/net-1.txt"
is_str "$status" 0 "tenon program draws a report"
out "^written: .*/net-1.svg$" "beside the report"
is_str "$(grep -c '<rect class="f"' "$scratch/net-1.svg")" 1 "one fused call"
is_str "$(grep -c '<title>matmul: 64 bytes, calls 0 to 1</title>' \
    "$scratch/net-1.svg")" 1 "one temporary tensor"
is_str "$(grep -c 'gelu&lt;2&gt;' "$scratch/net-1.svg")" 1 "marks are escaped"
tenon cpu program -o "$scratch/other.svg" "$scratch/net-1.txt"
is_str "$(cmp "$scratch/other.svg" "$scratch/net-1.svg" && echo same)" same \
    "-o names the picture"
sed -i 's/in calls 0 to 1/in calls 0 to 2/' "$scratch/net-1.txt"
tenon cpu program "$scratch/net-1.txt"
is_str "$status" 1 "a call that does not exist is an error"
err 'is not the report of a compiled function' "which says so"
tenon cpu program "$scratch/none.txt"
is_str "$status" 1 "a file must exist"
tenon cpu program
is_str "$status" 2 "a report must be given"

# ---- help --------------------------------------------------------------------

for ask in help --help -h; do
    tenon cpu $ask
    is_str "$status" 0 "tenon $ask succeeds"
    is_str "$(grep -cE '^(usage:|      ) tenon' "$scratch/out")" 24 \
        "it prints a line for each form of a command"
    is_empty "$(cat "$scratch/err")" "and nothing on stderr"
done
for command in devices info trace tokenize lm generate embed onnx plot \
    program run checkpoint help; do
    tenon cpu help $command
    is_str "$status" 0 "tenon help $command succeeds"
    out "^usage: tenon $command" "it prints the command's usage"
    is_empty "$(grep '^usage:\|^       tenon' "$scratch/out" |
        grep -v "tenon $command")" "and that of no other command"
    is_empty "$(cat "$scratch/err")" "nothing on stderr"
done
tenon cpu help trace
out '^  --summary FILE ' "tenon help trace describes the options"
tenon cpu --version
is_str "$status" 0 "tenon --version succeeds"
out '^tenon [0-9]+\.[0-9]+\.[0-9]+$' "it prints the version"
is_empty "$(cat "$scratch/err")" "and nothing on stderr"

# wrong NAME ARGUMENT...: passes if tenon exits with status 2 and prints only
# to stderr
wrong() {
    name=$1
    shift
    tenon cpu "$@"
    is_str "$status$(cat "$scratch/out")" 2 "$name: exit status 2"
    err '^usage: tenon' "and the usage on stderr"
}
wrong "an unknown command" device
err "^tenon: unknown command 'device'; did you mean 'devices'[?]$" \
    "which names the nearest command"
for pair in "trcae trace" "inof info" "halp help" "Devices devices"; do
    wrong "tenon ${pair% *}" "${pair% *}"
    err "did you mean '${pair#* }'[?]$" "${pair#* } is meant"
done
wrong "help of an unknown command" help traces
err "unknown command 'traces'; did you mean 'trace'[?]$" "which is named"
wrong "a very long command" "$(printf '%0999d' 0)"
# ---- tokenize
file=$top_builddir/tests/lm/tokenizers/tok/trained-bpe-llama3.json
tenon cpu tokenize "$file" "Hello world"
is_str "$status" 0 "tokenize prints tokens"
out '^ +41 +0-1 +"H"$' "with id, bytes and text"
tenon cpu tokenize "$file" --ids "Hello world"
ids=$(cat "$scratch/out")
tenon cpu tokenize "$file" --decode "$ids"
is_str "$(cat "$scratch/out")" "Hello world" "and the text of ids"
tenon cpu tokenize "$file" --decode "1 99999"
is_str "$status" 1 "an id beyond the vocabulary is an error"
err '99999' "which names it"
tenon cpu tokenize /no/such/file x
is_str "$status" 1 "a missing tokenizer is an error"
err '/no/such/file' "which names the file"

# ---- plot
printf 'step,loss,acc\n0,1.5,0.1\n10,0.5,0.75\n' >"$scratch/log.csv"
tenon cpu plot "$scratch/log.csv" -o "$scratch/plot.html" --title "A < B" \
    --smooth 0.5 --log
is_str "$status" 0 "plot draws a CSV file"
out 'loss: 2 points, last 0.5$' "prints the last values"
out 'written: .*/plot.html$' "and the page's name"
is_str "$(grep -c '<h1>A &lt; B</h1>' "$scratch/plot.html")" 1 \
    "which has the title"
tenon cpu plot "$scratch/log.csv" -o "$scratch/plot.pdf"
is_str "$status" 1 "another kind of picture is an error"
err '[.]html or [.]svg' "which names the kinds"
tenon cpu plot /no/such/run -o "$scratch/plot.html"
is_str "$status" 1 "a missing run is an error"
err '/no/such/run' "which names the run"
wrong "plot without a run" plot
wrong "plot with a smoothing that is no number" plot x --smooth much

wrong "no command"
wrong "an unknown option" --colour
wrong "too many arguments" info cpu
is_str "$(cat "$scratch/err")" "usage: tenon info" \
    "a known command's usage is printed alone"
wrong "help of two commands" help info trace
wrong "--help of a command" --help info

done_testing
