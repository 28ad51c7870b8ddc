#!/usr/bin/env python3
"""make_layers_more.py: writes samples of parametrized and pruned layers, and of
options of layers that make_modules.py does not use.

Run it by hand, with PyTorch 2.15. It writes samples_layers_more.tar.xz to a folder:

    python3 tests/golden/make_layers_more.py tests/golden

A sample of a parametrized layer has the module "Parametrized" and the arguments

    layer   PyTorch's name of the layer; the layer's arguments follow
    steps   calls on the layer: [function, parameter, {arguments}]
    late    true: the test makes the calls after it has loaded the state, so that
            their results are compared; false: it makes them before
"""
import io
import subprocess
import sys
import tarfile
import json

import torch
from torch import nn
from torch.nn.utils import parametrize, parametrizations, prune

import make_modules
from make_modules import x, classes

torch.manual_seed(2027)
CASES = []


class Symmetric(nn.Module):
    def forward(self, a):
        return a.triu() + a.triu(1).transpose(-1, -2)

    def right_inverse(self, a):
        return a.triu()


class Scaled(nn.Module):
    def forward(self, a):
        return 2 * a

    def right_inverse(self, a):
        return a / 2


def apply(module, step):
    how, name, args = step[0], step[1], dict(step[2])
    path, _, name = name.rpartition(".")
    module = module.get_submodule(path)
    if how == "orthogonal":
        args["orthogonal_map"] = args.pop("map", None)
    if how in ("weight_norm", "spectral_norm", "orthogonal"):
        return getattr(parametrizations, how)(module, name, **args)
    if how in ("symmetric", "scaled"):
        kind = Symmetric if how == "symmetric" else Scaled
        return parametrize.register_parametrization(module, name, kind())
    if how == "remove_parametrizations":
        return parametrize.remove_parametrizations(module, name, **args)
    if how == "remove":
        return prune.remove(module, name)
    if how == "custom_from_mask":
        weight = getattr(module, name)
        mask = (torch.arange(weight.numel()) % args["every"] != 0).float()
        return prune.custom_from_mask(module, name, mask.view_as(weight))
    if "n" in args:
        args["n"] = float(args["n"])
    if "count" in args:
        args["amount"] = args.pop("count")
    if how == "global_unstructured":
        pairs = [(module.get_submodule(n.rpartition(".")[0]),
                  n.rpartition(".")[2]) for n in args.pop("names")]
        return prune.global_unstructured(pairs, prune.L1Unstructured, **args)
    return getattr(prune, how)(module, name, **args)


def nudge(module):
    """Adds random numbers below the diagonal of the original parameters."""
    with torch.no_grad():
        for name, p in module.named_parameters():
            if name.endswith(".original") and p.dim() > 1:
                p += 0.3 * torch.randn_like(p).tril(-1)


def parametrized(layer, inputs, steps, mode="t", late=False, **args):
    CASES.append(("Parametrized", layer, args, inputs, steps, mode, late))


def option(layer, inputs, run="t", fixed=(), call=None, **args):
    CASES.append((layer, layer, args, inputs, [], run, fixed, call))


