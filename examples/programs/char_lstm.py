"""An LSTM learns a text character by character, then writes some.

    char_lstm.py TEXT [EPOCHS]
"""
import sys

import torch
import torch.nn.functional as F
from torch import nn

BATCH, STEPS, WIDTH = 16, 32, 128


class CharLSTM(nn.Module):
    def __init__(self, vocabulary):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, WIDTH)
        self.lstm = nn.LSTM(WIDTH, WIDTH, num_layers=2, batch_first=True)
        self.head = nn.Linear(WIDTH, vocabulary)

    def forward(self, ids, state=None):
        out, state = self.lstm(self.embed(ids), state)
        return self.head(out), state


def train(net, optim, rows):
    """Trains for one pass over BATCH sequences, which keep their state."""
    total, count, state = 0.0, 0, None
    for i in range(0, rows.size(1) - STEPS, STEPS):
        x, y = rows[:, i:i + STEPS], rows[:, i + 1:i + STEPS + 1]
        scores, (h, c) = net(x, state)
        state = h.detach(), c.detach()
        loss = F.cross_entropy(scores.flatten(0, 1), y.flatten())
        optim.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optim.step()
        total += loss.item()
        count += 1
    return total / count


@torch.no_grad()
def write(net, id, count):
    """Prints count sampled characters that follow the character id."""
    ids, state = [], None
    for _ in range(count):
        scores, state = net(torch.tensor([[id]]), state)
        id = torch.multinomial(scores[0, 0].softmax(0), 1).item()
        ids.append(id)
    return ids


def main():
    epochs = int(sys.argv[2]) if len(sys.argv) > 2 else 20
    torch.manual_seed(1)
    text = open(sys.argv[1], encoding="utf-8").read()
    characters = sorted(set(text))
    number = {c: i for i, c in enumerate(characters)}
    ids = torch.tensor([number[c] for c in text])
    length = len(ids) // BATCH
    rows = ids[:BATCH * length].reshape(BATCH, length)

    net = CharLSTM(len(characters))
    optim = torch.optim.Adam(net.parameters(), lr=4e-3)
    for epoch in range(1, epochs + 1):
        print(f"epoch {epoch}: loss {train(net, optim, rows):.4f}")
    print("".join(characters[i] for i in write(net, ids[0].item(), 200)))


if __name__ == "__main__":
    main()
