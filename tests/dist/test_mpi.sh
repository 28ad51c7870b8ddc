# The tests of many processes, over each implementation of MPI whose engine was
# built: the rules of communication plugins, collectives, faults, training. Each
# program starts its ranks by that mpirun (ranks.h).
. "$top_srcdir/tests/tap.sh"
cd "$top_builddir" || exit 99
any=0
for mpi in openmpi mpich; do
    if ! [ -f "tenon-1/comm_$mpi.so" ]; then
        skip "$mpi" "its engine was not built (configure --with-mpi)"
        continue
    fi
    # Debian's names; elsewhere one implementation has the plain one
    mpirun=$(command -v mpirun.$mpi || command -v mpirun) || mpirun=
    case $mpi:$("$mpirun" --version 2>/dev/null | head -n 1) in
    openmpi:*OpenRTE* | openmpi:*"Open MPI"* | mpich:*HYDRA*) ;;
    *)
        skip "$mpi" "its mpirun is not installed"
        continue
        ;;
    esac
    any=1
    for program in engine collectives faults ddp; do
        begun=$(date +%s)
        TENON_TEST_MPIRUN=$mpirun TENON_TEST_ENGINE=$mpi TENON_ENGINE=mpi \
            timeout 240 "tests/dist/test_$program" >"$scratch/out" 2>&1
        status=$?
        is_str "$status $(grep -c '^ok' "$scratch/out")" \
            "0 $(sed -n 's/^1\.\.//p' "$scratch/out")" \
            "$mpi: test_$program ($(($(date +%s) - begun)) s)"
        [ $status = 0 ] || grep -A 40 '^not ok' "$scratch/out" | sed 's/^/# /'
    done
done
[ $any = 1 ] || skip "MPI" "no implementation is installed"
done_testing
