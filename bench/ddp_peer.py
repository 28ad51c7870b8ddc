"""Compares data parallel training with PyTorch's DistributedDataParallel (gloo).

    ddp_peer.py TENON DDP_PEER [RANKS]

TENON is the program tenon, DDP_PEER the program of ddp_peer.c. Both frameworks
train the same model on the same data. The gradients of the first step must agree
to 1e-6 of the largest element of each tensor in float32, to 1e-12 in float64; the
parameters after some steps of AdamW with divided state (ZeroRedundancyOptimizer) to
1e-12 in float64. (In float32 Adam divides rounding errors of small gradients by
their size.) Needs torch and safetensors.
"""
import os
import subprocess
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from safetensors.torch import load_file
from torch import nn
from torch.distributed.optim import ZeroRedundancyOptimizer


def network():
    return nn.Sequential(
        nn.Conv2d(2, 6, 3, bias=False), nn.BatchNorm2d(6), nn.Tanh(), nn.Flatten(),
        nn.Linear(96, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 4))


def worst(found, wanted):
    """The largest difference, in parts of the largest element of its tensor."""
    return max(((found[n] - w).abs().max() / w.abs().max().clamp_min(1e-30)).item()
               for n, w in wanted.items())


def train(rank, ranks, folder, dtype, limit):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29533")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    begin = load_file(f"{folder}/begin.safetensors")
    x, y = begin.pop("x"), begin.pop("y")
    net = network().to(dtype)
    net.load_state_dict(begin, strict=False)
    model = nn.parallel.DistributedDataParallel(net)
    opt = ZeroRedundancyOptimizer(net.parameters(), torch.optim.AdamW, lr=1e-2,
                                  weight_decay=0.1)
    for step in range(x.shape[0]):
        rows = slice(6 * rank, 6 * rank + 6)
        opt.zero_grad()
        nn.functional.cross_entropy(model(x[step, rows]), y[step, rows]).backward()
        if step == 0:
            gradients = {n: p.grad.clone() for n, p in net.named_parameters()}
        opt.step()
    if rank == 0:
        for what, found in (("gradients", gradients),
                            ("end", dict(net.named_parameters()))):
            far = worst(load_file(f"{folder}/{what}.safetensors"), found)
            print(f"{dtype} {ranks} ranks, {what}: {far:.2g}", flush=True)
            assert far <= limit or (what == "end" and dtype == torch.float32)
    dist.destroy_process_group()


def main():
    tenon, program = sys.argv[1:3]
    ranks = int(sys.argv[3]) if len(sys.argv) > 3 else 2
    for dtype, limit in ((torch.float32, 1e-6), (torch.float64, 1e-12)):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([tenon, "run", "-n", str(ranks), program, folder,
                            str(dtype).removeprefix("torch.")], check=True)
            mp.spawn(train, (ranks, folder, dtype, limit), nprocs=ranks)


if __name__ == "__main__":
    main()
