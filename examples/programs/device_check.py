"""Checks that every device trains a small network with the CPU's result.

    device_check.py [DEVICE ...]
"""
import sys
import time

import torch
from torch import nn

SIZE, PRODUCTS, STEPS = 256, 10, 50


def train(device):
    """Returns the loss after a few steps, from the same weights and data."""
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1))
    net = net.to(device)
    x = torch.randn(64, 8).to(device)
    y = x.square().sum(dim=1, keepdim=True)
    optim = torch.optim.Adam(net.parameters(), lr=5e-2)
    for _ in range(STEPS):
        loss = nn.functional.mse_loss(net(x), y)
        optim.zero_grad()
        loss.backward()
        optim.step()
    return loss.item()


def synchronize(device):
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def speed(device):
    """Measures the speed of a matrix product in GFLOP/s."""
    a = torch.randn(SIZE, SIZE, device=device)
    a @ a
    synchronize(device)
    start = time.perf_counter()
    for _ in range(PRODUCTS):
        a @ a
    synchronize(device)
    seconds = time.perf_counter() - start
    return 2 * SIZE ** 3 * PRODUCTS / seconds / 1e9


def main():
    names = sys.argv[1:]
    if not names:
        names = [f"cuda:{i}" for i in range(torch.cuda.device_count())]
        names.insert(0, "cpu")
    print(f"PyTorch {torch.__version__}, {torch.get_num_threads()} threads")
    expected = train("cpu")
    bad = 0
    for name in names:
        try:
            device = torch.device(name)
            loss = train(device)
            verdict = "ok" if abs(loss - expected) < 1e-4 else "WRONG"
            print(f"{name}: loss {loss:.5f}, {speed(device):.1f} GFLOP/s,"
                  f" {verdict}")
        except RuntimeError as error:
            verdict = "FAILED"
            print(f"{name}: {error}")
        bad += verdict != "ok"
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
