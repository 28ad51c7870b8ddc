"""One rank of a PyTorch job of bench/dist, with gloo: see dist.h."""
import os
import sys
import time

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F


class GPT(nn.Module):
    """4 layers, 128 features, 4 heads: bench_gpt of models.c."""

    def __init__(self, words=65, length=128, width=128, layers=4, heads=4):
        super().__init__()
        self.token = nn.Embedding(words, width)
        self.place = nn.Embedding(length, width)
        layer = nn.TransformerEncoderLayer(
            width, heads, 4 * width, 0.0, "gelu", batch_first=True,
            norm_first=True)
        self.blocks = nn.TransformerEncoder(
            layer, layers, nn.LayerNorm(width), enable_nested_tensor=False)
        self.head = nn.Linear(width, words)
        self.mask = nn.Transformer.generate_square_subsequent_mask(length)

    def forward(self, ids):
        x = self.token(ids) + self.place.weight
        return self.head(self.blocks(x, mask=self.mask, is_causal=True))


def make_model(name):
    torch.manual_seed(0)
    if name == "mlp":
        net = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512),
                            nn.ReLU(), nn.Linear(512, 10))
        x, y = torch.randn(64, 784), torch.randint(0, 10, (64,))
    else:
        net = GPT()
        x, y = torch.randint(0, 65, (8, 128)), torch.randint(0, 65, (8 * 128,))
    return (net, nn.parallel.DistributedDataParallel(net),
            torch.optim.SGD(net.parameters(), lr=1e-3), x, y)


now_ns = time.process_time_ns if "BENCH_CPU" in os.environ else time.perf_counter_ns


def timed(call, calls):
    dist.barrier()
    begin = now_ns()
    for _ in range(calls):
        call()
    return (now_ns() - begin) / calls


def main():
    torch.set_num_threads(int(os.environ["TENON_NUM_THREADS"]))
    dist.init_process_group("gloo")
    dist.barrier()
    print("ready", flush=True)
    vector, models = torch.zeros(0), {}

    def step(name, net):
        _, _, optim, x, y = models[name]
        optim.zero_grad()
        out = net(x)
        F.cross_entropy(out.reshape(-1, out.shape[-1]), y).backward()
        optim.step()

    for line in sys.stdin:
        word = line.split()
        ns = 0
        if word[0] == "reduce":
            count = int(word[1]) // 4
            if vector.numel() != count:
                vector = torch.zeros(count)
            ns = timed(lambda: dist.all_reduce(vector), int(word[2]))
        elif word[0] == "step":
            name, sync, calls = word[1], int(word[2]), int(word[3])
            if name not in models:
                models.clear()
                models[name] = make_model(name)
            net = models[name][1 if sync else 0]
            ns = timed(lambda: step(name, net), calls)
        elif word[0] == "quit":
            break
        print(round(ns), flush=True)
    dist.destroy_process_group()


main()
