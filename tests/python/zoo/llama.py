"""LLaMA: rotary embeddings with a cache that grows, RMS norm, grouped queries, a cache object with lists."""

from dataclasses import dataclass, field
from typing import List, Optional, Tuple

import paddle
import paddle.nn.functional as F
from paddle import nn

from . import Task, task


@dataclass
class LlamaConfig:
    vocab_size: int = 40
    hidden_size: int = 16
    intermediate_size: int = 40
    num_hidden_layers: int = 2
    num_attention_heads: int = 4
    num_key_value_heads: Optional[int] = 2
    max_position_embeddings: int = 8
    rms_norm_eps: float = 1e-6
    rope_theta: float = 10000.0

    @property
    def head_dim(self):
        return self.hidden_size // self.num_attention_heads


@dataclass
class CausalLMOutput:
    logits: paddle.Tensor
    loss: Optional[paddle.Tensor] = None
    past_key_values: Optional["DynamicCache"] = None
    extra: dict = field(default_factory=dict)


class DynamicCache:
    """Keys and values of all layers, which grow by what each call adds."""

    def __init__(self):
        self.key_cache: List[paddle.Tensor] = []
        self.value_cache: List[paddle.Tensor] = []
        self._seen_tokens = 0

    def update(self, key_states, value_states, layer_idx: int) -> Tuple[paddle.Tensor, paddle.Tensor]:
        if layer_idx == 0:
            self._seen_tokens += key_states.shape[-2]
        if len(self.key_cache) <= layer_idx:
            self.key_cache.append(key_states)
            self.value_cache.append(value_states)
        else:
            self.key_cache[layer_idx] = paddle.concat([self.key_cache[layer_idx], key_states], axis=-2)
            self.value_cache[layer_idx] = paddle.concat([self.value_cache[layer_idx], value_states], axis=-2)
        return self.key_cache[layer_idx], self.value_cache[layer_idx]

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return self.key_cache[layer_idx].shape[-2] if len(self.key_cache) > layer_idx else 0

    def __len__(self):
        return len(self.key_cache)


class LlamaRMSNorm(nn.Layer):
    def __init__(self, hidden_size, eps=1e-6):
        super().__init__()
        self.weight = self.create_parameter([hidden_size], default_initializer=nn.initializer.Constant(1.0))
        self.variance_epsilon = eps

    def forward(self, hidden_states):
        input_dtype = hidden_states.dtype
        hidden_states = hidden_states.astype("float32")
        variance = hidden_states.pow(2).mean(-1, keepdim=True)
        hidden_states = hidden_states * paddle.rsqrt(variance + self.variance_epsilon)
        return self.weight * hidden_states.astype(input_dtype)


class RotaryEmbedding(nn.Layer):
    def __init__(self, dim, max_position_embeddings=2048, base=10000):
        super().__init__()
        self.dim = dim
        inv_freq = 1.0 / (base ** (paddle.arange(0, dim, 2).astype("float32") / dim))
        self.register_buffer("inv_freq", inv_freq, persistable=False)
        self._set_cos_sin_cache(seq_len=max_position_embeddings)

    def _set_cos_sin_cache(self, seq_len):
        self.max_seq_len_cached = seq_len
        t = paddle.arange(seq_len, dtype=self.inv_freq.dtype)
        freqs = paddle.einsum("i,j->ij", t, self.inv_freq)
        emb = paddle.concat([freqs, freqs], axis=-1)
        self.cos_cached = emb.cos()
        self.sin_cached = emb.sin()

    def forward(self, x, seq_len=None):
        if seq_len > self.max_seq_len_cached:
            self._set_cos_sin_cache(seq_len=seq_len)
        return self.cos_cached[:seq_len].astype(x.dtype), self.sin_cached[:seq_len].astype(x.dtype)


