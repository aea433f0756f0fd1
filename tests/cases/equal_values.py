"""Values that are equal and of one type, and that the program tells apart all the same: what holds for one does not for the other."""

import datetime

import numpy as np
import toy
from cases import given

EAST = datetime.timezone(datetime.timedelta(hours=1))

GROUPS = [
    [0.0, -0.0],
    [complex(0.0, 0.0), complex(0.0, -0.0)],
    [range(0), range(1, 1)],
    [range(0, 3, 2), range(0, 4, 2)],
    [(1, True), (1, 1), (True, 1.0)],
    [frozenset([1]), frozenset([True]), frozenset([1.0])],
    [datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone.utc), datetime.datetime(2020, 1, 1, 1, tzinfo=EAST)],
    [datetime.time(1), datetime.time(1, fold=1)],
    [np.float32(0), np.float32(-0.0)],
    [np.float64(0), np.float64(-0.0)],
    [np.complex64(0), np.complex64(complex(0.0, -0.0))],
    [np.datetime64(1, "s"), np.datetime64(1000, "ms")],
    [np.timedelta64(1, "D"), np.timedelta64(24, "h")],
]


def _each(hold):
    """Each value of a group after the other, twice, held by something new."""
    makers = [lambda value=value: (toy.arange(2), hold(value)) for group in GROUPS for value in group for _ in range(2)]
    return given(*makers)


@_each(lambda value: value)
def test_value(x, value):
    return x + 1, repr(value), type(value).__name__


@_each(lambda value: [(value,)])
def test_value_in_a_tuple_in_a_list(x, values):
    return x + 1, [(repr(value), type(value).__name__) for value, in values]


@_each(lambda value: {value: 1})
def test_key(x, d):
    return x + 1, [(repr(key), type(key).__name__) for key in d]


@_each(lambda value: {(value, 1): 1})
def test_key_that_is_a_tuple(x, d):
    return x + 1, [repr(key) for key in d]


@_each(lambda value: {value})
def test_element(x, some):
    return x + 1, [(repr(item), type(item).__name__) for item in some]


@_each(lambda value: frozenset([(value,)]))
def test_element_that_is_a_tuple(x, some):
    return x + 1, [repr(item) for item in some]
