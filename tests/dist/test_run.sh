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
run 20 -n 2 sh -c 'head -c 100000 /dev/zero | tr "\\0" x; echo; echo y'
is_str "$(awk '{ print substr($0, 1, 3) length($0) }' "$scratch/out" | sort | tr '\n' ',')" \
    "[0]100004,[0]5,[1]100004,[1]5," "a long line stays one line"
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

# Restarts: with the ranks that were not killed, and as many of them as is allowed.
run 30 -n 4 --restarts 3 --grace 0.5 sh -c \
    'echo "run $TENON_RESTART, $TENON_SIZE ranks"; [ "$TENON_RESTART" = 2 ] || [ "$TENON_RANK" != 1 ] || kill -KILL $$; [ "$TENON_RESTART" = 2 ] || sleep 20'
is_str "$status" 0 "the third run ends well"
is_str "$(sed 's/^....//' "$scratch/out" | sort | uniq -c | tr -s ' \n' ' ,')" \
    " 4 run 0, 4 ranks, 3 run 1, 3 ranks, 2 run 2, 2 ranks," \
    "each restart has the ranks that were left"
is_str "$(grep -c '^tenon run: restart 2 of 3 with 2 ranks' "$scratch/err")" 1 \
    "and is reported"
run 30 -n 4 --restarts 1 --sizes 4,2,1 --grace 0 sh -c \
    'echo "$TENON_RESTART $TENON_SIZE"; [ "$TENON_RESTART" = 1 ] || [ "$TENON_RANK" != 3 ] || kill -KILL $$; sleep 0.$TENON_RANK'
is_str "$status $(grep -c '1 2$' "$scratch/out")" "0 2" "--sizes limits the number"
run 30 -n 2 --restarts 2 --grace 10 sh -c 'echo x; exit 5'
is_str "$status $(wc -l <"$scratch/out" | tr -d ' ')" "5 6" \
    "a program that always fails is run three times"
timeout -k 1 20 "$tenon" run -n 2 --restarts 5 --grace 0.2 sh -c \
    'trap "echo told; exit 3" TERM; echo up; sleep 30 & wait' \
    >"$scratch/out" 2>"$scratch/err" </dev/null &
process=$!
until [ "$(grep -c up "$scratch/out")" = 2 ]; do sleep 0.1; done
# timeout hands SIGTERM on.
kill -TERM "$process"
wait "$process"
is_str "$(grep -c told "$scratch/out") $(grep -c restart "$scratch/err")" "2 0" \
    "SIGTERM is handed on, and no restart follows"

# Other hosts: scripts that start the processes here stand in for mpirun and srun.
mkdir "$scratch/bin"
cat >"$scratch/bin/mpirun" <<'END'
#!/bin/sh
[ "$1" = --version ] && echo "mpirun (Open MPI) 4.1.4" && exit
echo "mpirun $*" >>"$LOG"
hosts= size=
while [ $# -gt 0 ]; do
    case $1 in
    -n) size=$2; shift ;;
    --host) hosts=$2; shift ;;
    -x) eval "[ \"\${$2+x}\" ]" || { echo "no variable $2" >&2; exit 1; }; shift ;;
    *) break ;;
    esac
    shift
done
case $hosts in *dead*) exit 1 ;; esac
rank=0
while [ $rank -lt "$size" ]; do
    OMPI_COMM_WORLD_RANK=$rank OMPI_COMM_WORLD_SIZE=$size \
        OMPI_COMM_WORLD_LOCAL_SIZE=$size PMIX_NAMESPACE=mpirun-$$ "$@" &
    processes="$processes $!"
    rank=$((rank + 1))
done
trap 'kill -TERM $processes' TERM
status=0
for process in $processes; do
    wait "$process" || status=$?
done
exit $status
END
chmod +x "$scratch/bin/mpirun"
LOG=$scratch/log PATH=$scratch/bin:$PATH
export LOG PATH
run 20 --hosts a,b:2 sh -c 'echo "$OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE, token ${#TENON_TOKEN}"'
is_str "$status $(sort "$scratch/out" | tr '\n' ',')" \
    "0 [0] 0 of 3, token 64,[1] 1 of 3, token 64,[2] 2 of 3, token 64," \
    "mpirun starts the ranks on other hosts"
