"""The training steps of memory.c in PyTorch. Prints "process" and the peak resident
memory of the process, then a line "name bytes" for each model: the peak of the bytes
in tensors during a step, minus the bytes before the step. Counts the events of the
allocator (torch.profiler with profile_memory)."""
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function

torch.manual_seed(0)


def labels(count):
    return torch.randint(0, 10, (count,))


def mlp():
    net = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
    return net, torch.rand(64, 784), labels(64), torch.optim.SGD


def cnn():
    net = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10))
    return net, torch.rand(64, 1, 8, 8), labels(64), torch.optim.SGD


class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(8, 64, batch_first=True)
        self.head = nn.Linear(64, 10)

    def forward(self, x):
        return self.head(self.lstm(x)[0][:, -1])


def lstm():
    return Lstm(), torch.rand(64, 8, 8), labels(64), torch.optim.Adam


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(64, 4, 256, dropout=0.1,
                                                batch_first=True)
        self.head = nn.Linear(64, 10)

    def forward(self, x):
        return self.head(self.layer(x)[:, 0])


def encoder():
    return Encoder(), torch.rand(16, 32, 64), labels(16), torch.optim.Adam


def deep():
    layers = []
    for _ in range(20):
        layers += [nn.Linear(256, 256), nn.GELU(), nn.LayerNorm(256)]
    net = nn.Sequential(*layers, nn.Linear(256, 10))
    return net, torch.rand(128, 256), labels(128), torch.optim.SGD


def step(net, x, y, optim):
    loss = nn.functional.cross_entropy(net(x), y)
    optim.zero_grad()
    loss.backward()
    optim.step()


def peak(make):
    # Profiles from the creation of the model on. The profiler records that a
    # block is freed only if it has recorded its allocation, and a step frees
    # the gradients of the previous step.
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as p:
        net, x, y, rule = make()
        optim = rule(net.parameters(), lr=1e-3)
        for _ in range(3):
            step(net, x, y, optim)
        with record_function("measured"):
            step(net, x, y, optim)
    events = sorted(p.profiler.kineto_results.events(), key=lambda e: e.start_ns())
    begin = next(e.start_ns() for e in events if e.name() == "measured")
    live = before = most = 0
    for event in (e for e in events if e.name() == "[memory]"):
        live += event.nbytes()
        if event.start_ns() < begin:
            before = most = live
        most = max(most, live)
    return most - before


def resident():
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith("VmHWM:"):
                return 1024 * int(line.split()[1])
    return -1


if __name__ == "__main__":
    torch.set_num_threads(1)
    models = (mlp, cnn, lstm, encoder, deep)
    for make in models:  # without the profiler, whose events take memory
        net, x, y, rule = make()
        optim = rule(net.parameters(), lr=1e-3)
        for _ in range(4):
            step(net, x, y, optim)
    print("process", resident(), flush=True)
    for make in models:
        print(make.__name__, peak(make), flush=True)
