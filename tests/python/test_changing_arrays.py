"""NumPy arrays that differ at each call: they are inputs of the graph, guarded by element type and shape."""

import numpy
import paddle
import pytest

import sot


def settled(function, calls, translations=1, graphs=1, breaks=0):
    """Assert the results of eager mode, these numbers of translations, graphs and breaks, and otherwise hits."""
    fast = sot.symbolic_translate(function)
    for call in calls:
        expected, result = function(*call), fast(*call)
        assert result.dtype == expected.dtype and numpy.array_equal(result.numpy(), expected.numpy())
    counted = sot.stats()
    assert counted.translations == translations and counted.graphs == graphs and not counted.fallbacks, counted
    assert sum(counted.breaks.values()) == breaks and counted.hits == (len(calls) - 1) * translations, counted


def arrays(count, shape=(3,), dtype="float32"):
    random = numpy.random.RandomState(0)
    return [(random.rand(*shape) * 100).astype(dtype) for _ in range(count)]


@pytest.fixture(params=["0", "100"])
def size(request, monkeypatch):
    """Run a test with graphs as programs, and with replayed graphs."""
    monkeypatch.setenv("MIN_GRAPH_SIZE", request.param)


USES = {
    "to_tensor": lambda x, a: x + paddle.to_tensor(a),
    "to_tensor twice": lambda x, a: (x + paddle.to_tensor(a)) * paddle.to_tensor(a),
    "dtype": lambda x, a: x * paddle.to_tensor(a, dtype="float64").sum(),
    "dtype by position": lambda x, a: x.astype("int64") + paddle.to_tensor(a, paddle.int64),
    "operator": lambda x, a: (x + a) * 2 - a,
    "changed afterwards": lambda x, a: paddle.to_tensor(a).add_(x),
}


@pytest.mark.parametrize("shape", [(3,), (64, 3)])
@pytest.mark.parametrize("name", USES)
def test_new_arrays_are_one_translation(name, shape, size):
    x = paddle.to_tensor([0.5, -1.0, 2.0])
    settled(USES[name], [(x, array) for array in arrays(12, shape)])


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32", "int64", "float64"])
def test_element_types(dtype, size):
    x = paddle.to_tensor([0.5, -1.0, 2.0])
    settled(lambda x, a: x + paddle.to_tensor(a).astype("float32"), [(x, array) for array in arrays(8, (3,), dtype)])
    sot.reset()
    settled(lambda x, a: x + paddle.to_tensor(a, dtype="float32"), [(x, array) for array in arrays(8, (3,), dtype)])


def test_arrays_in_containers(size):
    x = paddle.to_tensor([0.5, -1.0, 2.0])
    calls = [(x, {"image": a, "labels": [b]}) for a, b in zip(arrays(6, (2, 3)), arrays(6, (3,), "int64"))]
    settled(lambda x, batch: (x * paddle.to_tensor(batch["image"])).sum(0) + paddle.to_tensor(batch["labels"][0]).astype(x.dtype), calls)


def test_another_element_type_or_shape_is_another_translation():
    x = paddle.to_tensor([0.5, -1.0, 2.0])
    fast = sot.symbolic_translate(lambda x, a: x + paddle.to_tensor(a).astype("float32"))
    for array in arrays(3) + arrays(3, (2, 3)) + arrays(3, (3,), "int32"):
        assert numpy.array_equal(fast(x, array).numpy(), x.numpy() + array.astype("float32"))
    counted = sot.stats()
    assert counted.translations == 3 and counted.hits == 6 and not counted.breaks, counted


def test_writes_into_the_array_are_seen(size):
    array, x = numpy.zeros([3], "float32"), paddle.ones([3])
    fast = sot.symbolic_translate(lambda x, a: x + paddle.to_tensor(a))
    results = []
    for number in range(5):
        array[1] = number
        results.append(fast(x, array))
    array[:] = 100
    assert [result.tolist() for result in results] == [[1, 1 + number, 1] for number in range(5)]
    assert sot.stats().translations == 1 and sot.stats().hits == 4


def test_writes_in_the_function(size):
    def step(x, a):
        before = x + paddle.to_tensor(a)
        a[1] += 1
        return before * 10 + paddle.to_tensor(a)

    array, x = numpy.zeros([3], "float32"), paddle.ones([3])
    fast = sot.symbolic_translate(step)
    for number in range(4):
        assert fast(x, array).tolist() == [10, (1 + number) * 10 + number + 1, 10]
    counted = sot.stats()
    assert counted.graphs and counted.translations <= 10 and not counted.fallbacks, counted


def test_results_of_numpy_go_on_as_inputs(size):
    def step(x, a):
        return x + paddle.to_tensor((a / 255.0).astype("float32"))

    fast, x = sot.symbolic_translate(step), paddle.ones([3])
    for array in arrays(10, (64, 3)):
        assert numpy.array_equal(fast(x, array).numpy(), step(x, array).numpy())
    counted = sot.stats()
    assert counted.graphs == 1 and counted.translations <= 4 and not counted.fallbacks, counted


def test_training_with_arrays():
    paddle.seed(1)
    layer = paddle.nn.Linear(3, 2)

    def loss(layer, data, label):
        out = layer(paddle.to_tensor(data))
        return paddle.nn.functional.cross_entropy(out, paddle.to_tensor(label))

    fast = sot.symbolic_translate(loss)
    for data, label in zip(arrays(6, (4, 3)), arrays(6, (4,), "int64")):
        gradients = []
        for function in (loss, fast):
            function(layer, data, label % 2).backward()
            gradients.append(layer.weight.grad.numpy())
            layer.clear_gradients()
        assert numpy.allclose(*gradients)
    counted = sot.stats()
    assert counted.translations == 1 and counted.hits == 5 and not counted.breaks, counted


