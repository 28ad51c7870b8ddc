"""The workloads of bench/language in PyTorch, through transformers.

Run by bench/peer.c with the model's folder, the number of threads, and the dtype
of the weights ("": that of the folder). It prints "torch VERSION" and then
answers each line of its input:

    open language.NAME SIZE...   "ready", after a call that warms up
    run CALLS                    nanoseconds per call
"""

import sys
import time

sys.dont_write_bytecode = True  # writes no __pycache__ into the source folder

try:
    import torch
    import transformers
except ImportError:
    sys.exit()  # peer.c then reports that there is no torch

IDS = [10 + i * 7919 % 977 for i in range(1024)]


def prompt(model, size):
    model(torch.tensor([IDS[:size[0]]]), use_cache=True, logits_to_keep=1)


def generate(model, size):
    ids, past = torch.tensor([IDS[:1]]), None
    for _ in range(size[0]):
        out = model(ids, past_key_values=past, use_cache=True)
        past = out.past_key_values
        ids = out.logits[:, -1:].argmax(-1)


def embed(model, size):
    ids = torch.tensor([IDS[i:i + size[1]] for i in range(size[0])])
    model(ids, attention_mask=torch.ones_like(ids)).last_hidden_state.mean(1)


CALLS = {"prompt": prompt, "generate": generate, "embed": embed}


def main():
    folder, threads, dtype = sys.argv[1:4]
    torch.set_num_threads(int(threads))
    transformers.logging.set_verbosity_error()
    config = transformers.AutoConfig.from_pretrained(folder)
    kind = transformers.AutoModel
    if any("CausalLM" in name or "LMHead" in name
           for name in config.architectures or []):
        kind = transformers.AutoModelForCausalLM
    model = kind.from_pretrained(folder, dtype=dtype or "auto").eval()
    print("torch", torch.__version__, flush=True)
    call = size = None
    with torch.inference_mode():
        for line in sys.stdin:
            words = line.split()
            if words[0] == "open":
                call = CALLS[words[1].partition(".")[2]]
                size = [int(word) for word in words[2:]]
                call(model, size)
                print("ready", flush=True)
            else:
                begin = time.perf_counter_ns()
                for _ in range(int(words[1])):
                    call(model, size)
                print((time.perf_counter_ns() - begin) / int(words[1]),
                      flush=True)


main()
