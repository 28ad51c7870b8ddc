#!/usr/bin/env python3
"""make_modules.py: writes the list of PyTorch's layers, and a sample of each.

Run it by hand, with PyTorch 2.15:

    python3 tests/golden/make_modules.py BUILD/include/tenon tests/golden

It writes modules.txt and samples_layers.tar.xz to the second folder. It reads the
names of Tenon's layers from the generated headers in the first folder. A sample is a
safetensors file, whose contents README.md describes.
"""
import io
import json
import os
import re
import struct
import subprocess
import sys
import tarfile

import torch
from torch import nn

torch.manual_seed(2015)

# ---- the list --------------------------------------------------------------

# Names of Tenon's constructors that are not PyTorch's name in lower case.
OTHER_NAMES = {
    "LogSigmoid": "logsigmoid", "Hardsigmoid": "hardsigmoid",
    "Hardswish": "hardswish", "Hardtanh": "hardtanh",
    "Hardshrink": "hardshrink", "Softshrink": "softshrink",
    "Softmax2d": "softmax2d", "Softplus": "softplus", "Softsign": "softsign",
    "Tanhshrink": "tanhshrink", "PReLU": "prelu", "RReLU": "rrelu",
    "CrossMapLRN2d": "cross_map_lrn2d", "ReLU6": "relu6",
    "LayerNorm": "layer_norm", "RMSNorm": "rms_norm",
    "MultiheadAttention": "multihead_attention",
}

# Layers that Tenon does not have, each with the reason.
NO_LAYER = {
    "SyncBatchNorm": "needs several processes that train together",
    "NLLLoss2d": "deprecated: NLLLoss accepts the same inputs",
    "Container": "deprecated: Sequential",
    "RNNBase": "base class of RNN, LSTM and GRU",
    "RNNCellBase": "base class of RNNCell, LSTMCell and GRUCell",
    "LinearCrossEntropyOptions": "no layer: how LinearCrossEntropyLoss splits "
                                 "its work, which is Tenon's choice",
    "Module": "container: tn_module, a class of the program's own",
    "ParameterDict": "container: parameters are found by name",
}
# Containers of modules, which are declared in other headers.
CONTAINERS = {"ModuleList": "module_list", "ModuleDict": "module_dict",
              "ParameterList": "parameter_list", "Identity": "identity"}


def snake(name):
    if name in OTHER_NAMES:
        return OTHER_NAMES[name]
    name = name.replace("NLLLoss", "NllLoss").replace("L1Loss", "L1_loss")
    name = name.replace("BCEWithLogitsLoss", "BceWithLogitsLoss")
    name = name.replace("BCELoss", "BceLoss").replace("MSELoss", "MseLoss")
    name = name.replace("CTCLoss", "CtcLoss").replace("KLDivLoss", "KlDivLoss")
    name = name.replace("LPPool", "LpPool").replace("MultiLabel", "Multilabel")
    name = name.replace("ReLU", "Relu").replace("ELU", "Elu").replace("GLU", "Glu")
    name = name.replace("SiLU", "Silu").replace("RNN", "Rnn").replace("GRU", "Gru")
    name = name.replace("LSTM", "Lstm").replace("CRelu", "C_relu")
    name = re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name)
    return name.lower()


def constructors(folder):
    names = set()
    for root in (folder, os.path.join(os.path.dirname(__file__),
                                      "../../include/tenon")):
        for file in os.listdir(root):
            if file.startswith("nn"):
                text = open(os.path.join(root, file)).read()
                names |= set(re.findall(r"\btn_nn_(\w+?)(?:_with)?\(", text))
    return names


