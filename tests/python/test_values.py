"""Queries of numbers and tensors through Paddle's functions, inside the translated function."""

import collections
import copy
import functools

import paddle
import pytest
from paddle import nn

import sot

INFO = paddle.finfo("float32")


def limits(x):
    lowest = paddle.finfo(x.dtype).min
    return paddle.where(x > 0, x, paddle.full_like(x, lowest)), INFO.eps, paddle.iinfo(paddle.int32).max


def test_limits_of_numbers(check):
    check(limits, paddle.to_tensor([1.0, -1.0]))


class Recurrent(nn.Layer):
    """Keeps its state as an attribute, which the first call makes a buffer."""

    def __init__(self):
        super().__init__()
        self.cell = nn.Linear(3, 3)
        self.state = paddle.zeros([2, 3])
        self.register_buffer("last", None, persistable=False)

    def forward(self, x):
        self.state = paddle.tanh(self.cell(x) + self.state)
        self.last = x * 2
        self.seen = self.state + 1
        return self.state


def test_tensors_written_to_attributes_of_a_layer(same):
    x = paddle.randn([2, 3])

    def run(translate):
        paddle.seed(1)
        net = Recurrent()
        call = sot.symbolic_translate(net) if translate else net
        outputs = [call(x).numpy() for _ in range(4)]
        buffers = {name: buffer.numpy() for name, buffer in net.named_buffers()}
        return outputs, buffers, sorted(net.state_dict()), all(buffer.name for buffer in net.buffers())

    expected = run(False)
    same(run(True), expected)
    stats = sot.stats()
    assert not stats.breaks and not stats.fallbacks, f"\n{stats}"


def names(x):
    y = x + 1
    known = bool(y.name), isinstance(y.name, str), not y.name
    return y, known, y.name if y.name else None


def used_names(x):
    y = x + 1
    try:
        text = "of " + y.name
    except TypeError:
        text = "no text"
    return y, text, {y.name: 1}, y.name == "a name", f"{y.name}", len(y.name), y.name[0], "o" in y.name, y.name * 2, "a" == y.name


def test_names_of_tensors(same):
    for fn, breaks in ((names, False), (used_names, True)):
        sot.reset()
        fast = sot.symbolic_translate(fn)
        for _ in range(2):
            result = fast(paddle.ones([2]))
            same(result[0], paddle.full([2], 2.0))
        name = result[0].name
        if fn is names:
            assert result[1:] == ((True, True, False), name)
        else:
            rest = ("of " + name, {name: 1}, False, name, len(name), name[0], "o" in name, name * 2, False)
            assert result[1:] == rest
        assert bool(sot.stats().breaks) == breaks and not sot.stats().fallbacks


class Remembering(nn.Layer):
    def __init__(self):
        super().__init__()
        self.register_buffer("now", paddle.ones([2]))
        self.register_buffer("before", paddle.zeros([2]))

    def forward(self, x):
        self.before = self.now
        self.now = self.now + x
        return x * self.now + self.before


def test_buffers_have_names_of_their_own(same):
    """Static programs distinguish buffers by name."""
    x = paddle.to_tensor([1.0, 2.0])
    eager, net = Remembering(), Remembering()
    fast = sot.symbolic_translate(lambda x: net(x))
    for _ in range(3):
        same(fast(x), eager(x))
    assert sot.stats().graphs == 1 and not sot.stats().breaks
    assert net.now.name != net.before.name

    def read(x):
        return x * net.now + net.before

    same(paddle.jit.to_static(read, full_graph=True)(x).numpy(), read(x).numpy())


def test_a_getattribute_of_the_programs_is_asked_by_the_program_alone(same):
    class Watched:
        def __init__(self, t):
            self.t = t

        def __getattribute__(self, name):
            asked.append(name)
            return object.__getattribute__(self, name)

    def fn(x, held):
        y = held.t * x
        float(y.sum())
        return y + held.t

    asked = []
    x, held = paddle.ones([2]), Watched(paddle.ones([2]) * 3)
    fast = sot.symbolic_translate(fn)
    for _ in range(3):
        asked.clear()
        got = fast(x, held)
        assert asked == ["t", "t"]
        same(got, fn(x, held))
    assert sot.stats().graphs == 2 and sot.stats().misses == 2


