# make_training.py DIR: writes the samples of samples_training_more.tar.xz.
#
# Schedules, clipping, Adafactor and distributions are PyTorch's (2.15, CPU).
# PyTorch has no Lion, LAMB and LARS. The functions below compute the formulas
# of their papers, in the dtype of the parameters. No test runs this script.
import json
import os
import struct
import sys

import numpy
import torch
import torch.optim.lr_scheduler as schedulers

NAMES = {numpy.dtype("float32"): "F32", numpy.dtype("float64"): "F64",
         numpy.dtype("int64"): "I64"}


def write(path, tensors, metadata):
    """Returns the bytes of a safetensors file, without the package safetensors."""
    header, data, at = {"__metadata__": metadata}, b"", 0
    for name, x in tensors.items():
        x = numpy.asarray(x.detach() if torch.is_tensor(x) else x, order="C")
        header[name] = {"dtype": NAMES[x.dtype], "shape": list(x.shape),
                        "data_offsets": [at, at + x.nbytes]}
        data += x.tobytes()
        at += x.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


# ---- schedules: the rate before each of 18 steps ------------------------------

# JSON has no functions, so the files refer to these functions by name.
# schedule_file.c has the same functions.
FUNCTIONS = {
    "1 / (1 + step)": lambda step: 1 / (1 + step),
    "0.95 ** step": lambda step: 0.95 ** step,
    "0.9": lambda step: 0.9,
    "1.1 - 0.05 * step": lambda step: 1.1 - 0.05 * step,
}


def scheduler_of(optim, name, args):
    args = dict(args)
    if "lr_lambda" in args:
        args["lr_lambda"] = FUNCTIONS[args["lr_lambda"]]
    if "schedulers" in args:
        args["schedulers"] = [scheduler_of(optim, n, a)
                              for n, a in args["schedulers"]]
    if name == "ChainedScheduler":
        return schedulers.ChainedScheduler(args["schedulers"])
    return getattr(schedulers, name)(optim, **args)


def schedule(to, file, name, args, metrics=None, base=0.1):
    p = torch.zeros(1, requires_grad=True)
    optim = torch.optim.SGD([p], lr=base, momentum=0.9)
    s = scheduler_of(optim, name, args)
    rates = []
    for i in range(18):
        rates.append(optim.param_groups[0]["lr"])
        optim.step()
        s.step(*([metrics[i]] if metrics else []))
    metadata = {"scheduler": name, "args": json.dumps(args),
                "base_lr": repr(base)}
    if metrics:
        metadata["metrics"] = json.dumps(metrics)
    write(f"{to}/schedulers/{file}.safetensors",
          {"lr": numpy.array(rates, dtype="float64")}, metadata)


def schedules(to):
    falling = [1, 0.9, 0.9, 0.95, 0.89, 0.89995, 0.9, 0.9, 0.9, 0.7, 0.7, 0.7,
               0.7, 0.7, 0.7, 0.2, 0.3, 0.3]
    schedule(to, "lambda_lr", "LambdaLR", {"lr_lambda": "1 / (1 + step)"})
    schedule(to, "lambda_lr_power", "LambdaLR", {"lr_lambda": "0.95 ** step"})
    schedule(to, "multiplicative_lr", "MultiplicativeLR",
             {"lr_lambda": "1.1 - 0.05 * step"})
    schedule(to, "plateau", "ReduceLROnPlateau", {"patience": 2}, falling)
    schedule(to, "plateau_cooldown", "ReduceLROnPlateau",
             {"patience": 1, "cooldown": 2, "factor": 0.5, "min_lr": 0.02},
             falling)
    schedule(to, "plateau_max_abs", "ReduceLROnPlateau",
             {"patience": 0, "mode": "max", "threshold_mode": "abs",
              "threshold": 0.05, "factor": 0.25}, [-m for m in falling])
    schedule(to, "plateau_max_rel", "ReduceLROnPlateau",
             {"patience": 1, "mode": "max", "threshold": 0.1, "eps": 1e-3},
             [2 - m for m in falling])
    warm = ("LinearLR", {"start_factor": 0.1, "total_iters": 4})
    schedule(to, "sequential_cosine", "SequentialLR",
             {"schedulers": [warm, ("CosineAnnealingLR", {"T_max": 10})],
              "milestones": [5]})
    schedule(to, "sequential_three", "SequentialLR",
             {"schedulers": [("ConstantLR", {"factor": 0.1, "total_iters": 20}),
                             ("StepLR", {"step_size": 2, "gamma": 0.5}),
                             ("ExponentialLR", {"gamma": 0.9})],
              "milestones": [4, 9]})
    schedule(to, "sequential_functions", "SequentialLR",
             {"schedulers": [("LambdaLR", {"lr_lambda": "1 / (1 + step)"}),
                             ("MultiplicativeLR", {"lr_lambda": "0.9"}),
                             ("PolynomialLR", {"total_iters": 4, "power": 2})],
              "milestones": [3, 8]})
    schedule(to, "sequential_equal", "SequentialLR",
             {"schedulers": [warm, ("StepLR", {"step_size": 1}),
                             ("CosineAnnealingWarmRestarts", {"T_0": 3})],
              "milestones": [4, 4]})
    schedule(to, "chained", "ChainedScheduler",
             {"schedulers": [("ConstantLR", {"factor": 0.1, "total_iters": 6}),
                             ("ExponentialLR", {"gamma": 0.9})]})
    schedule(to, "sequential_chained", "SequentialLR",
             {"schedulers": [("ChainedScheduler",
                              {"schedulers": [warm, ("StepLR",
                                                     {"step_size": 3})]}),
                             ("MultiStepLR", {"milestones": [2, 5],
                                              "gamma": 0.5})],
              "milestones": [7]})