def cases():
    line = dict(layer="Linear", inputs=[x(3, 4)], in_features=4, out_features=3)
    square = dict(layer="Linear", inputs=[x(3, 4)], in_features=4,
                  out_features=4)
    tall = dict(layer="Linear", inputs=[x(3, 3)], in_features=3, out_features=5)
    conv = dict(layer="Conv2d", inputs=[x(2, 3, 5, 4)], in_channels=3,
                out_channels=4, kernel_size=2)
    back = dict(layer="ConvTranspose2d", inputs=[x(2, 3, 4, 3)], in_channels=3,
                out_channels=2, kernel_size=2)
    for late in (False, True):
        for dim in (0, 1, -1):
            parametrized(steps=[["weight_norm", "weight", {"dim": dim}]],
                         late=late, **line)
        parametrized(steps=[["weight_norm", "weight", {"dim": 2}]], late=late,
                     **conv)
        parametrized(steps=[["weight_norm", "weight", {}],
                            ["weight_norm", "bias", {}]], late=late, **line)
        parametrized(steps=[["symmetric", "weight", {}]], late=late, **square)
        parametrized(steps=[["symmetric", "weight", {}],
                            ["scaled", "weight", {}]], late=late, **square)
        parametrized(steps=[["orthogonal", "weight",
                             {"map": "householder",
                              "use_trivialization": False}]], late=late, **tall)
        parametrized(steps=[["orthogonal", "weight",
                             {"map": "householder",
                              "use_trivialization": False}]], late=late, **line)
        parametrized(steps=[["orthogonal", "weight",
                             {"map": "householder",
                              "use_trivialization": False}]], late=late,
                     **square)
        for how in ("matrix_exp", "cayley", "householder"):
            parametrized(steps=[["orthogonal", "weight", {"map": how}]],
                         late=late, **square)
        for how in ("matrix_exp", "cayley"):
            parametrized(steps=[["orthogonal", "weight",
                                 {"map": how, "use_trivialization": False}]],
                         late=late, **line)
        parametrized(steps=[["spectral_norm", "bias", {}]], late=late, **line)
    for mode in "te":
        for base in (line, conv, back):
            parametrized(steps=[["spectral_norm", "weight", {}]], mode=mode,
                         **base)
        parametrized(steps=[["spectral_norm", "weight",
                             {"n_power_iterations": 3, "dim": -1,
                              "eps": 1e-6}]], mode=mode, **conv)
        parametrized(steps=[["orthogonal", "weight", {}]], mode=mode, **tall)
        parametrized(steps=[["orthogonal", "weight", {"map": "cayley"}]],
                     mode=mode, **tall)
        parametrized(steps=[["orthogonal", "weight", {"map": "matrix_exp"}]],
                     mode=mode, **line)
    parametrized("LSTM", [x(4, 2, 3), x(1, 2, 3), x(1, 2, 3)],
                 [["orthogonal", "weight_hh_l0", {"use_trivialization": False}],
                  ["weight_norm", "weight_ih_l0", {}]], input_size=3,
                 hidden_size=3)
    parametrized("MultiheadAttention", [x(3, 2, 4), x(5, 2, 4), x(5, 2, 4)],
                 [["weight_norm", "in_proj_weight", {}],
                  ["weight_norm", "out_proj.weight", {}]], embed_dim=4,
                 num_heads=2)
    parametrized("Embedding", [classes(6, 2, 3)],
                 [["weight_norm", "weight", {"dim": 1}]], num_embeddings=6,
                 embedding_dim=3)
    parametrized("BatchNorm1d", [x(4, 3)], [["scaled", "weight", {}],
                                            ["scaled", "running_mean", {}]],
                 mode="e", num_features=3)
    parametrized("TransformerEncoderLayer", [x(3, 2, 4)],
                 [["weight_norm", "linear1.weight", {}],
                  ["l1_unstructured", "self_attn.in_proj_weight",
                   {"amount": 0.4}]],
                 d_model=4, nhead=2, dim_feedforward=6, dropout=0.0)

    l1 = ["l1_unstructured", "weight", {"amount": 0.4}]
    for late in (False, True):
        parametrized(steps=[l1], late=late, **line)
    parametrized(steps=[["l1_unstructured", "weight", {"count": 5}], l1],
                 late=True, **line)
    parametrized(steps=[["ln_structured", "weight",
                         {"amount": 0.5, "n": 2, "dim": 0}]], late=True, **conv)
    parametrized(steps=[["ln_structured", "weight",
                         {"count": 1, "n": 1, "dim": -1}], l1], late=True,
                 **conv)
    parametrized(steps=[l1, ["ln_structured", "weight",
                             {"amount": 0.3, "n": "inf", "dim": 1}],
                        ["ln_structured", "weight",
                         {"amount": 0.5, "n": 3, "dim": 1}]], late=True, **conv)
    parametrized(steps=[["custom_from_mask", "weight", {"every": 3}], l1],
                 late=True, **line)
    parametrized(steps=[l1, ["l1_unstructured", "bias", {"count": 1}]],
                 late=True, **line)
    parametrized(steps=[l1, ["remove", "weight", {}]], late=True, **line)
    parametrized(steps=[["weight_norm", "weight", {}],
                        ["remove_parametrizations", "weight", {}]], late=True,
                 **line)
    parametrized(steps=[["symmetric", "weight", {}],
                        ["remove_parametrizations", "weight",
                         {"leave_parametrized": False}]], late=True, **square)
    parametrized(steps=[["spectral_norm", "bias", {}],
                        ["remove_parametrizations", "bias", {}]], late=True,
                 **line)
    parametrized("TransformerEncoderLayer", [x(3, 2, 4)],
                 [["l1_unstructured", "linear1.weight", {"count": 7}],
                  ["global_unstructured", "",
                   {"names": ["linear1.weight", "linear2.weight",
                              "linear2.bias"], "amount": 0.4}]], late=True,
                 d_model=4, nhead=2, dim_feedforward=6, dropout=0.0)


    for mode in "te":
        option("BatchNorm1d", [x(4, 3)], mode, num_features=3, bias=False)
    option("BatchNorm2d", [x(2, 3, 2, 2)], num_features=3, bias=False)
    option("BatchNorm3d", [x(2, 3, 2, 2, 2)], num_features=3, bias=False)
    option("InstanceNorm1d", [x(2, 3, 4)], num_features=3, affine=True,
           bias=False)
    option("InstanceNorm2d", [x(2, 3, 2, 4)], num_features=3, affine=True,
           bias=False)
    option("InstanceNorm3d", [x(2, 3, 2, 4, 2)], num_features=3, affine=True,
           bias=False)
    option("GroupNorm", [x(2, 4, 3)], num_groups=2, num_channels=4, bias=False)
    option("LayerNorm", [x(2, 4, 3)], normalized_shape=[4, 3], bias=False)

    index = torch.tensor([[1, 4, 1], [0, 1, 2]])
    size = dict(num_embeddings=6, embedding_dim=3)
    option("Embedding", [index], scale_grad_by_freq=True, **size)
    option("Embedding", [index], max_norm=1.0, **size)
    option("Embedding", [index], max_norm=0.7, norm_type=1.0, padding_idx=2,
           scale_grad_by_freq=True, **size)
    option("EmbeddingBag", [index], scale_grad_by_freq=True, mode="sum", **size)
    option("EmbeddingBag", [index], max_norm=1.0, mode="mean", padding_idx=0,
           **size)
    option("EmbeddingBag", [index], max_norm=0.7, norm_type=1.0, mode="max",
           **size)

    small = dict(embed_dim=4, num_heads=2)
    qkv = [x(3, 2, 4), x(5, 2, 4), x(5, 2, 4)]
    pads = torch.tensor([[False, False, True, False, True],
                         [False, True, False, False, False]])
    mask = torch.rand(3, 5) < 0.3

    def masked(module):
        return lambda q, k, v, p, m: module(q, k, v, p, attn_mask=m)
    for more in ({"add_bias_kv": True}, {"add_zero_attn": True},
                 {"add_bias_kv": True, "add_zero_attn": True}):
        option("MultiheadAttention", qkv, **small, **more)
        option("MultiheadAttention", qkv + [pads, mask], call=masked, **small,
               **more)
    option("MultiheadAttention",
           [x(2, 3, 4), x(2, 5, 3), x(2, 5, 2), pads, mask], call=masked,
           add_bias_kv=True, add_zero_attn=True, kdim=3, vdim=2,
           batch_first=True, bias=False, **small)

    option("Upsample", [x(1, 2, 3, 4)], scale_factor=[2.0, 3.0])
    option("Upsample", [x(1, 2, 3, 4)], scale_factor=[1.0, 2.5],
           mode="bilinear")
    option("Upsample", [x(1, 2, 3, 4)], scale_factor=[1.7, 1.7],
           mode="bicubic")
    option("Upsample", [x(1, 2, 2, 3, 2)], scale_factor=[1.5, 2.0, 3.0],
           mode="trilinear", align_corners=True)
    option("Upsample", [x(1, 2, 3)], scale_factor=[1.7], mode="linear")


