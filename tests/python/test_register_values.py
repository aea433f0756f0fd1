"""Registrations at run time of classes whose instances are values."""

import fractions
import re
import warnings

import paddle
import pytest

import sot


class Point:
    def __init__(self, x, y):
        self.x, self.y = x, y

    def __eq__(self, other):
        return isinstance(other, Point) and (self.x, self.y) == (other.x, other.y)

    def __hash__(self):
        return hash((self.x, self.y))


calls = []


def length(point):
    calls.append(point)
    return eval("abs")(point.x) + abs(point.y)


def translated(x, point):
    return x * length(point) + point.x


def shifted(point):
    return Point(point.x + eval("1"), point.y)


def graphs_and_breaks():
    stats = sot.stats()
    return stats.graphs, sum(stats.breaks.values())


@pytest.mark.differs
def test_values_are_known_while_tracing():
    x = paddle.ones([1])
    calls.clear()
    with sot.register.value_type(Point), sot.register.pure(length):
        fast = sot.symbolic_translate(translated)
        assert fast(x, Point(1, 2)).tolist() == [4.0]
        assert fast(x, Point(1, 2)).tolist() == [4.0], "another object that is equal"
        assert sot.stats().hits == 1 and len(calls) == 1
        assert fast(x, Point(2, 3)).tolist() == [7.0], "one that is not equal"
        assert fast(x, Point(1, 2)).tolist() == [4.0]
        assert sot.stats().hits == 2 and len(calls) == 2 and graphs_and_breaks() == (2, 0)


def test_without_the_registration_pure_functions_do_not_take_them():
    with sot.register.pure(length):
        calls.clear()
        fast = sot.symbolic_translate(translated)
        assert fast(paddle.ones([1]), Point(1, 2)).tolist() == [4.0]
        assert len(calls) == 1
        with sot.register.value_type(Point):
            before = sot.stats().translations
            assert fast(paddle.ones([1]), Point(1, 2)).tolist() == [4.0]
            assert sot.stats().translations > before, "what looked at a point is forgotten"


def test_pure_functions_may_make_values():
    def call(x, point):
        return x * shifted(shifted(point)).x

    with sot.register.value_type(Point), sot.register.pure(shifted):
        fast = sot.symbolic_translate(call)
        for _ in range(2):
            assert fast(paddle.ones([1]), Point(3, 0)).tolist() == [5.0]
        assert graphs_and_breaks() == (1, 0) and sot.stats().hits == 1


def test_a_value_of_the_standard_library():
    def call(x, fraction):
        return x * float(fraction + 1)

    x = paddle.ones([1])
    with sot.register.value_type(fractions.Fraction):
        fast = sot.symbolic_translate(call)
        for _ in range(2):
            assert fast(x, fractions.Fraction(1, 2)).tolist() == [1.5]
        assert fast(x, fractions.Fraction(3, 2)).tolist() == [2.5]
        assert fast(x, fractions.Fraction(2, 4)).tolist() == [1.5]


@pytest.mark.differs
def test_values_in_a_global(monkeypatch):
    def call(x):
        return x * length(ORIGIN)

    with sot.register.value_type(Point), sot.register.pure(length):
        fast = sot.symbolic_translate(call)
        assert fast(paddle.ones([1])).tolist() == [7.0]
        monkeypatch.setitem(globals(), "ORIGIN", Point(1, 1))
        assert fast(paddle.ones([1])).tolist() == [2.0]
        monkeypatch.setitem(globals(), "ORIGIN", Point(3, 4))
        assert fast(paddle.ones([1])).tolist() == [7.0] and sot.stats().hits == 1


ORIGIN = Point(3, 4)


