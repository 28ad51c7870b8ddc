# `tenon run`: ranks, prefixes, exit statuses, and that no process is left. The
# deadline of each command is its own.
. "$top_srcdir/tests/tap.sh"
tenon=$top_builddir/tools/tenon
faults=$top_builddir/tests/dist/test_faults
for built in "$tenon" "$faults"; do
    [ -x "$built" ] || bail_out "$built was not built"
done
# run SECONDS ARGUMENT...: sets status, and writes $scratch/out and $scratch/err
run() {
    seconds=$1
    shift
    timeout -k 1 "$seconds" "$tenon" run "$@" >"$scratch/out" 2>"$scratch/err" \
        </dev/null
    status=$?
}

run 20 -n 3 sh -c 'echo "$TENON_RANK of $TENON_SIZE"; echo "no newline $TENON_RANK" >&2; printf end'
is_str "$status" 0 "three processes end well"
is_str "$(sort "$scratch/out" | tr '\n' ',')" \
    "[0] 0 of 3,[0] end,[1] 1 of 3,[1] end,[2] 2 of 3,[2] end," \
    "each line of their output begins with the rank"
is_str "$(grep -c '^\[[012]\] no newline [012]$' "$scratch/err")" 3 \
    "those on stderr, too"
run 20 -n 2 --no-prefix sh -c 'echo x'
is_str "$(tr '\n' ',' <"$scratch/out")" "x,x," "--no-prefix leaves lines as they are"
run 20 -n 2 sh -c 'echo "$TENON_JOB"'
is_str "$(sed 's/^....//' "$scratch/out" | sort -u | wc -l | tr -d ' ')" 1 \
    "the processes have one job"
run 20 -n 2 sh -c 'exit $((TENON_RANK * 2))'
is_str "$status" 2 "the exit status is that of the rank that failed"
is_str "$(grep -c 'rank 1 (process [0-9]*) failed with status 2' "$scratch/err")" \
    1 "which is named"
is_str "$(grep -c usage "$scratch/err")" 0 "without a usage"

# What is left is ended: also a process that ignores SIGTERM, and a grandchild.
begin=$(date +%s)
run 30 -n 2 --grace 0 sh -c \
    'trap "" TERM; sleep 1000 & echo $! >"'"$scratch"'/child.$TENON_RANK"; [ "$TENON_RANK" = 0 ] || { sleep 1; kill -KILL $$; }; wait; sleep 1000'
is_str "$status" 137 "a killed rank ends the job"
is_str "$(($(date +%s) - begin < 12))" 1 "soon"
# (A process that its new parent has not waited for is a zombie, Z.)
is_str "$(find "$scratch" -name 'child.*' -size +0 | wc -l)" 2 \
    "both ranks had a grandchild"
is_empty "$(for child in "$scratch"/child.*; do
    grep '^State:' "/proc/$(cat "$child")/status" 2>/dev/null | grep -v 'Z (zombie)'
done)" "and no process is left"

run 20 -n 4 "$faults" killed
is_str "$status" 137 "so does one in a collective"
is_str "$(sed -n 's/^\[[023]\] //p' "$scratch/out" | sort -u | grep -c 'rank 1 has ended')" 1 \
    "all others say who, in the same words"
run 20 -n 4 "$faults" kind
is_str "$(sed 's/^\[[0-3]\] //' "$scratch/out" | sort | uniq -c |
    sed -n 's/^ *\([0-9]*\) .*rank 1: all_gather.*/\1/p')" 4 \
    "all ranks print the message of a mismatch"
is_empty "$(ls /dev/shm 2>/dev/null | grep "^tenon-$(id -u)-\(run\|test\)-")" \
    "no shared memory is left"

for wrong in "" "-n 2" "-n 0 true" "-n x true" "-n 257 true" "--oops true"; do
    # shellcheck disable=SC2086 # words
    run 10 $wrong
    is_str "$status $(grep -c '^usage: tenon run' "$scratch/err")" "2 1" \
        "wrong: tenon run $wrong"
done
run 10 -n 2 "$scratch/nothing"
is_str "$status" 127 "a program that is not there"

# Contradictions, and numbers that are none.
fails() {
    what=$1 want=$2
    shift 2
    env "$@" timeout 20 "$faults" killed >"$scratch/out" 2>&1
    is_str "$(grep -c "$want" "$scratch/out")" 1 "$what"
}
fails "a rank without a size" "TENON_RANK is set without TENON_SIZE" TENON_RANK=1
fails "a size without a rank" "WORLD_SIZE is set without RANK" WORLD_SIZE=1
fails "a rank that is too large" "expected a rank below" TENON_RANK=2 TENON_SIZE=2
fails "no number" 'PMI_SIZE is "two": expected a number' PMI_RANK=0 PMI_SIZE=two
fails "two launchers that contradict each other" \
    "TENON_RANK says rank 0 of 2, RANK says rank 1 of 2" \
    TENON_RANK=0 TENON_SIZE=2 RANK=1 WORLD_SIZE=2
fails "ranks on several machines" "joins processes of one machine; 1 of 2" \
    TENON_ENGINE=local \
    OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_SIZE=1
fails "an engine that is not there" "there is no engine nccl" \
    TENON_ENGINE=nccl RANK=0 WORLD_SIZE=2
fails "MPI without its mpirun" "mpi: no mpirun has started this process" \
    TENON_ENGINE=mpi TENON_RANK=0 TENON_SIZE=2
fails "srun without PMIx" "give srun the option --mpi=pmix" \
    TENON_ENGINE=mpi SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2 SLURM_STEP_ID=0
fails "an MPI for which no engine was built" \
    "no file comm_mpich.so.*install libmpich-dev.*--with-mpi" \
    TENON_ENGINE=mpi TENON_PLUGIN_PATH="$scratch" PMI_RANK=0 PMI_SIZE=2
fails "a timeout that is none" "TENON_TIMEOUT is soon" TENON_TIMEOUT=soon
done_testing
