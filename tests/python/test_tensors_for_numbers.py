"""Tensors in the place of numbers: the same result or exception as in eager mode, and the process goes on."""

import paddle
import pytest

import sot

ONE = paddle.to_tensor(1)
# Calls, with the tensor that stands for a number.
CALLS = {
    "amax": (lambda x, i: x.amax(i), ONE),
    "amin": (lambda x, i: x.amin(axis=i), ONE),
    "any": (lambda x, i: (x > 0).any(i), ONE),
    "dim of amax": (lambda x, i: x.amax(dim=i), ONE),
    "dim of any": (lambda x, i: (x > 0).any(dim=i), ONE),
    "dim of all": (lambda x, i: paddle.all(x > 0, dim=i), ONE),
    "dim of logsumexp": (lambda x, i: paddle.logsumexp(x, dim=i), ONE),
    "dim of sum": (lambda x, i: x.sum(dim=i), ONE),
    "all": (lambda x, i: (x > 0).all(i), ONE),
    "flip": (lambda x, i: x.flip(i), ONE),
    "logsumexp": (lambda x, i: x.logsumexp(i), ONE),
    "roll": (lambda x, i: x.roll(1, i), ONE),
    "roll by it": (lambda x, i: x.roll(i, 0), ONE),
    "nanmedian": (lambda x, i: x.nanmedian(i), ONE),
    "sum": (lambda x, i: x.sum(i), ONE),
    "max": (lambda x, i: x.max(axis=i), ONE),
    "argmax": (lambda x, i: x.argmax(i), ONE),
    "cumsum": (lambda x, i: x.cumsum(i), ONE),
    "concat": (lambda x, i: paddle.concat([x, x], i), ONE),
    "split": (lambda x, i: x.split(3, i)[1], ONE),
    "topk": (lambda x, i: x.topk(i)[0], ONE),
    "repeat": (lambda x, i: x.repeat_interleave(i.reshape([1]).expand([2]), 0), ONE),
    "transpose": (lambda x, i: x.transpose(i), paddle.to_tensor([1, 0])),
    "amax of a list": (lambda x, i: x.amax([i]), ONE),
    "amax of a vector": (lambda x, i: x.amax(i), paddle.to_tensor([1])),
    "flip of a vector": (lambda x, i: x.flip(i), paddle.to_tensor([0])),
    "float axis": (lambda x, i: (x.exp() * 2 + 1).max(axis=i), paddle.to_tensor(1.0)),
    "float axis of amax": (lambda x, i: x.amax(i), paddle.to_tensor(1.0)),
    "float axis of sum": (lambda x, i: x.sum(i), paddle.to_tensor(1.0)),
    "float axis of concat": (lambda x, i: paddle.concat([x, x], i), paddle.to_tensor(1.0)),
    "float mean": (lambda x, i: x.mean(i), paddle.to_tensor(1.0)),
    "float shape": (lambda x, i: paddle.zeros(i / 2) + x.sum(), paddle.to_tensor([2, 4])),
    "float reshape": (lambda x, i: x.reshape(i), paddle.to_tensor([3.0, 2.0])),
    "float full": (lambda x, i: paddle.full(i, 1.5) + x.sum(), paddle.to_tensor([3.0, 2.0])),
    "float k": (lambda x, i: x.topk(i)[0], paddle.to_tensor(1.0)),
    "shape": (lambda x, i: x.reshape(i), paddle.to_tensor([3, 2])),
    "filled with it": (lambda x, i: (x * 1).fill_(i), ONE),
    "a list that is one tensor": (lambda x, i: paddle.concat(x, 0), ONE),
    "clip": (lambda x, i: x.clip(min=i.astype("float32")), ONE),
    "where of numbers": (lambda x, i: paddle.where(x, 1.0, 0.0), ONE),
    "where of a number": (lambda x, i: paddle.where(x.astype("int32"), x, 0.0), ONE),
    "where of a row": (lambda x, i: paddle.where(x, x, paddle.zeros([3])), ONE),
    "where by name": (lambda x, i: paddle.where(condition=x, x=x, y=1.0), ONE),
    "where of a mask by name": (lambda x, i: paddle.where(condition=x > 1, x=x, y=1.0), ONE),
    "power in place by name": (lambda x, i: x.pow_(y=i), ONE),
    "inner of one by name": (lambda x, i: paddle.inner(x=x[0, :1], y=x[1, :1]), ONE),
    "where of a mask": (lambda x, i: paddle.where(x > 1, x, 0.0), ONE),
    "power in place": (lambda x, i: x.pow_(i), ONE),
    "inner": (lambda x, i: paddle.inner(x, x), ONE),
    "inner of one": (lambda x, i: paddle.inner(x[:1, :1], x[1:, :1]), ONE),
    "inner of ones": (lambda x, i: paddle.inner(x[0, :1], x[1, :1]), ONE),
    "inner of one and many": (lambda x, i: x[0, :1].inner(x[:, :1]), ONE),
}
# Functions that take sizes of the graph, given another tensor in the place of a number.
CALLS.update({
    "bincount": (lambda x, i: paddle.bincount(x.astype("int64").abs().flatten(), minlength=i), paddle.to_tensor(9)),
    "crop": (lambda x, i: paddle.crop(x, i), paddle.to_tensor([1, 2])),
    "eye": (lambda x, i: paddle.eye(i) * x.sum(), paddle.to_tensor(3)),
    "multinomial": (lambda x, i: paddle.multinomial(x * 0 + 1, i).sort(), paddle.to_tensor(3)),
    "one_hot": (lambda x, i: paddle.nn.functional.one_hot(x.astype("int64").abs(), i), paddle.to_tensor(11)),
    "pad": (lambda x, i: paddle.nn.functional.pad(x, i), paddle.to_tensor([0, 0, 1, 2])),
    "pad by one": (lambda x, i: paddle.nn.functional.pad(x.unsqueeze(0), i, data_format="NCL"), paddle.to_tensor(1)),
    "scatter_nd": (lambda x, i: paddle.scatter_nd(paddle.to_tensor([[1], [2]]), x[:, 0], i), paddle.to_tensor([4])),
    "sequence_mask": (lambda x, i: paddle.nn.functional.sequence_mask(x.astype("int64"), i), paddle.to_tensor(4)),
    "strided_slice": (lambda x, i: paddle.strided_slice(x, [0], [0], i, [1]), paddle.to_tensor([1])),
    "float depth": (lambda x, i: paddle.nn.functional.one_hot(x.astype("int64").abs(), i), paddle.to_tensor(11.0)),
    "float length": (lambda x, i: paddle.nn.functional.sequence_mask(x.astype("int64"), i), paddle.to_tensor(4.0)),
    "float samples": (lambda x, i: paddle.multinomial(x * 0 + 1, i).sort(), paddle.to_tensor(3.0)),
    "float rows": (lambda x, i: paddle.eye(i) * x.sum(), paddle.to_tensor(3.0)),
    "float least length": (lambda x, i: paddle.bincount(x.astype("int64").abs().flatten(), minlength=i), paddle.to_tensor(9.0)),
})
for dtype in ("bool", "uint8", "int16", "float16", "int32", "float32"):
    CALLS[f"unique of {dtype}"] = (lambda x, i, dtype=dtype: paddle.unique(x.astype(dtype)), ONE)


