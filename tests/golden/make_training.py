# make_training.py DIR: writes the samples of samples_training_more.tar.xz.
#
# Schedules, clipping, Adafactor and distributions are PyTorch's (2.15, CPU).
# PyTorch has no Lion, LAMB and LARS: the functions below are their papers'
# formulas, in the dtype of the parameters. No test runs this script.
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
    """A safetensors file; its package is not needed."""
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

# By name, since JSON has no functions: schedule_file.c has them, too.
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


if __name__ == "__main__":
    torch.manual_seed(0)
    schedules(sys.argv[1])