# ---- optimizers: eight steps, in float32 and float64 --------------------------


def lion(p, g, s, t, lr=1e-4, betas=(0.9, 0.99), weight_decay=0,
         maximize=False):
    g = -g if maximize else g
    p = p * (1 - lr * weight_decay)
    p = p - lr * torch.sign(s["m"] * betas[0] + g * (1 - betas[0]))
    s["m"] = s["m"] * betas[1] + g * (1 - betas[1])
    return p


def lars(p, g, s, t, lr=1, momentum=0.9, weight_decay=0,
         trust_coefficient=1e-3, eps=1e-8, maximize=False):
    g = -g if maximize else g
    pn, gn = p.norm(), g.norm()
    local = 1
    if pn > 0 and gn > 0:
        local = trust_coefficient * pn / (gn + weight_decay * pn + eps)
    s["m"] = momentum * s["m"] + lr * local * (g + weight_decay * p)
    return p - s["m"]


def lamb(p, g, s, t, lr=1e-3, betas=(0.9, 0.999), eps=1e-6, weight_decay=0,
         maximize=False):
    g = -g if maximize else g
    s["m"] = betas[0] * s["m"] + (1 - betas[0]) * g
    s["v"] = betas[1] * s["v"] + (1 - betas[1]) * g * g
    u = s["m"] / (1 - betas[0] ** t)
    u = u / ((s["v"] / (1 - betas[1] ** t)).sqrt() + eps) + weight_decay * p
    pn, un = p.norm(), u.norm()
    return p - lr * (pn / un if pn > 0 and un > 0 else 1) * u


class Formula(torch.optim.Optimizer):
    """An optimizer whose step is one of the functions above."""
    def __init__(self, parameters, function, args):
        super().__init__(parameters, {})
        self.function, self.args, self.t = function, args, 0

    @torch.no_grad()
    def step(self):
        self.t += 1
        for p in self.param_groups[0]["params"]:
            s = self.state[p]
            if not s:
                s.update(m=torch.zeros_like(p), v=torch.zeros_like(p))
            p.copy_(self.function(p, p.grad, s, self.t, **self.args))


FORMULAS = {"Lion": lion, "LARS": lars, "LAMB": lamb}


def optimizer(to, file, name, args, dtype=torch.float32):
    start = [torch.randn(4, 3, dtype=dtype), torch.randn(5, dtype=dtype)]
    target = [torch.randn(4, 3, dtype=dtype), torch.randn(5, dtype=dtype)]
    if file.endswith("zero"):
        start[1] = torch.zeros(5, dtype=dtype)
    p = [x.clone().requires_grad_() for x in start]
    optim = (Formula(p, FORMULAS[name], args) if name in FORMULAS
             else getattr(torch.optim, name)(p, foreach=False, **args))
    tensors = {"p0.start": start[0], "p1.start": start[1],
               "target0": target[0], "target1": target[1]}
    losses = []
    for step in range(8):
        optim.zero_grad()
        loss = (0.5 * ((p[0] - target[0]) ** 2).sum()
                + ((p[1] - target[1]) ** 4).mean())
        loss.backward()
        losses.append(loss.item())
        optim.step()
        for i in range(2):
            tensors[f"p{i}.step{step}"] = p[i].detach().clone()
    if "betas" in args:
        args = dict(args, betas=list(args["betas"]))
    write(f"{to}/optim/{file}.safetensors", tensors,
          {"optimizer": name, "args": json.dumps(args),
           "loss": "0.5*sum((p0-target0)^2) + mean((p1-target1)^4)",
           "losses": json.dumps(losses)})


def optimizers(to):
    f64 = torch.float64
    for suffix, dtype in (("", torch.float32), ("_f64", f64)):
        optimizer(to, "adafactor" + suffix, "Adafactor", {"lr": 0.1}, dtype)
        optimizer(to, "lion" + suffix, "Lion", {"lr": 0.05}, dtype)
        optimizer(to, "lars" + suffix, "LARS",
                  {"lr": 10, "weight_decay": 0.1}, dtype)
        optimizer(to, "lamb" + suffix, "LAMB",
                  {"lr": 0.05, "weight_decay": 0.1}, dtype)
    optimizer(to, "adafactor_options", "Adafactor",
              {"lr": 0.5, "beta2_decay": -0.5, "eps": [1e-4, 0.05], "d": 1.5,
               "weight_decay": 0.2})
    optimizer(to, "adafactor_maximize", "Adafactor",
              {"lr": 0.02, "maximize": True})
    optimizer(to, "lion_decay", "Lion",
              {"lr": 0.05, "betas": (0.8, 0.95), "weight_decay": 0.3})
    optimizer(to, "lion_maximize", "Lion", {"lr": 0.01, "maximize": True})
    optimizer(to, "lars_zero", "LARS", {"lr": 5, "momentum": 0.5})
    optimizer(to, "lars_maximize", "LARS",
              {"lr": 2, "trust_coefficient": 0.01, "eps": 0.1,
               "maximize": True})
    optimizer(to, "lamb_zero", "LAMB", {"lr": 0.05, "betas": (0.8, 0.99)})
    optimizer(to, "lamb_maximize", "LAMB",
              {"lr": 0.01, "eps": 0.01, "maximize": True})