def outcome(function, *args):
    try:
        result = function(*args)
    except Exception as error:
        return type(error)
    return str(result.dtype), list(result.shape), result.astype("float32").tolist()


@pytest.mark.parametrize("min_size", [None, 0])
@pytest.mark.parametrize("name", CALLS)
def test_a_tensor_for_a_number(name, min_size):
    call, number = CALLS[name]

    def function(x, i):
        return call((x + 1) * 2, i)

    x = paddle.to_tensor([[1.0, -2.0, 3.0], [0.5, 4.0, -1.0]])
    with sot.config.patch(min_graph_size=min_size):
        fast = sot.symbolic_translate(function)
        for _ in range(2):
            assert outcome(fast, x, number) == outcome(function, x, number)
    assert sot.stats().graphs


@pytest.mark.parametrize("kinds", [("int32", "int64"), ("int64", "int32"), ("float32", "float64")])
@pytest.mark.parametrize("way", ["operator", "function", "reflected"])
def test_the_type_of_a_quotient(kinds, way):
    def function(x, y):
        x, y = x + x, y.astype(kinds[1])
        if way == "function":
            return paddle.floor_divide(x, y)
        return x // y if way == "operator" else y // x

    fast = sot.symbolic_translate(function)
    for y in (paddle.to_tensor(2), paddle.to_tensor([2, 3])):
        x = paddle.to_tensor([5, 9]).astype(kinds[0])
        assert outcome(fast, x, y) == outcome(function, x, y)
    assert sot.stats().graphs


def test_a_function_of_the_program_takes_tensors_for_what_it_likes():
    def shifted(x, axis):
        return x * 2 + axis

    def function(x, i):
        return shifted(x + 1, i) * 3

    x, number = paddle.ones([2, 3]), paddle.to_tensor(0.5)
    with sot.register.graph_node(shifted):
        fast = sot.symbolic_translate(function)
        assert fast(x, number).tolist() == function(x, number).tolist()
        assert sot.stats().graphs and not sot.stats().breaks, sot.stats()


def test_the_shape_of_what_a_tensor_gathers():
    def function(x, index, axis):
        result = paddle.gather(x * 1, index, axis=axis)
        return result, list(result.shape)

    fast, x, index = sot.symbolic_translate(function), paddle.ones([3, 4]), paddle.to_tensor([0])
    for axis in (0, 1, 0):
        axis = paddle.to_tensor(axis)
        assert fast(x, index, axis)[1] == function(x, index, axis)[1]
    assert sot.stats().graphs