def build(case):
    module = make_modules.build(case[1], dict(case[2]))
    if case[0] != "Parametrized":
        return module
    with torch.no_grad():
        for p in module.parameters():
            if bool((p == 0).all() | (p == 1).all()):
                p.add_(torch.randn_like(p) * 0.3)
    if not case[6]:
        for step in case[4]:
            apply(module, step)
        nudge(module)
    return module


def call_of(case, module):
    plain = make_modules.call_of(case[1], module) or module
    if case[0] != "Parametrized" or not case[6]:
        return plain

    def call(*inputs):
        for step in case[4]:
            apply(module, step)
        return plain(*inputs)
    return call


def write(to):
    cases()
    pack, count = io.BytesIO(), {}
    with tarfile.open(fileobj=pack, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for case in CASES:
            module = build(case)
            args = dict(case[2])
            fixed = ()
            if case[0] == "Parametrized":
                args.update(layer=case[1], steps=case[4], late=case[6])
            else:
                fixed = case[6]
            call = call_of(case, module)
            if case[0] != "Parametrized" and case[7]:
                call = case[7](module)
            mode = {"t": "train", "e": "eval"}[case[5]]
            data = make_modules.sample(case[0], module, args, case[3], mode,
                                       fixed, call)
            count[case[0]] = count.get(case[0], 100) + 1
            info = tarfile.TarInfo("layers/%s_%d.safetensors" %
                                   (case[0], count[case[0]]))
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    packed = subprocess.run(["xz", "-9e"], input=pack.getvalue(),
                            stdout=subprocess.PIPE, check=True).stdout
    with open(to + "/samples_layers_more.tar.xz", "wb") as file:
        file.write(packed)
    print(len(packed), "bytes,", len(CASES), "samples")


if __name__ == "__main__":
    write(sys.argv[1])
