# Runs the examples on every device of this build; they must print the same.
. "$top_srcdir/tests/tap.sh"

cd "$top_builddir" || exit 99
for example in tensors device_rules autograd own_operator own_layer; do
    for device in cpu reference; do
        TENON_DEVICE=$device succeeds "$example runs on $device" \
            examples/$example
        # As in PyTorch, the text of a tensor contains its device unless that
        # is the cpu. Therefore its lines break at other places. Examples may
        # print their device, too.
        tr -d ' \n' <"$scratch/output" |
            sed -e 's/cpu/DEVICE/g' -e 's/reference/DEVICE/g' \
                -e "s/,device='DEVICE:0'//g" >"$scratch/$device"
    done
    is_str "$(cat "$scratch/reference")" "$(cat "$scratch/cpu")" \
        "$example prints the same on both"
done

# Recognises digits. The losses of all devices must agree to four digits, and
# the accuracy must be high.
data=$top_srcdir/data/digits.csv.gz
others=reference
if TENON_DEVICE=opencl tools/tenon info >"$scratch/output" 2>&1; then
    others="reference opencl"
else
    skip "digits on opencl" "$(tail -n 1 "$scratch/output")"
fi
for device in cpu $others; do
    TENON_DEVICE=$device succeeds "digits trains on $device" \
        examples/digits "$data"
    tail -n 1 "$scratch/output" >"$scratch/accuracy.$device"
    grep -o 'loss[: ]*[0-9.e+-]*' "$scratch/output" |
        awk '{ printf "%.4g\n", $NF }' >"$scratch/loss.$device"
done
is_empty "$(awk '!(/^test accuracy: [0-9.]+$/ && $3 >= 0.97)' \
    "$scratch/accuracy.cpu")" "at least 97 % of the test digits are known"
is_str "$(wc -l <"$scratch/loss.cpu" | awk '{ print ($1 > 0) }')" 1 \
    "losses are printed"
for device in $others; do
    is_str "$(cat "$scratch/loss.$device")" "$(cat "$scratch/loss.cpu")" \
        "cpu and $device have the same losses to four digits"
    is_str "$(cat "$scratch/accuracy.$device")" \
        "$(cat "$scratch/accuracy.cpu")" "and the same accuracy"
done

# Trains by several processes: the same losses, in every digit.
for n in 1 2 4; do
    succeeds "ddp trains with $n processes" \
        timeout 120 tools/tenon run -n $n --no-prefix examples/ddp "$data"
    cp "$scratch/output" "$scratch/ddp.$n"
done
is_str "$(cat "$scratch/ddp.2")" "$(cat "$scratch/ddp.1")" \
    "two processes print what one prints"
is_str "$(cat "$scratch/ddp.4")" "$(cat "$scratch/ddp.1")" "four, too"
is_empty "$(tail -n 1 "$scratch/ddp.1" |
    awk '!(/^test accuracy: [0-9.]+$/ && $3 >= 0.95)')" \
    "and at least 95 % of the test digits are known"

# Trains on two devices at the same time, each with a share of each batch. The
# losses must be the same except for the rounding of sums, which grows from
# epoch to epoch.
two_devices() {
    POCL_DEVICES="basic basic" succeeds "two_devices trains on $*" \
        examples/two_devices "$@" "$data"
    grep -o 'loss[: ]*[0-9.e+-]*' "$scratch/output" | awk '{ print $NF }' |
        paste - "$scratch/loss.cpu" >"$scratch/losses"
    is_empty "$(awk '{ apart = $1 - $2 }
        NF != 2 || apart * apart > ($2 / 20) ^ 2 { print "losses", $0 }' \
        "$scratch/losses")" "with the losses of one, to a twentieth"
    is_empty "$(tail -n 1 "$scratch/output" |
        awk '!(/^test accuracy: [0-9.]+$/ && $3 >= 0.97)')" \
        "and knows 97 % of the test digits"
}
two_devices cpu reference
if [ "$others" = reference ]; then
    skip "two_devices on two of opencl" "no OpenCL device"
else
    two_devices opencl:0 opencl:1
fi

# Recognises the same digits as sequences.
for kind in lstm transformer; do
    TENON_DEVICE=cpu succeeds "digits_sequence $kind trains" \
        examples/digits_sequence $kind "$data"
    is_empty "$(tail -n 1 "$scratch/output" |
        awk '!(/^test accuracy: [0-9.]+$/ && $3 >= 0.95)')" \
        "and knows 95 % of the test digits"
done

# Trains a language model for a few steps. A uniform guess among the characters
# of this text has a loss of more than 4 nats.
TENON_DEVICE=cpu succeeds "char_gpt trains and generates text" \
    examples/char_gpt "$top_srcdir/docs/kernel-language.md" 15
