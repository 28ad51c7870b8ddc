"""A network that knows the digits 0 to 4 learns 5 to 9 from a few images.

    fine_tune.py [DATA.csv.gz] [FILE]
"""
import sys
from collections import OrderedDict

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset, random_split

SEED, CLASSES, FEW = 1, 5, 30


def network(body, head):
    """Returns convolutions and a linear layer, with the caller's names."""
    features = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
    )
    return nn.Sequential(OrderedDict({body: features, head: nn.Linear(128, CLASSES)}))


def digits(table, first):
    """Returns the images of CLASSES digits from first on, labelled from 0."""
    y = table[:, 64] - first
    mask = (y >= 0) & (y < CLASSES)
    x = table[mask][:, :64] / 16
    return TensorDataset(x.reshape(-1, 1, 8, 8), y[mask].long())


def train(what, net, data, test, lr, epochs):
    """Trains what requires gradients, and prints the test accuracy."""
    loader = DataLoader(data, batch_size=20, shuffle=True)
    parameters = [p for p in net.parameters() if p.requires_grad]
    optimizer = torch.optim.Adam(parameters, lr=lr)
    net.train()
    for _ in range(epochs):
        for x, y in loader:
            loss = F.cross_entropy(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    net.eval()
    right = 0
    with torch.no_grad():
        for x, y in DataLoader(test, batch_size=256):
            right += (net(x).argmax(dim=1) == y).sum().item()
    print(f"{what}: accuracy {right / len(test):.4f}")


def main():
    path = sys.argv[1] if len(sys.argv) > 1 else "data/digits.csv.gz"
    file = sys.argv[2] if len(sys.argv) > 2 else "pretrained.pt"
    torch.manual_seed(SEED)
    table = torch.from_numpy(np.loadtxt(path, delimiter=",", dtype=np.float32))
    old = digits(table, 0)
    first = network("features", "fc")
    train("digits 0 to 4", first, old, old, 2e-3, 5)
    torch.save(first.state_dict(), file)

    new = digits(table, 5)
    few, test = random_split(new, [FEW, len(new) - FEW])
    net = network("backbone", "head")
    state = {
        name.replace("features.", "backbone."): value
        for name, value in torch.load(file).items()
    }
    print(net.load_state_dict(state, strict=False))

    net.backbone.requires_grad_(False)
    train("digits 5 to 9, new head", net, few, test, 1e-2, 20)
    net.backbone.requires_grad_(True)
    train("digits 5 to 9, all layers", net, few, test, 1e-3, 20)
    fresh = network("backbone", "head")
    train("digits 5 to 9, not pretrained", fresh, few, test, 1e-3, 40)


if __name__ == "__main__":
    main()
