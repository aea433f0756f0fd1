"""Functions that read and make immutable maps are one graph; expected numbers of graphs, hits and breaks are given."""

import immutables
import paddle
import pytest
import sot
import sot_immutables

Map = immutables.Map


@pytest.fixture(autouse=True)
def fresh():
    sot.reset()
    yield
    sot.reset()


def state(number):
    return Map(weight=paddle.arange(3.0) + number, steps=2)


def reads(held, x):
    return held["weight"] * x + held["steps"] + held.get("missing", 1) + len(held) + ("bias" in held)


def sets(held, x):
    return held.set("weight", held["weight"] + x).set("bias", x).delete("steps")


def updates(held, x):
    return held.update({"weight": x, "rate": held["weight"].mean()})


def goes_over_keys(held, x):
    total = x
    for key in held:
        total = total + held[key]
    return total


def as_lists(value):
    if isinstance(value, paddle.Tensor):
        return value.tolist()
    if isinstance(value, tuple):
        return [as_lists(item) for item in value]
    return {key: as_lists(item) for key, item in value.items()} if isinstance(value, (Map, dict)) else value


def goes_over_views(held, x):
    for key, value in held.items():
        x = x + value
    return x * sum(held.values()), {key: value * x for key, value in held.items()}, len(held.values())


def updates_with_a_map(held, x):
    return held.update(held.set("bias", x * 2), rate=x)


@pytest.mark.parametrize("function", [reads, sets, goes_over_keys, goes_over_views, updates, updates_with_a_map])
def test_is_one_graph(function):
    fast = sot.symbolic_translate(function)
    for number in range(4):
        held, x = state(number), paddle.full([3], 2.0 + number)
        before = as_lists(held)
        found, expected = fast(held, x), function(held, x)
        assert type(found) is type(expected)
        assert as_lists(found) == as_lists(expected)
        assert as_lists(held) == before
    stats = sot.stats()
    assert (stats.graphs, stats.hits, stats.breaks, stats.fallbacks) == (1, 3, {}, {})


def test_other_keys_and_constants_are_other_translations():
    fast = sot.symbolic_translate(reads)
    for held in (state(0), state(0).set("bias", 1), state(0).set("steps", 3), state(1)):
        x = paddle.ones([3])
        assert fast(held, x).tolist() == reads(held, x).tolist()
    stats = sot.stats()
    assert (stats.translations, stats.hits, stats.breaks) == (3, 1, {})


def test_gradients_come_through():
    def loss(held, x):
        return (held.set("weight", held["weight"] * x)["weight"] ** 2).sum()

    gradients = []
    for function in (loss, sot.symbolic_translate(loss)):
        weight = paddle.arange(3.0)
        weight.stop_gradient = False
        function(Map(weight=weight), paddle.full([3], 2.0)).backward()
        gradients.append(weight.grad.tolist())
    assert gradients[0] == gradients[1]
    assert not sot.stats().breaks


def test_errors_are_those_of_the_map():
    fast = sot.symbolic_translate(lambda held, x: held["missing"] + x)
    for _ in range(2):
        with pytest.raises(KeyError, match="missing"):
            fast(state(0), paddle.ones([3]))


def updates_with_pairs(held, x):
    return held.update([("weight", x)])


def keeps_a_view(held, x):
    return list(held.keys())[0], held["weight"] + x


@pytest.mark.parametrize("function", [updates_with_pairs, keeps_a_view])
def test_what_breaks_the_graph_is_right(function):
    fast = sot.symbolic_translate(function)
    for number in range(2):
        held, x = state(number), paddle.ones([3])
        assert as_lists(fast(held, x)) == as_lists(function(held, x))
    assert sot.stats().breaks


def test_a_changed_map_is_another_translation():
    fast = sot.symbolic_translate(goes_over_views)
    for held in (state(0), state(0).set("bias", 1), state(0).delete("steps"), state(1)):
        x = paddle.ones([3])
        assert as_lists(fast(held, x)) == as_lists(goes_over_views(held, x))
    assert (sot.stats().translations, sot.stats().hits) == (3, 1)


def test_it_undoes_itself():
    for registration in sot_immutables.registered:
        registration.undo()
    try:
        held, x = state(0), paddle.ones([3])
        assert sot.symbolic_translate(reads)(held, x).tolist() == reads(held, x).tolist()
        assert sot.stats().breaks
    finally:
        sot_immutables.register()