is_empty "$(tail -n 1 "$scratch/output" |
    awk '!(/^held-out loss: [0-9.]+ nats a character$/ && $3 < 3.9)')" \
    "and is better than a guess on held-out text"

# Generates IDX files with 400 images of 8 x 8 pixels. In the images of a class
# two pixels of that class are bright, and in each image a third pixel.
images=$scratch/images labels=$scratch/labels
{
    printf '\0\0\010\3\0\0\1\220\0\0\0\010\0\0\0\010'
    awk 'BEGIN {
        for (i = 0; i < 400; i++)
            for (k = 0; k < 64; k++)
                printf "%s", k % 32 == i % 10 * 3 || k == i * 7 % 64 ? "b" : "a"
    }' </dev/null | LC_ALL=C tr ab '\0\377'
} >"$images"
{
    printf '\0\0\010\1\0\0\1\220'
    awk 'BEGIN { for (i = 0; i < 400; i++) printf "%s", i % 10 }' </dev/null |
        LC_ALL=C tr 0-9 '\0\1\2\3\4\5\6\7\010\011'
} >"$labels"
TENON_DEVICE=cpu succeeds "mnist trains" \
    examples/mnist "$images" "$labels" 20
is_empty "$(tail -n 1 "$scratch/output" |
            awk '!(/^test accuracy: [0-9.]+$/ && $3 >= 0.9)')" \
    "and recognises held-out images"
examples/mnist "$labels" "$labels" >"$scratch/output" 2>&1
is_str "$(cat "$scratch/output")" \
    "mnist: $labels has 1 dimensions; a file of images has 3" \
    "exchanged files are reported"

# Language models: small models with random weights, and a tokenizer of 64
# words. The word of id i is w<i>.
for model in llama bert; do
    cp -r "$top_srcdir/tests/lm/data/$model" "$scratch/$model"
    chmod -R u+w "$scratch/$model"
    awk 'BEGIN {
        printf "{\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"w0\",\"vocab\":{"
        for (i = 0; i < 64; i++)
            printf "%s\"w%d\":%d", i ? "," : "", i, i
        print "}},\"pre_tokenizer\":{\"type\":\"WhitespaceSplit\"}}"
    }' >"$scratch/$model/tokenizer.json"
done
TENON_DEVICE=cpu succeeds "generate continues texts" \
    examples/generate "$scratch/llama" "w3 w4 w5" "w6 w7"
is_str "$(awk '{ print (NF > 5) }' "$scratch/output" | xargs)" "1 1" \
    "and prints each"
first=$(head -n 1 "$scratch/output")
TENON_DEVICE=cpu succeeds "generate continues one text" \
    examples/generate "$scratch/llama" "w3 w4 w5"
is_str "$(cat "$scratch/output")" "$first" "in the same way as with others"
printf 'w3 w4 w5\nw20 w21\nw9 w8 w7 w6\nw40\n' >"$scratch/lines"
TENON_DEVICE=cpu succeeds "embed_search finds a line" \
    examples/embed_search "$scratch/bert" "$scratch/lines" "w9 w8 w7 w6"
is_str "$(head -n 1 "$scratch/output")" "1.000  w9 w8 w7 w6" \
    "the same text is the nearest"
is_str "$(wc -l <"$scratch/output" | xargs)" 3 "and three lines are printed"

# An ONNX model for two classes, and an image of 2 x 2 pixels.
printf 'P6 2 2 255\n\1\2\3\4\5\6\7\10\11\12\13\14' >"$scratch/image.ppm"
TENON_DEVICE=cpu succeeds "onnx_classify classifies an image" \
    examples/onnx_classify "$top_srcdir/tests/onnx/data/ocr_v4_cls.onnx" \
    "$scratch/image.ppm"
is_str "$(grep -c '^class [01] : [01]\.[0-9]*$' "$scratch/output")" 2 \
    "and prints both classes"
# A detector of bright squares, and an image with one such square. In its text,
# a is a black and b a white pixel.
{ printf 'P6 64 64 255\n'; awk 'BEGIN { for (y = 0; y < 64; y++)
    for (x = 0; x < 192; x++)
        printf "%s", (y >= 12 && y < 28 && x >= 24 && x < 72) ? "b" : "a" }' |
    LC_ALL=C tr ab '\001\377'; } >"$scratch/square.ppm"
TENON_DEVICE=cpu succeeds "onnx_detect finds a bright square" \
    examples/onnx_detect "$top_srcdir/tests/onnx/data/bright.onnx" \
    "$scratch/square.ppm"
is_str "$(cat "$scratch/output")" \
    "class 0 : 1.0000, left 8, top 12, right 24, bottom 28" "and prints its box"
examples/generate "$scratch/none" x >"$scratch/output" 2>&1
is_str "$?" 1 "a model that does not exist is an error"
is_str "$(grep -c 'none/config.json' "$scratch/output")" 1 "which is named"

done_testing
