#!/usr/bin/env python3
"""Writes the folders of data/: small random models of each family, and the results that
transformers computes with them (float32, CPU, eager attention).

  make_models.py OUT [NAME ...]

Needs torch 2.15, transformers 5.24 and safetensors. Tensors of
golden.safetensors: see golden.c. The weights are drawn from seed 1234."""
import json
import os
import sys

import torch
import transformers as t
from safetensors.torch import save_file

torch.set_num_threads(1)
torch.use_deterministic_algorithms(True)

SIZES = dict(vocab_size=64, hidden_size=32, intermediate_size=48,
             num_hidden_layers=2, num_attention_heads=4,
             max_position_embeddings=128, initializer_range=.15)
GROUPED = dict(SIZES, num_key_value_heads=2, bos_token_id=0, eos_token_id=None)


def rope(kind, **more):
    return dict(GROUPED, rope_parameters=dict(rope_type=kind, rope_theta=10000.0,
                                              **more))


DECODERS = {
    'llama': (t.LlamaForCausalLM, t.LlamaConfig, GROUPED),
    'smollm': (t.LlamaForCausalLM, t.LlamaConfig,
               dict(GROUPED, tie_word_embeddings=True, rms_norm_eps=1e-5)),
    'llama_bias': (t.LlamaForCausalLM, t.LlamaConfig,
                   dict(GROUPED, attention_bias=True, mlp_bias=True)),
    'rope_llama3': (t.LlamaForCausalLM, t.LlamaConfig,
                    rope('llama3', factor=8.0, low_freq_factor=1.0,
                         high_freq_factor=4.0,
                         original_max_position_embeddings=16)),
    'rope_linear': (t.LlamaForCausalLM, t.LlamaConfig, rope('linear', factor=4.0)),
    'rope_dynamic': (t.LlamaForCausalLM, t.LlamaConfig,
                     dict(rope('dynamic', factor=2.0),
                          max_position_embeddings=32)),
    'rope_yarn': (t.LlamaForCausalLM, t.LlamaConfig,
                  rope('yarn', factor=4.0, original_max_position_embeddings=32)),
    'rope_longrope': (t.Phi3ForCausalLM, t.Phi3Config,
                      dict(rope('longrope', short_factor=[1.0, 1.1, 1.3, 1.5],
                                long_factor=[1.0, 2.0, 3.0, 4.0]),
                           original_max_position_embeddings=32, pad_token_id=0)),
    'mistral': (t.MistralForCausalLM, t.MistralConfig,
                dict(GROUPED, sliding_window=8)),
    'qwen2': (t.Qwen2ForCausalLM, t.Qwen2Config,
              dict(GROUPED, use_sliding_window=True, sliding_window=8,
                   max_window_layers=1)),
    'qwen3': (t.Qwen3ForCausalLM, t.Qwen3Config,
              dict(GROUPED, head_dim=16, tie_word_embeddings=True)),
    'qwen3_moe': (t.Qwen3MoeForCausalLM, t.Qwen3MoeConfig,
                  dict(GROUPED, head_dim=8, moe_intermediate_size=16,
                       num_experts=4, num_experts_per_tok=2,
                       norm_topk_prob=True, num_hidden_layers=3,
                       mlp_only_layers=[1])),
    'gemma3': (t.Gemma3ForCausalLM, t.Gemma3TextConfig,
               dict(GROUPED, head_dim=16, sliding_window=8,
                    query_pre_attn_scalar=16, num_hidden_layers=3,
                    layer_types=['sliding_attention', 'full_attention',
                                 'sliding_attention'],
                    final_logit_softcapping=30.0)),
    'phi3': (t.Phi3ForCausalLM, t.Phi3Config,
             dict(GROUPED, sliding_window=12, pad_token_id=0,
                  original_max_position_embeddings=128)),
    'gpt2': (t.GPT2LMHeadModel, t.GPT2Config,
             dict(vocab_size=64, n_positions=128, n_embd=32, n_layer=2, n_head=4,
                  initializer_range=.15, bos_token_id=0, eos_token_id=None,
                  scale_attn_by_inverse_layer_idx=True)),
    'gptneox': (t.GPTNeoXForCausalLM, t.GPTNeoXConfig,
                dict(SIZES, bos_token_id=0, eos_token_id=None)),
    'gptneox_serial': (t.GPTNeoXForCausalLM, t.GPTNeoXConfig,
                       dict(SIZES, bos_token_id=0, eos_token_id=None,
                            use_parallel_residual=False)),
}
ENCODERS = {
    'bert': (t.BertModel, t.BertConfig, SIZES, 'mean', True),
    'roberta': (t.RobertaModel, t.RobertaConfig, SIZES, 'cls', False),
    'mpnet': (t.MPNetModel, t.MPNetConfig, SIZES, None, False),
    'distilbert': (t.DistilBertModel, t.DistilBertConfig,
                   dict(vocab_size=64, dim=32, hidden_dim=48, n_layers=2,
                        n_heads=4, max_position_embeddings=128,
                        initializer_range=.15), 'max', False),
}


def random_model(cls, config, generator):
    config._attn_implementation = 'eager'
    torch.manual_seed(1234)
    model = cls(config).eval().float()
    with torch.no_grad():  # changes norms from 1 and biases from 0
        for _, p in model.named_parameters():
            if p.dim() == 1:
                p.add_(torch.randn(p.shape, generator=generator) * .1)
    return model


