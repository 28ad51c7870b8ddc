"""Fits a linear function to noisy points, y = 2 x0 - 3.4 x1 + 4.2.

    linear_regression.py [EPOCHS]
"""
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

epochs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
torch.manual_seed(1)
weight = torch.tensor([[2.0], [-3.4]])
x = torch.randn(1000, 2)
y = x @ weight + 4.2 + 0.01 * torch.randn(1000, 1)
loader = DataLoader(TensorDataset(x, y), batch_size=10, shuffle=True)

net = nn.Linear(2, 1)
optim = torch.optim.SGD(net.parameters(), lr=0.03)
for epoch in range(1, epochs + 1):
    for bx, by in loader:
        loss = nn.functional.mse_loss(net(bx), by)
        optim.zero_grad()
        loss.backward()
        optim.step()
    with torch.no_grad():
        loss = nn.functional.mse_loss(net(x), y)
    print(f"epoch {epoch}: loss {loss.item():.6f}")
print("weight", net.weight.data)
print("bias", net.bias.data)