def test_what_is_no_input_is_eager_modes():
    x = paddle.to_tensor([0.5, -1.0, 2.0])
    for function in (
        lambda x, a: x + paddle.to_tensor(a, stop_gradient=False),
        lambda x, a: x + paddle.to_tensor(a, dtype="float16").astype("float32"),
        lambda x, a: x + paddle.to_tensor([a, a]).sum(0).astype("float32"),
        lambda x, a: paddle.add(x, paddle.to_tensor(a.astype("float32"))),
    ):
        sot.reset()
        fast = sot.symbolic_translate(function)
        for array in arrays(6, (3,), "float64"):
            assert numpy.array_equal(fast(x, array).numpy(), function(x, array).numpy())


@pytest.mark.parametrize("kind", ["float32", "float64", "int32", "int64"])
def test_changing_scalars_of_numpy_are_not_translated_for_ever(kind):
    x = paddle.to_tensor([0.5, -1.0, 2.0])
    for function in (lambda x, k: x * k + 1, lambda x, k: x + paddle.to_tensor(k).astype("float32"), lambda x, k: x.clip(max=k)):
        sot.reset()
        fast = sot.symbolic_translate(function)
        for number in range(30):
            k = getattr(numpy, kind)(number + 2)
            expected, result = function(x, k), fast(x, k)
            assert result.dtype == expected.dtype and numpy.array_equal(result.numpy(), expected.numpy())
        assert sot.stats().translations <= 10, sot.stats()


#: Uses of an array whose number of rows differs from call to call, with the most translations that they may take.
OF_ROWS = {
    "to_tensor": (lambda w, a: paddle.tanh(paddle.to_tensor(a) @ w), 3),
    "reshape": (lambda w, a: (lambda x: (x @ w).reshape([x.shape[0], 2, 2]).sum(1))(paddle.to_tensor(a)), 3),
    "length": (lambda w, a: (paddle.to_tensor(a) @ w) * len(a), 4),
    "size": (lambda w, a: (paddle.to_tensor(a) @ w) * a.shape[0], 4),
    "size of the tensor": (lambda w, a: (lambda x: (x @ w) * x.shape[0])(paddle.to_tensor(a)), 3),
    "another tensor": (lambda w, a: paddle.to_tensor(a) @ w + paddle.ones([len(a), 4]), 4),
    "operators": (lambda w, a: paddle.to_tensor(a) * 2 * a + a, 3),
    "another type": (lambda w, a: paddle.to_tensor(a, dtype="float64").cumsum(0), 3),
    "all pairs": (lambda w, a: paddle.to_tensor(a) @ paddle.to_tensor(a).t(), 3),
    "a branch": (lambda w, a: paddle.to_tensor(a) @ w if len(a) > 4 else paddle.to_tensor(a).sum(0) @ w, 5),
    "flatten": (lambda w, a: paddle.to_tensor(a).flatten() * 2, 3),
    "concat": (lambda w, a: paddle.concat([paddle.to_tensor(a), w]), 3),
}


@pytest.mark.parametrize("name", OF_ROWS)
def test_rows_that_come_and_go(name, size):
    function, most = OF_ROWS[name]
    w = paddle.to_tensor(numpy.random.RandomState(1).rand(4, 4).astype("float32"))
    fast = sot.symbolic_translate(function)
    for rows in [5, 3, 7, 1, 2, 8, 4, 6, 9, 10, 11, 12, 5, 3, 8, 1]:
        (array,) = arrays(1, (rows, 4))
        expected, result = function(w, array), fast(w, array)
        assert result.dtype == expected.dtype and numpy.allclose(result.numpy(), expected.numpy())
    stats = sot.stats()
    assert not stats.breaks and not stats.fallbacks and not stats.graph_errors, stats
    assert stats.graphs == stats.translations <= most, stats


def test_open_sizes_of_an_array_that_were_equal(size):
    """A square is no promise that later arrays are squares."""
    w = paddle.ones([1])
    shapes = [(2, 3), (4, 5), (6, 6), (7, 8), (9, 9), (5, 4)]
    fast = sot.symbolic_translate(lambda w, a: paddle.to_tensor(a).t() * w)
    for shape in shapes:
        (array,) = arrays(1, shape)
        assert numpy.array_equal(fast(w, array).numpy(), array.T)
    assert sot.stats().graphs == sot.stats().translations <= 3 and not sot.stats().breaks


def test_arrays_that_differ_in_more_than_a_size(size):
    w = paddle.ones([1])
    fast = sot.symbolic_translate(lambda w, a: paddle.to_tensor(a).astype("float32") * w)
    for shape, dtype in [((2,), "float32"), ((3,), "float32"), ((4,), "int64"), ((2, 2), "float32"), ((5,), "float32")]:
        (array,) = arrays(1, shape, dtype)
        assert numpy.array_equal(fast(w, array).numpy(), array.astype("float32"))
    assert sot.stats().graphs == sot.stats().translations == 4 and not sot.stats().breaks


def test_the_length_of_an_array_without_dimensions(size):
    def f(w, a):
        try:
            return w * len(a)
        except TypeError as error:
            return w, str(error)

    w, fast = paddle.ones([1]), sot.symbolic_translate(f)
    assert fast(w, numpy.array(1.0))[1] == f(w, numpy.array(1.0))[1]
    assert fast(w, numpy.ones(3)).item() == 3 and sot.stats().graphs
