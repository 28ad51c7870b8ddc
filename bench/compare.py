"""The workloads of bench/compare in PyTorch.

Run by bench/peer.c with the way ("torch" and "tuned" are eager, "compiled" goes
through torch.compile, "libtorch" is libtorch.cpp), the number of threads and the
device ("cuda:0": that one; any other: the processor). It prints "torch VERSION" and
then answers each line of its input:

    open GROUP.NAME [SIZE...]    "ready", or "none" if it does not have the workload
    run CALLS                    nanoseconds per call
    losses COUNT FILE GROUP.NAME [SIZE...]
                                 the losses of a training workload's first steps
                                 from the file's values (losses.c), or "none"
"""

import os
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True  # writes no __pycache__ into the source folder

try:
    import torch
except ImportError:
    sys.exit()  # peer.c then reports that there is no torch
import compare_basic
import compare_families
import compare_layers
import compare_networks

WORK = {**compare_basic.WORK, **compare_families.WORK, **compare_networks.WORK,
        **compare_layers.WORK}

LONG_NS = 5e7  # the same as BENCH_LONG_NS in bench.h

# These workloads do no work on tensors that torch.compile could compile: one
# starts a process, the other loads batches.
NOTHING_TO_COMPILE = ("dispatch.start", "data.epoch")


def measure(call, calls):
    begin = time.perf_counter_ns()
    for _ in range(calls):
        call()
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
    return (time.perf_counter_ns() - begin) / calls


def losses(step, count, file, way):
    values = bytearray(open(file, "rb").read())
    torch.backends.cudnn.allow_tf32 = False  # computes convolutions in
                                             # float32, as Tenon does
    at = 0
    with torch.no_grad():
        for x in step.state:
            given = torch.frombuffer(values, dtype=x.dtype, count=x.numel(),
                                     offset=at)
            x.copy_(given.view(x.shape))
            at += x.numel() * x.element_size()
    if at != len(values):
        raise RuntimeError(f"{file} has {len(values)} bytes, not {at}")
    if way == "compiled":
        torch.compiler.reset()
        step = torch.compile(step)
    return [step().item() for _ in range(count)]


def libtorch(threads, device):
    """Compiles libtorch.cpp, which answers the same commands, and runs it."""
    from torch.utils import cpp_extension

    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "libtorch.cpp")
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "libtorch")
        command = ["c++", "-O2", "-std=c++20", source, "-o", program]
        command += ["-isystem" + path for path in cpp_extension.include_paths()]
        for path in cpp_extension.library_paths():
            command += ["-L" + path, "-Wl,-rpath," + path]
        command += ["-ltorch", "-ltorch_cpu", "-lc10"]
        if subprocess.run(command, stdout=sys.stderr).returncode == 0:
            subprocess.run([program, threads, device])


def main():
    way, threads, device = sys.argv[1:]
    if way == "libtorch":
        libtorch(threads, device)
        return
    torch.set_num_threads(int(threads))
    on_gpu = device.startswith("cuda")
    if on_gpu:
        torch.set_default_device(device)
    may_fail = RuntimeError if on_gpu else ()  # torch lacks some GPU operators
    if way == "compiled":
        may_fail = Exception
    print("torch", torch.__version__, flush=True)
    call, took = None, 0
    for line in sys.stdin:
        word, *rest = line.split()
        if word == "run":
            calls = int(rest[0])
            if took < LONG_NS:  # warms up short calls, as compare.c does
                measure(call, calls // 4 + 1)
            took = measure(call, calls)
            print(took, flush=True)
            continue
        call = None  # frees the tensors of the previous workload
        if word == "losses":
            count, file, name, *size = rest
            try:
                step = WORK[name](*map(int, size))
                print(*losses(step, int(count), file, way), flush=True)
            except Exception as error:
                print(name, error, file=sys.stderr)
                print("none", flush=True)
            continue
        name, *size = rest
        ready = WORK.get(name)
        if way == "compiled" and name in NOTHING_TO_COMPILE:
            ready = None
        if ready:
            try:
                call = ready(*map(int, size))
                if way == "compiled":
                    torch.compiler.reset()
                    call = torch.compile(call)
                    call()  # two calls, because torch compiles some workloads
                            # again
                    call()  # when gradients and optimizer state exist
                took = measure(call, 1)
            except may_fail as error:
                print(name, error, file=sys.stderr)
                ready = None
        print("ready" if ready else "none", flush=True)


if __name__ == "__main__":
    main()
