"""BERT: a configuration with `**kwargs`, an additive mask, outputs that are dict, dataclass and tuple at once."""

import math
from collections import OrderedDict
from dataclasses import dataclass, fields
from typing import Optional, Tuple

import paddle
from paddle import nn

from . import Task, task


class Config:
    def __init__(self, vocab_size=60, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, **kwargs):
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.num_hidden_layers = num_hidden_layers
        self.num_attention_heads = num_attention_heads
        self.intermediate_size = kwargs.pop("intermediate_size", 32)
        self.hidden_dropout_prob = kwargs.pop("hidden_dropout_prob", 0.1)
        self.hidden_act = kwargs.pop("hidden_act", "gelu")
        self.type_vocab_size = kwargs.pop("type_vocab_size", 2)
        self.initializer_range = kwargs.pop("initializer_range", 0.02)
        self.use_return_dict = kwargs.pop("return_dict", True)
        for key, value in kwargs.items():
            setattr(self, key, value)


class ModelOutput(OrderedDict):
    """Fields by name, by key and by position; what is `None` is left out."""

    def __post_init__(self):
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None:
                self[field.name] = value

    def __getitem__(self, key):
        if isinstance(key, str):
            return dict(self.items())[key]
        return self.to_tuple()[key]

    def __setattr__(self, name, value):
        if name in self.keys() and value is not None:
            super().__setitem__(name, value)
        super().__setattr__(name, value)

    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        super().__setattr__(key, value)

    def to_tuple(self):
        return tuple(self[key] for key in self.keys())


@dataclass
class EncoderOutput(ModelOutput):
    last_hidden_state: paddle.Tensor = None
    pooler_output: Optional[paddle.Tensor] = None
    hidden_states: Optional[Tuple[paddle.Tensor]] = None
    attentions: Optional[Tuple[paddle.Tensor]] = None


@dataclass
class MaskedLMOutput(ModelOutput):
    loss: Optional[paddle.Tensor] = None
    logits: paddle.Tensor = None
    hidden_states: Optional[Tuple[paddle.Tensor]] = None


ACT2FN = {"gelu": nn.functional.gelu, "relu": nn.functional.relu, "tanh": paddle.tanh}


class Embeddings(nn.Layer):
    def __init__(self, config):
        super().__init__()
        self.word_embeddings = nn.Embedding(config.vocab_size, config.hidden_size, padding_idx=0)
        self.position_embeddings = nn.Embedding(32, config.hidden_size)
        self.token_type_embeddings = nn.Embedding(config.type_vocab_size, config.hidden_size)
        self.layer_norm = nn.LayerNorm(config.hidden_size, epsilon=1e-12)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.register_buffer("position_ids", paddle.arange(32).unsqueeze(0), persistable=False)

    def forward(self, input_ids=None, token_type_ids=None, position_ids=None, past_length=0):
        input_shape = input_ids.shape
        seq_length = input_shape[1]
        if position_ids is None:
            position_ids = self.position_ids[:, past_length : seq_length + past_length]
        if token_type_ids is None:
            token_type_ids = paddle.zeros(input_shape, dtype="int64")
        embeddings = self.word_embeddings(input_ids) + self.position_embeddings(position_ids)
        embeddings += self.token_type_embeddings(token_type_ids)
        return self.dropout(self.layer_norm(embeddings))


