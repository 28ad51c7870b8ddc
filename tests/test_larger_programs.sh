# Runs the larger programs of examples/programs, as test_programs.sh does.
. "$top_srcdir/tests/tap.sh"
. "$top_srcdir/tests/programs.sh"

runs unet 150
below unet loss 0.06
above unet 'disc: IoU' 0.6
above unet 'square: IoU' 0.8

# A uniform guess among the characters of this text has a loss of more than 4
# nats. If one layer of the cache were missing, the texts would differ.
runs gpt_cache "$text" 40
below gpt_cache loss 3.2
prints gpt_cache '^the same text without the cache$'

# A policy that pushes at random keeps the pole up for 22 steps.
runs reinforce 150
above reinforce 'mean of the last episodes:' 60
TENON_DEVICE=reference succeeds "reinforce runs on reference" \
    "$programs/reinforce" 150
mv "$scratch/output" "$scratch/reinforce_on_reference"
above reinforce_on_reference 'mean of the last episodes:' 60

runs gan "$digits" 6
below gan 'nearest digit:' 2.5
above gan 'of noise:' 3.2

runs fine_tune "$digits" pretrained.safetensors
prints fine_tune '^the file has no "head.weight"'
prints fine_tune '^the module has no "fc.bias"'
is_str "$(grep -c backbone "$scratch/fine_tune")" 0 \
    "every tensor of the backbone is loaded"
above fine_tune '0 to 4: accuracy' 0.97
above fine_tune 'new head: accuracy' 0.7
above fine_tune 'all layers: accuracy' 0.78

mkdir images
gunzip -c "$digits" | LC_ALL=C awk -v folder=images \
    -f "$top_srcdir/examples/programs/digit_images.awk"
runs tables_and_images images 4
above tables_and_images 'test accuracy:' 0.93
prints tables_and_images '^three +[0-9]+ of 40$'
printf 'P5\n9 8\n255\n' >images/5.pgm
TENON_DEVICE=cpu "$programs/tables_and_images" images 1 >"$scratch/output" 2>&1
is_str "$?, $(grep -o 'images/5.pgm is not a PGM image of 8 x 8 bytes' \
    "$scratch/output")" "1, images/5.pgm is not a PGM image of 8 x 8 bytes" \
    "a damaged image is reported with its name"

# Four clients at the same time must get the same answers as one client. The
# server also runs on the reference device, with the network that was trained
# on the cpu.
TENON_DEVICE=cpu succeeds "server trains a network" \
    "$programs/server" train "$digits" model.safetensors
trap 'kill $server 2>/dev/null; rm -rf "$scratch"' EXIT
for device in cpu reference; do
    TENON_DEVICE=$device "$programs/server" serve model.safetensors \
        socket.$device >serve.$device 2>&1 &
    server=$!
    tries=0
    while [ ! -S socket.$device ] && [ $tries -lt 300 ]; do
        sleep 0.1
        tries=$((tries + 1))
    done
    clients=
    for i in 1 2 3 4; do
        "$programs/server" ask socket.$device "$digits" 40 >answers.$i 2>&1 &
        clients="$clients $!"
    done
    wait $clients
    for i in 2 3 4; do
        is_str "$(cat answers.$i)" "$(cat answers.1)" \
            "client $i gets the same answers on $device"
    done
    mv answers.1 "$scratch/server.$device"
    prints server.$device '^[0-9] [01]\.[0-9]+$'
    prints server.$device '^(3[6-9]|40) of 40 are right$'
    echo 1,2,3 >short.csv
    succeeds "a short request is answered on $device" \
        "$programs/server" ask socket.$device short.csv
    is_str "$(head -n 1 "$scratch/output")" \
        "error: a request is a line of 64 numbers" "with an error on $device"
    succeeds "the server answers afterwards on $device" \
        "$programs/server" ask socket.$device "$digits" 40
    is_str "$(cat "$scratch/output")" "$(cat "$scratch/server.$device")" \
        "as before on $device"
    kill $server
    wait $server 2>/dev/null
    server=
done
is_str "$(cut -c 1 "$scratch/server.reference")" \
    "$(cut -c 1 "$scratch/server.cpu")" "both devices see the same digits"
"$programs/server" serve missing.safetensors socket >"$scratch/output" 2>&1
is_str "$?, $(grep -c '^server: .*missing.safetensors' "$scratch/output")" \
    "1, 1" "server names a model that is missing"

# A missing file must be reported, and the program must fail.
for name in gpt_cache gan fine_tune tables_and_images; do
    "$programs/$name" missing >"$scratch/output" 2>&1
    is_str "$?, $(grep -c "^$name: .*missing.*: No such file" \
        "$scratch/output")" "1, 1" "$name names a file that is missing"
done

done_testing
