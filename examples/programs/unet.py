"""A U-Net finds discs and squares in noisy images.

    unet.py [STEPS]
"""
import sys

import torch
from torch import nn
from torch.nn import functional as F

SIDE, BATCH, CLASSES = 32, 16, 3


def convolutions(inputs, outputs):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1),
        nn.BatchNorm2d(outputs),
        nn.ReLU(),
        nn.Conv2d(outputs, outputs, 3, padding=1),
        nn.BatchNorm2d(outputs),
        nn.ReLU(),
    )


class UNet(nn.Module):
    """Maps images (N, 1, H, W) to scores (N, CLASSES, H, W)."""

    def __init__(self, width):
        super().__init__()
        self.down1 = convolutions(1, width)
        self.down2 = convolutions(width, 2 * width)
        self.bottom = convolutions(2 * width, 4 * width)
        self.grow2 = nn.ConvTranspose2d(4 * width, 2 * width, 2, stride=2)
        self.up2 = convolutions(4 * width, 2 * width)
        self.grow1 = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.up1 = convolutions(2 * width, width)
        self.head = nn.Conv2d(width, CLASSES, 1)

    def forward(self, x):
        fine = self.down1(x)
        half = self.down2(F.max_pool2d(fine, 2))
        x = self.bottom(F.max_pool2d(half, 2))
        x = self.up2(torch.cat([half, self.grow2(x)], dim=1))
        x = self.up1(torch.cat([fine, self.grow1(x)], dim=1))
        return self.head(x)


def shapes(count):
    """Returns random images (count, 1, SIDE, SIDE), and each pixel's class."""
    x = torch.arange(SIDE)
    y = x[:, None]
    place = torch.randint(6, SIDE - 6, (4, count, 1, 1))
    size = torch.randint(3, 7, (2, count, 1, 1))
    disc = (x - place[0]) ** 2 + (y - place[1]) ** 2 <= size[0] ** 2
    square = torch.maximum((x - place[2]).abs(), (y - place[3]).abs()) <= size[1]
    classes = torch.where(square, 2, disc.long())
    images = (classes > 0) + 0.2 * torch.randn(count, SIDE, SIDE)
    return images.unsqueeze(1), classes


def main():
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    torch.manual_seed(1)
    net = UNet(8)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for step in range(1, steps + 1):
        images, classes = shapes(BATCH)
        loss = F.cross_entropy(net(images), classes)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % 50 == 0:
            print(f"step {step}: loss {loss.item():.4f}")

    # Prints the intersection over union of each class on new images.
    net.eval()
    images, classes = shapes(128)
    with torch.no_grad():
        guess = net(images).argmax(dim=1)
    for name, index in ("disc", 1), ("square", 2):
        a, b = guess == index, classes == index
        print(f"{name}: IoU {((a & b).sum() / (a | b).sum()).item():.4f}")


if __name__ == "__main__":
    main()