class SelfAttention(nn.Layer):
    def __init__(self, config):
        super().__init__()
        if config.hidden_size % config.num_attention_heads != 0:
            raise ValueError(f"{config.hidden_size} is not a multiple of {config.num_attention_heads}")
        self.num_attention_heads = config.num_attention_heads
        self.attention_head_size = int(config.hidden_size / config.num_attention_heads)
        self.all_head_size = self.num_attention_heads * self.attention_head_size
        self.query = nn.Linear(config.hidden_size, self.all_head_size)
        self.key = nn.Linear(config.hidden_size, self.all_head_size)
        self.value = nn.Linear(config.hidden_size, self.all_head_size)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def transpose_for_scores(self, x):
        new_shape = x.shape[:-1] + [self.num_attention_heads, self.attention_head_size]
        return x.reshape(new_shape).transpose([0, 2, 1, 3])

    def forward(self, hidden_states, attention_mask=None, head_mask=None, output_attentions=False):
        mixed_query = self.query(hidden_states)
        key = self.transpose_for_scores(self.key(hidden_states))
        value = self.transpose_for_scores(self.value(hidden_states))
        query = self.transpose_for_scores(mixed_query)
        scores = paddle.matmul(query, key, transpose_y=True) / math.sqrt(self.attention_head_size)
        if attention_mask is not None:
            scores = scores + attention_mask
        probs = self.dropout(nn.functional.softmax(scores, axis=-1))
        if head_mask is not None:
            probs = probs * head_mask
        context = paddle.matmul(probs, value).transpose([0, 2, 1, 3])
        context = context.reshape(context.shape[:-2] + [self.all_head_size])
        return (context, probs) if output_attentions else (context,)


class BertLayer(nn.Layer):
    def __init__(self, config):
        super().__init__()
        self.attention = SelfAttention(config)
        self.output = nn.Linear(config.hidden_size, config.hidden_size)
        self.norm1 = nn.LayerNorm(config.hidden_size)
        self.up = nn.Linear(config.hidden_size, config.intermediate_size)
        self.down = nn.Linear(config.intermediate_size, config.hidden_size)
        self.norm2 = nn.LayerNorm(config.hidden_size)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.act = ACT2FN[config.hidden_act] if isinstance(config.hidden_act, str) else config.hidden_act

    def forward(self, hidden_states, attention_mask=None, head_mask=None, output_attentions=False):
        self_outputs = self.attention(hidden_states, attention_mask, head_mask, output_attentions)
        outputs = self_outputs[1:]
        attended = self.norm1(self.dropout(self.output(self_outputs[0])) + hidden_states)
        layer_output = self.norm2(self.dropout(self.down(self.act(self.up(attended)))) + attended)
        return (layer_output,) + outputs


class Encoder(nn.Layer):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.layer = nn.LayerList([BertLayer(config) for _ in range(config.num_hidden_layers)])

    def forward(self, hidden_states, attention_mask=None, head_mask=None, output_attentions=False, output_hidden_states=False):
        all_hidden_states = () if output_hidden_states else None
        all_attentions = () if output_attentions else None
        for i, layer_module in enumerate(self.layer):
            if output_hidden_states:
                all_hidden_states = all_hidden_states + (hidden_states,)
            mask = head_mask[i] if head_mask is not None else None
            outputs = layer_module(hidden_states, attention_mask, mask, output_attentions)
            hidden_states = outputs[0]
            if output_attentions:
                all_attentions = all_attentions + (outputs[1],)
        if output_hidden_states:
            all_hidden_states = all_hidden_states + (hidden_states,)
        return EncoderOutput(
            last_hidden_state=hidden_states, hidden_states=all_hidden_states, attentions=all_attentions
        )


class BertModel(nn.Layer):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.embeddings = Embeddings(config)
        self.encoder = Encoder(config)
        self.pooler = nn.Linear(config.hidden_size, config.hidden_size)

    def get_extended_attention_mask(self, attention_mask):
        if attention_mask.dim() == 3:
            extended = attention_mask[:, None, :, :]
        elif attention_mask.dim() == 2:
            extended = attention_mask[:, None, None, :]
        else:
            raise ValueError(f"Wrong shape for attention_mask (shape {attention_mask.shape})")
        extended = extended.astype(paddle.get_default_dtype())
        return (1.0 - extended) * -1e4

    def forward(self, input_ids, attention_mask=None, token_type_ids=None, return_dict=None, **kwargs):
        return_dict = return_dict if return_dict is not None else self.config.use_return_dict
        if attention_mask is None:
            attention_mask = paddle.ones(input_ids.shape)
        extended = self.get_extended_attention_mask(attention_mask)
        hidden = self.embeddings(input_ids=input_ids, token_type_ids=token_type_ids)
        encoded = self.encoder(hidden, attention_mask=extended, **kwargs)
        sequence_output = encoded[0]
        pooled = paddle.tanh(self.pooler(sequence_output[:, 0]))
        if not return_dict:
            return (sequence_output, pooled) + encoded[1:]
        return EncoderOutput(
            last_hidden_state=sequence_output,
            pooler_output=pooled,
            hidden_states=encoded.hidden_states,
            attentions=encoded.attentions,
        )


