"""The workloads of bench/compile in PyTorch: those of compare.py, and chains of
element-wise operators. Arguments and input are those of compare.py."""

import compare
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


compare.WORK["chain.4m"] = compare.WORK["chain.1k"] = chain

if __name__ == "__main__":
    compare.main()
