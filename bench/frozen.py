"""Frozen networks beside ONNX Runtime and OpenVINO.

    pip install onnx onnxruntime openvino numpy
    python bench/frozen.py [--tenon bench/frozen] [--threads N] [--rounds N] [ROW...]

Makes each network of bench/frozen as an ONNX file with random weights, and lets the three take
turns. A line has the median time of a call in milliseconds, and the median over the rounds of
the better one's time / Tenon's. What is not installed is left out."""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time

sys.path = sys.path[1:]  # this folder has an onnx.py, too
import numpy as np  # noqa: E402
import onnx  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

RANDOM = np.random.default_rng(1)


class Graph:
    """An ONNX graph that is built node by node."""

    def __init__(self, shape):
        self.nodes, self.weights, self.shape = [], [], shape

    def weight(self, *shape, scale=None):
        fan = np.prod(shape[1:]) if len(shape) > 1 else 1
        array = RANDOM.standard_normal(shape, dtype=np.float32)
        return self.constant(array * np.float32(fan ** -0.5 if scale is None else scale))

    def constant(self, array):
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def add(self, kind, *inputs, **options):
        name = f"n{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **options))
        return name

    def save(self, path, result):
        graph = helper.make_graph(
            self.nodes, "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)],
            [helper.make_tensor_value_info(result, TensorProto.FLOAT, None)], self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
        model.ir_version = 9
        onnx.save(model, path)

    # layers

    def conv(self, x, cin, cout, kernel, stride, groups, act):
        x = self.add("Conv", x, self.weight(cout, cin // groups, kernel, kernel),
                     strides=[stride] * 2, pads=[kernel // 2] * 4, group=groups)
        one, zero = np.ones(cout, np.float32), np.zeros(cout, np.float32)
        x = self.add("BatchNormalization", x, self.constant(one), self.constant(zero),
                     self.constant(zero), self.constant(one))
        if act == "relu":
            return self.add("Relu", x)
        if act == "relu6":
            return self.add("Clip", x, self.constant(np.float32(0)), self.constant(np.float32(6)))
        return x

    def linear(self, x, cin, cout):
        return self.add("Add", self.add("MatMul", x, self.weight(cin, cout, scale=cin ** -0.5)),
                        self.weight(cout, scale=0.02))

    def head(self, x, features):
        x = self.add("Flatten", self.add("GlobalAveragePool", x))
        return self.linear(x, features, 1000)

    def norm(self, x, features):
        return self.add("LayerNormalization", x, self.constant(np.ones(features, np.float32)),
                        self.constant(np.zeros(features, np.float32)), epsilon=1e-5)


def resnet50(g):
    x = g.add("MaxPool", g.conv("x", 3, 64, 7, 2, 1, "relu"), kernel_shape=[3, 3],
              strides=[2, 2], pads=[1] * 4)
    cin = 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        width = 64 << stage
        for i in range(blocks):
            stride = 2 if stage and not i else 1
            y = g.conv(x, cin, width, 1, 1, 1, "relu")
            y = g.conv(y, width, width, 3, stride, 1, "relu")
            y = g.conv(y, width, 4 * width, 1, 1, 1, None)
            side = x if i else g.conv(x, cin, 4 * width, 1, stride, 1, None)
            x = g.add("Relu", g.add("Add", y, side))
            cin = 4 * width
    return g.head(x, 2048)


def mobilenet(g):
    x, cin = g.conv("x", 3, 32, 3, 2, 1, "relu6"), 32
    for times, cout, blocks, first in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2),
                                       (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)):
        for i in range(blocks):
            stride, wide = 1 if i else first, cin * times
            y = x if times == 1 else g.conv(x, cin, wide, 1, 1, 1, "relu6")
            y = g.conv(y, wide, wide, 3, stride, wide, "relu6")
            y = g.conv(y, wide, cout, 1, 1, 1, None)
            x = g.add("Add", y, x) if stride == 1 and cin == cout else y
            cin = cout
    return g.head(g.conv(x, 320, 1280, 1, 1, 1, "relu6"), 1280)


def encoder(features, heads, layers):
    def build(g):
        batch, length, _ = g.shape
        split = g.constant(np.array([batch, length, heads, features // heads], np.int64))
        whole = g.constant(np.array([batch, length, features], np.int64))
        scale = g.constant(np.float32((features // heads) ** -0.5))
        x = "x"
        for _ in range(layers):
            q, k, v = (g.add("Reshape", g.linear(x, features, features), split) for _ in range(3))
            q = g.add("Transpose", q, perm=[0, 2, 1, 3])
            k = g.add("Transpose", k, perm=[0, 2, 3, 1])
            v = g.add("Transpose", v, perm=[0, 2, 1, 3])
            w = g.add("Softmax", g.add("Mul", g.add("MatMul", q, k), scale), axis=-1)
            y = g.add("Transpose", g.add("MatMul", w, v), perm=[0, 2, 1, 3])
            y = g.linear(g.add("Reshape", y, whole), features, features)
            x = g.norm(g.add("Add", x, y), features)
            y = g.add("Gelu", g.linear(x, features, 4 * features))
            x = g.norm(g.add("Add", x, g.linear(y, 4 * features, features)), features)
        return x
    return build


# bench/frozen.c has the same rows.
ROWS = {
    "resnet50-1": (resnet50, (1, 3, 224, 224)),
    "resnet50-8": (resnet50, (8, 3, 224, 224)),
    "mobilenetv2-1": (mobilenet, (1, 3, 224, 224)),
    "mobilenetv2-8": (mobilenet, (8, 3, 224, 224)),
    "bert-1x128": (encoder(768, 12, 12), (1, 128, 768)),
    "minilm-1x128": (encoder(384, 12, 6), (1, 128, 384)),
    "minilm-8x64": (encoder(384, 12, 6), (8, 64, 384)),
}


def onnx_runtime(path, x, threads):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, {"x": x})


def openvino(path, x, threads):
    import openvino
    core = openvino.Core()
    model = core.compile_model(core.read_model(path), "CPU", {
        "INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32"})
    request = model.create_infer_request()
    return lambda: request.infer([x])


def timed(run, clock):
    def sample(calls):
        begin = clock()
        for _ in range(calls):
            run()
        return (clock() - begin) / calls
    return sample


def tenon(program, row, threads, cpu):
    environment = dict(os.environ, TENON_NUM_THREADS=str(threads))
    command = [program] + (["--cpu"] if cpu else []) + ["--serve", row]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                               env=environment)

    def sample(calls):
        process.stdin.write(f"{calls}\n")
        process.stdin.flush()
        return float(process.stdout.readline())
    return sample, process


def measure(name, arguments):
    build, shape = ROWS[name]
    clock = time.process_time if arguments.cpu else time.perf_counter
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "net.onnx")
        graph = Graph(shape)
        graph.save(path, build(graph))
        x = RANDOM.standard_normal(shape, dtype=np.float32)
        samples = {}
        for peer in (onnx_runtime, openvino):
            try:
                samples[peer.__name__] = timed(peer(path, x, arguments.threads), clock)
            except ImportError:
                pass
    samples["tenon"], process = tenon(arguments.tenon, name, arguments.threads, arguments.cpu)
    times = {way: [] for way in samples}
    for turn in range(-1, arguments.rounds):
        for way, sample in samples.items():
            seconds = sample(arguments.calls)
            if turn >= 0:
                times[way].append(1e3 * seconds)
    process.stdin.close()
    process.wait()
    peers = [way for way in times if way != "tenon"]
    ratio = [min(times[way][r] for way in peers) / times["tenon"][r]
             for r in range(arguments.rounds)] if peers else [float("nan")]
    cells = [f"{statistics.median(times[way]):12.2f}" if way in times else f"{'-':>12}"
             for way in ("tenon", "onnx_runtime", "openvino")]
    print(f"{name:14}", *cells, f"{statistics.median(ratio):8.2f}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tenon", default="bench/frozen")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--calls", type=int, default=1)
    parser.add_argument("--cpu", action="store_true", help="processor time")
    parser.add_argument("rows", nargs="*", default=list(ROWS), metavar="ROW")
    arguments = parser.parse_args()
    print(f"{'ms':14} {'tenon':>12} {'onnx_runtime':>12} {'openvino':>12} {'ratio':>8}")
    for name in arguments.rows:
        measure(name, arguments)


if __name__ == "__main__":
    main()
