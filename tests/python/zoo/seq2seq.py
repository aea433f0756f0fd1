"""Sequence to sequence: encoder and decoder with attention, teacher forcing, greedy and beam decoding; `nn.Transformer`."""

import math

import paddle
import paddle.nn.functional as F
from paddle import nn

from . import Task, task

PAD, SOS, EOS = 0, 1, 2


class EncoderRNN(nn.Layer):
    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.hidden_size = hidden_size
        self.embedding = nn.Embedding(input_size, hidden_size)
        self.gru = nn.GRU(hidden_size, hidden_size, direction="bidirect")
        self.bridge = nn.Linear(2 * hidden_size, hidden_size)

    def forward(self, input, lengths=None):
        embedded = self.embedding(input)
        outputs, hidden = self.gru(embedded, sequence_length=lengths)
        hidden = paddle.tanh(self.bridge(paddle.concat([hidden[0], hidden[1]], axis=-1)))
        return outputs, hidden


class BahdanauAttention(nn.Layer):
    def __init__(self, hidden_size):
        super().__init__()
        self.Wa = nn.Linear(hidden_size, hidden_size)
        self.Ua = nn.Linear(2 * hidden_size, hidden_size)
        self.Va = nn.Linear(hidden_size, 1)

    def forward(self, query, keys, mask=None):
        scores = self.Va(paddle.tanh(self.Wa(query).unsqueeze(1) + self.Ua(keys))).squeeze(2)
        if mask is not None:
            scores = paddle.where(mask, scores, paddle.full_like(scores, -1e9))
        weights = F.softmax(scores, axis=-1)
        context = paddle.bmm(weights.unsqueeze(1), keys).squeeze(1)
        return context, weights


class AttnDecoderRNN(nn.Layer):
    def __init__(self, hidden_size, output_size):
        super().__init__()
        self.embedding = nn.Embedding(output_size, hidden_size)
        self.attention = BahdanauAttention(hidden_size)
        self.cell = nn.GRUCell(3 * hidden_size, hidden_size)
        self.out = nn.Linear(hidden_size, output_size)
        self.dropout = nn.Dropout(0.1)

    def forward(self, encoder_outputs, hidden, mask=None, target=None, max_length=6, teacher_forcing=True):
        batch_size = encoder_outputs.shape[0]
        decoder_input = paddle.full([batch_size], SOS, dtype="int64")
        outputs, attentions = [], []
        steps = max_length if target is None else target.shape[1]
        for t in range(steps):
            embedded = self.dropout(self.embedding(decoder_input))
            context, weights = self.attention(hidden, encoder_outputs, mask)
            output, hidden = self.cell(paddle.concat((embedded, context), axis=1), hidden)
            logits = self.out(output)
            outputs.append(logits)
            attentions.append(weights)
            if target is not None and teacher_forcing:
                decoder_input = target[:, t]
            else:
                decoder_input = logits.argmax(axis=-1).detach()
        return F.log_softmax(paddle.stack(outputs, axis=1), axis=-1), hidden, paddle.stack(attentions, axis=1)


class Seq2Seq(nn.Layer):
    def __init__(self, vocab=12, hidden=8):
        super().__init__()
        self.encoder, self.decoder = EncoderRNN(vocab, hidden), AttnDecoderRNN(hidden, vocab)

    def forward(self, src, lengths, trg=None, **kwargs):
        mask = paddle.arange(src.shape[1]).unsqueeze(0) < lengths.unsqueeze(1)
        encoder_outputs, hidden = self.encoder(src, lengths)
        return self.decoder(encoder_outputs, hidden, mask, target=trg, **kwargs)


@task
class Translation(Task):
    title = "Seq2seq with attention"
    shows = "bidirectional GRU with lengths, loop over time steps with teacher forcing, lists stacked at the end"

    def __init__(self):
        self.model = Seq2Seq()

    def batch(self, step):
        src, trg = paddle.randint(3, 12, [3, 6]), paddle.randint(3, 12, [3, 5])
        return src, paddle.to_tensor([6, 4, 5]), trg

    def predict(self, src, lengths, trg):
        log_probs, _, attentions = self.model(src, lengths, max_length=4)
        return log_probs.argmax(axis=-1), attentions

    def loss(self, src, lengths, trg):
        log_probs, _, _ = self.model(src, lengths, trg, teacher_forcing=True)
        loss = F.nll_loss(log_probs.reshape([-1, log_probs.shape[-1]]), trg.reshape([-1]), reduction="none")
        mask = (trg.reshape([-1]) != PAD).astype(loss.dtype)
        return (loss * mask).sum() / mask.sum()


