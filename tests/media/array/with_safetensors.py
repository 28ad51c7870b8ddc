"""with_safetensors.py FOLDER: sharded weights are read by the safetensors package,
and its shards by us."""
import ctypes
import json
import os
import sys

import numpy as np
from safetensors.numpy import load_file, save_file

from tenon_ctypes import (bytes_of, done, media, must, ok, options, refused,
                          tensor, tn)

stem = os.path.join(sys.argv[1], "model")
index = stem + ".safetensors.index.json"
random = np.random.default_rng(5)
weights = {"layer.%d.weight" % i: random.standard_normal((3, i + 1))
           .astype("float32") for i in range(9)}
weights["kopf.größe"] = np.arange(100)


def save(most):
    tensors = [tensor(a.tobytes(), a.dtype.name, a.shape)
               for a in weights.values()]
    names = (ctypes.c_char_p * len(weights))(*[n.encode() for n in weights])
    must(media.tn_safetensors_shards_save_with(
        stem.encode(), names, (ctypes.c_void_p * len(weights))(*tensors),
        len(weights), options("safetensors_shards_save",
                              max_shard_bytes=most)))


for most in (100, 300, 10 ** 9, 500):
    save(most)
    files = sorted(os.listdir(sys.argv[1]))
    if most == 10 ** 9:
        ok(files == ["model.safetensors"], "one file, and no index")
        continue
    with open(index) as file:
        table = json.load(file)
    ok(table["metadata"]["total_size"] ==
       sum(a.nbytes for a in weights.values()), "total_size")
    ok(list(table["weight_map"]) == list(weights), "names")
    shards = sorted(set(table["weight_map"].values()))
    ok(shards == ["model-%05d-of-%05d.safetensors" % (i + 1, len(shards))
                  for i in range(len(shards))], "file names")
    ok(files == shards + ["model.safetensors.index.json"],
       "older files are removed")
    for shard in shards:
        part = load_file(os.path.join(sys.argv[1], shard))
        ok(set(part) == {n for n, s in table["weight_map"].items()
                         if s == shard}, "names of " + shard)
        ok(all((part[n] == weights[n]).all() for n in part), shard)
        ok(len(part) == 1 or sum(a.nbytes for a in part.values()) <= most,
           shard + " has at most %d bytes" % most)

half = list(weights)[::2]
save_file({n: weights[n] for n in half}, stem + "-00001-of-00002.safetensors")
save_file({n: a for n, a in weights.items() if n not in half},
          stem + "-00002-of-00002.safetensors")
with open(index, "w") as file:
    json.dump({"metadata": {}, "weight_map": {
        n: "model-0000%d-of-00002.safetensors" % (1 if n in half else 2)
        for n in weights}}, file)
shards = must(media.tn_safetensors_shards_open(index.encode()))
ok(media.tn_safetensors_shards_count(shards) == len(weights), "count")
for name, a in weights.items():
    x = must(media.tn_safetensors_shards_tensor(shards, name.encode()))
    ok(bytes_of(x) == a.tobytes(), name)
for table, part in [({"weight_map": {"x": "../model.safetensors"}},
                     "not in the folder"),
                    ({"weight_map": {"x": 3}}, "no file"), ({}, "weight_map"),
                    ({"weight_map": {"x": "model-00001-of-00002.safetensors"}},
                     "is not in")]:
    with open(index, "w") as file:
        json.dump(table, file)
    refused(lambda: must(media.tn_safetensors_shards_open(index.encode())),
            part, str(table))
done()
