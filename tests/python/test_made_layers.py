"""Layers made in the function: those that are settings and a `forward` are made while tracing."""

import paddle
import pytest
from paddle import nn

import sot


def loss(x, y):
    return nn.CrossEntropyLoss(label_smoothing=0.1)(x, y)


def activations(x, y):
    return nn.Softmax(axis=-1)(nn.GELU(approximate=True)(nn.LeakyReLU(0.1)(x))), nn.Flatten()(x), nn.Dropout(0.5)(x)


def several(x, y):
    one, other = nn.Sigmoid(), nn.Sigmoid()
    return one is other, one == other, [nn.Sigmoid()(x) for _ in range(2)], type(one).__name__, one.training


def unknown_settings(x, y):
    return nn.CrossEntropyLoss(weight=paddle.ones([5]))(x, y)


def over_a_break(x, y):
    criterion = nn.CrossEntropyLoss(reduction="sum")
    first = criterion(x, y)
    if first > 1000:
        return first
    return criterion(x * 2, y)


def written_to(x, y):
    dropout = nn.Dropout(0.5)
    dropout.eval()
    dropout.p = 0.25
    return dropout(x), dropout.training, dropout.p, dropout.__dict__["mode"]


def with_parameters(x, y):
    return nn.Linear(5, 2, weight_attr=nn.initializer.Constant(0.5))(x)


def with_layers(x, y):
    return nn.Sequential(nn.ReLU(), nn.Sigmoid())(x)


def refused(x, y):
    try:
        nn.CrossEntropyLoss(reduction="none at all")
    except ValueError as error:
        return x + 1, str(error)


@pytest.mark.parametrize(
    "fn, graphs, breaks",
    [
        (loss, 1, 0),
        (activations, 1, 0),
        (several, 1, 0),
        (refused, None, 0),
        (unknown_settings, 2, 1),
        (over_a_break, 2, 1),
        (with_parameters, None, 1),
        (with_layers, None, 1),
        (written_to, None, None),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_layers_made_in_the_function(fn, graphs, breaks, same):
    x, y = paddle.randn([4, 5]), paddle.randint(0, 5, [4])
    fast = sot.symbolic_translate(fn)
    for call in range(3):
        paddle.seed(1)
        expected = fn(x, y)
        paddle.seed(1)
        same(fast(x, y), expected)
        stats = sot.stats()
        if call == 0:
            first = stats
    # Paddle 3.0 makes parameters in functions that it writes as text with `inspect`.
    assert not stats.fallbacks or (fn is with_parameters and paddle.__version__.startswith("3.0"))
    assert breaks is None or sum(first.breaks.values()) == breaks
    if graphs is not None:
        assert first.graphs == graphs and stats.translations == first.translations, f"\n{stats}"


def returned(x):
    layer = nn.MSELoss(reduction="sum")
    return layer, layer(x, x + 1)


def test_a_layer_that_is_returned_is_a_new_one_each_time(same):
    x = paddle.ones([3])
    fast = sot.symbolic_translate(returned)
    layers = []
    for _ in range(3):
        layer, value = fast(x)
        same(value, returned(x)[1])
        assert type(layer) is nn.MSELoss and layer.reduction == "sum" and layer.training
        same(layer(x, x + 2), returned(x)[0](x, x + 2))
        layers.append(layer)
    assert layers[0] is not layers[1] and layers[1] is not layers[2]
    assert sot.stats().graphs == 1 and not sot.stats().breaks and not sot.stats().fallbacks