@task
class BeamSearch(Translation):
    title = "Seq2seq, beam search"
    shows = "scores in Python lists, `topk` over beams, states gathered by beam"

    def predict(self, src, lengths, trg, beam=3):
        decoder = self.model.decoder
        batch = src.shape[0]
        mask = paddle.arange(src.shape[1]).unsqueeze(0) < lengths.unsqueeze(1)
        keys, hidden = self.model.encoder(src, lengths)
        keys = paddle.repeat_interleave(keys, beam, axis=0)
        mask = paddle.repeat_interleave(mask.astype("int32"), beam, axis=0).astype("bool")
        hidden = hidden.repeat_interleave(beam, 0)
        tokens = paddle.full([batch, beam, 1], SOS, dtype="int64")
        scores = paddle.concat([paddle.zeros([batch, 1]), paddle.full([batch, beam - 1], -1e9)], axis=1)
        offsets = (paddle.arange(batch) * beam).unsqueeze(1)
        for _ in range(4):
            embedded = decoder.embedding(tokens[:, :, -1].reshape([-1]))
            context, _ = decoder.attention(hidden, keys, mask)
            output, hidden = decoder.cell(paddle.concat([embedded, context], axis=1), hidden)
            log_probs = F.log_softmax(decoder.out(output), axis=-1).reshape([batch, beam, -1])
            vocab = log_probs.shape[-1]
            scores, index = paddle.topk((scores.unsqueeze(-1) + log_probs).reshape([batch, -1]), beam, axis=-1)
            origin, token = index // vocab, index % vocab
            hidden = paddle.gather(hidden, (origin + offsets).reshape([-1]))
            tokens = paddle.take_along_axis(tokens, origin.unsqueeze(-1).expand_as(tokens), axis=1)
            tokens = paddle.concat([tokens, token.unsqueeze(-1)], axis=-1)
        best = tokens[:, 0].numpy() if False else tokens[:, 0]
        return {"tokens": best, "scores": scores}

    def loss(self, src, lengths, trg):
        log_probs = self.model(src, lengths, trg, teacher_forcing=False)[0]
        return -paddle.take_along_axis(log_probs, trg.unsqueeze(-1), axis=-1).mean()


class PositionalEncoding(nn.Layer):
    def __init__(self, d_model, dropout=0.1, max_len=50):
        super().__init__()
        self.dropout = nn.Dropout(p=dropout)
        position = paddle.arange(max_len, dtype="float32").unsqueeze(1)
        div_term = paddle.exp(paddle.arange(0, d_model, 2, dtype="float32") * (-math.log(10000.0) / d_model))
        pe = paddle.zeros([max_len, d_model])
        pe[:, 0::2] = paddle.sin(position * div_term)
        pe[:, 1::2] = paddle.cos(position * div_term)
        self.register_buffer("pe", pe.unsqueeze(0))

    def forward(self, x):
        return self.dropout(x + self.pe[:, : x.shape[1]].detach())


class TransformerModel(nn.Layer):
    def __init__(self, vocab=12, d_model=8):
        super().__init__()
        self.src_emb, self.trg_emb = nn.Embedding(vocab, d_model), nn.Embedding(vocab, d_model)
        self.position = PositionalEncoding(d_model)
        self.transformer = nn.Transformer(d_model, 2, 1, 1, 16, dropout=0.1)
        self.scale = d_model**0.5
        self.project = nn.Linear(d_model, vocab)

    def forward(self, src, trg):
        length = trg.shape[1]
        trg_mask = self.transformer.generate_square_subsequent_mask(length)
        src_mask = paddle.where(src == PAD, -1e9, 0.0).astype("float32").unsqueeze([1, 2])
        src_mask.stop_gradient = True
        src_emb = self.position(self.src_emb(src) * self.scale)
        trg_emb = self.position(self.trg_emb(trg) * self.scale)
        out = self.transformer(src_emb, trg_emb, src_mask=src_mask, tgt_mask=trg_mask, memory_mask=src_mask)
        return self.project(out)


@task
class Transformer(Task):
    title = "Transformer"
    shows = "`nn.Transformer` with masks, greedy decoding in a loop, positional encoding in a buffer"

    def __init__(self):
        self.model = TransformerModel()

    def batch(self, step):
        src = paddle.randint(3, 12, [2, 5])
        src[1, 3:] = PAD
        return src, paddle.randint(3, 12, [2, 5])

    def predict(self, src, trg):
        tokens = paddle.full([src.shape[0], 1], SOS, dtype=src.dtype)
        for _ in range(2):
            logits = self.model(src, tokens)
            tokens = paddle.concat([tokens, logits[:, -1:].argmax(-1)], axis=1)
        return tokens

    def loss(self, src, trg):
        logits = self.model(src, trg[:, :-1])
        return F.cross_entropy(logits, trg[:, 1:].unsqueeze(-1), ignore_index=PAD, soft_label=False)
