"""start_onnx.py: measures the start of ONNX Runtime, for the table in README.md.

    pip install onnxruntime numpy
    python bench/start_onnx.py [RUNS]

Each of RUNS new processes (default 21) imports ONNX Runtime, opens a model of two
linear layers (784 to 128 to 10), and runs it once. Prints the median time from the
start of the process to the result, the same for a process that only imports NumPy, the
peak resident memory, and the size of the package on disk, with that of the shared
library of the runtime in it."""
import pathlib
import resource
import statistics
import subprocess
import sys
import time


def varint(number):
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def field(number, value):
    """Encodes a field of a protobuf message: a number, a string, or bytes."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def tensor(name, shape):
    """Encodes a TensorProto of float32 zeros."""
    count = 1
    for size in shape:
        count *= size
    return (b"".join(field(1, size) for size in shape) + field(2, 1) +
            field(8, name) + field(9, bytes(4 * count)))


def value(name, shape):
    """Encodes the ValueInfoProto of a float32 tensor."""
    dims = b"".join(field(1, field(1, size)) for size in shape)
    return field(1, name) + field(2, field(1, field(1, 1) + field(2, dims)))


def node(op, inputs, output):
    return (b"".join(field(1, name) for name in inputs) + field(2, output) +
            field(4, op))


def model():
    graph = (field(1, node("MatMul", ["x", "w"], "a")) +
             field(1, node("Relu", ["a"], "b")) +
             field(1, node("MatMul", ["b", "v"], "y")) + field(2, "two_layers") +
             field(5, tensor("w", [784, 128])) + field(5, tensor("v", [128, 10])) +
             field(11, value("x", [1, 784])) + field(12, value("y", [1, 10])))
    return field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, 17))


def child():
    import numpy
    import onnxruntime
    session = onnxruntime.InferenceSession(model(),
                                           providers=["CPUExecutionProvider"])
    out = session.run(None, {"x": numpy.ones((1, 784), numpy.float32)})
    if out[0].shape != (1, 10):
        sys.exit("a result of another shape")
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def median_seconds(command, runs):
    """Returns the median time of `runs` runs, and the output of the last run."""
    seconds = []
    for _ in range(runs):
        begun = time.perf_counter()
        out = subprocess.run(command, check=True, capture_output=True).stdout
        seconds.append(time.perf_counter() - begun)
    return statistics.median(seconds), out.decode()


def main():
    if sys.argv[1:] == ["--child"]:
        return child()
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 21
    import onnxruntime
    package = pathlib.Path(onnxruntime.__file__).parent
    files = [f for f in package.rglob("*") if f.is_file()]
    biggest = max(files, key=lambda f: f.stat().st_size)
    whole, memory = median_seconds([sys.executable, __file__, "--child"], runs)
    python, _ = median_seconds([sys.executable, "-c", "import numpy"], runs)
    print(f"ONNX Runtime {onnxruntime.__version__}, {runs} processes each")
    print(f"start to first result  {whole:.3f} s")
    print(f"Python with NumPy      {python:.3f} s")
    print(f"resident memory        {int(memory) / 1024:.0f} MB")
    print(f"package on disk        {sum(f.stat().st_size for f in files) / 1e6:.0f}"
          f" MB, of which {biggest.name} {biggest.stat().st_size / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
