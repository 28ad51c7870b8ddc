"""A generative adversarial network draws handwritten digits.

    gan.py [DATA.csv.gz] [EPOCHS]
"""
import sys

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

BATCH, NOISE, SIDE = 64, 16, 8


def generator():
    """Maps noise (N, NOISE) to images (N, 1, 8, 8) in [0, 1]."""
    return nn.Sequential(
        nn.Linear(NOISE, 64 * 2 * 2),
        nn.Unflatten(1, (64, 2, 2)),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.ConvTranspose2d(64, 32, 4, stride=2, padding=1),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.ConvTranspose2d(32, 1, 4, stride=2, padding=1),
        nn.Sigmoid(),
    )


def discriminator():
    """Returns a network from images to logits (N, 1): positive means real."""
    return nn.Sequential(
        nn.Conv2d(1, 32, 4, stride=2, padding=1),
        nn.LeakyReLU(0.2),
        nn.Conv2d(32, 64, 4, stride=2, padding=1),
        nn.LeakyReLU(0.2),
        nn.Flatten(),
        nn.Linear(64 * 2 * 2, 1),
    )


def judged(logits, real):
    """Returns the loss of logits whose target is real (1 or 0)."""
    return F.binary_cross_entropy_with_logits(logits, torch.full_like(logits, real))


def distance(images, digits):
    """Returns the mean distance of images to the nearest digit (M, 64)."""
    return torch.cdist(images.flatten(1), digits).amin(dim=1).mean().item()


def draw(image):
    for row in image[0].tolist():
        print("".join(" .:-=+*#%@"[int(pixel * 9.99)] + " " for pixel in row))
    print()


def main():
    path = sys.argv[1] if len(sys.argv) > 1 else "data/digits.csv.gz"
    epochs = int(sys.argv[2]) if len(sys.argv) > 2 else 20
    torch.manual_seed(1)
    table = torch.from_numpy(np.loadtxt(path, delimiter=",", dtype=np.float32))
    digits = table[:, :64] / 16
    images = digits.reshape(-1, 1, SIDE, SIDE)
    loader = DataLoader(
        TensorDataset(images), batch_size=BATCH, shuffle=True, drop_last=True
    )
    make, judge = generator(), discriminator()
    make_opt = torch.optim.Adam(make.parameters(), lr=2e-3, betas=(0.5, 0.999))
    judge_opt = torch.optim.Adam(judge.parameters(), lr=1e-3, betas=(0.5, 0.999))
    for epoch in range(1, epochs + 1):
        make_sum = judge_sum = 0.0
        for (real,) in loader:
            fake = make(torch.randn(len(real), NOISE))
            judge_loss = judged(judge(real), 1.0) + judged(judge(fake.detach()), 0.0)
            judge_opt.zero_grad()
            judge_loss.backward()
            judge_opt.step()

            make_loss = judged(judge(fake), 1.0)
            make_opt.zero_grad()
            make_loss.backward()
            make_opt.step()
            judge_sum += judge_loss.item()
            make_sum += make_loss.item()
        print(
            f"epoch {epoch:2}: discriminator {judge_sum / len(loader):.3f},"
            f" generator {make_sum / len(loader):.3f}"
        )

    make.eval()
    with torch.no_grad():
        drawn = make(torch.randn(256, NOISE))
    for image in drawn[:3]:
        draw(image)
    made = distance(drawn, digits)
    random = distance(torch.rand_like(drawn), digits)
    print(f"distance to the nearest digit: {made:.2f}, of noise: {random:.2f}")


if __name__ == "__main__":
    main()