def rotate_half(x):
    x1 = x[..., : x.shape[-1] // 2]
    x2 = x[..., x.shape[-1] // 2 :]
    return paddle.concat((-x2, x1), axis=-1)


def apply_rotary_pos_emb(q, k, cos, sin, position_ids, unsqueeze_dim=1):
    cos = cos[position_ids].unsqueeze(unsqueeze_dim)
    sin = sin[position_ids].unsqueeze(unsqueeze_dim)
    return (q * cos) + (rotate_half(q) * sin), (k * cos) + (rotate_half(k) * sin)


def repeat_kv(hidden_states, n_rep: int):
    batch, num_key_value_heads, slen, head_dim = hidden_states.shape
    if n_rep == 1:
        return hidden_states
    hidden_states = hidden_states[:, :, None, :, :].expand([batch, num_key_value_heads, n_rep, slen, head_dim])
    return hidden_states.reshape([batch, num_key_value_heads * n_rep, slen, head_dim])


class LlamaAttention(nn.Layer):
    def __init__(self, config: LlamaConfig, layer_idx: int):
        super().__init__()
        self.config, self.layer_idx = config, layer_idx
        self.num_heads, self.num_key_value_heads = config.num_attention_heads, config.num_key_value_heads
        self.num_key_value_groups = self.num_heads // self.num_key_value_heads
        self.head_dim = config.head_dim
        width = config.hidden_size
        self.q_proj = nn.Linear(width, self.num_heads * self.head_dim, bias_attr=False)
        self.k_proj = nn.Linear(width, self.num_key_value_heads * self.head_dim, bias_attr=False)
        self.v_proj = nn.Linear(width, self.num_key_value_heads * self.head_dim, bias_attr=False)
        self.o_proj = nn.Linear(width, width, bias_attr=False)
        self.rotary_emb = RotaryEmbedding(self.head_dim, config.max_position_embeddings, base=config.rope_theta)

    def forward(self, hidden_states, attention_mask=None, position_ids=None, past_key_value=None):
        bsz, q_len, _ = hidden_states.shape
        q = self.q_proj(hidden_states).reshape([bsz, q_len, self.num_heads, -1]).transpose([0, 2, 1, 3])
        k = self.k_proj(hidden_states).reshape([bsz, q_len, self.num_key_value_heads, -1]).transpose([0, 2, 1, 3])
        v = self.v_proj(hidden_states).reshape([bsz, q_len, self.num_key_value_heads, -1]).transpose([0, 2, 1, 3])
        kv_seq_len = k.shape[-2]
        if past_key_value is not None:
            kv_seq_len += past_key_value.get_seq_length(self.layer_idx)
        cos, sin = self.rotary_emb(v, seq_len=kv_seq_len)
        q, k = apply_rotary_pos_emb(q, k, cos, sin, position_ids)
        if past_key_value is not None:
            k, v = past_key_value.update(k, v, self.layer_idx)
        k, v = repeat_kv(k, self.num_key_value_groups), repeat_kv(v, self.num_key_value_groups)
        weights = paddle.einsum("bhqd,bhkd->bhqk", q, k) / (self.head_dim**0.5)
        if attention_mask is not None:
            if tuple(attention_mask.shape) != (bsz, 1, q_len, kv_seq_len):
                raise ValueError(f"Attention mask should be of size {(bsz, 1, q_len, kv_seq_len)}")
            weights = weights + attention_mask
        weights = F.softmax(weights.astype("float32"), axis=-1).astype(q.dtype)
        out = paddle.einsum("bhqk,bhkd->bqhd", weights, v)
        return self.o_proj(out.reshape([bsz, q_len, self.config.hidden_size]))


class LlamaMLP(nn.Layer):
    def __init__(self, config):
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias_attr=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias_attr=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias_attr=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class LlamaDecoderLayer(nn.Layer):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.self_attn = LlamaAttention(config, layer_idx)
        self.mlp = LlamaMLP(config)
        self.input_layernorm = LlamaRMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.post_attention_layernorm = LlamaRMSNorm(config.hidden_size, eps=config.rms_norm_eps)

    def forward(self, hidden_states, **kwargs):
        hidden_states = hidden_states + self.self_attn(self.input_layernorm(hidden_states), **kwargs)
        return hidden_states + self.mlp(self.post_attention_layernorm(hidden_states))


class LlamaForCausalLM(nn.Layer):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.LayerList([LlamaDecoderLayer(config, i) for i in range(config.num_hidden_layers)])
        self.norm = LlamaRMSNorm(config.hidden_size)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias_attr=False)

    def _prepare_decoder_attention_mask(self, attention_mask, bsz, q_len, past):
        total = q_len + past
        mask = paddle.full([q_len, total], paddle.finfo(paddle.float32).min)
        mask = paddle.triu(mask, diagonal=1 + past)[None, None].expand([bsz, 1, q_len, total])
        if attention_mask is not None:
            padding = (1.0 - attention_mask[:, None, None, :].astype("float32")) * paddle.finfo(paddle.float32).min
            mask = paddle.maximum(mask + padding, paddle.full_like(mask, paddle.finfo(paddle.float32).min))
        return mask

    def forward(self, input_ids, attention_mask=None, past_key_values=None, use_cache=None, labels=None):
        bsz, seq_length = input_ids.shape[:2]
        past = 0
        if use_cache:
            past_key_values = DynamicCache() if past_key_values is None else past_key_values
            past = past_key_values.get_seq_length()
        position_ids = paddle.arange(past, seq_length + past, dtype="int64").unsqueeze(0)
        mask = self._prepare_decoder_attention_mask(attention_mask, bsz, seq_length, past)
        hidden_states = self.embed_tokens(input_ids)
        for decoder_layer in self.layers:
            hidden_states = decoder_layer(
                hidden_states, attention_mask=mask, position_ids=position_ids, past_key_value=past_key_values
            )
        logits = self.lm_head(self.norm(hidden_states)).astype("float32")
        loss = None
        if labels is not None:
            shift_logits, shift_labels = logits[..., :-1, :], labels[..., 1:]
            loss = nn.CrossEntropyLoss()(
                shift_logits.reshape([-1, self.config.vocab_size]), shift_labels.reshape([-1])
            )
        return CausalLMOutput(logits, loss, past_key_values if use_cache else None)


@task
class CausalLM(Task):
    title = "LLaMA"
    shows = "rotary cache that is grown in `forward`, cache object with lists, dataclass configuration and outputs, `einsum`"

    settles = 2  # The rotary cache has grown.

    def __init__(self):
        self.model = LlamaForCausalLM(LlamaConfig())

    def batch(self, step):
        return paddle.randint(0, 40, [2, 7]), paddle.to_tensor([[1] * 7, [1] * 5 + [0] * 2])

    def predict(self, ids, mask):
        output = self.model(ids, mask, use_cache=True)
        for _ in range(2):
            token = output.logits[:, -1:].argmax(-1)
            output = self.model(token, past_key_values=output.past_key_values, use_cache=True)
        return output.logits, output.past_key_values.key_cache, len(output.past_key_values)

    def loss(self, ids, mask):
        return self.model(ids, attention_mask=mask, labels=ids).loss
