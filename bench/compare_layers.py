"""Layers and optimizers: the groups layer and optimizer of bench/compare. Their
workloads are the rows of layers.tsv and optimizers.tsv."""

import json
import os
import re

import torch
from torch import nn
from torch.nn.utils import rnn

from compare_networks import Gpt, resnet20


def rows(file):
    """Returns name, class, arguments and third column of each row of a file."""
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), file)) as lines:
        for line in lines:
            if not line.startswith("#"):
                name, arguments, rest = line.rstrip("\n").split("\t")
                yield name, re.split("[_.]", name)[0], json.loads(arguments), rest


# ---- layers: layers.c says what the kinds of inputs are -------------------------

def wants(x):
    return x.requires_grad_()


def labels(*shape):
    x = torch.full(shape, -1)
    x[:, :5] = torch.arange(5)
    return x


def maxima(*shape):
    pool = (nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d)[len(shape) - 3]
    sides = [2 * n for n in shape[2:]]
    return pool(2, return_indices=True)(torch.randn(*shape[:2], *sides))[1]


INPUTS = {
    "normal": lambda s, n: wants(torch.randn(s)),
    "packed": lambda s, n: wants(torch.randn(s)),
    "positive": lambda s, n: wants(torch.rand(s) + 0.1),
    "probability": lambda s, n: wants(torch.rand(s) * 0.9 + 0.05),
    "log_softmax": lambda s, n: wants(torch.randn(s).log_softmax(-1)),
    "uniform": lambda s, n: torch.rand(s),
    "softmax": lambda s, n: torch.randn(s).softmax(-1),
    "signs": lambda s, n: torch.randint(0, 2, s).float() * 2 - 1,
    "bits": lambda s, n: torch.randint(0, 2, s).float(),
    "index": lambda s, n: torch.randint(0, n, s),
    "words": lambda s, n: torch.randint(1, n, s),
    "full": lambda s, n: torch.full(s, n),
    "labels": lambda s, n: labels(*s),
    "unpool": lambda s, n: maxima(*s),
}


def inputs(text):
    found = []
    for spec in text.split(" "):
        if spec == "same":
            found.append(found[0])
            continue
        kind, shape, *number = spec.split(":")
        found.append(INPUTS[kind](tuple(map(int, shape.split("x"))),
                                  *map(int, number or ["0"])))
    return found


def stack(layer, whole):
    def make(num_layers, **arguments):
        return whole(layer(**arguments), num_layers)
    return make


def encoders(layer, num_layers):
    return nn.TransformerEncoder(layer, num_layers, enable_nested_tensor=False)


MAKE = {"TransformerEncoder": stack(nn.TransformerEncoderLayer, encoders),
        "TransformerDecoder": stack(nn.TransformerDecoderLayer,
                                    nn.TransformerDecoder)}


