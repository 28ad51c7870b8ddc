"""Four threads answer requests with one network.

    server.py train DATA.csv.gz MODEL
    server.py serve MODEL SOCKET
    server.py ask SOCKET DATA.csv.gz [N]
"""
import socket
import sys
import threading

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

THREADS, PIXELS = 4, 64


def network():
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(128, 10),
    )


def scores(net, pixels):
    """Maps pixels (N, 64) to scores (N, 10)."""
    return net((pixels / 16).reshape(-1, 1, 8, 8))


def load(path):
    return np.loadtxt(path, delimiter=",", dtype=np.float32)


def train(data, model):
    torch.manual_seed(1)
    table = torch.from_numpy(load(data))
    samples = TensorDataset(table[:, :PIXELS], table[:, PIXELS].long())
    loader = DataLoader(samples, batch_size=32, shuffle=True)
    net = network()
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
    for epoch in range(5):
        total = 0.0
        for x, y in loader:
            loss = F.cross_entropy(scores(net, x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(y)
        print(f"epoch {epoch + 1}/5  loss {total / len(samples):.4f}")
    torch.save(net.state_dict(), model)


def answer(net, request):
    """Returns the digit in the image and its probability."""
    try:
        pixels = [float(pixel) for pixel in request.split(",")]
    except ValueError:
        pixels = []
    if len(pixels) != PIXELS:
        return "error: a request is a line of 64 numbers"
    try:
        share, digit = scores(net, torch.tensor(pixels)).softmax(1).max(1)
        return f"{digit.item()} {share.item():.6f}"
    except RuntimeError as error:
        return f"error: {error}"


@torch.inference_mode()
def serve(net, listener):
    """Answers the requests of one client after another."""
    while True:
        client, _ = listener.accept()
        try:
            with client, client.makefile() as lines:
                for line in lines:
                    client.sendall(f"{answer(net, line)}\n".encode())
        except OSError:
            pass  # the client has closed its connection


def serve_on(model, path):
    net = network()
    net.load_state_dict(torch.load(model))
    net.eval()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(16)
    threads = [
        threading.Thread(target=serve, args=(net, listener)) for _ in range(THREADS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def ask(path, data, count):
    rows = load(data)[:count]
    right = 0
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(path)
        replies = server.makefile()
        for row in rows:
            request = ",".join(f"{pixel:g}" for pixel in row[:-1])
            server.sendall(f"{request}\n".encode())
            reply = replies.readline()
            if not reply:
                sys.exit("server.py: no answer")
            print(reply, end="")
            right += reply.split()[0] == f"{row[-1]:g}"
    print(f"{right} of {len(rows)} are right")


def main():
    mode = sys.argv[1] if len(sys.argv) > 3 else ""
    if mode == "train":
        train(sys.argv[2], sys.argv[3])
    elif mode == "serve":
        serve_on(sys.argv[2], sys.argv[3])
    elif mode == "ask":
        ask(sys.argv[2], sys.argv[3], int(sys.argv[4]) if len(sys.argv) > 4 else 100)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