def greedy(model, ids):
    past, inp, ids_out, margins = None, ids, [], []
    with torch.no_grad():
        for _ in range(32):
            q = model(inp, past_key_values=past, use_cache=True)
            past = q.past_key_values
            v = q.logits[0, -1].topk(2)
            ids_out.append(v.indices[0])
            margins.append(v.values[0] - v.values[1])
            inp = v.indices[:1][None]
    return {'greedy': torch.stack(ids_out), 'margin': torch.stack(margins)}


def pooling_files(folder, pooling, normalize):
    os.makedirs(folder + '/1_Pooling', exist_ok=True)
    names = {'mean': 'mean_tokens', 'cls': 'cls_token', 'max': 'max_tokens'}
    mode = {'pooling_mode_' + n: False for n in names.values()}
    mode['pooling_mode_' + names[pooling]] = True
    json.dump(mode, open(folder + '/1_Pooling/config.json', 'w'))
    types = ['Transformer', 'Pooling'] + ['Normalize'] * normalize
    json.dump([{'idx': i, 'name': str(i),
                'type': 'sentence_transformers.models.' + k}
               for i, k in enumerate(types)], open(folder + '/modules.json', 'w'))


class Adapter(torch.nn.Module):
    """A linear layer with a low-rank adapter: rank 4, scale 2."""
    def __init__(self, linear, generator):
        super().__init__()
        self.linear = linear
        self.A = torch.nn.Parameter(
            torch.randn(4, linear.in_features, generator=generator) * .05)
        self.B = torch.nn.Parameter(torch.zeros(linear.out_features, 4))

    def forward(self, x):
        return self.linear(x) + 2 * ((x @ self.A.T) @ self.B.T)


def finetune(cls, folder):
    """Trains ten steps of AdamW on one batch: the whole model, and adapters."""
    generator = torch.Generator().manual_seed(7)
    ids = torch.randint(2, 64, (4, 24), generator=generator)
    golden = {'ids': ids}

    def run(model, parameters, kind):
        optim = torch.optim.AdamW(parameters, lr=1e-3, weight_decay=.01)
        losses = []
        for _ in range(10):
            logits = model(ids, use_cache=False).logits[:, :-1]
            loss = torch.nn.functional.cross_entropy(
                logits.reshape(-1, logits.shape[-1]), ids[:, 1:].reshape(-1))
            losses.append(loss.detach())
            optim.zero_grad()
            loss.backward()
            optim.step()
        golden[kind + '.losses'] = torch.stack(losses)

    def opened():
        return cls.from_pretrained(folder, attn_implementation='eager').float()

    model = opened()
    run(model, model.parameters(), 'full')
    for n, p in model.named_parameters():
        golden['full.after.' + n] = p
    model = opened()
    for p in model.parameters():
        p.requires_grad_(False)
    adapters = {}
    for i, layer in enumerate(model.model.layers):
        for kind in ('q_proj', 'v_proj'):
            adapter = Adapter(getattr(layer.self_attn, kind), generator)
            setattr(layer.self_attn, kind, adapter)
            adapters[f'lora.{i}.{kind}'] = adapter
            golden[f'lora.{i}.{kind}.A0'] = adapter.A.detach().clone()
    run(model, [p for a in adapters.values() for p in (a.A, a.B)], 'lora')
    for n, a in adapters.items():
        golden[n + '.A'], golden[n + '.B'] = a.A, a.B
    save_file({k: v.detach().contiguous().clone() for k, v in golden.items()},
              folder + '/finetune.safetensors')


def make(name, out):
    generator = torch.Generator().manual_seed(99)
    encoder = name in ENCODERS
    cls, make_config, options = (ENCODERS if encoder else DECODERS)[name][:3]
    model = random_model(cls, make_config(**options), generator)
    ids = torch.randint(2, 64, (1, 24), generator=generator)
    folder = os.path.join(out, name)
    os.makedirs(folder, exist_ok=True)
    golden = {'ids': ids}
    run = dict(output_hidden_states=True) | ({} if encoder else
                                             dict(use_cache=False))
    with torch.no_grad():
        o = model(ids, **run)
    for i, h in enumerate(o.hidden_states):
        golden[f'hidden_{i}'] = h[0]
    if encoder:
        pooling, normalize = ENCODERS[name][3:]
        h = o.last_hidden_state[0]
        e = {'mean': h.mean(0), 'cls': h[0], 'max': h.amax(0)}[pooling or 'mean']
        golden['embedding'] = (e / e.norm() if normalize else e)[None]
        if pooling:
            pooling_files(folder, pooling, normalize)
        loss = (model(ids).last_hidden_state ** 2).mean()
    else:
        golden['logits'] = o.logits[0]
        golden |= greedy(model, ids)
        logits = model(ids, use_cache=False).logits[0]
        loss = torch.nn.functional.cross_entropy(logits[:-1], ids[0, 1:])
    golden['loss'] = loss[None]
    loss.backward()
    for n, p in model.named_parameters():
        if p.grad is not None:
            golden['grad.' + n] = p.grad
    save_file({k: v.detach().contiguous().clone() for k, v in golden.items()},
              folder + '/golden.safetensors')
    model.save_pretrained(folder,
                          **({'max_shard_size': '40KB'} if name == 'qwen3'
                             else {}))
    if os.path.exists(folder + '/generation_config.json'):
        os.remove(folder + '/generation_config.json')
    if name == 'llama':
        finetune(cls, folder)
    print(name, 'loss %.5f' % loss.item(), flush=True)


if __name__ == '__main__':
    for name in sys.argv[2:] or list(DECODERS) + list(ENCODERS):
        make(name, sys.argv[1])
