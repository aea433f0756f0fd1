"""Objects that a function takes out of containers it was given die between the same lines as in eager mode."""

import collections
import weakref

import paddle
import pytest

import sot

log = []


class Mortal:
    def __init__(self, name):
        self.name = name

    def __del__(self):
        log.append(f"del {self.name}")


class Plain:
    pass


def mortals():
    return [Mortal(number) for number in range(3)]


def named():
    return {number: Mortal(number) for number in range(3)}


def queue():
    return collections.deque(mortals())


def told_of():
    value = Plain()
    weakref.finalize(value, log.append, "finalized")
    return [value]


def suspended():
    def generator():
        try:
            yield 1
        finally:
            log.append("finally")

    started = generator()
    next(started)
    return [started]


def pop(x, held):
    value = held.pop()
    log.append("a")
    y = x + 1
    del value
    log.append("b")
    return y


def pop_and_rebind(x, held):
    value = held.pop()
    y = x + 1
    value = None
    log.append("b")
    return y * 2


def clear(x, held):
    log.append("a")
    held.clear()
    log.append("b")
    return x + 1


def delete_item(x, held):
    log.append("a")
    del held[0]
    log.append("b")
    return x + 1


def set_item(x, held):
    log.append("a")
    held[0] = 1
    log.append("b")
    return x + 1


def set_slice(x, held):
    log.append("a")
    held[:] = [1]
    log.append("b")
    return x + 1


def pop_key(x, held):
    value = held.pop(0)
    log.append("a")
    del value
    log.append("b")
    return x + 1


def pop_left(x, held):
    value = held.popleft()
    log.append("a")
    value = 1
    log.append("b")
    return x + 1


def take(held):
    held.pop()
    log.append("inside")
    return 5


def pop_and_hold(x, held):
    value = held.pop()
    y = x + 1
    log.append("written")
    return y


def pop_and_hold_two(x, held):
    value, other = held.pop(), held.pop()
    y = x + len(value.name if isinstance(value.name, str) else "")
    log.append("written")
    return y


def in_a_callee(x, held):
    number = take(held)
    log.append("outside")
    return x + number


def in_a_loop(x, held):
    while held:
        value = held.pop()
        log.append("round")
        x = x + 1
    log.append("end")
    return x


PROGRAMS = [
    (pop, mortals),
    (pop_and_rebind, mortals),
    (clear, mortals),
    (clear, named),
    (clear, queue),
    (delete_item, mortals),
    (delete_item, named),
    (set_item, mortals),
    (set_item, named),
    (set_slice, mortals),
    (pop_key, named),
    (pop_left, queue),
    (pop_and_hold, mortals),
    (pop_and_hold, queue),
    (pop_and_hold_two, mortals),
    (in_a_callee, mortals),
    (in_a_loop, mortals),
    (pop, told_of),
    (pop, suspended),
]


def observe(program, make):
    seen = []
    for _ in range(3):
        log.clear()
        held = make()
        result = program(paddle.ones([2]), held).tolist()
        log.append("returned")
        del held
        seen.append((list(log), result))
    return seen


@pytest.mark.alone("verify mode holds what a call reaches until it has been compared")
@pytest.mark.parametrize(("program", "make"), PROGRAMS, ids=lambda part: part.__name__)
def test_values_die_between_the_same_lines(program, make):
    eager = observe(program, make)
    assert observe(sot.symbolic_translate(program), make) == eager
    stats = sot.stats()
    assert stats.graphs and stats.hits
