"""A convolutional network learns handwritten digits.

    cnn.py [DATA.csv.gz [EPOCHS]]
"""
import sys

import numpy
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.norm1 = nn.BatchNorm2d(16)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.norm2 = nn.BatchNorm2d(32)
        self.dropout = nn.Dropout(0.25)
        self.fc = nn.Linear(32 * 4 * 4, 10)

    def forward(self, x):
        x = F.relu(self.norm1(self.conv1(x)))
        x = F.relu(self.norm2(self.conv2(x)))
        x = F.max_pool2d(x, 2).flatten(1)
        return self.fc(self.dropout(x))


def train(net, optim, loader, device):
    net.train()
    total = 0.0
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        loss = F.cross_entropy(net(x), y)
        optim.zero_grad()
        loss.backward()
        optim.step()
        total += loss.item()
    return total / len(loader)


@torch.no_grad()
def accuracy(net, loader, device):
    net.eval()
    right = 0
    for x, y in loader:
        guess = net(x.to(device)).argmax(dim=1)
        right += (guess == y.to(device)).sum().item()
    return right / len(loader.dataset)


def main():
    path = sys.argv[1] if len(sys.argv) > 1 else "data/digits.csv.gz"
    epochs = int(sys.argv[2]) if len(sys.argv) > 2 else 10
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(1)
    table = numpy.loadtxt(path, delimiter=",", dtype=numpy.float32)
    table = torch.from_numpy(table)
    x = table[:, :64].reshape(-1, 1, 8, 8) / 16
    data = TensorDataset(x, table[:, 64].long())
    train_set, test_set = random_split(data, [0.8, 0.2])
    train_loader = DataLoader(train_set, batch_size=32, shuffle=True)
    test_loader = DataLoader(test_set, batch_size=256)

    net = Net().to(device)
    optim = torch.optim.AdamW(net.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optim, epochs)
    for epoch in range(1, epochs + 1):
        loss = train(net, optim, train_loader, device)
        right = accuracy(net, test_loader, device)
        print(f"epoch {epoch}: loss {loss:.4f}, test accuracy {right:.4f}")
        schedule.step()


if __name__ == "__main__":
    main()
