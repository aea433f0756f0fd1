"""Tensors of several element types in one operation: the result of eager mode, or a graph break."""

import operator

import paddle
import paddle.nn.functional as F
import pytest
from paddle import nn

import sot

IN_THE_GRAPH = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: b - a,
    "div": lambda a, b: a / b,
    "pow": lambda a, b: a**b,
    "less": lambda a, b: a < b,
    "where": lambda a, b: paddle.where(a > 0.5, a, b),
    "maximum": lambda a, b: paddle.maximum(a, b),
    "atan2": lambda a, b: paddle.atan2(a, b),
    "mse_loss": lambda a, b: F.mse_loss(a, b),
}
OUTSIDE = {
    "matmul": lambda a, b: a @ b,
    "the other way round": lambda a, b: b @ a,
    "mm": lambda a, b: paddle.mm(a, b),
    "inner": lambda a, b: paddle.inner(a, b),
    "linear": lambda a, b: F.linear(a, b),
}


def outcome(function, *args):
    """Return type, shape and sum of a call's result: products of several types may be inconsistent tensors."""
    try:
        result = function(*args)
        return result.dtype, result.shape, float((result.astype("float32") if result.dtype == paddle.bool else result).sum())
    except (TypeError, ValueError, RuntimeError) as error:
        return type(error)


def operands():
    paddle.seed(3)
    return paddle.rand([4, 4], dtype="float64"), paddle.rand([4, 4], dtype="float32")


@pytest.mark.parametrize("function", IN_THE_GRAPH.values(), ids=IN_THE_GRAPH)
def test_types_that_are_brought_together(function):
    fast = sot.symbolic_translate(lambda a, b: function(a, b) * 1)
    assert outcome(fast, *operands()) == outcome(lambda a, b: function(a, b) * 1, *operands())
    assert sot.stats().graphs == 1 and not sot.stats().breaks


@pytest.mark.parametrize("kind", ["bool", "int32", "int64"])
def test_types_that_eager_mode_does_not_bring_together(kind):
    add = lambda a, b: a.astype(kind) + b
    assert outcome(sot.symbolic_translate(lambda a, b: add(a, b)), *operands()) == outcome(add, *operands())


@pytest.mark.parametrize("function", OUTSIDE.values(), ids=OUTSIDE)
def test_products_of_matrices_of_two_types(function):
    fast = sot.symbolic_translate(lambda a, b: function(a, b))
    assert outcome(fast, *operands()) == outcome(function, *operands())
    assert "backend-refused" in str(sot.stats())


def test_the_advice_about_a_refused_operation_holds_where_a_break_is_an_error():
    fast = sot.symbolic_translate(next(iter(OUTSIDE.values())), fullgraph=True)
    with pytest.raises(sot.GraphBreakError, match="Where a graph break is no error, the operation runs eagerly"):
        fast(*operands())


DESCRIBED_WRONGLY = {
    "exp": lambda a, b: paddle.exp((a * 9).astype("int64")),
    "log in place": lambda a, b: (a * 9).astype("int32").log_(),
    "logaddexp": lambda a, b: paddle.logaddexp((a * 9).astype("int64"), (b * 9).astype("int64")),
}


@pytest.mark.parametrize("function", DESCRIBED_WRONGLY.values(), ids=DESCRIBED_WRONGLY)
def test_results_of_other_types_than_static_mode_says(function):
    def use(a, b):
        result = function(a, b)
        return result * (2.5 if result.dtype == paddle.float32 else 1)

    fast = sot.symbolic_translate(lambda a, b: use(a, b))
    assert outcome(fast, *operands()) == outcome(use, *operands())
    assert "backend-refused" in str(sot.stats())


ODD = [[0.0, -0.0, 0.25], [float("nan"), float("inf"), -3.0], [0.0, 0.0, -0.0]]
TRUTHS = {
    "any": lambda x: x.any(),
    "all": lambda x: x.all(),
    "any of rows": lambda x: x.any(axis=-1, keepdim=True),
    "all of columns": lambda x: paddle.all(x, 0),
    "any of both": lambda x: paddle.any(x, axis=[0, 1]),
    "a number": lambda x: x[1, 2].any() & x[0, 0].all(),
    "equal_all": lambda x: paddle.equal_all(x, x * 1),
    "equal_all of others": lambda x: paddle.equal_all(x, x + 1),
    "used": lambda x: paddle.where(x.any(0), x, -x) * (~x.all(1)).astype(x.dtype) + x.all().astype(x.dtype),
}


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int32", "int64", "uint8", "int8", "bool"])
@pytest.mark.parametrize("function", TRUTHS.values(), ids=TRUTHS)
def test_truths_of_numbers(function, dtype, same):
    """Static mode says that they are of the type of the numbers, which is corrected."""

    def outcome(fn):
        try:
            return fn(x)
        except (RuntimeError, ValueError, TypeError) as error:
            return type(error)

    x = paddle.to_tensor(ODD if "float" in dtype else [[0, 1, 2], [0, 0, 0], [3, 4, 5]], dtype="float32").astype(dtype)
    expected, actual = outcome(function), outcome(sot.symbolic_translate(lambda x: function(x)))
    same(actual, expected)
    if not isinstance(expected, type):
        assert not sot.stats().breaks and sot.stats().graphs == 1, sot.stats()