is_str "$(grep -c -e '^mpirun -n 3 --host a:1,b:2 -x TENON_TOKEN -x TENON_RESTART.* run --one --grace 3 -- sh -c' "$scratch/log")" 1 \
    "by this command"
is_empty "$(grep -E '[0-9a-f]{64}' "$scratch/log")" "without the token"
run 20 -n 4 --hosts a,b "$faults" killed
is_str "$((status != 0)) $(sed -n 's/^\[[023]\] //p' "$scratch/out" | sort -u | grep -c 'rank 1 has ended')" \
    "1 1" "a killed rank is named there, too"
: >"$scratch/log"
run 30 --hosts a,dead:2,b --restarts 2 --grace 0 sh -c 'echo "$TENON_RESTART $OMPI_COMM_WORLD_SIZE"'
is_str "$status $(sort -u "$scratch/out" | sed 's/^....//' | sort -u)" "0 1 2" \
    "a host that does not answer is left out by the restart"
is_str "$(grep -c 'dead does not answer' "$scratch/err")" 1 "and named"
sed -i 's/mpirun (Open MPI) 4.1.4/HYDRA build details:/' "$scratch/bin/mpirun"
: >"$scratch/log"
run 20 --hosts a,b:2 true
is_str "$(grep -c -e '^mpirun -n 3 -hosts a:1,b:2 -genvlist TENON_TOKEN,TENON_RESTART' "$scratch/log")" 1 \
    "the command for MPICH"
printf '#!/bin/sh\necho "srun $*" | tee -a "$LOG"\n' >"$scratch/bin/srun"
chmod +x "$scratch/bin/srun"
SLURM_JOB_ID=7 run 20 --hosts a:2,b:2 true
is_str "$(grep -c -e '^srun -n 4 -w a,b --ntasks-per-node=2 --distribution=block --mpi=pmix .* run --one' "$scratch/log")" 1 \
    "and for SLURM"
PATH=${PATH#*:}

for wrong in "" "-n 2" "-n 0 true" "-n x true" "-n 257 true" "--oops true" "--hosts , true" \
    "--hosts a:0 true" "--hosts -x true" "-n 2 --sizes 2,x true" "-n 2 --one true" \
    "-n 2 --restarts -1 true" "-n 2 --sizes 2,1 true"; do
    # shellcheck disable=SC2086 # words
    run 10 $wrong
    is_str "$status $(grep -c '^usage: tenon run' "$scratch/err") $(grep -c '^tenon run: .*: ' "$scratch/err")" \
        "2 1 1" "wrong, and why: tenon run $wrong"
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
# The engines that were built are found beside the library.
for mpi in "mpich PMI" "openmpi OMPI_COMM_WORLD"; do
    name=${mpi% *} prefix=${mpi#* }
    if [ -f "$top_builddir/tenon-1/comm_$name.so" ]; then
        skip "an MPI for which no engine was built: $name" "it was built"
    else
        fails "an MPI for which no engine was built: $name" \
            "no file comm_$name.so.*install lib$name-dev.*--with-mpi" \
            TENON_ENGINE=mpi "${prefix}_RANK=0" "${prefix}_SIZE=2"
    fi
done
fails "a timeout that is none" "TENON_TIMEOUT is soon" TENON_TIMEOUT=soon
# Ranks of another program are refused, and both are named.
TENON_RANK=0 TENON_SIZE=2 TENON_JOB=run-other-$$ timeout 20 "$faults" exits \
    >"$scratch/out" 2>&1 &
TENON_RANK=1 TENON_SIZE=2 TENON_JOB=run-other-$$ timeout 20 \
    "$top_builddir/tests/dist/test_collectives" exits >"$scratch/err" 2>&1
wait
is_str "$(cat "$scratch/out" "$scratch/err" | grep -c 'rank 1 runs another program (.*test_collectives, build .*) than rank 0 (.*test_faults, build')" 2 \
    "ranks of two programs are refused"
done_testing
