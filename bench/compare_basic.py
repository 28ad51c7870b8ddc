"""Single operators and convolutional layers: the groups dispatch, bandwidth, rows,
indexing, matmul and vision of bench/compare."""

import subprocess
import sys

import torch
from torch.nn import functional as F


# A workload is a function of its sizes that returns the function to be measured.
# Tensors that a call makes are freed with its frame, as by a scope in C.

def unary(operator):
    def ready(*size):
        a = torch.rand(*size)
        return lambda: operator(a)
    return ready


def binary(operator):
    def ready(size):
        a, b = torch.rand(size), torch.rand(size)
        return lambda: operator(a, b)
    return ready


def one(operator, count, recorded=False):
    def ready(size):
        inputs = [torch.ones(size) for _ in range(count)]
        inputs[0].requires_grad_(recorded)
        return lambda: operator(*inputs)
    return ready


def chain(count):
    a, b = torch.rand(16, requires_grad=True), torch.rand(16)

    def run():
        y = a
        for _ in range(count // 2):
            y = y * b + b
        a.grad = None
        y.sum().backward()
    return run


def start():
    text = "import torch; a = torch.ones(1); assert (a + a).item() == 2"
    return lambda: subprocess.run([sys.executable, "-c", text], check=True)


def softmax(operator):
    return unary(lambda a: operator(a, 1))


def layer_norm(rows, columns):
    a = torch.rand(rows, columns)
    w, b = torch.rand(columns), torch.rand(columns)
    return lambda: F.layer_norm(a, (columns,), w, b)


def add_row(rows, columns):
    a, b = torch.rand(rows, columns), torch.rand(columns)
    return lambda: a + b


def indexed(operator, columns=True):
    """Indices b: one for each element of a (columns), or one for each row."""
    def ready(rows, length):
        a = torch.rand(rows, length)
        b = (torch.randint(0, length, (rows, length)) if columns
             else torch.randint(0, rows, (rows,)))
        return lambda: operator(a, b)
    return ready


def embedding(words, vocabulary, width):
    a = torch.rand(vocabulary, width)
    b = torch.randint(0, vocabulary, (words,))
    return lambda: F.embedding(b, a)


def drawn(operator):
    def ready(*size):
        return lambda: operator(*size)
    return ready


def matmul(m, k, n):
    a, b = torch.rand(m, k), torch.rand(k, n)
    return lambda: torch.matmul(a, b)


def images(size, recorded):
    x = torch.rand(size[0], size[1], size[2], size[2])
    return x.requires_grad_(recorded)


def conv(recorded):
    def ready(*size):
        x = images(size, recorded)
        w = torch.rand(size[1], size[1], 3, 3).requires_grad_(recorded)
        return passes(lambda: F.conv2d(x, w, padding=1), [x, w], recorded)
    return ready


def pool(operator, recorded):
    def ready(*size):
        x = images(size, recorded)
        return passes(lambda: operator(x, 2), [x], recorded)
    return ready


def batch_norm(recorded):
    def ready(*size):
        x = images(size, True)
        w = torch.ones(size[1]).requires_grad_()
        b = torch.zeros(size[1]).requires_grad_()
        return passes(lambda: F.batch_norm(x, None, None, w, b, True),
                      [x, w, b], recorded)
    return ready


def passes(forward, inputs, recorded):
    """Returns a call of forward() without gradients. If recorded, it also computes the
    gradients of the result's sum for those inputs that require one."""
    inputs = [x for x in inputs if x.requires_grad]

    def back():
        out = forward()
        torch.autograd.grad(out, inputs, torch.ones_like(out))

    def alone():
        with torch.no_grad():
            forward()
    return back if recorded else alone


WORK = {
    "dispatch.add": one(torch.add, 2),
    "dispatch.add_recorded": one(torch.add, 2, recorded=True),
    "dispatch.matmul": one(torch.matmul, 2),
    "dispatch.relu": one(torch.relu, 1),
    "dispatch.sum": one(torch.sum, 1),
    "dispatch.chain": chain,
    "dispatch.start": start,
    "bandwidth.add": binary(torch.add),
    "bandwidth.mul": binary(torch.mul),
    "bandwidth.exp": unary(torch.exp),
    "bandwidth.sum": unary(torch.sum),
    "bandwidth.softmax": softmax(torch.softmax),
    "rows.sum_rows": unary(lambda a: torch.sum(a, 1)),
    "rows.sum_columns": unary(lambda a: torch.sum(a, 0)),
    "rows.max_rows": unary(lambda a: torch.amax(a, 1)),
    "rows.log_softmax": softmax(torch.log_softmax),
    "rows.layer_norm": layer_norm,
    "rows.add_row": add_row,
    "rows.transpose": unary(lambda a: a.t().contiguous()),
    "indexing.cumsum_rows": unary(lambda a: torch.cumsum(a, 1)),
    "indexing.cumsum_columns": unary(lambda a: torch.cumsum(a, 0)),
    "indexing.sort_rows": unary(lambda a: torch.sort(a, 1)),
    "indexing.sort": unary(lambda a: torch.sort(a, 1)),
    "indexing.topk": unary(lambda a: torch.topk(a, 10, 1)),
    "indexing.gather": indexed(lambda a, b: torch.gather(a, 1, b)),
    "indexing.scatter_add":
        indexed(lambda a, b: torch.scatter_add(a, 1, b, a)),
    "indexing.index_select":
        indexed(lambda a, b: torch.index_select(a, 0, b), columns=False),
    "indexing.index_add":
        indexed(lambda a, b: torch.index_add(a, 0, b, a), columns=False),
    "indexing.embedding": embedding,
    "indexing.cat_rows": unary(lambda a: torch.cat((a, a), 0)),
    "indexing.cat_columns": unary(lambda a: torch.cat((a, a), 1)),
    "indexing.rand": drawn(torch.rand),
    "indexing.randn": drawn(torch.randn),
    "indexing.dropout": unary(lambda a: F.dropout(a, 0.5, True)),
    "matmul.matmul": matmul,
    "vision.conv2d": conv(False),
    "vision.conv2d_back": conv(True),
    "vision.max_pool2d": pool(F.max_pool2d, False),
    "vision.max_pool2d_back": pool(F.max_pool2d, True),
    "vision.avg_pool2d": pool(F.avg_pool2d, False),
    "vision.avg_pool2d_back": pool(F.avg_pool2d, True),
    "vision.batch_norm": batch_norm(False),
    "vision.batch_norm_back": batch_norm(True),
}
