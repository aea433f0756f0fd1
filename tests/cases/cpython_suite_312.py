"""What running CPython's own tests translated found, where older versions have errors of their own."""

import toy
from cases import given


def one():
    return (toy.arange(2),)


class GivesItsClass(Exception):
    def __new__(cls, *args):
        return cls


def waiting(seen):
    try:
        yield 1
    except Exception as error:
        seen.append((type(error).__name__, str(error)))
        yield 2


@given(one)
def test_thrown_class_that_makes_no_exception(x):
    seen = []
    generator = waiting(seen)
    next(generator)
    return x + 1, generator.throw(GivesItsClass), seen
