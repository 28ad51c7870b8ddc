#!/usr/bin/env python3
"""Compares bench/images with torchvision's ImageFolder and DataLoader.

    python3 bench/images.py build/bench/images [FOLDER]

Makes 2,000 JPEG files of 500 x 375 in FOLDER (default: images-bench), unless it
exists. Runs both programs in turn, three times, each with two workers of one
thread, and prints the least time of each. Needs Pillow, torch and torchvision.
"""
import os, subprocess, sys

LOAD = '''
import resource, sys, time, torch
from torchvision import datasets, transforms as T
from torch.utils.data import DataLoader
torch.set_num_threads(1)
normalize = T.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
steps = [T.RandomResizedCrop(224), T.RandomHorizontalFlip()] if sys.argv[2] == "train" \\
    else [T.Resize(256), T.CenterCrop(224)]
folder = datasets.ImageFolder(sys.argv[1], T.Compose(steps + [T.ToTensor(), normalize]))
loader = DataLoader(folder, batch_size=32, num_workers=2)
begin, count = time.monotonic(), 0
for x, y in loader:
    count += len(x)
wall = time.monotonic() - begin
del loader
used = sum(u.ru_utime + u.ru_stime for u in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))
print("%d images, %.3f s, %.3f s of processors" % (count, wall, used))
'''


def make(folder):
    import numpy as np
    from PIL import Image
    rng = np.random.default_rng(0)
    y, x = np.mgrid[0:375, 0:500]
    for i in range(2000):
        f, p = rng.uniform(5, 60, 3), rng.uniform(0, 6, 3)
        a = np.stack([127 + 90 * np.sin(x / f[k] + p[k]) * np.cos(y / f[(k + 1) % 3]) for k in range(3)], -1)
        a += rng.normal(0, 25, (94, 125, 3)).repeat(4, 0).repeat(4, 1)[:375, :500]
        a += rng.normal(0, 6, a.shape)
        path = os.path.join(folder, 'class%d' % (i // 200), '%03d.jpg' % (i % 200))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        Image.fromarray(a.clip(0, 255).astype('u1')).save(path, quality=90)


def run(command):
    text = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    words = text.split()
    return float(words[2]), float(words[4])


folder = sys.argv[2] if len(sys.argv) > 2 else 'images-bench'
if not os.path.isdir(folder):
    make(folder)
for kind in ('evaluate', 'train'):
    tenon, torch = [], []
    for _ in range(3):
        tenon.append(run([sys.argv[1], folder, '2', kind]))
        torch.append(run([sys.executable, '-c', LOAD, folder, kind]))
    for name, runs in (('tenon', tenon), ('torchvision', torch)):
        wall, used = (min(r[i] for r in runs) for i in (0, 1))
        print('%-9s %-12s %6.2f s, %6.2f s of processors' % (kind, name, wall, used))
