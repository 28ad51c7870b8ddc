# Two network namespaces of this machine as two machines, with a rank of one job
# in each: a link that is cut, one that is slow, and the speed of all_reduce
# beside PyTorch's gloo. Part of `make check-long`: needs root, ip, and an MPI.
. "$top_srcdir/tests/tap.sh"

leave() {
    skip "two network namespaces" "$1"
    done_testing
    exit 0
}
[ -n "${TENON_TEST_LONG-}" ] || leave "part of make check-long"
[ "$(id -u)" = 0 ] || leave "needs root"
PATH=$PATH:/usr/sbin:/sbin
command -v ip >/dev/null || leave "ip is not installed"
cd "$top_builddir" || exit 99
top=$(pwd)
[ -f tenon-1/comm_openmpi.so ] || [ -f tenon-1/comm_mpich.so ] ||
    leave "no engine for MPI was built"
${MAKE:-make} tests/dist/wire tests/dist/link >"$scratch/make" 2>&1 || {
    fail "the programs are built"
    note <"$scratch/make"
}
a=tenon-$$a b=tenon-$$b wire=
clean() {
    for space in $a $b; do
        ip netns pids $space 2>/dev/null | xargs -r kill -KILL 2>/dev/null
        ip netns del $space 2>/dev/null
        rm -rf "/etc/netns/$space"
    done
    [ -z "$wire" ] || kill -KILL "$wire" 2>/dev/null
    rmdir /etc/netns 2>/dev/null
    rm -rf "$scratch"
}
trap clean EXIT
for space in $a $b; do
    ip netns add $space 2>"$scratch/why" || leave "$(cat "$scratch/why")"
    ip -n $space link set lo up
    mkdir -p /etc/netns/$space
    printf '127.0.0.1 localhost\n10.77.0.1 %s\n10.77.0.2 %s\n' $a $b \
        >/etc/netns/$space/hosts
done

# The "remote shell" of mpirun: AGENT HOST COMMAND... runs in that namespace, with
# its name as the host's.
cat >"$scratch/agent" <<AGENT
#!/bin/sh
while [ "\${1#-}" != "\$1" ]; do shift; done
space=\$1
shift
exec ip netns exec \$space unshare -u sh -c "hostname \$space; \$*"
AGENT
chmod +x "$scratch/agent"

# connect: the kernel's pair of interfaces; connect DELAY_US RATE_GBIT: a wire
connect() {
    [ -z "$wire" ] || { kill -KILL "$wire"; wait "$wire" 2>/dev/null; }
    wire=
    ip -n $a link del w0 2>/dev/null
    if [ $# = 0 ]; then
        ip link add w0 netns $a type veth peer name w0 netns $b
    else
        tests/dist/wire $a $b "$1" "$2" >"$scratch/wire" &
        wire=$!
        for tries in 1 2 3 4 5 6 7 8 9 10; do
            grep -q ready "$scratch/wire" && break
            sleep 0.2
        done
    fi
    ip -n $a addr add 10.77.0.1/24 dev w0 && ip -n $a link set w0 up mtu 65000
    ip -n $b addr add 10.77.0.2/24 dev w0 && ip -n $b link set w0 up mtu 65000
    sleep 1
}

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export TENON_NUM_THREADS=1
# launch MPI ARGUMENT...: link ARGUMENT... as two ranks
launch() {
    mpi=$1
    shift
    case $mpi in
    openmpi)
        set -- --mca plm_rsh_agent "$scratch/agent" --bind-to none \
            --host $a:1,$b:1 -n 2 --mca btl tcp,self --mca pml ob1 \
            -x TENON_PLUGIN_PATH -x TENON_TIMEOUT -x TENON_NUM_THREADS \
            --mca btl_tcp_if_include w0 \
            --mca oob_tcp_if_include w0 "$top/tests/dist/link" "$@"
        ;;
    mpich)
        set -- -launcher ssh -launcher-exec "$scratch/agent" -hosts $a:1,$b:1 \
            -n 2 -iface w0 "$top/tests/dist/link" "$@"
        ;;
    esac
    # shellcheck disable=SC2016 # expanded by the inner shell
    TENON_TIMEOUT=${seconds:-20} UCX_NET_DEVICES=w0 UCX_TLS=tcp,self \
        ip netns exec $a unshare -u sh -c 'hostname "$0"; exec "$@"' $a \
        timeout -k 1 90 "mpirun.$mpi" "$@" </dev/null >"$scratch/out" 2>&1
}

for mpi in openmpi mpich; do
    [ -f tenon-1/comm_$mpi.so ] || continue
    command -v mpirun.$mpi >/dev/null || continue
    connect
    launch $mpi speed
    is_str "$(grep -c 'MB: ' "$scratch/out")" 3 "$mpi: two machines sum"
    note <"$scratch/out"

    seconds=3
    connect 0 40
    launch $mpi steps &
    running=$!
    for tries in $(seq 100); do
        [ "$(grep -c 'begun' "$scratch/out")" = 2 ] && break
        sleep 0.1
    done
    kill -USR1 "$wire" # the link is cut
    sleep 8
    # The rank of the other machine cannot print: its output goes over the link.
    said=$(grep -c 'rank [01]: after [345]\.. s: .*not done after 3.0 s.* is silent for' \
        "$scratch/out")
    is_str "$((said > 0))" 1 "$mpi: a cut link is named after the timeout"
    note <"$scratch/out"
    left=$(pgrep -x 'link|lt-link' | wc -l)
    is_str "$left" 0 "$mpi: and no rank is left"
    kill -USR2 "$wire"
    for space in $a $b; do
        ip netns pids $space | xargs -r kill -KILL 2>/dev/null
    done
    wait "$running"

    seconds=20
    connect 20000 1 # 40 ms there and back
    launch $mpi speed
    is_str "$(grep -c 'MB: ' "$scratch/out")" 3 "$mpi: a slow link is no error"
    note <"$scratch/out"
done

# gloo, if there is a Python with torch
python=${TENON_BENCH_PYTHON:-python3}
if "$python" -c 'import torch.distributed' 2>/dev/null; then
    cat >"$scratch/gloo.py" <<'PYTHON'
import time, torch, torch.distributed as dist
torch.set_num_threads(1)
dist.init_process_group("gloo")
for mb in (4, 16, 64):
    x = torch.zeros(mb << 18)
    dist.all_reduce(x)
    took = []
    for _ in range(11):
        dist.barrier()
        begin = time.perf_counter()
        dist.all_reduce(x)
        took.append(time.perf_counter() - begin)
    if dist.get_rank() == 0:
        print(f"gloo {mb:3d} MB: {sorted(took)[5] * 1e3:.1f} ms", flush=True)
PYTHON
    connect
    for space in $b $a; do
        [ $space = $a ] && rank=0 || rank=1
        ip netns exec $space env MASTER_ADDR=10.77.0.1 MASTER_PORT=29500 \
            WORLD_SIZE=2 RANK=$rank GLOO_SOCKET_IFNAME=w0 \
            timeout 120 "$python" "$scratch/gloo.py" >"$scratch/gloo.$rank" 2>&1 &
        last=$!
    done
    wait $last
    note <"$scratch/gloo.0"
else
    skip "beside gloo" "no Python with torch (TENON_BENCH_PYTHON)"
fi
done_testing
