"""A physics-informed network solves the heat equation u_t = 0.1 u_xx.

The rod is x in [0, 1]. It begins as sin(pi x), and its ends stay at 0. The
exact solution is exp(-0.1 pi^2 t) sin(pi x).

    physics.py [STEPS]
"""
import math
import sys

import torch
from torch import nn

DIFFUSIVITY, POINTS = 0.1, 256


def value(net, t, x):
    return net(torch.cat([t, x], dim=1))


def exact(t, x):
    decay = torch.exp(-DIFFUSIVITY * math.pi ** 2 * t)
    return decay * torch.sin(math.pi * x)


def equation_loss(net):
    """Returns the mean square of u_t - 0.1 u_xx at random points."""
    t = torch.rand(POINTS, 1, requires_grad=True)
    x = torch.rand(POINTS, 1, requires_grad=True)
    u = value(net, t, x).sum()
    u_t, u_x = torch.autograd.grad(u, (t, x), create_graph=True)
    u_xx, = torch.autograd.grad(u_x.sum(), x, create_graph=True)
    return (u_t - DIFFUSIVITY * u_xx).square().mean()


def boundary_loss(net):
    """Returns the mean square error at t = 0 and at both ends of the rod."""
    zero, s = torch.zeros(POINTS, 1), torch.rand(POINTS, 1)
    t = torch.cat([zero, s, s])
    x = torch.cat([s, zero, zero + 1])
    return nn.functional.mse_loss(value(net, t, x), exact(t, x))


def main():
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 32),
                        nn.Tanh(), nn.Linear(32, 1))
    optim = torch.optim.Adam(net.parameters(), lr=5e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optim, steps)
    for step in range(1, steps + 1):
        loss = equation_loss(net) + 10 * boundary_loss(net)
        optim.zero_grad()
        loss.backward()
        optim.step()
        schedule.step()
        if step % 400 == 0 or step == steps:
            print(f"step {step}: loss {loss.item():.2e}")
    with torch.no_grad():
        t, x = torch.rand(1000, 1), torch.rand(1000, 1)
        error = (value(net, t, x) - exact(t, x)).abs().max()
    print(f"greatest error {error.item():.4f}")


if __name__ == "__main__":
    main()
