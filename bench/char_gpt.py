"""examples/char_gpt.c in PyTorch: the same model, data and schedule, but other random
numbers. Its losses and times can be compared with those of the C program.

    python3 bench/char_gpt.py TEXT [STEPS]
"""
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

LAYERS, HEADS, WIDTH, CONTEXT, BATCH = 4, 4, 128, 128, 16


class GPT(nn.Module):
    def __init__(self, vocabulary):
        super().__init__()
        self.token = nn.Embedding(vocabulary, WIDTH)
        self.place = nn.Embedding(CONTEXT, WIDTH)
        layer = nn.TransformerEncoderLayer(
            WIDTH, HEADS, 4 * WIDTH, dropout=0.0, activation="gelu",
            batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(
            layer, LAYERS, norm=nn.LayerNorm(WIDTH),
            enable_nested_tensor=False)
        # initialises each layer separately, as the C program does
        for block in self.blocks.layers:
            block.self_attn._reset_parameters()
            block.linear1.reset_parameters()
            block.linear2.reset_parameters()
        self.head = nn.Linear(WIDTH, vocabulary)
        with torch.no_grad():
            self.token.weight *= 0.02
            self.place.weight *= 0.02
        self.mask = nn.Transformer.generate_square_subsequent_mask(CONTEXT)

    def forward(self, ids):
        x = self.token(ids) + self.place(torch.arange(ids.shape[1]))
        x = self.blocks(x, mask=self.mask, is_causal=True)
        return self.head(x)


def main():
    text = open(sys.argv[1], encoding="utf-8").read()
    steps = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    torch.manual_seed(1)
    letters = {c: i for i, c in enumerate(sorted(set(text)))}
    ids = torch.tensor([letters[c] for c in text])
    count = len(ids) - CONTEXT
    learned = count - count // 10

    def batch(low, high):
        at = torch.randint(low, high, (BATCH,))
        rows = at[:, None] + torch.arange(CONTEXT)
        return ids[rows], ids[rows + 1]

    def loss_of(pair):
        return F.cross_entropy(net(pair[0]).flatten(0, 1), pair[1].flatten())

    net = GPT(len(letters))
    print(sum(p.numel() for p in net.parameters()), "parameters,",
          len(letters), "characters")
    opt = torch.optim.AdamW(net.parameters(), lr=2e-3, betas=(0.9, 0.99),
                            weight_decay=0.1)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        opt, 2e-3, total_steps=steps, pct_start=0.1)
    begun, mean = time.time(), 0.0
    for step in range(steps):
        loss = loss_of(batch(0, learned))
        opt.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        schedule.step()
        mean = 0.95 * mean + 0.05 * loss.item() if step else loss.item()
    print(f"training: {time.time() - begun:.1f} s")
    net.eval()
    with torch.no_grad():
        unseen = sum(loss_of(batch(learned, count)).item() for _ in range(20))
    print(f"training loss: {mean:.4f} nats a character")
    print(f"held-out loss: {unseen / 20:.4f} nats a character")


main()
