"""Generators: what ends the process of CPython 3.8 itself."""

import toy
from cases import given


def one():
    return (toy.arange(2),)


class Never(Exception):
    def __new__(cls, *args):
        return cls


@given(one)
def test_a_class_that_makes_no_exception_ends_a_generator(x):
    def waits():
        yield 1

    waiting = waits()
    try:
        waiting.throw(Never)
    except TypeError as e:
        text = str(e)[:40]
    return x + 1, text, list(waiting)
