"""Functions that call einops are one graph; expected numbers of graphs, hits and breaks are given."""

import paddle
import pytest
import sot
import sot_einops
from einops import EinopsError, _backends, pack, rearrange, reduce, repeat


@pytest.fixture(autouse=True)
def fresh():
    sot.reset()
    yield
    sot.reset()


def heads(x):
    return rearrange(x, "b t (h d) -> b h t d", h=2) * 2


def pooled(x):
    return reduce(x + 1, "b (t two) c -> b t c", "mean", two=2)


def repeated(x):
    return repeat(x.mean(axis=0), "t c -> b t c", b=3) + 1


def several(x):
    y = rearrange(x, "b t c -> (b t) c")
    z = reduce(y, "n c -> c", "max")
    return rearrange([z, z + 1], "k c -> c k")


@pytest.mark.parametrize("function", [heads, pooled, repeated, several])
def test_is_one_graph(function):
    fast = sot.symbolic_translate(function)
    for number in range(3):
        x = paddle.arange(48.0).reshape([2, 6, 4]) + number
        assert fast(x).tolist() == function(x).tolist()
    stats = sot.stats()
    assert (stats.graphs, stats.hits, stats.breaks, stats.fallbacks) == (1, 2, {}, {})


def test_another_pattern_is_another_translation():
    def function(x, pattern):
        return rearrange(x, pattern) + 1

    fast = sot.symbolic_translate(function)
    x = paddle.arange(6.0).reshape([2, 3])
    for pattern in ("a b -> b a", "a b -> (a b)", "a b -> b a"):
        assert fast(x, pattern).tolist() == function(x, pattern).tolist()
    stats = sot.stats()
    assert (stats.graphs, stats.hits, stats.breaks) == (2, 1, {})


def test_gradients():
    x = paddle.arange(12.0).reshape([2, 6])
    x.stop_gradient = False
    sot.symbolic_translate(lambda x: reduce(rearrange(x, "a (b c) -> a b c", c=2) * x.sum(), "a b c -> ", "sum"))(x).backward()
    expected = paddle.arange(12.0).reshape([2, 6])
    expected.stop_gradient = False
    (expected.sum() * expected.sum()).backward()
    assert x.grad.tolist() == expected.grad.tolist()
    assert not sot.stats().breaks


def test_errors_are_those_of_einops():
    fast = sot.symbolic_translate(lambda x: rearrange(x, "a b -> b a c"))
    for _ in range(2):
        with pytest.raises(EinopsError, match="a b -> b a c"):
            fast(paddle.ones([2, 3]))


def test_what_is_not_registered_still_works():
    fast = sot.symbolic_translate(lambda x: pack([x, x + 1], "* c")[0] * 2)
    x = paddle.arange(6.0).reshape([2, 3])
    for _ in range(2):
        assert fast(x).tolist() == (paddle.concat([x, x + 1]) * 2).tolist()


def test_it_undoes_itself():
    assert len(sot_einops.registered) == 3
    for registration in sot_einops.registered:
        registration.undo()
    # What a new process does not know yet.
    _backends._type2backend.clear()
    _backends._loaded_backends.clear()
    try:
        fast = sot.symbolic_translate(heads)
        x = paddle.ones([2, 6, 4])
        found = fast(x).tolist()
        assert found == heads(x).tolist() and sot.stats().breaks
    finally:
        sot_einops.register()
