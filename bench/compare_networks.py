"""Networks: the groups training, inference, optim and data of bench/compare."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils import data


def learning(net, x, y, optimizer, loss_of):
    """Returns a training step. losses() in compare.py sets the step's state."""
    def step():
        loss = loss_of()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss
    step.state = [x, y, *net.parameters()]
    return step


def classes(net, x, optimizer):
    y = torch.randint(0, 10, (x.shape[0],))
    return learning(net, x, y, optimizer, lambda: F.cross_entropy(net(x), y))


def mlp():
    return nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))


def cnn():
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10))


def cnn28():
    return nn.Sequential(
        nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(9216, 128), nn.ReLU(),
        nn.Linear(128, 10))


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False),
            nn.BatchNorm2d(outputs), nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False),
            nn.BatchNorm2d(outputs))
        self.shortcut = nn.Identity()
        if inputs != outputs:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False),
                nn.BatchNorm2d(outputs))

    def forward(self, x):
        return torch.relu(self.body(x) + self.shortcut(x))


def resnet20():
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16),
        nn.ReLU(),
        Block(16, 16, 1), Block(16, 16, 1), Block(16, 16, 1),
        Block(16, 32, 2), Block(32, 32, 1), Block(32, 32, 1),
        Block(32, 64, 2), Block(64, 64, 1), Block(64, 64, 1),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


class Gpt(nn.Module):
    """A GPT of four layers with 128 features, four heads and contexts of 128 ids."""

    def __init__(self, vocabulary):
        super().__init__()
        self.token = nn.Embedding(vocabulary, 128)
        self.place = nn.Embedding(128, 128)
        layer = nn.TransformerEncoderLayer(
            128, 4, 512, dropout=0.0, activation="gelu", batch_first=True,
            norm_first=True)
        self.blocks = nn.TransformerEncoder(
            layer, 4, norm=nn.LayerNorm(128), enable_nested_tensor=False)
        self.head = nn.Linear(128, vocabulary)
        self.mask = nn.Transformer.generate_square_subsequent_mask(128)

    def forward(self, ids):
        x = self.token(ids) + self.place(
            torch.arange(ids.shape[1], device=ids.device))
        return self.head(self.blocks(x, mask=self.mask, is_causal=True))


WORDS = 50257


class Gpt2Block(nn.Module):
    def __init__(self, heads):
        super().__init__()
        width = 64 * heads
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"),
            nn.Linear(4 * width, width))

    def forward(self, x):
        q, k, v = self.qkv(self.norm1(x)).unflatten(
            2, (3, self.heads, 64)).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm2(x))


class Gpt2(nn.Module):
    """GPT-2. With 12 layers it is OpenAI's model of 124 million parameters."""

    def __init__(self, layers, length):
        super().__init__()
        self.token = nn.Embedding(WORDS, 64 * layers)
        self.place = nn.Embedding(length, 64 * layers)
        self.blocks = nn.Sequential(*(Gpt2Block(layers) for _ in range(layers)))
        self.norm = nn.LayerNorm(64 * layers)
        with torch.no_grad():
            self.token.weight *= 0.02
            self.place.weight *= 0.02

    def forward(self, ids):
        x = self.token(ids) + self.place(
            torch.arange(ids.shape[1], device=ids.device))
        return F.linear(self.norm(self.blocks(x)), self.token.weight)


class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(8, 64, batch_first=True)
        self.linear = nn.Linear(64, 10)

    def forward(self, x):
        return self.linear(self.lstm(x)[0][:, -1])


def images(net, sides, **options):
    """Returns a workload: training with SGD on a batch of images."""
    def ready(batch):
        module = net()
        return classes(module, torch.rand(batch, *sides),
                        torch.optim.SGD(module.parameters(), **options))
    return ready


def lstm(batch):
    net = Lstm()
    return classes(net, torch.rand(batch, 8, 8),
                    torch.optim.Adam(net.parameters(), 1e-3))


def text(net, words, batch, length, optimizer, half=None):
    x = torch.randint(0, words, (batch, length))
    y = torch.randint(0, words, (batch * length,))

    def loss_of():
        return F.cross_entropy(net(x).flatten(0, 1), y)

    def loss_of_half():
        with torch.autocast(x.device.type, half):
            return loss_of()
    return learning(net, x, y, optimizer, loss_of_half if half else loss_of)


def gpt(batch, length):
    net = Gpt(65)
    return text(net, 65, batch, length,
                torch.optim.AdamW(net.parameters(), 1e-3))


def gpt2(half):
    """Returns a training workload of GPT-2 with fused attention and fused AdamW."""
    def ready(batch, length, layers):
        net = Gpt2(layers, length)
        optimizer = torch.optim.AdamW(net.parameters(), 3e-4, fused=True)
        return text(net, WORDS, batch, length, optimizer, half)
    return ready


def inference(net, draw):
    def ready(batch):
        module, x = net().eval(), draw(batch)

        def run():
            with torch.inference_mode():
                module(x)
        return run
    return ready


def optim(rule, **options):
    def ready(count, size):
        parameters = [torch.rand(size, requires_grad=True)
                      for _ in range(count)]
        for p in parameters:
            p.grad = torch.rand(size)
        return rule(parameters, lr=1e-3, **options).step
    return ready


def epoch(samples, features, workers=0):
    loader = data.DataLoader(
        data.TensorDataset(torch.rand(samples, features),
                           torch.randint(0, 10, (samples,))),
        batch_size=64, shuffle=True, num_workers=workers)

    def run():
        for _ in loader:
            pass
    return run


WORK = {
    "training.cnn": images(cnn, (1, 8, 8), lr=0.03, momentum=0.9),
    "training.cnn28": images(cnn28, (1, 28, 28), lr=0.01, momentum=0.9),
    "training.mlp": images(mlp, (784,), lr=0.01),
    "training.lstm": lstm,
    "training.resnet20": images(resnet20, (3, 32, 32), lr=0.1, momentum=0.9,
                                weight_decay=1e-4),
    "training.gpt": gpt,
    "large.gpt2": gpt2(torch.bfloat16),
    "large.gpt2_f32": gpt2(None),
    "inference.mlp": inference(mlp, lambda n: torch.rand(n, 784)),
    "inference.cnn28": inference(cnn28, lambda n: torch.rand(n, 1, 28, 28)),
    "inference.lstm": inference(
        lambda: nn.LSTM(8, 64, batch_first=True),
        lambda n: torch.rand(n, 8, 8)),
    "inference.resnet20": inference(
        resnet20, lambda n: torch.rand(n, 3, 32, 32)),
    "inference.gpt": inference(
        lambda: Gpt(65), lambda n: torch.randint(0, 65, (n, 128))),
    "optim.sgd": optim(torch.optim.SGD, momentum=0.9),
    "optim.adam": optim(torch.optim.Adam),
    "optim.adamw": optim(torch.optim.AdamW),
    "optim.rmsprop": optim(torch.optim.RMSprop),
    "optim.adagrad": optim(torch.optim.Adagrad),
    "optim.nadam": optim(torch.optim.NAdam),
    "data.epoch": epoch,
}
