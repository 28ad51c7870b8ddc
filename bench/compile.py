"""The workloads of bench/compile in PyTorch: training of compare.py, inference that
returns its result (torch.compile removes work whose result is not used), and chains
of element-wise operators. Arguments and input are those of compare.py."""

import compare
import compare_networks as networks
import torch


def chain(size):
    x, y = torch.rand(size), torch.rand(size)

    def run():
        with torch.no_grad():
            z = x
            for _ in range(4):
                z = z * y + x
                z = torch.relu(z - y)
                z = z * 0.5
            return z
    return run


def inference(net, draw):
    def ready(batch):
        module, x = net().eval(), draw(batch)

        def run():
            with torch.no_grad():
                return module(x)
        return run
    return ready


def lstm():
    return torch.nn.LSTM(8, 64, batch_first=True)


compare.WORK.update({
    "inference.mlp": inference(networks.mlp, lambda n: torch.rand(n, 784)),
    "inference.cnn28": inference(
        networks.cnn28, lambda n: torch.rand(n, 1, 28, 28)),
    "inference.lstm": inference(lstm, lambda n: torch.rand(n, 8, 8)),
    "inference.resnet20": inference(
        networks.resnet20, lambda n: torch.rand(n, 3, 32, 32)),
    "inference.gpt": inference(
        lambda: networks.Gpt(65), lambda n: torch.randint(0, 65, (n, 128))),
})
compare.WORK["chain.4m"] = compare.WORK["chain.1k"] = chain

if __name__ == "__main__":
    compare.main()
