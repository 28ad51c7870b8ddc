"""A GPT generates text with a cache of the keys and values of past tokens.

    gpt_cache.py TEXT [STEPS]
"""
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

LAYERS, HEADS, WIDTH, CONTEXT, BATCH = 3, 4, 96, 128, 8


class Block(nn.Module):
    """Attention and a feed-forward network, each with a residual connection."""

    def __init__(self):
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.projection = nn.Linear(WIDTH, WIDTH)
        self.norm2 = nn.LayerNorm(WIDTH)
        self.feed = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )
        self.keys = self.values = None
        self.seen = 0

    def forward(self, x):
        n, t, _ = x.shape
        qkv = self.qkv(self.norm1(x)).reshape(n, t, 3, HEADS, -1)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        if self.keys is not None:
            self.keys[:, :, self.seen : self.seen + t] = k
            self.values[:, :, self.seen : self.seen + t] = v
            self.seen += t
            k = self.keys[:, :, : self.seen]
            v = self.values[:, :, : self.seen]
        y = F.scaled_dot_product_attention(q, k, v, is_causal=t > 1)
        x = x + self.projection(y.transpose(1, 2).reshape(n, t, WIDTH))
        return x + self.feed(self.norm2(x))


class GPT(nn.Module):
    """Maps ids (N, T) to scores of the next id (N, T, vocabulary)."""

    def __init__(self, vocabulary):
        super().__init__()
        self.token = nn.Embedding(vocabulary, WIDTH)
        self.place = nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(*[Block() for _ in range(LAYERS)])
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, vocabulary)
        nn.init.normal_(self.token.weight, std=0.02)
        nn.init.normal_(self.place.weight, std=0.02)
        self.seen = 0
        self.cached = False

    def forward(self, ids):
        places = torch.arange(self.seen, self.seen + ids.shape[1])
        if self.cached:
            self.seen += ids.shape[1]
        x = self.token(ids) + self.place(places)
        return self.head(self.norm(self.blocks(x)))

    def set_cache(self, on):
        """Enables the cache and empties it, or disables it."""
        self.seen = 0
        self.cached = on
        for block in self.blocks:
            shape = 1, HEADS, CONTEXT, WIDTH // HEADS
            block.seen = 0
            block.keys = torch.zeros(shape) if on else None
            block.values = torch.zeros(shape) if on else None


@torch.no_grad()
def generate(gpt, ids, count, cached):
    """Continues ids (1, T) by count sampled ids."""
    torch.manual_seed(2)
    gpt.set_cache(cached)
    x = ids
    for _ in range(count):
        scores = gpt(x)[:, -1]
        following = torch.multinomial(scores.softmax(-1), 1)
        ids = torch.cat([ids, following], dim=1)
        x = following if cached else ids
    gpt.set_cache(False)
    return ids


def train(gpt, ids, steps):
    optimizer = torch.optim.AdamW(gpt.parameters(), lr=3e-3)
    for step in range(1, steps + 1):
        starts = torch.randint(len(ids) - CONTEXT, (BATCH,))
        windows = torch.stack([ids[i : i + CONTEXT + 1] for i in starts])
        scores = gpt(windows[:, :-1])
        loss = F.cross_entropy(scores.flatten(0, 1), windows[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(gpt.parameters(), 1.0)
        optimizer.step()
        if step % 20 == 0:
            print(f"step {step}: loss {loss.item():.4f}")


def main():
    if len(sys.argv) < 2:
        sys.exit("usage: gpt_cache.py TEXT [STEPS]")
    steps = int(sys.argv[2]) if len(sys.argv) > 2 else 200
    torch.manual_seed(1)
    with open(sys.argv[1], encoding="utf-8") as file:
        text = file.read()
    characters = sorted(set(text))
    number = {character: i for i, character in enumerate(characters)}
    ids = torch.tensor([number[character] for character in text])
    gpt = GPT(len(characters))
    train(gpt, ids, steps)

    gpt.eval()
    prompt = ids[None, :8]
    results = []
    for cached in False, True:
        start = time.perf_counter()
        results.append(generate(gpt, prompt, CONTEXT - 8, cached))
        seconds = time.perf_counter() - start
        print(f"{'with' if cached else 'without'} cache: {seconds:.2f} s")
    written = "".join(characters[i] for i in results[1][0])
    print(f"----\n{written}\n----")
    if not torch.equal(results[0], results[1]):
        sys.exit("gpt_cache.py: the texts differ")
    print("the same text without the cache")


if __name__ == "__main__":
    main()
