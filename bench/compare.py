"""The workloads of bench/compare in PyTorch eager.

Run by bench/peer.c with the number of threads and the device ("cuda:0": that
one; any other: the processor). It says "torch VERSION" and
then answers lines of its input:

    open GROUP.NAME [SIZE...]    "ready", or "none" if it has no such workload
    run CALLS                    nanoseconds a call
"""

import sys
import time

sys.dont_write_bytecode = True  # the folder may belong to another

try:
    import torch
except ImportError:
    sys.exit()  # who asked reads that there is no torch
import compare_basic
import compare_families
import compare_networks

WORK = {**compare_basic.WORK, **compare_families.WORK, **compare_networks.WORK}


def measure(call, calls):
    begin = time.perf_counter_ns()
    for _ in range(calls):
        call()
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
    return (time.perf_counter_ns() - begin) / calls


def main():
    torch.set_num_threads(int(sys.argv[1]))
    on_gpu = sys.argv[2].startswith("cuda")
    if on_gpu:
        torch.set_default_device(sys.argv[2])
    print("torch", torch.__version__, flush=True)
    call = None
    for line in sys.stdin:
        word, *rest = line.split()
        if word == "run":
            calls = int(rest[0])
            if torch.get_num_threads() > 1:  # compare.c: rest
                measure(call, calls // 4 + 1)
            print(measure(call, calls), flush=True)
            continue
        name, *size = rest
        call = None  # what the last one held goes before the next is made
        ready = WORK.get(name)
        if ready:
            try:
                call = ready(*map(int, size))
                call()
            except RuntimeError as error:
                if not on_gpu:  # which has not everything
                    raise
                print(name, error, file=sys.stderr)
                ready = None
        print("ready" if ready else "none", flush=True)


if __name__ == "__main__":
    main()
