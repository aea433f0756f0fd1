"""Functions of arrays are graphs with NumPy's results; expected numbers of graphs, hits and breaks are given."""

import math

import numpy as np
import pytest
import sot_numpy
from sot_numpy import psdb


@pytest.fixture(autouse=True)
def fresh():
    sot_numpy.reset()
    yield
    sot_numpy.reset()


def same(found, expected):
    assert type(found) is type(expected)
    if isinstance(expected, (tuple, list)):
        assert len(found) == len(expected)
        for one, other in zip(found, expected):
            same(one, other)
    elif isinstance(expected, np.ndarray):
        assert found.dtype == expected.dtype and found.shape == expected.shape
        np.testing.assert_array_equal(found, expected)
    else:
        assert found == expected or found != found and expected != expected


def twice(function, *makes, graphs, breaks=0, hits=None):
    """Call a function twice, beside plain NumPy on equal arguments; results and the final arguments are compared."""
    fast = sot_numpy.symbolic_translate(function)
    for seed in range(2):
        given, plain = ([make(np.random.RandomState(seed)) for make in makes] for _ in range(2))
        expected, found = function(*plain), fast(*given)
        same(found, expected)
        same(given, plain)
    stats = sot_numpy.stats()
    assert (stats.graphs, sum(stats.breaks.values()), stats.fallbacks) == (graphs, breaks, {}), stats
    assert stats.hits == (graphs if hits is None else hits), stats
    return stats


def array(*shape, dtype="float64"):
    return lambda random: random.uniform(1, 5, shape).astype(dtype)


def softmax(x):
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def attention(q, k, v):
    return softmax(q @ k.transpose(0, 2, 1) / math.sqrt(q.shape[-1])) @ v


def layers(x, weights):
    for w in weights:
        x = np.maximum(x @ w, 0)
    return x, x.mean(axis=0)


