"""GPT: key/value cache as tuples, a causal mask kept as a buffer, dict outputs, greedy and sampling generation."""

import math

import paddle
import paddle.nn.functional as F
from paddle import nn

from . import Task, task


class CausalSelfAttention(nn.Layer):
    def __init__(self, n_embd, n_head, block_size, attn_pdrop):
        super().__init__()
        assert n_embd % n_head == 0
        self.n_head, self.n_embd = n_head, n_embd
        self.c_attn = nn.Linear(n_embd, 3 * n_embd)
        self.c_proj = nn.Linear(n_embd, n_embd)
        self.attn_dropout = nn.Dropout(attn_pdrop)
        bias = paddle.tril(paddle.ones([block_size, block_size])).reshape([1, 1, block_size, block_size])
        self.register_buffer("bias", bias)

    def forward(self, x, layer_past=None, use_cache=False):
        B, T, C = x.shape
        q, k, v = self.c_attn(x).split(3, axis=2)
        k = k.reshape([B, T, self.n_head, C // self.n_head]).transpose([0, 2, 1, 3])
        q = q.reshape([B, T, self.n_head, C // self.n_head]).transpose([0, 2, 1, 3])
        v = v.reshape([B, T, self.n_head, C // self.n_head]).transpose([0, 2, 1, 3])
        if layer_past is not None:
            past_key, past_value = layer_past
            k = paddle.concat([past_key, k], axis=-2)
            v = paddle.concat((past_value, v), axis=-2)
        present = (k, v) if use_cache is True else None
        att = (q @ k.transpose([0, 1, 3, 2])) * (1.0 / math.sqrt(k.shape[-1]))
        total = k.shape[-2]
        att = paddle.where(
            self.bias[:, :, total - T : total, :total] == 0, paddle.full([], float("-inf"), dtype=att.dtype), att
        )
        att = self.attn_dropout(F.softmax(att, axis=-1))
        y = (att @ v).transpose([0, 2, 1, 3]).reshape([B, T, C])
        return self.c_proj(y), present


class NewGELU(nn.Layer):
    def forward(self, x):
        return 0.5 * x * (1.0 + paddle.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * paddle.pow(x, 3.0))))


class Block(nn.Layer):
    def __init__(self, n_embd, n_head, block_size, pdrop):
        super().__init__()
        self.ln_1 = nn.LayerNorm(n_embd)
        self.attn = CausalSelfAttention(n_embd, n_head, block_size, pdrop)
        self.ln_2 = nn.LayerNorm(n_embd)
        self.mlp = nn.LayerDict(
            dict(
                c_fc=nn.Linear(n_embd, 4 * n_embd),
                c_proj=nn.Linear(4 * n_embd, n_embd),
                act=NewGELU(),
                dropout=nn.Dropout(pdrop),
            )
        )
        m = self.mlp
        self.mlpf = lambda x: m["dropout"](m["c_proj"](m["act"](m["c_fc"](x))))

    def forward(self, x, layer_past=None, use_cache=False):
        attended, present = self.attn(self.ln_1(x), layer_past=layer_past, use_cache=use_cache)
        x = x + attended
        x = x + self.mlpf(self.ln_2(x))
        return x, present


class GPT(nn.Layer):
    def __init__(self, vocab_size=40, block_size=24, n_layer=2, n_head=2, n_embd=16, pdrop=0.1):
        super().__init__()
        self.block_size = block_size
        self.wte = nn.Embedding(vocab_size, n_embd)
        self.wpe = nn.Embedding(block_size, n_embd)
        self.drop = nn.Dropout(pdrop)
        self.h = nn.LayerList([Block(n_embd, n_head, block_size, pdrop) for _ in range(n_layer)])
        self.ln_f = nn.LayerNorm(n_embd)
        self.lm_head = nn.Linear(n_embd, vocab_size, bias_attr=False)

    def forward(self, input_ids, past_key_values=None, use_cache=False, labels=None):
        b, t = input_ids.shape
        if past_key_values is None:
            past_length = 0
            past_key_values = [None] * len(self.h)
        else:
            past_length = past_key_values[0][0].shape[-2]
        assert past_length + t <= self.block_size, f"Cannot forward sequence of length {past_length + t}"
        pos = paddle.arange(past_length, past_length + t, dtype="int64").unsqueeze(0)
        x = self.drop(self.wte(input_ids) + self.wpe(pos))
        presents = () if use_cache else None
        for block, past in zip(self.h, past_key_values):
            x, present = block(x, layer_past=past, use_cache=use_cache)
            if use_cache:
                presents += (present,)
        logits = self.lm_head(self.ln_f(x))
        output = {"logits": logits}
        if labels is not None:
            shifted, targets = logits[..., :-1, :], labels[..., 1:]
            output["loss"] = F.cross_entropy(
                shifted.reshape([-1, shifted.shape[-1]]), targets.reshape([-1]), ignore_index=-1
            )
        if use_cache:
            output["past_key_values"] = presents
        return output

    @paddle.no_grad()
    def generate(self, idx, max_new_tokens, temperature=1.0, top_k=None, do_sample=False, eos=None):
        past = None
        step_input = idx
        for _ in range(max_new_tokens):
            outputs = self(step_input, past_key_values=past, use_cache=True)
            past = outputs["past_key_values"]
            logits = outputs["logits"][:, -1, :] / temperature
            if top_k is not None:
                v, _ = paddle.topk(logits, top_k)
                logits = paddle.where(logits < v[:, [-1]], paddle.full_like(logits, -float("Inf")), logits)
            probs = F.softmax(logits, axis=-1)
            if do_sample:
                idx_next = paddle.multinomial(probs, num_samples=1)
            else:
                _, idx_next = paddle.topk(probs, k=1, axis=-1)
            idx = paddle.concat((idx, idx_next), axis=1)
            step_input = idx_next
            if eos is not None and bool((idx_next == eos).all()):
                break
        return idx


class LanguageModel(Task):
    def __init__(self):
        self.model = GPT()

    def batch(self, step):
        return (paddle.randint(0, 40, [3, 8]),)


@task
class WithCache(LanguageModel):
    title = "GPT"
    shows = "`past_key_values` handed from one call to the next, dict outputs, mask buffer, layers in a `LayerDict` behind a lambda"

    def predict(self, ids):
        prompt = self.model(ids[:, :5], use_cache=True)
        rest = self.model(input_ids=ids[:, 5:], past_key_values=prompt["past_key_values"], use_cache=True)
        return prompt, rest

    def loss(self, ids):
        return self.model(ids, labels=ids)["loss"]


@task
class Greedy(LanguageModel):
    title = "GPT, greedy generation"
    shows = "five steps of decoding with the cache, `@paddle.no_grad()` on the method; trained on a prefix"

    def predict(self, ids):
        return self.model.generate(ids, 5)

    def loss(self, ids):
        with paddle.no_grad():
            prefix = self.model(ids[:, :3], use_cache=True)["past_key_values"]
        return self.model(ids[:, 3:], past_key_values=prefix, labels=ids[:, 3:])["loss"]


@task
class Sampling(LanguageModel):
    title = "GPT, sampling"
    shows = "top-k filter by `v[:, [-1]]`, `multinomial`, stops at a token the model chooses"
    steps = 1
    eval_graphs, eval_breaks = 3, ("data-dependent-control-flow",) * 3

    def predict(self, ids):
        return self.model.generate(ids, 3, temperature=0.8, top_k=5, do_sample=True, eos=40)

    def loss(self, ids):
        return self.model(ids, labels=ids, use_cache=True)["loss"]
