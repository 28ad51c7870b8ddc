"""A variational autoencoder learns to draw handwritten digits.

    vae.py [DATA.csv.gz [EPOCHS]]
"""
import sys

import numpy
import torch
import torch.nn.functional as F
from torch import nn
from torch.distributions import Normal, kl_divergence
from torch.utils.data import DataLoader

PIXELS, HIDDEN, LATENT = 64, 128, 8


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(PIXELS, HIDDEN), nn.ReLU())
        self.mean = nn.Linear(HIDDEN, LATENT)
        self.log_std = nn.Linear(HIDDEN, LATENT)
        self.decoder = nn.Sequential(nn.Linear(LATENT, HIDDEN), nn.ReLU(),
                                     nn.Linear(HIDDEN, PIXELS))

    def forward(self, x):
        h = self.encoder(x)
        mean, log_std = self.mean(h), self.log_std(h)
        code = mean + torch.randn_like(mean) * log_std.exp()
        return self.decoder(code), mean, log_std


def loss_of(net, x):
    """Returns the negative evidence lower bound (ELBO) of a batch."""
    logits, mean, log_std = net(x)
    bce = F.binary_cross_entropy_with_logits(logits, x, reduction="sum")
    q = Normal(mean, log_std.exp())
    kl = kl_divergence(q, Normal(0.0, 1.0)).sum()
    return (bce + kl) / len(x)


def draw(image):
    for row in image.reshape(8, 8).tolist():
        print("".join(" .:-=+*#%@"[int(9.99 * pixel)] * 2 for pixel in row))


def main():
    path = sys.argv[1] if len(sys.argv) > 1 else "data/digits.csv.gz"
    epochs = int(sys.argv[2]) if len(sys.argv) > 2 else 30
    torch.manual_seed(1)
    table = numpy.loadtxt(path, delimiter=",", dtype=numpy.float32)
    x = torch.from_numpy(table[:, :PIXELS]) / 16
    loader = DataLoader(x, batch_size=64, shuffle=True)

    net = VAE()
    optim = torch.optim.Adam(net.parameters(), lr=2e-3)
    for epoch in range(1, epochs + 1):
        total = 0.0
        for bx in loader:
            loss = loss_of(net, bx)
            optim.zero_grad()
            loss.backward()
            optim.step()
            total += loss.item()
        print(f"epoch {epoch}: loss {total / len(loader):.3f}")
    with torch.no_grad():
        for image in net.decoder(torch.randn(3, LATENT)).sigmoid():
            draw(image)


if __name__ == "__main__":
    main()
