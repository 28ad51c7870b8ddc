# The control plane between two network namespaces of this machine, which are
# different hosts for it: other calls, a killed rank, a link that is cut, and
# bytes of a stranger. The data move through memory that both share.
. "$top_srcdir/tests/tap.sh"
faults=$top_builddir/tests/dist/test_faults
[ -x "$faults" ] || bail_out "$faults was not built"
a=tn-a-$$ b=tn-b-$$
if ! { ip netns add "$a" && ip netns add "$b" &&
    ip link add va netns "$a" type veth peer name vb netns "$b" &&
    ip -n "$a" addr add 10.77.0.1/24 dev va &&
    ip -n "$b" addr add 10.77.0.2/24 dev vb &&
    ip netns exec "$a" unshare -u true; } 2>/dev/null; then
    ip netns del "$a" 2>/dev/null
    ip netns del "$b" 2>/dev/null
    skip "messages between hosts" "network namespaces cannot be made here"
    done_testing
    exit
fi
trap 'ip netns del "$a"; ip netns del "$b"; rm -rf "$scratch"' EXIT
for ns in "$a va" "$b vb"; do
    # shellcheck disable=SC2086 # two words
    set -- $ns
    ip -n "$1" link set "$2" up
    ip -n "$1" link set lo up
done

# run CASE: four ranks, 0 and 2 on host one, 1 and 3 on host two. Each writes
# $scratch/RANK.
run() {
    for rank in 0 1 2 3; do
        ns=$a host=one
        [ $((rank % 2)) = 0 ] || { ns=$b host=two; }
        TENON_RANK=$rank TENON_SIZE=4 TENON_JOB=net-$$ TENON_NUM_THREADS=1 \
            timeout -k 1 20 ip netns exec "$ns" unshare -u \
            sh -c 'hostname "$1"; exec "$2" "$3"' sh "$host" "$faults" "$1" \
            >"$scratch/$rank" 2>&1 &
    done
}
# said RANKS WORDS: how many of the ranks have a message with these words
said() {
    for rank in $1; do
        cat "$scratch/$rank"
    done | grep -c "$2"
}
# late RANKS SECONDS: ranks without a message, or with one that took longer
late() {
    for rank in $1; do
        awk -v most="$2" -v rank="$rank" '/^seconds/ { ok = $2 <= most }
            END { if (!ok) print "rank " rank }' "$scratch/$rank"
    done
}

run count
wait
is_str "$(said "0 1 2 3" "rank 1 (two): all_reduce 1 of float32\[13\]")" 4 \
    "another call is named, with its host"
is_empty "$(late "0 1 2 3" 1)" "within a second"

run killed
wait
is_str "$(said "0 2 3" "rank 1 has ended (process [0-9]* on two)")" 3 \
    "a killed rank is named, with its host"
is_empty "$(late "0 2 3" 2)" "within two seconds"

run cut
for try in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    [ "$(said "0 1 2 3" "^agreed")" = 4 ] && break
    sleep 0.2
done
ip -n "$a" link set va down
wait
is_str "$(said "0 2" "not done after 1.5 s.* rank [13] is silent .* on two")" 2 \
    "one side of a cut link names the ranks of the other one"
is_str "$(said "1 3" "not done after 1.5 s.* rank 0 is silent .* on one")" 2 \
    "and that side rank 0"
is_empty "$(late "0 1 2 3" 3.5)" "within the timeout and two seconds"
done_testing