CORRECTED = {
    "unique": lambda a: paddle.unique((a * 9).astype("int64")),
    "unique with more": lambda a: paddle.unique((a * 9).astype("int32"), True, True, True, axis=0),
    "unique with indices": lambda a: paddle.unique(a, return_index=True, return_inverse=True, dtype="int32"),
    "unique_consecutive": lambda a: paddle.unique_consecutive((a * 2).astype("int64"), True, True),
    "matrix_rank": lambda a: paddle.linalg.matrix_rank(a),
    "matrix_rank with a tolerance": lambda a: paddle.linalg.matrix_rank(a[None], tol=0.1) + 1,
    "slogdet": lambda a: paddle.linalg.slogdet(a),
    "slogdet of several": lambda a: paddle.linalg.slogdet(paddle.stack([a, a * 2, a.T]))[1] * 2,
    "sums of unique": lambda a: (lambda values, counts: values.sum() * 3 + counts)(*paddle.unique((a * 9).astype("int64"), return_counts=True)),
}


@pytest.mark.parametrize("function", CORRECTED.values(), ids=CORRECTED)
def test_descriptions_that_are_corrected(function, check):
    a, _ = operands()
    check(function, a)


@pytest.mark.parametrize("shape", [[3, 3], [2, 3, 3]])
def test_gradients_of_determinants(shape, same):
    def f(x):
        x = x.detach()
        x.stop_gradient = False
        result = determinants(x)
        (result[1] * 2 + result[0]).sum().backward()
        return result, x.grad

    paddle.seed(2)
    x = paddle.rand(shape) + paddle.eye(3)
    determinants = paddle.linalg.slogdet
    expected = f(x)
    determinants = sot.symbolic_translate(lambda x: paddle.linalg.slogdet(x * 1))
    same(f(x), expected)
    assert not sot.stats().breaks and sot.stats().graphs == 1


def test_a_layer_of_another_type():
    layer = nn.Linear(4, 4)
    x, _ = operands()
    fast = sot.symbolic_translate(lambda x: layer(x))
    assert outcome(fast, x) == outcome(layer, x)


WITHOUT_DIMENSIONS = {
    "floor": lambda t: t // 2,
    "reflected": lambda t: 7.0 // t,
    "of the module": lambda t: operator.floordiv(t, True),
    "in place": lambda t: operator.ifloordiv(t, 2),
    "power": lambda t: t**True,
    "others": lambda t: (t**2 % 3 - 1) / 2,
}


@pytest.mark.parametrize("function", WITHOUT_DIMENSIONS.values(), ids=WITHOUT_DIMENSIONS)
@pytest.mark.parametrize("kind", ["int64", "float32"])
def test_a_number_beside_a_tensor_without_dimensions(function, kind, check):
    """For some operators the result of eager mode has one dimension."""
    check(function, paddle.to_tensor(5, dtype=kind))
    check(function, paddle.to_tensor([5], dtype=kind))


def test_a_matrix_product_with_a_number():
    x = paddle.ones([3])
    for function in (lambda x: 2 @ x, lambda x: x @ 2.0):
        with pytest.raises(Exception) as expected:
            function(x)
        with pytest.raises(type(expected.value)):
            sot.symbolic_translate(function)(x)


def test_where_between_sums(check):
    """`where` of static mode adds zeros to broadcast. These sums are replaced; sums of the program must be kept."""

    def f(chosen, x, y, n):
        both = x + n
        nought = paddle.zeros_like(x)
        return [
            paddle.where(chosen, x + n, y + n),
            paddle.where(chosen, both, both),
            paddle.where(chosen, x + nought, y + nought),
            paddle.where(chosen[0], x + n, (y + n)[0]),
            paddle.nn.functional.relu(paddle.where(chosen, x + n, n + y)),
        ]

    x = paddle.to_tensor([[1.0, -2.0], [3.0, -0.0]])
    check(f, x > 0, x, x * 2, x * 5)


@pytest.mark.parametrize("dtype", ["int64", "int32", "float32", "float64", "bool"])
@pytest.mark.parametrize("number", [3, -1, 2.5, 0.1, True, float("nan")], ids=str)
def test_lists_of_tensors_and_numbers(dtype, number):
    """NumPy chooses the element type, and converts integers beside floats to `float64` first."""

    def f(x, to):
        row, other = [x * 1, number], (number, x * 1, x * 1)
        return paddle.to_tensor(row, dtype=to), paddle.to_tensor(other, dtype=to)

    x = paddle.to_tensor({"bool": True, "int32": 7, "int64": 2**60 + 2**36 + 1}.get(dtype, 0.1), dtype).reshape([])
    x.stop_gradient = dtype[0] != "f"
    for to in (None, "int64", "int32", "float32", "float64", "bool"):
        sot.reset()
        fast = sot.symbolic_translate(f)
        for _ in range(2):
            for actual, expected in zip(fast(x, to), f(x, to)):
                assert (actual.dtype, actual.shape, actual.stop_gradient) == (expected.dtype, expected.shape, True)
                assert actual.numpy().tobytes() == expected.numpy().tobytes()
        stats = sot.stats()
        assert (stats.graphs, stats.hits, stats.breaks, stats.fallbacks) == (1, 1, {}, {})