def test_absolute_values_and_places(check):
    def fn(x):
        place = paddle.CPUPlace()
        return abs(-x) + x.__abs__(), x.to(place) is x, paddle.to_tensor(2.0, place=place) * x, place == x.place, str(place)

    check(fn, paddle.to_tensor([-1.0, 2.0]))


def test_a_number_keeps_its_precision_and_its_sign(same):
    """`full_like` of another element type, negative zero, and the sign of a product that is zero."""

    def f(x, n):
        wide = x.cast("float64")
        return paddle.full_like(x, 0.1, dtype="float64"), paddle.full([2], n), wide * 2, paddle.scale(x, n, 2.0, False)

    x = paddle.to_tensor([-0.0, 1.5])
    for numbers in ([-0.0, 0.0], [0.0, -0.0]):
        sot.reset()
        fast = sot.symbolic_translate(f)
        for n in numbers:
            for got, expected in zip(fast(x, n), f(x, n)):
                assert got.numpy().tobytes() == expected.numpy().tobytes()


def test_deep_copies(same):
    """`copy.deepcopy` of tensors without gradients, and of containers of them, is part of the graph."""

    def f(x):
        y = x * 2
        state = {"a": y, "both": [y, x], "n": 3}
        other = copy.deepcopy(state)
        other["a"] += 1
        memo = {}
        alone = x.__deepcopy__(memo)
        return other, state, other["both"][0] is other["a"], copy.deepcopy(x), memo[id(x)] is alone, len(memo), copy.copy(state)

    x = paddle.rand([2, 3])
    translated = sot.symbolic_translate(f)
    for _ in range(2):
        same(translated(x), f(x))
    stats = sot.stats()
    assert (stats.graphs, stats.breaks, stats.fallbacks, stats.hits) == (1, {}, {}, 1)


def test_deep_copies_share_nothing():
    translated = sot.symbolic_translate(lambda x: copy.deepcopy([x])[0])
    x = paddle.zeros([3])
    y = translated(x)
    x += 1
    assert y.tolist() == [0, 0, 0]
    assert (sot.stats().graphs, sot.stats().breaks) == (1, {})


def test_deep_copies_of_what_has_more_than_a_value(same):
    """Copies of parameters are parameters, of tensors with gradients leaves, and of buffers persistable."""
    weight = paddle.create_parameter([3], "float32")
    frozen = paddle.create_parameter([3], "float32")
    frozen.stop_gradient = True
    kept = paddle.rand([3])
    kept.persistable = True
    for of in (weight, frozen, kept):

        def f(x):
            copied = copy.deepcopy(of)
            y = copy.deepcopy(x * weight)
            return type(copied) is type(of), copied.persistable, copied.stop_gradient, copied.is_leaf, copied * 2, y, y.is_leaf

        x = paddle.rand([3])
        for _ in range(2):
            same(sot.symbolic_translate(f)(x), f(x))
        assert sot.stats().breaks


def scaled(x, factor, shift=0.0):
    return x * factor + shift


@sot.symbolic_translate
def with_shift(x, given):
    return functools.partial(given, shift=1.0)(x)


@pytest.mark.alone("verify mode looks at the attributes of a partial, which makes its dict")
def test_a_partial_that_was_looked_at_is_still_merged_into_others():
    given = functools.partial(scaled, factor=2.0)
    x = paddle.ones([2])
    for _ in range(2):
        assert with_shift(x, given).tolist() == [3.0, 3.0]
    other = functools.partial(given, shift=4.0)
    assert other.func is scaled
    assert other.keywords == {"factor": 2.0, "shift": 4.0}


class Named:
    def __repr__(self):
        return "named"


@pytest.mark.parametrize("method", ["remove", "index"])
def test_errors_about_an_absent_item_of_a_deque(method):
    def f(x, item):
        y = x * 2
        items = collections.deque([1, 2])
        try:
            getattr(items, method)(item)
        except ValueError as error:
            return y + 1, str(error)
        return y, None

    fast = sot.symbolic_translate(f)
    for make in (Named, Named, lambda: 5, lambda: 6):
        item = make()
        assert fast(paddle.ones([2]), item)[1] == f(paddle.ones([2]), item)[1]
    assert sot.stats().translations