@pytest.mark.parametrize(
    "function, makes",
    [
        (lambda x, y: np.add(x, y) * 2 - x, [array(2, 3), array(3)]),
        (softmax, [array(2, 3)]),
        (attention, [array(2, 3, 4)] * 3),
        (layers, [array(2, 3), lambda random: [random.uniform(-1, 1, (3, 3)) for _ in range(4)]]),
        (lambda x: (2 - x, 2 / x, 3 ** x, -x, abs(x), x > 2, 1 <= x), [array(3)]),
        (lambda x: (x * np.float32(2), np.float64(2) + x.astype("float32")), [array(2, dtype="float32")]),
        (lambda x: np.concatenate([x, x[::-1], x[1:2]])[:, np.newaxis], [array(4)]),
        (lambda x, at: x[at, ::2], [array(4, 5), lambda random: random.randint(0, 4, (3,))]),
        (lambda x: np.where(x > 2, x, 0.0), [array(4)]),
        (lambda x: np.zeros(x.shape, x.dtype) + np.ones_like(x) + np.arange(3), [array(2, 3)]),
        (lambda x: np.modf(x) + divmod(x, 2), [array(4)]),
        (lambda x: np.add.reduce(x, axis=0) + np.multiply.accumulate(x, axis=1), [array(3, 3)]),
        (lambda x: x.T.reshape(-1, 2).T, [array(2, 4)]),
        (lambda x: {"sum": x.sum(0), "shape": x.shape, "size": x.size, "len": len(x), "type": x.dtype}["sum"], [array(2, 4)]),
        (lambda x: np.einsum("ij,kj->ik", x, x) + np.tensordot(x, x, ([1], [1])), [array(3, 4)]),
        (lambda x: np.stack(np.split(x, 2)).sum(axis=0), [array(4, 2)]),
        (lambda x: ((x * 1j).real, (x * 1j).imag, x.astype(complex).conj()), [array(3)]),
        (lambda x: (x & 3, x | 8, x ^ 1, ~x, x << 2, x >> 1, x % 3, x // 2), [lambda random: random.randint(0, 9, (5,))]),
    ],
)
def test_is_one_graph(function, makes):
    twice(function, *makes, graphs=1)


def test_views_are_views():
    def halves(x):
        return x[:2], x.reshape(2, 2).T

    x = np.arange(4.0)
    head, turned = sot_numpy.symbolic_translate(halves)(x)
    x[0] = 7
    assert head[0] == 7 and turned[0, 0] == 7 and np.shares_memory(x, turned)


def test_a_program_is_python_that_calls_numpy():
    seen = []

    def watched(graph, examples):
        seen.append(graph)
        return graph.run

    fast = sot_numpy.symbolic_translate(lambda x: np.sqrt(x + 1), backend=watched)
    same(fast(np.ones(2)), np.sqrt(np.full(2, 2.0)))
    assert [statement.callee.rpartition(".")[2] for statement in seen[0].statements] == ["__add__", "sqrt"]
    assert seen[0].program.count("\n") == 1 and ".__add__(" in seen[0].program


@pytest.mark.parametrize("size", [0, 100])
def test_replayed_and_as_a_program(size):
    with sot_numpy.config.patch(min_graph_size=size):
        stats = twice(softmax, array(3, 3), graphs=1)
    assert stats.replayed == (size == 100)


def adds_in_place(x, y):
    z = x * 2
    x += y
    return z + x


def adds_a_number_in_place(x):
    z = x * 2
    x += np.float64(3)
    return z + x


def sets_an_item(x, y):
    z = y * 2
    x[0] = z[1]
    return x + z


def sets_an_item_of_a_result(x):
    z = x * 2
    z[:1] = 5
    return z + x


def names_out(x, y):
    z = x + 1
    np.add(z, y, out=x)
    return x * z


def gives_out_by_position(x, y):
    z = x + 1
    np.multiply(z, y, x)
    return x * z


def gives_out_to_a_method(x, y):
    z = x + 1
    z.cumsum(0, None, y)
    return x * y


def clips_into(x, y):
    z = x + 1
    np.clip(z, 2, 3, y)
    return x * y


def fills(x, y):
    z = x + y
    z.fill(3)
    return z * x


def adds_at(x, y):
    z = x + y
    np.add.at(z, [0, 0], 1.0)
    return z * x


def sorts(x, y):
    z = x * y
    z.sort()
    return z + x


@pytest.mark.parametrize(
    "function",
    [
        adds_in_place, adds_a_number_in_place, sets_an_item, sets_an_item_of_a_result, names_out, gives_out_by_position,
        gives_out_to_a_method, clips_into, fills, adds_at, sorts,
    ],
)  # fmt: skip
def test_a_write_is_a_break(function):
    makes = [array(2, 2)] * function.__code__.co_argcount
    twice(function, *makes, graphs=2, breaks=1)


def test_a_write_through_a_view_is_seen():
    def function(x):
        head = x[:1]
        before = x + 0
        head += 1
        return before, x * 2

    twice(function, array(3), graphs=2, breaks=1)


def total(x):
    return (x * x).sum() + 1


def chosen(x):
    return (x + 1)[x > 2] * 2


def nonzero(x):
    return np.nonzero(x - 1.5)[0] + 1


def branches(x):
    y = x * 2
    if y.sum() > 100:
        return y
    return y - 1


def draws(x):
    return (x + 1) * (np.random.rand(*x.shape) * 0)


@pytest.mark.parametrize(
    "function, graphs", [(total, 1), (chosen, 3), (nonzero, 2), (branches, 3), (draws, 2)]
)
def test_what_the_numbers_say_is_a_break(function, graphs):
    fast = sot_numpy.symbolic_translate(function)
    for seed in range(2):
        x = np.random.RandomState(seed).uniform(1, 5, 4)
        same(fast(x), function(x))
    stats = sot_numpy.stats()
    assert stats.graphs == graphs and sum(stats.breaks.values()) >= 1 and not stats.fallbacks, stats


def test_the_same_array_is_no_copy():
    def function(x):
        return np.asarray(x + 1), x

    x = np.ones(2)
    assert sot_numpy.symbolic_translate(function)(x)[1] is x


def test_what_is_assumed_of_an_array_is_its_shape_and_element_type():
    fast = sot_numpy.symbolic_translate(lambda x: x * 2 + x.shape[0])
    arrays = [np.ones(2), np.ones(3), np.ones(2, "float32"), np.ones((2, 1)), np.ones(2, ">f8"), np.ones(2, int)]
    for _ in range(2):
        for x in arrays:
            same(fast(x), x * 2 + x.shape[0])
    stats = sot_numpy.stats()
    assert (stats.translations, stats.hits) == (6, 6)


class Watched(np.ndarray):
    pass


@pytest.mark.parametrize("x", [np.ones(2).view(Watched), np.array([1, "a"], object), np.ma.masked_array([1.0, 2.0], [0, 1])])
def test_what_is_no_plain_array_is_none_of_the_backends(x):
    def function(x):
        return x + x

    found, expected = sot_numpy.symbolic_translate(function)(x), function(x)
    assert type(found) is type(expected) and np.array_equal(found, expected) and not sot_numpy.stats().graphs


def test_exceptions_are_those_of_numpy():
    def function(x, y):
        return x @ y

    fast = sot_numpy.symbolic_translate(function)
    for _ in range(2):
        with pytest.raises(ValueError, match="matmul"):
            fast(np.ones((2, 3)), np.ones((2, 3)))
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        sot_numpy.symbolic_translate(lambda x: 1 / x)(np.zeros(2))


def test_psdb_is_the_packages():
    def function(x):
        y = x + 1
        psdb.breakgraph()
        return y * 2, psdb.in_sot()

    result, known = sot_numpy.symbolic_translate(function)(np.ones(2))
    assert known and result.tolist() == [4.0, 4.0]
    assert sot_numpy.stats().reasons == {"requested": 1} and sot_numpy.stats().graphs == 2


def test_explain_and_registrations():
    def scale(x):
        return float(np.random.rand() * 0) + 3

    explanation = sot_numpy.explain(lambda x: x + scale(x))(np.ones(2))
    assert len(explanation.breaks) == 1 and "np.random.rand()" in str(explanation)
    with sot_numpy.register.constant_result(scale):
        fast = sot_numpy.symbolic_translate(lambda x: x + scale(x))
        sot_numpy.reset()
        same(fast(np.ones(2)), np.full(2, 4.0))
    with sot_numpy.break_on(np.exp):
        fast = sot_numpy.symbolic_translate(lambda x: np.exp(x + 1) + 1)
        sot_numpy.reset()
        fast(np.ones(2))
        assert sot_numpy.stats().reasons == {"break-listed": 1}


def test_messages_name_the_package():
    with pytest.raises(TypeError, match=r"^sot_numpy\.symbolic_translate\(\) takes"):
        sot_numpy.symbolic_translate(3)
    assert "sot_numpy.symbolic_translate" in repr(sot_numpy.symbolic_translate(softmax))


def test_full_graph():
    with pytest.raises(sot_numpy.GraphBreakError) as raised:
        sot_numpy.symbolic_translate(adds_in_place, fullgraph=True)(np.ones(2), np.ones(2))
    assert raised.type.__module__ == "sot_numpy"


def test_reports(tmp_path):
    explanation = sot_numpy.explain(softmax)(np.ones((2, 2)))
    explanation.save(tmp_path / "report.html")
    explanation.save(tmp_path / "report.json")
    assert explanation.data["versions"]["numpy"] == np.__version__
