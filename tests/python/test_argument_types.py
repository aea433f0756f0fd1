"""Arguments of types that eager mode checks and static mode does not: the result or the exception is eager mode's."""

import collections
import enum

import numpy as np
import paddle
import pytest

import sot

VALUES = {
    "range": lambda: range(1),
    "deque": lambda: collections.deque([1]),
    "UserList": lambda: collections.UserList([1]),
    "ChainMap": lambda: collections.ChainMap({"a": 1}),
    "UserDict": lambda: collections.UserDict({0: 0}),
    "bytes": lambda: b"\x01",
    "set": lambda: {1},
    "dict_values": lambda: {0: 1}.values(),
    "np.str_": lambda: np.str_("ab"),
    "np.int64": lambda: np.int64(1),
    "np.float32": lambda: np.float32(1.5),
    "np.array": lambda: np.array([1]),
    "tuple": lambda: (1,),
}

CALLS = {
    "sum": lambda x, a: x.sum(axis=a),
    "mean": lambda x, a: paddle.mean(x, a),
    "max": lambda x, a: x.max(axis=a),
    "tile": lambda x, a: paddle.tile(x, a),
    "squeeze": lambda x, a: paddle.squeeze(x, a),
    "zeros": lambda x, a: x + paddle.zeros(a),
    "clip": lambda x, a: paddle.clip(x, 0.0, a),
    "scale": lambda x, a: x.scale(a),
    "reshape": lambda x, a: x.reshape(a),
}


def outcome(run, *args):
    try:
        return [part.tolist() for part in run(*args)]
    except Exception as error:
        return type(error)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_the_types_that_eager_mode_takes(call):
    def f(x, a):
        y = x * 2
        return y, call(y, a)

    fast, x = sot.symbolic_translate(f), paddle.arange(3, dtype="float32").reshape([1, 3])
    for name, make in VALUES.items():
        expected = outcome(f, x, make())
        assert [outcome(fast, x, make()) for _ in range(2)] == [expected] * 2, name
    assert sot.stats().graphs


def test_an_index_that_is_no_list():
    def f(x):
        x[range(1)] = 5.0
        return x + 1

    for _ in range(3):
        assert sot.symbolic_translate(f)(paddle.ones([2, 3])).tolist() == f(paddle.ones([2, 3])).tolist()
    assert not sot.stats().fallbacks and sot.stats().graphs


INDICES = {
    "item": lambda x, i: x[i],
    "first of two": lambda x, i: x[i, :],
    "begin of a slice": lambda x, i: x[i:],
    "end of a slice": lambda x, i: x[:, :i],
    "list": lambda x, i: x[[i, i]],
    "one dimension": lambda x, i: x[i.reshape([1])],
}
INDEX_TYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float32", "float64", "float16", "bfloat16"]


@pytest.mark.parametrize("index", INDICES.values(), ids=INDICES)
def test_tensors_of_every_type_as_positions(index):
    def f(x, i):
        y = x * 2
        return y, index(y, i)

    fast, x = sot.symbolic_translate(f), paddle.arange(4, dtype="float32").reshape([2, 2])
    for dtype in INDEX_TYPES:
        position = paddle.ones([], dtype="float32").astype(dtype)
        expected = outcome(f, x, position)
        assert [outcome(fast, x, position) for _ in range(2)] == [expected] * 2, dtype
    assert sot.stats().graphs


def test_an_argument_is_detached_without_gradients():
    def f(x):
        with paddle.no_grad():
            x.detach_()
        return x, x * 2 + 1

    fast = sot.symbolic_translate(f)
    for _ in range(3):
        x = paddle.ones([2])
        x.stop_gradient = False
        same, y = fast(x)
        assert same is x and (x.stop_gradient, y.stop_gradient) == (True, True)
    assert sot.stats().breaks


class OwnItems(list):
    def __iter__(self):
        return iter((5, 6))


class OwnFloat(int):
    def __float__(self):
        return 16.0


class EqualsAll(int):
    def __eq__(self, other):
        return True

    __hash__ = int.__hash__


class PlainList(list):
    def total(self):
        return sum(self)


class Axis(enum.IntEnum):
    LAST = 1


def in_place(x, value):
    y = x + 0
    y[0] = value
    return y


ASKING = {
    "to_tensor": lambda x: paddle.to_tensor(OwnItems([3, 1, 2])) + x.sum(),
    "zeros": lambda x: paddle.zeros(OwnItems([3, 1, 2])) + x.sum(),
    "power": lambda x: (x + 1) ** OwnFloat(3),
    "product": lambda x: (x + 1) * OwnFloat(3),
    "set": lambda x: in_place(x, OwnFloat(3)),
    "reshape": lambda x: x.reshape([2, EqualsAll(3)]),
    "axis": lambda x: x.sum(axis=EqualsAll(1)),
}


@pytest.mark.parametrize("call", ASKING.values(), ids=ASKING)
def test_classes_with_methods_that_an_operation_may_call(call):
    def f(x):
        y = x * 2
        return y, call(y)

    fast, x = sot.symbolic_translate(f), paddle.arange(6, dtype="float32").reshape([2, 3])
    expected = outcome(f, x)
    assert [outcome(fast, x) for _ in range(3)] == [expected] * 3
    assert sot.stats().breaks


def test_classes_without_such_methods_are_no_break():
    def f(x):
        return x.sum(axis=Axis.LAST), x.reshape(PlainList([3, 2])), x * Axis.LAST

    fast, x = sot.symbolic_translate(f), paddle.arange(6, dtype="float32").reshape([2, 3])
    assert [outcome(fast, x) for _ in range(2)] == [outcome(f, x)] * 2
    assert not sot.stats().breaks


LISTS = {
    "concat": lambda x, a: paddle.concat([x, a]),
    "concat of a tuple": lambda x, a: paddle.concat((a, x, x)),
    "stack": lambda x, a: paddle.stack(x=[x, a]),
    "add_n": lambda x, a: paddle.add_n([x, a]),
    "broadcast_tensors": lambda x, a: paddle.broadcast_tensors([a, x])[0],
    "meshgrid": lambda x, a: paddle.meshgrid([x[0], a])[0],
    "meshgrid of arguments": lambda x, a: paddle.meshgrid(x[0], a)[0],
    "hstack": lambda x, a: paddle.hstack([x, a]),
}


@pytest.mark.parametrize("other", [None, 2.5, "a"], ids=str)
@pytest.mark.parametrize("call", LISTS.values(), ids=LISTS)
def test_what_is_no_tensor_among_tensors(call, other, monkeypatch):
    monkeypatch.setenv("MIN_GRAPH_SIZE", "0")

    def f(x, a):
        y = x * 2
        return y, call(y, a)

    fast, x = sot.symbolic_translate(f), paddle.ones([2, 2])
    expected = outcome(f, x, other)
    assert isinstance(expected, type)
    assert [outcome(fast, x, other) for _ in range(3)] == [expected] * 3
    assert outcome(fast, x, x) == outcome(f, x, x)
    assert sot.stats().graphs