class BertForMaskedLM(nn.Layer):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.bert = BertModel(config)
        self.transform = nn.Linear(config.hidden_size, config.hidden_size)
        self.norm = nn.LayerNorm(config.hidden_size)
        self.bias = self.create_parameter([config.vocab_size], is_bias=True)
        self.apply(self._init_weights)

    def _init_weights(self, module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            module.weight.set_value(paddle.normal(0.0, self.config.initializer_range, module.weight.shape))

    def forward(self, input_ids, attention_mask=None, labels=None, **kwargs):
        outputs = self.bert(input_ids, attention_mask=attention_mask, **kwargs)
        hidden = self.norm(nn.functional.gelu(self.transform(outputs.last_hidden_state)))
        decoder = self.bert.embeddings.word_embeddings.weight
        logits = paddle.matmul(hidden, decoder, transpose_y=True) + self.bias
        loss = None
        if labels is not None:
            loss_fct = nn.CrossEntropyLoss(ignore_index=-100)
            loss = loss_fct(logits.reshape([-1, self.config.vocab_size]), labels.reshape([-1]))
        return MaskedLMOutput(loss=loss, logits=logits, hidden_states=outputs.hidden_states)


@task
class MaskedLM(Task):
    title = "BERT"
    shows = "`ModelOutput` (an `OrderedDict` and a dataclass), `**kwargs`, additive mask, tied decoder"

    def __init__(self):
        self.model = BertForMaskedLM(Config(num_hidden_layers=2, layer_norm_eps=1e-12))

    def batch(self, step):
        ids = paddle.randint(1, 60, [4, 9])
        mask = (paddle.arange(9) < paddle.to_tensor([[9], [7], [5], [9]])).astype("int64")
        labels = paddle.where(paddle.rand([4, 9]) < 0.3, ids, paddle.full_like(ids, -100))
        return ids, mask, labels

    def predict(self, ids, mask, labels):
        return self.model(ids, attention_mask=mask, output_attentions=True, output_hidden_states=True)

    def loss(self, ids, mask, labels):
        return self.model(ids, attention_mask=mask, labels=labels).loss


class BertForSequenceClassification(nn.Layer):
    def __init__(self, config, num_labels=3):
        super().__init__()
        self.num_labels = num_labels
        self.bert = BertModel(config)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.classifier = nn.Linear(config.hidden_size, num_labels)

    def forward(self, input_ids, labels=None, return_dict=False, **kwargs):
        outputs = self.bert(input_ids, return_dict=return_dict, **kwargs)
        logits = self.classifier(self.dropout(outputs[1]))
        loss = None
        if labels is not None:
            if self.num_labels == 1:
                loss = nn.MSELoss()(logits.squeeze(), labels.squeeze())
            else:
                loss = nn.CrossEntropyLoss()(logits.reshape((-1, self.num_labels)), labels.reshape((-1,)))
        output = (logits,) + outputs[2:]
        return ((loss,) + output) if loss is not None else output


@task
class Classification(Task):
    title = "BERT, classification"
    shows = "tuples of varying length, `head_mask`, losses made in `forward`"

    def __init__(self):
        self.model = BertForSequenceClassification(Config(num_hidden_layers=1, hidden_act="relu"))

    def batch(self, step):
        return paddle.randint(0, 60, [4, 6]), paddle.randint(0, 3, [4])

    def predict(self, ids, labels):
        head_mask = [paddle.ones([1, 2, 1, 1])]
        return self.model(ids, token_type_ids=paddle.zeros_like(ids), head_mask=head_mask, output_attentions=True)

    def loss(self, ids, labels):
        loss, logits = self.model(ids, labels=labels, attention_mask=paddle.ones([4, 6, 6]))[:2]
        return loss
