"""Recurrent language models: `nn.LSTM` with tied weights and carried state, cells in a loop, a character GRU, a tagger with CRF."""

import paddle
import paddle.nn.functional as F
from paddle import nn

from . import Task, task


class RNNModel(nn.Layer):
    """The word-level language model of the PyTorch examples, as ported by many."""

    def __init__(self, rnn_type="LSTM", ntoken=20, ninp=8, nhid=8, nlayers=2, dropout=0.2, tie_weights=True):
        super().__init__()
        self.ntoken, self.rnn_type, self.nhid, self.nlayers = ntoken, rnn_type, nhid, nlayers
        self.drop = nn.Dropout(dropout)
        self.encoder = nn.Embedding(ntoken, ninp)
        if rnn_type in ["LSTM", "GRU"]:
            self.rnn = getattr(nn, rnn_type)(ninp, nhid, nlayers, dropout=dropout)
        else:
            activation = {"RNN_TANH": "tanh", "RNN_RELU": "relu"}[rnn_type]
            self.rnn = nn.SimpleRNN(ninp, nhid, nlayers, activation=activation, dropout=dropout)
        self.bias = self.create_parameter([ntoken], is_bias=True)
        if tie_weights and nhid != ninp:
            raise ValueError("When using the tied flag, nhid must be equal to emsize")

    def forward(self, input, hidden):
        emb = self.drop(self.encoder(input))
        output, hidden = self.rnn(emb, hidden)
        decoded = paddle.matmul(self.drop(output), self.encoder.weight, transpose_y=True) + self.bias
        return F.log_softmax(decoded.reshape([-1, self.ntoken]), axis=1), hidden

    def init_hidden(self, bsz):
        shape = [self.nlayers, bsz, self.nhid]
        if self.rnn_type == "LSTM":
            return (paddle.zeros(shape), paddle.zeros(shape))
        return paddle.zeros(shape)


def repackage_hidden(h):
    """Wraps hidden states in new tensors, to detach them from their history."""
    if isinstance(h, paddle.Tensor):
        return h.detach()
    return tuple(repackage_hidden(v) for v in h)


class WordLanguageModel(Task):
    rnn_type = ""

    def __init__(self):
        self.model = RNNModel(self.rnn_type)

    def batch(self, step):
        return (paddle.randint(0, 20, [3, 9]),)

    def predict(self, ids):
        hidden = self.model.init_hidden(ids.shape[0])
        return self.model(ids, hidden)

    def loss(self, ids):
        hidden, total = self.model.init_hidden(ids.shape[0]), 0.0
        for start in range(0, ids.shape[1] - 1, 4):
            hidden = repackage_hidden(hidden)
            data, target = ids[:, start : start + 4], ids[:, start + 1 : start + 5]
            output, hidden = self.model(data, hidden)
            total = total + F.nll_loss(output, target.reshape([-1]))
        return total


@task
class LSTM(WordLanguageModel):
    title = "LSTM language model"
    shows = "state carried and detached by a recursive function, tied weights, truncated backpropagation in the function"
    rnn_type = "LSTM"


@task
class SimpleRNN(WordLanguageModel):
    title = "RNN language model"
    shows = "kind of layer chosen by name"
    rnn_type = "RNN_TANH"
    steps = 5


class CharRNN(nn.Layer):
    def __init__(self, vocab=10, hidden=8):
        super().__init__()
        self.embed, self.cell, self.out = nn.Embedding(vocab, hidden), nn.LSTMCell(hidden, hidden), nn.Linear(hidden, vocab)
        self.hidden_state = None

    def reset(self):
        self.hidden_state = None

    def forward(self, token):
        _, self.hidden_state = self.cell(self.embed(token), self.hidden_state)
        return self.out(self.hidden_state[0])


@task
class Stateful(Task):
    title = "Character LSTM that keeps its state"
    shows = "hidden state as an attribute that `forward` writes, reset by a method"

    def __init__(self):
        self.model = CharRNN()

    def batch(self, step):
        return (paddle.randint(0, 10, [2, 5]),)

    def predict(self, ids):
        self.model.reset()
        logits = [self.model(token) for token in ids.unbind(1)]
        text = []
        for _ in range(3):
            text.append(logits[-1].argmax(-1))
            logits.append(self.model(text[-1]))
        return text, logits

    def loss(self, ids):
        self.model.reset()
        losses = []
        for t in range(ids.shape[1] - 1):
            losses.append(F.cross_entropy(self.model(ids[:, t]), ids[:, t + 1]))
        self.model.reset()
        return sum(losses) / len(losses)


class BiLSTMCRF(nn.Layer):
    def __init__(self, vocab=15, tags=4, hidden=8):
        super().__init__()
        self.tags = tags
        self.embed = nn.Embedding(vocab, hidden)
        self.lstm = nn.LSTM(hidden, hidden // 2, direction="bidirectional")
        self.hidden2tag = nn.Linear(hidden, tags)
        self.transitions = self.create_parameter([tags, tags])
        self.start, self.end = self.create_parameter([tags]), self.create_parameter([tags])

    def emissions(self, ids):
        return self.hidden2tag(self.lstm(self.embed(ids))[0])

    def score(self, emissions, tags, mask):
        arange = paddle.arange(emissions.shape[0])
        score = paddle.gather(self.start, tags[:, 0]) + emissions[arange, 0, tags[:, 0]]
        for i in range(1, emissions.shape[1]):
            step = self.transitions[tags[:, i - 1], tags[:, i]] + emissions[arange, i, tags[:, i]]
            score = score + step * mask[:, i]
        last = mask.sum(1).astype("int64") - 1
        return score + paddle.gather(self.end, tags[arange, last])

    def normalizer(self, emissions, mask):
        score = self.start + emissions[:, 0]
        for i in range(1, emissions.shape[1]):
            broadcast = score.unsqueeze(2) + self.transitions + emissions[:, i].unsqueeze(1)
            next_score = paddle.logsumexp(broadcast, axis=1)
            score = paddle.where(mask[:, i].unsqueeze(1).astype("bool"), next_score, score)
        return paddle.logsumexp(score + self.end, axis=1)

    def forward(self, ids, tags, mask):
        emissions = self.emissions(ids)
        return (self.normalizer(emissions, mask) - self.score(emissions, tags, mask)).mean()

    def viterbi(self, ids):
        emissions = self.emissions(ids)
        score, history = self.start + emissions[:, 0], []
        for i in range(1, emissions.shape[1]):
            best, index = (score.unsqueeze(2) + self.transitions).max(1), (score.unsqueeze(2) + self.transitions).argmax(1)
            score = best + emissions[:, i]
            history.append(index)
        best = (score + self.end).argmax(-1, keepdim=True)
        path = [best]
        for index in reversed(history):
            path.insert(0, paddle.take_along_axis(index, path[0], axis=1))
        return paddle.concat(path, axis=1)


@task
class Tagger(Task):
    title = "BiLSTM-CRF"
    shows = "forward algorithm and Viterbi as loops, indexing by several tensors, lists built from the end"

    def __init__(self):
        self.model = BiLSTMCRF()

    def batch(self, step):
        mask = paddle.to_tensor([[1.0] * 5, [1.0] * 3 + [0.0] * 2, [1.0] * 4 + [0.0]])
        return paddle.randint(0, 15, [3, 5]), paddle.randint(0, 4, [3, 5]), mask

    def predict(self, ids, tags, mask):
        return self.model.viterbi(ids)

    def loss(self, ids, tags, mask):
        return self.model(ids, tags, mask)
