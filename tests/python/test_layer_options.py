"""Gradients of layers with each of their options, beside eager mode: without a weight, without a bias, with a sparse gradient, frozen, in
both modes. Graphs of every size become programs.
"""

import inspect

import numpy
import paddle
import pytest
from paddle import nn

import sot

pytestmark = pytest.mark.divided

# The class, the options that it needs, and the shape of its input.
LAYERS = {
    "BatchNorm1D": (nn.BatchNorm1D, {"num_features": 3}, [2, 3, 4]),
    "BatchNorm2D": (nn.BatchNorm2D, {"num_features": 3}, [2, 3, 4, 2]),
    "BatchNorm3D": (nn.BatchNorm3D, {"num_features": 3}, [2, 3, 2, 2, 2]),
    "Bilinear": (nn.Bilinear, {"in1_features": 4, "in2_features": 4, "out_features": 3}, [3, 4]),
    "Conv1D": (nn.Conv1D, {"in_channels": 3, "out_channels": 2, "kernel_size": 2}, [2, 3, 4]),
    "Conv2D": (nn.Conv2D, {"in_channels": 3, "out_channels": 2, "kernel_size": 2}, [2, 3, 4, 4]),
    "Conv2DTranspose": (nn.Conv2DTranspose, {"in_channels": 3, "out_channels": 2, "kernel_size": 2}, [2, 3, 4, 4]),
    "Embedding": (nn.Embedding, {"num_embeddings": 6, "embedding_dim": 3}, None),
    "GRU": (nn.GRU, {"input_size": 4, "hidden_size": 3}, [2, 3, 4]),
    "GRUCell": (nn.GRUCell, {"input_size": 4, "hidden_size": 3}, [2, 4]),
    "GroupNorm": (nn.GroupNorm, {"num_groups": 2, "num_channels": 4}, [2, 4, 3]),
    "InstanceNorm1D": (nn.InstanceNorm1D, {"num_features": 3}, [2, 3, 4]),
    "InstanceNorm2D": (nn.InstanceNorm2D, {"num_features": 3}, [2, 3, 4, 2]),
    "LSTM": (nn.LSTM, {"input_size": 4, "hidden_size": 3}, [2, 3, 4]),
    "LSTMCell": (nn.LSTMCell, {"input_size": 4, "hidden_size": 3}, [2, 4]),
    "LayerNorm": (nn.LayerNorm, {"normalized_shape": 4}, [2, 3, 4]),
    "Linear": (nn.Linear, {"in_features": 4, "out_features": 3}, [2, 4]),
    "MultiHeadAttention": (nn.MultiHeadAttention, {"embed_dim": 4, "num_heads": 2}, [2, 3, 4]),
    "PReLU": (nn.PReLU, {"num_parameters": 3}, [2, 3, 4]),
    "SimpleRNN": (nn.SimpleRNN, {"input_size": 4, "hidden_size": 3}, [2, 3, 4]),
    "SpectralNorm": (nn.SpectralNorm, {"weight_shape": [3, 4]}, [3, 4]),
    "TransformerEncoderLayer": (nn.TransformerEncoderLayer, {"d_model": 4, "nhead": 2, "dim_feedforward": 8}, [2, 3, 4]),
}
if hasattr(paddle, "compat"):
    LAYERS["compat.Linear"] = (paddle.compat.nn.Linear, {"in_features": 4, "out_features": 3}, [2, 4])
OPTIONS = {
    "nothing": {},
    "no weight": {"weight_attr": False},
    "no bias": {"bias_attr": False},
    "global statistics": {"use_global_stats": True},
    "sparse": {"sparse": True},
    "padding": {"padding_idx": 1, "sparse": True},
}
# The layers that end the graph if gradients flow to their parameters, with the reason.
BREAKS = {
    **{(f"BatchNorm{n}D", f"no {part}"): "weight without a bias" for n in (1, 2, 3) for part in ("weight", "bias")},
    **{("Embedding", option): "the gradient of the used rows only" for option in ("sparse", "padding")},
}


def cases():
    for name, (made, _, _) in LAYERS.items():
        for option, given in OPTIONS.items():
            if set(given) <= set(inspect.signature(made.__init__).parameters):
                yield name, option


def run(layer, function, x, training):
    """Return what a call and its backward pass give: facts, which are equal, and numbers."""
    layer.train() if training else layer.eval()
    layer.clear_gradients()
    x = x.detach().clone()
    x.stop_gradient = x.dtype == paddle.int64
    paddle.seed(3)
    result = function(x)
    result = result[0] if isinstance(result, tuple) else result
    if not result.stop_gradient:
        try:
            (result * result).sum().backward()
        except (RuntimeError, ValueError):
            return None, None
    gradients = [x.grad] + [parameter.grad for parameter in layer.parameters()]
    facts = [gradient is not None and (gradient.is_selected_rows(), gradient.shape) for gradient in gradients]
    values = [result, *gradients, *layer.buffers()]
    numbers = [value.numpy().ravel() for value in values if value is not None and value._is_initialized()]
    return [result.shape, result.stop_gradient, facts, [len(one) for one in numbers]], numpy.concatenate(numbers)


@pytest.mark.parametrize("name, option", cases())
def test_gradients_of_layers(name, option):
    made, needed, shape = LAYERS[name]
    x = paddle.to_tensor([[1, 2], [5, 1]]) if shape is None else paddle.arange(1.0, 1 + numpy.prod(shape)).reshape(shape).sin()
    parts = []
    for _ in range(2):
        paddle.seed(7)
        try:
            parts.append(made(**needed, **OPTIONS[option]))
        except (AssertionError, TypeError, ValueError) as error:
            pytest.skip(f"Paddle does not make it: {error}")
    layer, twin = parts
    called = (lambda part: lambda x: part(x, x * 2)) if name == "Bilinear" else (lambda part: lambda x: part(x))
    try:
        run(twin, called(twin), x, True)
        run(layer, called(layer), x, True)
    except (AttributeError, TypeError, ValueError) as error:
        pytest.skip(f"eager mode raises: {str(error).splitlines()[0]}")
    with sot.config.patch(min_graph_size=0):
        for frozen in (True, False):
            for part in parts:
                for parameter in part.parameters():
                    parameter.stop_gradient = frozen
            for training in (False, True):
                fast = sot.symbolic_translate(called(layer))
                for call in range(3):
                    (expected, numbers), (actual, others) = run(twin, called(twin), x, training), run(layer, fast, x, training)
                    if expected is None:
                        assert (name, training and not frozen) in [("GRU", False), ("LSTM", False), ("SimpleRNN", False)]
                        break  # Paddle's kernel of its backward pass raises.
                    assert actual == expected, (frozen, training, call)
                    numpy.testing.assert_allclose(others, numbers, rtol=1e-4, atol=1e-5, err_msg=str((frozen, training, call)))
            breaks = "" if frozen else BREAKS.get((name, option), "")
            assert bool(sot.stats().breaks) == bool(breaks) and not sot.stats().fallbacks, sot.stats()
            assert all(breaks in told for told in sot.stats().breaks), sot.stats()
    assert sot.stats().graphs > 0
