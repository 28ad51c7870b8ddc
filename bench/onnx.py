"""onnx.py: times of ONNX models in Tenon and in ONNX Runtime.

    pip install onnxruntime numpy
    python bench/onnx.py [--tenon PROGRAM] [--rounds N] LIST

Each line of LIST has a name, the path of a model, and a safetensors file with its inputs
(in.NAME). For each model the two libraries take turns for N rounds (default 5). A round opens
the model and runs it as often as fits into 0.2 s. The table has the least times of all rounds:
opening and, with one thread and with two, a run. Times with one thread are CPU times, which other
programs of the machine hardly change; the other times are wall times. The figures of Tenon are
those of `tenon onnx bench`."""
import argparse
import json
import os
import re
import struct
import subprocess
import time

import numpy as np
import onnxruntime

NUMPY = {"F64": "f8", "F32": "f4", "F16": "f2", "I64": "i8", "I32": "i4", "I16": "i2",
         "I8": "i1", "U8": "u1", "BOOL": "?"}


def read_inputs(path):
    with open(path, "rb") as file:
        size, = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(size))
        data = file.read()
    return {name[3:]: np.frombuffer(data[slice(*about["data_offsets"])],
                                    NUMPY[about["dtype"]]).reshape(about["shape"])
            for name, about in header.items() if name.startswith("in.")}


class Peer:
    """ONNX Runtime with a number of threads."""

    def __init__(self, model, inputs, threads):
        self.model, self.threads = model, threads
        self.inputs = read_inputs(inputs)

    def round(self, runs):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self.threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 4
        start = time.perf_counter()
        session = onnxruntime.InferenceSession(self.model, options,
                                               ["CPUExecutionProvider"])
        opened = time.perf_counter() - start
        clock = time.process_time if self.threads == 1 else time.perf_counter
        best = float("inf")
        session.run(None, self.inputs)
        for _ in range(runs):
            start = clock()
            session.run(None, self.inputs)
            best = min(best, clock() - start)
        return opened * 1e3, best * 1e3


class Tenon:
    def __init__(self, program, model, inputs, threads):
        self.command = [program, "onnx", "bench", "-i", inputs, model]
        self.threads = threads

    def round(self, runs):
        environment = dict(os.environ, TENON_NUM_THREADS=str(self.threads))
        text = subprocess.run(self.command + ["-n", str(runs)], env=environment, check=True,
                              capture_output=True, text=True).stdout
        opened = float(re.search(r"^open +([\d.]+) ms", text, re.M)[1])
        which = r"([\d.]+) ms of CPU time" if self.threads == 1 else r"([\d.]+) ms least"
        return opened, float(re.search(which, text)[1])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tenon", default="build/tools/tenon")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("list")
    arguments = parser.parse_args()
    print("| model | open | ONNX Runtime | run, 1 thread | ONNX Runtime | ratio "
          "| run, 2 threads | ONNX Runtime | ratio |")
    print("|---" * 9 + "|")
    for line in open(arguments.list):
        name, model, inputs = line.split()
        row = f"| {name} |"
        for threads in 1, 2:
            sides = [Tenon(arguments.tenon, model, inputs, threads),
                     Peer(model, inputs, threads)]
            runs = max(3, min(2000, int(200 / sides[1].round(3)[1])))
            best = [(float("inf"), float("inf"))] * 2
            for _ in range(arguments.rounds):
                for i in 0, 1:
                    best[i] = tuple(map(min, best[i], sides[i].round(runs)))
            if threads == 1:
                row += f" {best[0][0]:.1f} | {best[1][0]:.1f} |"
            row += f" {best[0][1]:.3g} | {best[1][1]:.3g} | {best[1][1] / best[0][1]:.2f} |"
        print(row, flush=True)


main()
