"""A network learns from a table and a folder of images.

    tables_and_images.py FOLDER [EPOCHS]
"""
import csv
import sys

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset, random_split

SEED, MEASURED, BATCH = 1, 3, 32


class Samples(Dataset):
    """A dataset. Sample i has an image, measurements and a class."""

    def __init__(self, folder):
        self.folder = folder
        with open(f"{folder}/labels.csv", newline="") as file:
            self.rows = list(csv.reader(file))[1:]
        self.names = list(dict.fromkeys(row[-1] for row in self.rows))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        number, *measured, name = self.rows[i]
        image = np.array(Image.open(f"{self.folder}/{number}.pgm"))
        x = torch.from_numpy(image).float().unsqueeze(0) / 255
        measured = torch.tensor([float(value) for value in measured])
        return x, measured, self.names.index(name)


class Net(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
        )
        self.hidden = nn.Linear(128 + MEASURED, 64)
        self.head = nn.Linear(64, classes)

    def forward(self, images, measurements):
        both = torch.cat([self.features(images), measurements], dim=1)
        return self.head(F.relu(self.hidden(both)))


def main():
    if len(sys.argv) < 2:
        sys.exit("usage: tables_and_images.py FOLDER [EPOCHS]")
    epochs = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    torch.manual_seed(SEED)
    samples = Samples(sys.argv[1])
    train, held = random_split(samples, [0.8, 0.2])
    loader = DataLoader(train, batch_size=BATCH, shuffle=True, num_workers=2)
    test = DataLoader(held, batch_size=256, num_workers=2)
    classes = len(samples.names)
    net = Net(classes)
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    for epoch in range(1, epochs + 1):
        net.train()
        total = 0.0
        for images, measurements, y in loader:
            loss = F.cross_entropy(net(images, measurements), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(y)
        print(f"epoch {epoch}/{epochs}: loss {total / len(train):.4f}")

    net.eval()
    right = torch.zeros(classes, dtype=torch.int64)
    every = torch.zeros(classes, dtype=torch.int64)
    with torch.no_grad():
        for images, measurements, y in test:
            guess = net(images, measurements).argmax(dim=1)
            right += torch.bincount(y[guess == y], minlength=classes)
            every += torch.bincount(y, minlength=classes)
    for i, name in enumerate(samples.names):
        print(f"{name:8} {right[i]} of {every[i]}")
    print(f"test accuracy: {(right.sum() / every.sum()).item():.4f}")


if __name__ == "__main__":
    main()