def packed(net, x):
    count, times, _ = x.shape
    lengths = torch.tensor([times - i * (times // 2) // count
                            for i in range(count)])

    def forward():
        out = net(rnn.pack_padded_sequence(x, lengths, batch_first=True))[0]
        return rnn.pad_packed_sequence(out, batch_first=True)[0]
    return forward


def layer(kind, arguments, text):
    def ready():
        net = MAKE.get(kind, getattr(nn, kind))(**arguments).train()
        ins = inputs(text)
        if text.startswith("packed"):
            forward = packed(net, *ins)
        else:
            given = [ins[0], tuple(ins[1:])] if kind == "LSTMCell" else ins

            def forward():
                out = net(*given)
                return out if isinstance(out, torch.Tensor) else out[0]
        leaves = [x for x in ins if x.requires_grad] + list(net.parameters())
        with torch.no_grad():
            gradient = torch.randn_like(forward())

        def step():
            out = forward()
            for x in leaves:
                x.grad = None
            out.backward(gradient)
        return step
    return ready


# ---- optimizers: those that torch.optim lacks, by operators over all parameters --

class Foreach:
    """Base class of optimizers that torch.optim lacks. Like foreach optimizers, they
    call each operator once for the list of all parameters."""

    def __init__(self, parameters, lr, weight_decay=0.0, **arguments):
        self.p = list(parameters)
        self.lr, self.decay, self.steps = lr, weight_decay, 0
        self.m = [torch.zeros_like(p) for p in self.p]
        self.v = [torch.zeros_like(p) for p in self.p]

    @torch.no_grad()
    def step(self):
        self.steps += 1
        self.update([p.grad for p in self.p])

    def ratio(self, above, below):
        """Returns above / below for each parameter, or 1 where one of them is 0."""
        return [torch.where((a > 0) & (b > 0), a / b, torch.ones_like(a))
                for a, b in zip(above, below)]


class Lion(Foreach):
    def __init__(self, parameters, lr=1e-4, **arguments):
        super().__init__(parameters, lr, **arguments)

    def update(self, g):
        if self.decay:
            torch._foreach_mul_(self.p, 1 - self.lr * self.decay)
        u = torch._foreach_lerp(self.m, g, 0.1)
        torch._foreach_sign_(u)
        torch._foreach_add_(self.p, u, alpha=-self.lr)
        torch._foreach_lerp_(self.m, g, 0.01)


class LARS(Foreach):
    def __init__(self, parameters, lr=1.0, **arguments):
        super().__init__(parameters, lr, **arguments)

    def update(self, g):
        pnorm, gnorm = torch._foreach_norm(self.p), torch._foreach_norm(g)
        below = torch._foreach_add(gnorm, pnorm, alpha=self.decay)
        torch._foreach_add_(below, 1e-8)
        local = [torch.where((p > 0) & (n > 0), 1e-3 * p / b, torch.ones_like(p))
                 for p, n, b in zip(pnorm, gnorm, below)]
        d = torch._foreach_add(g, self.p, alpha=self.decay) if self.decay else g
        d = torch._foreach_mul(d, local)
        torch._foreach_mul_(self.m, 0.9)
        torch._foreach_add_(self.m, d, alpha=self.lr)
        torch._foreach_sub_(self.p, self.m)


class LAMB(Foreach):
    def __init__(self, parameters, lr=1e-3, **arguments):
        super().__init__(parameters, lr, **arguments)

    def update(self, g):
        torch._foreach_lerp_(self.m, g, 1 - 0.9)
        torch._foreach_mul_(self.v, 0.999)
        torch._foreach_addcmul_(self.v, g, g, 1 - 0.999)
        below = torch._foreach_div(self.v, 1 - 0.999 ** self.steps)
        torch._foreach_sqrt_(below)
        torch._foreach_add_(below, 1e-6)
        u = torch._foreach_div(self.m, 1 - 0.9 ** self.steps)
        torch._foreach_div_(u, below)
        if self.decay:
            torch._foreach_add_(u, self.p, alpha=self.decay)
        scale = self.ratio(torch._foreach_norm(self.p), torch._foreach_norm(u))
        torch._foreach_mul_(u, scale)
        torch._foreach_add_(self.p, u, alpha=-self.lr)


OURS = {"Lion": Lion, "LARS": LARS, "LAMB": LAMB}


def lbfgs(parameters, arguments):
    with torch.no_grad():
        curve = [torch.rand_like(p) + 0.5 for p in parameters]
        target = [[torch.randn_like(p) for p in parameters] for _ in range(2)]
    optimizer = torch.optim.LBFGS(parameters, **arguments)
    one, steps = torch.tensor(1.0), 0

    def closure():
        with torch.no_grad():
            for p, c, t in zip(parameters, curve, target[steps % 2]):
                p.grad = c * (p - t)
        return one

    def step():
        nonlocal steps
        steps += 1
        optimizer.step(closure)
    return step


def optimizer(name, kind, arguments, network):
    def ready():
        net = resnet20() if network == "resnet20" else Gpt(65)
        parameters = [p for p in net.parameters()
                      if network != "matrices" or p.dim() == 2]
        if kind == "LBFGS":
            return lbfgs(parameters, arguments)
        for p in parameters:
            p.grad = torch.randn_like(p)
        options = dict(arguments, fused=True) if "_fused" in name else arguments
        make = OURS.get(kind) or getattr(torch.optim, kind)
        return make(parameters, **options).step
    return ready


WORK = {
    **{"layer." + name: layer(kind, arguments, text)
       for name, kind, arguments, text in rows("layers.tsv")},
    **{"optimizer." + name: optimizer(name, kind, arguments, network)
       for name, kind, arguments, network in rows("optimizers.tsv")},
}
