"""Two modules that the program defines: with buffers, and with several inputs.

Attend finds the row of a memory that resembles a query most. The rows have a
mean far from 0 and a variance far from 1. Standardize learns both.

    own_module.py [EPOCHS]
"""
import math
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SAMPLES, ROWS, FEATURES = 2048, 6, 8


class Standardize(nn.Module):
    """Subtracts a running mean and divides by a running standard deviation."""

    def __init__(self, features, momentum=0.1):
        super().__init__()
        self.momentum = momentum
        self.register_buffer("mean", torch.zeros(features))
        self.register_buffer("var", torch.ones(features))

    def forward(self, x):
        if self.training:
            with torch.no_grad():
                rows = x.reshape(-1, x.size(-1))
                self.mean.lerp_(rows.mean(dim=0), self.momentum)
                self.var.lerp_(rows.var(dim=0), self.momentum)
        return (x - self.mean) / (self.var + 1e-5).sqrt()

    def extra_repr(self):
        return f"momentum={self.momentum}"


class Attend(nn.Module):
    """Maps query (N, F), memory (N, R, F) and mask (N, R) to scores (N, R)."""

    def __init__(self, features):
        super().__init__()
        self.norm = Standardize(features)
        self.query = nn.Linear(features, features)
        self.key = nn.Linear(features, features)
        self.scale = nn.Parameter(torch.tensor(1 / math.sqrt(features)))

    def forward(self, query, memory, mask=None):
        q = self.query(self.norm(query)).unsqueeze(2)
        k = self.key(self.norm(memory))
        scores = (k @ q).squeeze(2) * self.scale
        if mask is not None:
            scores = scores.masked_fill(mask, -math.inf)
        return scores


def make_data():
    """Returns queries, memories, masks and the indices of the rows to find."""
    memory = 20 + 5 * torch.randn(SAMPLES, ROWS, FEATURES)
    row = torch.randint(0, ROWS, (SAMPLES,))
    query = memory[torch.arange(SAMPLES), row]
    query = query + torch.randn(SAMPLES, FEATURES)
    mask = torch.rand(SAMPLES, ROWS) < 0.2
    mask = mask & (row.unsqueeze(1) != torch.arange(ROWS))
    return TensorDataset(query, memory, mask, row)


def main():
    epochs = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    torch.manual_seed(1)
    data = make_data()
    loader = DataLoader(data, batch_size=64, shuffle=True)
    net = Attend(FEATURES)
    print(net)
    optim = torch.optim.Adam(net.parameters(), lr=1e-2)
    for epoch in range(1, epochs + 1):
        for query, memory, mask, row in loader:
            loss = nn.functional.cross_entropy(net(query, memory, mask), row)
            optim.zero_grad()
            loss.backward()
            optim.step()
        print(f"epoch {epoch}: loss {loss.item():.4f}")

    torch.save(net.state_dict(), "own_module.pt")
    other = Attend(FEATURES)
    other.load_state_dict(torch.load("own_module.pt"))
    other.eval()
    with torch.no_grad():
        query, memory, mask, row = data[:]
        right = (other(query, memory).argmax(dim=1) == row).float().mean()
    print(f"accuracy {right.item():.3f}, running mean"
          f" {other.norm.mean.mean().item():.1f}")


if __name__ == "__main__":
    main()