# ---- distributions: values and gradients --------------------------------------


def distribution(to, file, kind, p, q, value, dtype=torch.float32,
                 gradients=True):
    """p and q: parameters by name; value: the argument of log_prob."""
    make = getattr(torch.distributions, kind)
    tensors, sets = {}, []
    for side, parameters in (("p", p), ("q", q)):
        leaves = {k: torch.as_tensor(v, dtype=dtype).requires_grad_()
                  for k, v in parameters.items()}
        tensors.update({f"{side}.{k}": x.detach().clone()
                        for k, x in leaves.items()})
        sets.append(leaves)
    value = torch.as_tensor(value)
    if value.is_floating_point():
        value = value.to(dtype)
    tensors["value"] = value
    for name, result in (
            ("log_prob", lambda a, b: a.log_prob(value)),
            ("entropy", lambda a, b: a.entropy()),
            ("kl", torch.distributions.kl_divergence)):
        out = result(*(make(**s, validate_args=False) for s in sets))
        tensors[name] = out.detach().clone()
        if not gradients:
            continue
        cotangent = torch.randn_like(out)
        tensors[f"{name}.cotangent"] = cotangent
        leaves = [(f"{side}.{k}", x) for side, s in zip("pq", sets)
                  for k, x in s.items()]
        grads = torch.autograd.grad(out, [x for _, x in leaves], cotangent,
                                    allow_unused=True)
        for (key, _), g in zip(leaves, grads):
            if g is not None:
                tensors[f"{name}.grad.{key}"] = g
    write(f"{to}/distributions/{file}.safetensors", tensors,
          {"distribution": kind, "parameters": json.dumps(list(p))})


def distributions(to):
    r, f64 = torch.rand, torch.float64
    n = torch.randn
    for suffix, dtype in (("", torch.float32), ("_f64", f64)):
        distribution(to, "normal" + suffix, "Normal",
                     {"loc": n(3, 1), "scale": 0.3 + r(4)},
                     {"loc": n(4), "scale": 0.5 + r(3, 1)}, n(2, 3, 4), dtype)
        distribution(to, "uniform" + suffix, "Uniform",
                     {"low": -r(3, 1), "high": r(4) + 0.1},
                     {"low": -1 - r(4), "high": 1.5 + r(3, 1)}, n(2, 3, 4),
                     dtype)
        distribution(to, "bernoulli_probs" + suffix, "Bernoulli",
                     {"probs": 0.1 + 0.8 * r(3, 4)},
                     {"probs": 0.1 + 0.8 * r(3, 4)},
                     (r(2, 3, 4) > 0.5).float(), dtype)
        distribution(to, "bernoulli_logits" + suffix, "Bernoulli",
                     {"logits": 3 * n(3, 4)}, {"logits": 3 * n(3, 4)},
                     (r(2, 3, 4) > 0.5).float(), dtype)
        distribution(to, "categorical_probs" + suffix, "Categorical",
                     {"probs": 0.1 + r(3, 5)}, {"probs": 0.1 + r(5)},
                     torch.randint(5, (2, 3)), dtype)
        distribution(to, "categorical_logits" + suffix, "Categorical",
                     {"logits": 3 * n(3, 5)}, {"logits": 3 * n(5)},
                     torch.randint(5, (2, 1)), dtype)
    distribution(to, "uniform_outside", "Uniform",
                 {"low": [-1.0, 0, 0], "high": [1.0, 1, 2]},
                 {"low": [-0.5, 0, 0], "high": [1.0, 1, 1]},
                 [[-1.0, 1, 3], [1, 0.0, -1]], gradients=False)
    distribution(to, "bernoulli_certain", "Bernoulli",
                 {"probs": [0.0, 1, 0, 1, 0.5, 0.5]},
                 {"probs": [0.0, 1, 1, 0, 0, 1]},
                 [0.0, 0, 1, 1, 0, 1], gradients=False)
    distribution(to, "categorical_certain", "Categorical",
                 {"probs": [[0.0, 1, 1], [0, 0, 2]]},
                 {"probs": [[1.0, 1, 0], [0, 1, 1]]}, [0, 2], gradients=False)


if __name__ == "__main__":
    torch.manual_seed(0)
    schedules(sys.argv[1])
    optimizers(sys.argv[1])
    distributions(sys.argv[1])