def write_list(folder, to):
    have = constructors(folder)
    lines = ["# Every public class of torch.nn 2.15, with Tenon's constructor or",
             "# the reason why it has none. Written by make_modules.py."]
    missing = []
    for name in sorted(nn.modules.__all__):
        own = "tn_nn_" + CONTAINERS.get(name, snake(name))
        if name.startswith("Lazy"):
            what = "none: lazy"
        elif name in NO_LAYER:
            what = "none: " + NO_LAYER[name]
        elif own[6:] in have:
            what = own
        elif name in CONTAINERS:
            what = "none: container"
        else:
            what = "missing"
            missing.append(name)
        lines.append(name + " " + what)
    with open(os.path.join(to, "modules.txt"), "w") as file:
        file.write("\n".join(lines) + "\n")
    if missing:
        sys.exit("no constructor: " + ", ".join(missing))


# ---- samples ---------------------------------------------------------------

DTYPES = {torch.float32: "F32", torch.int64: "I64", torch.bool: "BOOL"}


def save(tensors, metadata):
    """Returns the bytes of a safetensors file."""
    header, data = {"__metadata__": metadata}, b""
    for name, x in tensors.items():
        x = x.detach().contiguous()
        raw = x.numpy().tobytes()
        header[name] = {"dtype": DTYPES[x.dtype], "shape": list(x.shape),
                        "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def flat(out):
    if isinstance(out, torch.Tensor):
        return [out]
    return [x for part in out for x in flat(part)]


def json_args(args):
    """Returns arguments as JSON: a tensor as its shape; the state has its values."""
    return {k: {"shape": list(v.shape)} if isinstance(v, torch.Tensor) else v
            for k, v in args.items()}


def sample(name, module, args, inputs, mode, fixed=(), call=None,
           gradient=True):
    """Runs the module on inputs. The inputs in `fixed` get no gradient."""
    module.train(mode == "train")
    for p in module.parameters():
        if p.dim() > 0 and bool((p == 0).all() | (p == 1).all()):
            with torch.no_grad():   # so that exchanged parameters change the
                                    # result
                p.add_(torch.randn_like(p) * 0.3)
    tensors = {"state." + k: v.clone() for k, v in module.state_dict().items()}
    ins = []
    for i, x in enumerate(inputs):
        tensors["in.%d" % i] = x.clone()
        x = x.clone()
        if x.is_floating_point() and i not in fixed and gradient:
            x.requires_grad_(True)
        ins.append(x)
    outs = flat((call or module)(*ins))
    total = None
    for i, out in enumerate(outs):
        tensors["out.%d" % i] = out
        if out.requires_grad:
            g = torch.randn_like(out)
            tensors["cotangent.%d" % i] = g
            total = (out * g).sum() + (0 if total is None else total)
    if total is not None:
        total.backward()
    for i, x in enumerate(ins):
        if x.grad is not None:
            tensors["grad.in.%d" % i] = x.grad
    for k, p in module.named_parameters():
        if p.grad is not None:
            tensors["grad.state." + k] = p.grad
    for k, b in module.named_buffers():
        tensors["after." + k] = b
    if args.get("late"):   # the call may have made parameters
        for k, p in module.named_parameters():
            tensors["after." + k] = p
    return save(tensors, {"module": name, "args": json.dumps(json_args(args)),
                          "mode": mode})


def x(*shape):
    return torch.randn(*shape)


def classes(count, *shape):
    return torch.randint(0, count, shape)


def signs(*shape):
    return torch.randint(0, 2, shape).float() * 2 - 1


CASES = []


def case(name, inputs, modes="te", fixed=(), **args):
    CASES.append((name, args, inputs, modes, fixed))


def cases():
    flat_x = [x(3, 7) * 2]
    for name in ("ReLU Tanh Sigmoid SiLU Mish SELU ReLU6 Hardswish Hardsigmoid "
                 "LogSigmoid Softsign Tanhshrink GELU ELU CELU LeakyReLU "
                 "Hardshrink Softshrink Softplus Hardtanh").split():
        case(name, flat_x, "t")
    case("GELU", flat_x, "t", approximate="tanh")
    case("ELU", flat_x, "t", alpha=0.7)
    case("CELU", flat_x, "t", alpha=1.3)
    case("LeakyReLU", flat_x, "t", negative_slope=0.2)
    case("Hardshrink", flat_x, "t", lambd=0.9)
    case("Softshrink", flat_x, "t", lambd=0.2)
    case("Softplus", flat_x, "t", beta=2.0, threshold=3.0)
    case("Hardtanh", flat_x, "t", min_val=-0.5, max_val=1.5)
    case("Threshold", flat_x, "t", threshold=0.3, value=-2.0)
    for name in "Softmax LogSoftmax Softmin".split():
        case(name, flat_x, "t", dim=1)
        case(name, [x(2, 3, 4)], "e", dim=0)
    case("GLU", [x(3, 6)], "t")
    case("GLU", [x(4, 3)], "t", dim=0)
    case("Softmax2d", [x(2, 3, 2, 2)])
    case("Softmax2d", [x(3, 2, 2)], "e")
    case("PReLU", [x(2, 3, 4)], "t")
    case("PReLU", [x(2, 3, 4)], "t", num_parameters=3, init=0.1)
    case("RReLU", flat_x, "e")
    case("RReLU", flat_x, "e", lower=0.1, upper=0.5)

    planes = {1: [x(2, 3, 9)], 2: [x(2, 2, 5, 6)], 3: [x(1, 2, 4, 5, 4)]}
    alone = {1: [x(3, 9)], 2: [x(2, 7, 6)], 3: [x(1, 5, 6, 5)]}
    sizes = {1: [2], 2: [3, 2], 3: [2, 3, 2]}
    for d in (1, 2, 3):
        case("MaxPool%dd" % d, planes[d], kernel_size=2)
        case("MaxPool%dd" % d, planes[d], "t", kernel_size=sizes[d], stride=2,
             padding=[1] * d, ceil_mode=True)
        case("MaxPool%dd" % d, alone[d], "t", kernel_size=3, stride=[1] * d,
             dilation=2)
        case("AvgPool%dd" % d, planes[d], kernel_size=2)
        case("AvgPool%dd" % d, planes[d], "t", kernel_size=sizes[d], stride=1,
             padding=[1] * d, ceil_mode=True, count_include_pad=False)
        if d > 1:
            case("AvgPool%dd" % d, alone[d], "t", kernel_size=3,
                 stride=sizes[d], divisor_override=5)
        case("LPPool%dd" % d, [planes[d][0].abs() + 0.1], norm_type=2.0,
             kernel_size=2)
        case("LPPool%dd" % d, [planes[d][0].abs() + 0.1], "t", norm_type=1.5,
             kernel_size=sizes[d] if d > 1 else 2, stride=1, ceil_mode=True)
        case("AdaptiveAvgPool%dd" % d, planes[d], output_size=3)
        case("AdaptiveMaxPool%dd" % d, planes[d], output_size=2)
        if d > 1:
            out = [3, None, 2][:d]
            case("AdaptiveAvgPool%dd" % d, alone[d], "t", output_size=out)
            case("AdaptiveMaxPool%dd" % d, alone[d], "t", output_size=out)
        even = {1: x(2, 3, 8), 2: x(2, 2, 6, 8), 3: x(1, 2, 4, 6, 4)}[d]
        pooled, index = getattr(nn, "MaxPool%dd" % d)(
            2, return_indices=True)(even)
        case("MaxUnpool%dd" % d, [pooled, index], kernel_size=2)
        exact = {1: x(2, 3, 8), 2: x(2, 2, 7, 8), 3: x(1, 2, 4, 5, 6)}[d]
        pooled, index = getattr(nn, "MaxPool%dd" % d)(
            sizes[d], stride=2, padding=1, return_indices=True)(exact)
        case("MaxUnpool%dd" % d, [pooled, index], "t", kernel_size=sizes[d],
             stride=2, padding=1)

        sides = [1, 2, 0, 1, 2, 1][:2 * d]
        for name in "Zero Reflection Replication Circular".split():
            case("%sPad%dd" % (name, d), planes[d], padding=1)
            case("%sPad%dd" % (name, d), alone[d], "t", padding=sides)
        case("ZeroPad%dd" % d, planes[d], "t", padding=[-1, 2] * d)
        case("ConstantPad%dd" % d, planes[d], padding=2, value=0.5)
        case("ConstantPad%dd" % d, alone[d], "t", padding=sides, value=-3.0)

        case("Dropout%dd" % d, planes[d], "e", p=0.3)
        case("InstanceNorm%dd" % d, planes[d], num_features=planes[d][0].size(1))
        case("InstanceNorm%dd" % d, planes[d],
             num_features=planes[d][0].size(1), affine=True,
             track_running_stats=True, momentum=0.3, eps=1e-4)
        case("BatchNorm%dd" % d, planes[d], num_features=planes[d][0].size(1))
        case("BatchNorm%dd" % d, planes[d],
             num_features=planes[d][0].size(1), affine=False, momentum=None)
        case("Conv%dd" % d, planes[d], "t", in_channels=planes[d][0].size(1),
             out_channels=3, kernel_size=2, stride=2)
        case("Conv%dd" % d, alone[d], "t", in_channels=alone[d][0].size(0),
             out_channels=2, kernel_size=[2, 3, 2][:d], padding="same")
        case("Conv%dd" % d, alone[d], "t", in_channels=alone[d][0].size(0),
             out_channels=1, kernel_size=3, padding=[1, 0, 2][:d],
             padding_mode="circular", bias=False)
        case("ConvTranspose%dd" % d, [planes[d][0][..., :3]], "t",
             in_channels=planes[d][0].size(1), out_channels=2, kernel_size=3,
             stride=2, padding=1, output_padding=1)
    case("Dropout", planes[1], "e", p=0.4)
    case("AlphaDropout", planes[1], "e", p=0.4)
    case("FeatureAlphaDropout", planes[1], "e", p=0.4)

    case("Fold", [x(2, 12, 6)], output_size=[3, 4], kernel_size=2)
    case("Fold", [x(2, 8, 9)], "t", output_size=5, kernel_size=[2, 2], stride=2,
         padding=[1, 1])
    case("Unfold", [x(2, 3, 4, 5)], kernel_size=2)
    case("Unfold", [x(2, 3, 5, 5)], "t", kernel_size=[3, 2], dilation=[1, 2],
         padding=1, stride=2)
    case("Flatten", [x(2, 3, 4, 2)])
    case("Flatten", [x(2, 3, 4, 2)], "t", start_dim=0, end_dim=2)
    case("Unflatten", [x(2, 12, 3)], dim=1, unflattened_size=[3, 4])
    case("Unflatten", [x(2, 12)], "t", dim=-1, unflattened_size=[2, -1, 2])
    case("PixelShuffle", [x(2, 8, 2, 3)], upscale_factor=2)
    case("PixelUnshuffle", [x(2, 2, 4, 6)], downscale_factor=2)
    case("ChannelShuffle", [x(2, 6, 2, 3)], groups=3)
    case("Upsample", [x(1, 2, 4)], "t", scale_factor=2.0)
    case("Upsample", [x(1, 2, 4)], "t", size=7, mode="linear")
    case("Upsample", [x(1, 2, 3, 4)], "t", size=[5, 6], mode="bicubic")
    case("Upsample", [x(1, 1, 2, 3, 2)], "t", scale_factor=2.0,
         mode="trilinear", align_corners=True)
    case("UpsamplingNearest2d", [x(2, 2, 3, 4)], scale_factor=2.0)
    case("UpsamplingNearest2d", [x(2, 2, 3, 4)], "t", size=[5, 7])
    case("UpsamplingBilinear2d", [x(2, 2, 3, 4)], scale_factor=2.0)
    case("UpsamplingBilinear2d", [x(2, 2, 3, 4)], "t", size=5)

    case("LocalResponseNorm", [x(2, 5, 3)], size=3)
    case("LocalResponseNorm", [x(2, 5, 2, 3)], "t", size=2, alpha=0.5,
         beta=0.6, k=2.0)
    case("CrossMapLRN2d", [x(2, 7, 2, 2)], size=3)
    case("CrossMapLRN2d", [x(2, 7, 2, 2)], "t", size=4, alpha=0.5, beta=0.6,
         k=2.0)
    case("LayerNorm", [x(2, 3, 4)], normalized_shape=[3, 4])
    case("RMSNorm", [x(2, 3, 4)], normalized_shape=[4], eps=1e-5)
    case("GroupNorm", [x(2, 6, 3)], num_groups=2, num_channels=6)

    pair = [x(3, 5), x(3, 5)]
    case("CosineSimilarity", pair)
    case("CosineSimilarity", pair, "t", dim=0, eps=1e-4)
    case("PairwiseDistance", pair)
    case("PairwiseDistance", pair, "t", p=1.0, keepdim=True)

    near = [x(4, 3), x(4, 3)]
    for how in ("mean", "sum", "none"):
        modes = "te" if how == "mean" else "t"
        for name in "L1Loss MSELoss SmoothL1Loss HuberLoss".split():
            case(name, near, modes, reduction=how)
        case("SoftMarginLoss", [x(4, 3), signs(4, 3)], modes, (1,), reduction=how)
        case("KLDivLoss", [x(4, 3).log_softmax(1), x(4, 3).softmax(1)], modes,
             (1,), reduction=how)
        case("BCELoss", [torch.rand(4, 3), torch.rand(4, 3)], modes, (1,),
             reduction=how)
        case("BCEWithLogitsLoss", [x(4, 3), torch.rand(4, 3)], modes, (1,),
             reduction=how)
        case("NLLLoss", [x(5, 4).log_softmax(1), classes(4, 5)], modes,
             reduction=how)
        case("CrossEntropyLoss", [x(5, 4), classes(4, 5)], modes, reduction=how)
        case("PoissonNLLLoss", [x(4, 3), torch.rand(4, 3) * 4], modes, (1,),
             reduction=how)
        case("GaussianNLLLoss", [x(4, 3), x(4, 3), torch.rand(4, 3) + 0.1],
             modes, (1,), reduction=how)
        case("HingeEmbeddingLoss", [x(4, 3), signs(4, 3)], modes, (1,),
             reduction=how)
        case("CosineEmbeddingLoss", [x(4, 3), x(4, 3), signs(4)], modes, (2,),
             reduction=how)
        case("MarginRankingLoss", [x(4), x(4), signs(4)], modes, (2,),
             reduction=how)
        case("MultiMarginLoss", [x(5, 4), classes(4, 5)], modes, reduction=how)
        case("MultiLabelMarginLoss",
             [x(2, 4), torch.tensor([[2, 0, -1, 1], [1, -1, 0, 0]])], modes,
             reduction=how)
        case("MultiLabelSoftMarginLoss", [x(3, 4), classes(2, 3, 4).float()],
             modes, (1,), reduction=how)
        case("TripletMarginLoss", [x(4, 3), x(4, 3), x(4, 3)], modes,
             reduction=how)
        case("TripletMarginWithDistanceLoss", [x(4, 3), x(4, 3), x(4, 3)],
             modes, reduction=how)
        case("CTCLoss", [x(9, 3, 4).log_softmax(2), classes(3, 3, 4) + 1,
                         torch.tensor([9, 8, 7]), torch.tensor([4, 2, 3])],
             modes, reduction=how)
        case("LinearCrossEntropyLoss", [x(5, 3), classes(4, 5)], modes,
             in_features=3, num_classes=4, bias=True, reduction=how)
    case("SmoothL1Loss", near, "t", beta=0.3)
    case("HuberLoss", near, "t", delta=0.4)
    case("KLDivLoss", [x(4, 3).log_softmax(1), x(4, 3).log_softmax(1)], "t",
         (1,), reduction="batchmean", log_target=True)
    case("BCELoss", [torch.rand(4, 3), torch.rand(4, 3)], "t", (1,),
         weight=torch.rand(3))
    case("BCEWithLogitsLoss", [x(4, 3), torch.rand(4, 3)], "t", (1,),
         weight=torch.rand(4, 3), pos_weight=torch.rand(3) + 1)
    case("NLLLoss", [x(2, 4, 3).log_softmax(1), classes(4, 2, 3)], "t",
         weight=torch.rand(4), ignore_index=1)
    case("CrossEntropyLoss", [x(2, 4, 3), classes(4, 2, 3)], "t",
         weight=torch.rand(4), ignore_index=2, label_smoothing=0.2)
    case("CrossEntropyLoss", [x(5, 4), x(5, 4).softmax(1)], "t", (1,))
    case("PoissonNLLLoss", [torch.rand(4, 3) + 0.1, torch.rand(4, 3) * 4], "t",
         (1,), log_input=False, full=True, eps=1e-6)
    case("GaussianNLLLoss", [x(4, 3), x(4, 3), torch.rand(4, 1) + 0.1], "t",
         (1,), full=True, eps=0.2)
    case("HingeEmbeddingLoss", [x(4, 3), signs(4, 3)], "t", (1,), margin=0.4)
    case("CosineEmbeddingLoss", [x(4, 3), x(4, 3), signs(4)], "t", (2,),
         margin=0.3)
    case("MarginRankingLoss", [x(4), x(4), signs(4)], "t", (2,), margin=0.7)
    case("MultiMarginLoss", [x(5, 4), classes(4, 5)], "t", p=2, margin=0.8,
         weight=torch.rand(4))
    case("MultiLabelSoftMarginLoss", [x(3, 4), classes(2, 3, 4).float()], "t",
         (1,), weight=torch.rand(4))
    case("TripletMarginLoss", [x(4, 3), x(4, 3), x(4, 3)], "t", margin=0.5,
         p=1.0, swap=True)
    case("TripletMarginWithDistanceLoss", [x(4, 3), x(4, 3), x(4, 3)], "t",
         margin=2.0, swap=True)
    case("CTCLoss", [x(9, 4).log_softmax(1), classes(3, 3), torch.tensor(9),
                     torch.tensor(3)], "t", blank=3, zero_infinity=True)
    case("LinearCrossEntropyLoss", [x(5, 3), classes(4, 5, 2)], "t",
         in_features=3, num_classes=4, out_features=[2], weight=torch.rand(4),
         label_smoothing=0.1, ignore_index=1)
    case("AdaptiveLogSoftmaxWithLoss", [x(7, 16), classes(12, 7)],
         in_features=16, n_classes=12, cutoffs=[3, 7])
    case("AdaptiveLogSoftmaxWithLoss", [x(6), torch.tensor(1)], "t",
         in_features=6, n_classes=9, cutoffs=[4], div_value=2.0, head_bias=True)

    case("Linear", [x(3, 4)], "t", in_features=4, out_features=2)
    case("Bilinear", [x(3, 2), x(3, 4)], "t", in1_features=2, in2_features=4,
         out_features=3)
    case("Embedding", [classes(6, 2, 3)], "t", num_embeddings=6,
         embedding_dim=3, padding_idx=2)
    for how in ("mean", "sum", "max"):
        case("EmbeddingBag", [classes(6, 2, 3)], "t", num_embeddings=6,
             embedding_dim=3, mode=how)
    for name in "RNN GRU LSTM".split():
        state = [x(2, 2, 3)] * (2 if name == "LSTM" else 1)
        case(name, [x(4, 2, 3)] + state, "te", input_size=3, hidden_size=3,
             bidirectional=True)
    for name in "RNNCell GRUCell LSTMCell".split():
        state = [x(2, 4)] * (2 if name == "LSTMCell" else 1)
        case(name, [x(2, 3)] + state, "t", input_size=3, hidden_size=4)
    case("RNNCell", [x(2, 3), x(2, 4)], "t", input_size=3, hidden_size=4,
         nonlinearity="relu", bias=False)
    case("MultiheadAttention", [x(3, 2, 4), x(5, 2, 4), x(5, 2, 4)], "te",
         embed_dim=4, num_heads=2)
    small = dict(d_model=4, nhead=2, dim_feedforward=6, dropout=0.0)
    case("TransformerEncoderLayer", [x(3, 2, 4)], "te", **small)
    case("TransformerDecoderLayer", [x(3, 2, 4), x(5, 2, 4)], "te", **small)
    case("TransformerEncoder", [x(3, 2, 4)], "t", num_layers=2, final_norm=True,
         **small)
    case("TransformerDecoder", [x(3, 2, 4), x(5, 2, 4)], "t", num_layers=2,
         final_norm=False, **small)
    case("Transformer", [x(3, 2, 4), x(2, 2, 4)], "t", num_encoder_layers=1,
         num_decoder_layers=1, **small)


def build(name, args):
    args = {k: tuple(v) if isinstance(v, list) and k != "cutoffs" else v
            for k, v in args.items()}
    if name in ("TransformerEncoder", "TransformerDecoder"):
        count, final = args.pop("num_layers"), args.pop("final_norm")
        layer = getattr(nn, name + "Layer")(**args)
        norm = nn.LayerNorm(args["d_model"]) if final else None
        more = {"enable_nested_tensor": False} if name[11] == "E" else {}
        return getattr(nn, name)(layer, count, norm, **more)
    return getattr(nn, name)(**args)


def cross_map(module, a):
    """CrossMapLRN2d with the right gradient. (PyTorch's gradient ignores that its sum
    of squares always includes channel 0, see lib/nn/layer_run.c.)"""
    half = (module.size - 1) // 2
    square = a * a
    total = []
    for c in range(a.size(1)):
        part = square[:, max(0, c - half):c + half + 1].sum(1)
        total.append(part + square[:, 0] if c > half else part)
    scale = module.k + module.alpha / module.size * torch.stack(total, 1)
    out = a * scale ** -module.beta
    torch.testing.assert_close(out, module(a))
    return out


def call_of(name, module):
    if name == "CrossMapLRN2d":
        return lambda a: cross_map(module, a)
    if name in ("RNN", "GRU"):
        return lambda a, h: module(a, h)
    if name in ("LSTM", "LSTMCell"):
        return lambda a, h, c: module(a, (h, c))
    return None


def write_samples(to):
    cases()
    pack = io.BytesIO()
    with tarfile.open(fileobj=pack, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        count = {}
        for name, args, inputs, modes, fixed in CASES:
            for mode in modes:
                module = build(name, args)
                mode = {"t": "train", "e": "eval"}[mode]
                data = sample(name, module, args, inputs, mode, fixed,
                              call_of(name, module))
                count[name] = count.get(name, 0) + 1
                info = tarfile.TarInfo("layers/%s_%d.safetensors" %
                                       (name, count[name]))
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
    packed = subprocess.run(["xz", "-9e"], input=pack.getvalue(),
                            stdout=subprocess.PIPE, check=True).stdout
    path = os.path.join(to, "samples_layers.tar.xz")
    with open(path, "wb") as file:
        file.write(packed)
    print(path, len(packed), "bytes,", sum(count.values()), "samples of",
          len(count), "layers")
    never = ["Dropout", "FractionalMaxPool2d", "FractionalMaxPool3d"]
    for line in open(os.path.join(to, "modules.txt")):
        name, what = line.split(" ", 1)
        if what.startswith("tn_nn_") and name not in count and \
                name not in never and name not in CONTAINERS and \
                name != "Sequential":
            print("no sample:", name)


if __name__ == "__main__":
    write_list(sys.argv[1], sys.argv[2])
    write_samples(sys.argv[2])
