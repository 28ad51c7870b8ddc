"""make_packed.py OUT: writes PyTorch's results of recurrent layers over packed
sequences: parameters, inputs, outputs, final states, and all gradients of the loss
sum(out * out_weight) + sum(h * h_weight) + sum(c * c_weight)."""
import json
import struct
import sys

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

torch.manual_seed(0)
lengths = torch.tensor([2, 5, 1, 5, 3])
kinds = {
    "rnn": lambda: nn.RNN(3, 4),
    "gru": lambda: nn.GRU(3, 4, num_layers=2, bidirectional=True),
    "lstm": lambda: nn.LSTM(3, 4, num_layers=2, bidirectional=True),
    "lstm_first": lambda: nn.LSTM(3, 4, batch_first=True),
    "lstm_proj": lambda: nn.LSTM(3, 4, bidirectional=True, proj_size=2),
}
tensors = {}
for kind, make in kinds.items():
    net = make()
    rows = net.num_layers * (2 if net.bidirectional else 1)
    size = net.proj_size or 4
    x = torch.randn(5, 5, 3, requires_grad=True)
    start = [torch.randn(rows, 5, size, requires_grad=True)]
    if kind.startswith("lstm"):
        start.append(torch.randn(rows, 5, 4, requires_grad=True))
    packed = pack_padded_sequence(x, lengths, net.batch_first, False)
    out, end = net(packed, tuple(start) if len(start) > 1 else start[0])
    end = end if len(start) > 1 else [end]
    padded, _ = pad_packed_sequence(out, net.batch_first, -1.0)
    weights = [torch.randn_like(padded)] + [torch.randn_like(s) for s in end]
    loss = sum((a * w).sum() for a, w in zip([padded, *end], weights))
    loss.backward()
    named = dict(net.named_parameters(), x=x, h0=start[0])
    if len(start) > 1:
        named["c0"] = start[1]
    for name, value in named.items():
        tensors[f"{kind}.{name}"] = value
        tensors[f"{kind}.grad.{name}"] = value.grad
    for name, value, weight in zip(["out", "h", "c"], [padded, *end], weights):
        tensors[f"{kind}.{name}"] = value
        tensors[f"{kind}.weight.{name}"] = weight
    tensors[f"{kind}.packed"] = packed.data

header, data = {}, b""
for name, value in tensors.items():
    flat = value.detach().contiguous().flatten().tolist()
    part = struct.pack(f"<{len(flat)}f", *flat)
    header[name] = {"dtype": "F32", "shape": list(value.shape),
                    "data_offsets": [len(data), len(data) + len(part)]}
    data += part
text = json.dumps(header, separators=(",", ":")).encode()
text += b" " * (-len(text) % 8)
with open(sys.argv[1], "wb") as file:
    file.write(struct.pack("<Q", len(text)) + text + data)