def test_unrelated_translations_keep_their_hits():
    x = paddle.ones([1])
    fast = sot.symbolic_translate(lambda x: x * length(ORIGIN))
    other = sot.symbolic_translate(lambda x: x * 2)
    fast(x), other(x)
    with sot.register.value_type(Point):
        before = sot.stats()
        other(x)
        assert (sot.stats().hits, sot.stats().misses) == (before.hits + 1, before.misses)
        fast(x)
        assert sot.stats().misses > before.misses
    other(x)
    assert sot.stats().hits >= before.hits + 2


def test_a_value_whose_comparison_raises_is_reported_once_and_left_to_cpython():
    class Odd(Point):
        def __eq__(self, other):
            raise RuntimeError("cannot be compared")

        __hash__ = Point.__hash__

    def call(x, odd):
        return x * odd.x

    with sot.register.value_type(Odd):
        fast = sot.symbolic_translate(call)
        assert fast(paddle.ones([1]), Odd(2, 0)).tolist() == [2.0]
        with pytest.warns(RuntimeWarning) as warned:
            for number in (3, 4, 5):
                assert fast(paddle.ones([1]), Odd(number, 0)).tolist() == [number]
        (one,) = warned
        place = rf"{re.escape(__file__)}:\d+"
        assert re.search(rf"sot.register.value_type\(.*Odd\) at {place}: `==` of instances raises RuntimeError: cannot be compared \({place}\); calls", str(one.message))
        assert sot.stats().reasons == {"registration-raised": 3} and sot.stats().translations == 1
        assert any("RuntimeError: cannot be compared" in reason for reason in sot.stats().fallbacks)
        odd = Odd(2, 0)
        fast(paddle.ones([1]), odd)
    assert fast(paddle.ones([1]), odd).tolist() == [2.0], "undone, it is an object like others"


@pytest.mark.differs
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_what_ends_the_program_ends_it_in_a_comparison_too(error):
    class Ending(Point):
        def __eq__(self, other):
            raise error("now")

        __hash__ = Point.__hash__

    fast = sot.symbolic_translate(lambda x, ending: x * ending.x)
    with sot.register.value_type(Ending), warnings.catch_warnings():
        warnings.simplefilter("error")
        fast(paddle.ones([1]), Ending(2, 0))
        with pytest.raises(error, match="now"):
            fast(paddle.ones([1]), Ending(3, 0))


def test_a_hash_that_raises_is_asked_for_only_where_the_program_does():
    class Hashless(Point):
        __eq__ = Point.__eq__

        def __hash__(self):
            raise RuntimeError("no hash")

    def call(x, point, table):
        return x * shifted(point).x + len([point]) + (point.y if not table else table[point])

    with sot.register.value_type(Hashless), sot.register.pure(shifted):
        fast = sot.symbolic_translate(call)
        for number in (1, 1, 2):
            point = Hashless(number, 0)
            assert fast(paddle.ones([1]), point, {}).tolist() == call(paddle.ones([1]), point, {}).tolist()
            with pytest.raises(RuntimeError, match="no hash"):
                fast(paddle.ones([1]), point, {1: 2})


class Plain:
    """Compared by identity."""


class Unhashable:
    def __eq__(self, other):
        return True


@pytest.mark.parametrize(
    "cls, error, words",
    [
        (3, TypeError, "takes a class, not 3"),
        (Point(1, 2), TypeError, "takes a class"),
        (int, ValueError, "already knows"),
        (list, ValueError, "already knows"),
        (paddle.nn.Linear, ValueError, "already knows what its instances are: models"),
        (paddle.Tensor, ValueError, "already knows what its instances are: tensors"),
        (Plain, ValueError, "no __eq__ of their own"),
        (Unhashable, ValueError, "cannot be hashed"),
        (object, ValueError, "no __eq__ of their own|already knows"),
    ],
)
def test_what_is_no_value_says_why(cls, error, words):
    with pytest.raises(error, match=words):
        sot.register.value_type(cls)


def test_a_class_is_registered_once():
    with sot.register.value_type(Point), pytest.raises(ValueError, match="registered already, as value_type"):
        sot.register.value_type(Point)
