"""Objects whose death shows, and when it comes."""

import collections
import weakref

import toy
from cases import given

LOG = []


class Dying:
    def __init__(self, name):
        self.name = name

    def __del__(self):
        LOG.append(("dies", self.name))


class Watched:
    pass


def one():
    LOG.clear()
    return (toy.arange(2),)


def fails(name):
    kept = Dying(name)
    raise ValueError(kept.name)


@given(one, hit=False)
def test_kept_by_the_traceback_of_an_exception(x):
    try:
        fails("a")
    except ValueError:
        LOG.append("handled")
    LOG.append("behind")
    return x + 1


@given(one, hit=False)
def test_kept_by_an_exception_that_is_kept(x):
    kept = None
    try:
        fails("a")
    except ValueError as error:
        kept = error
    LOG.append("behind")
    kept = None
    LOG.append("dropped")
    return x + 1


def passes_on(name):
    own = Dying(name + " of the caller")
    fails(name)
    return own


@given(one, hit=False)
def test_kept_by_the_frames_of_a_traceback(x):
    for name in ("a", "b"):
        try:
            passes_on(name)
        except ValueError as error:
            LOG.append(str(error))
        LOG.append("behind")
    return x + 1


@given(one, hit=False)
def test_dropped_by_a_list(x):
    values = [Dying("a"), Dying("b"), Dying("c"), Dying("d")]
    del values[0]
    LOG.append("deleted")
    values.pop()
    LOG.append("popped")
    values[0] = None
    LOG.append("replaced")
    values.clear()
    LOG.append("cleared")
    return x + 1


@given(one, hit=False)
def test_dropped_by_a_dict(x):
    values = {"a": Dying("a"), "b": Dying("b"), "c": Dying("c")}
    values["a"] = 1
    LOG.append("replaced")
    del values["b"]
    LOG.append("deleted")
    values = None
    LOG.append("dropped")
    return x + 1


@given(one, hit=False)
def test_held_twice(x):
    values = [Dying("a"), Dying("b")]
    others = collections.deque(values)
    values.clear()
    LOG.append("cleared")
    others.popleft()
    LOG.append("popped")
    del others
    LOG.append("deleted")
    return x + 1


@given(one, hit=False)
def test_weakly_referred_to_in_a_list(x):
    values = [Watched(), Watched()]
    references = [weakref.ref(value, lambda _: LOG.append("told")) for value in values]
    toy.save(x)
    values.pop()
    LOG.append("popped")
    values = None
    LOG.append("dropped")
    return x + 1, [reference() for reference in references]


@given(one, hit=False)
def test_generators_in_a_list(x):
    def logged(name):
        try:
            yield name
        finally:
            LOG.append(name)

    running = [logged("a"), logged("b")]
    started = [next(generator) for generator in running]
    toy.save(x)
    del running[0]
    LOG.append("deleted")
    running = None
    LOG.append("dropped")
    return x + 1, started


def steps(x):
    try:
        yield x
        yield x * 2
    finally:
        LOG.append("closed")


def begun(x):
    generator = steps(x)
    next(generator)
    return generator


def fails_at_a_break(x, of):
    kept = of(begun(x))
    y = x * 2
    return y + float(y), kept


def fails_behind_a_break(x, of):
    kept = of(begun(x))
    y = x * 2
    toy.save(y)
    return fails_in_a_graph(y), kept


def fails_in_a_graph(x):
    y = x + 1
    raise KeyError(y.ndim)


def passes_through(x, of):
    return fails_behind_a_break(x + 1, of)


@given(one, hit=False)
def test_a_generator_in_a_frame_that_the_breaking_instruction_leaves(x):
    try:
        fails_at_a_break(x, lambda kept: kept)
    except ValueError:
        LOG.append("handled")
    LOG.append("behind")
    return x + 1


@given(one, hit=False)
def test_a_list_in_a_frame_that_the_breaking_instruction_leaves(x):
    try:
        fails_at_a_break(x, lambda kept: [kept, x])
    except ValueError:
        LOG.append("handled")
    LOG.append("behind")
    return x + 1


@given(one, hit=False)
def test_a_generator_in_a_frame_that_a_traceback_keeps(x):
    try:
        passes_through(x, lambda kept: kept)
    except KeyError:
        LOG.append("handled")
    LOG.append("behind")
    return x + 1


@given(one, hit=False)
def test_a_generator_in_a_frame_of_an_exception_that_is_kept(x):
    kept = None
    try:
        fails_at_a_break(x, lambda kept: kept)
    except ValueError as error:
        kept = error
    LOG.append("behind")
    kept = None
    LOG.append("dropped")
    return x + 1


def fails_with_a_finally(x, of):
    kept = of(begun(x))
    y = x * 2
    try:
        return y + float(y), kept
    finally:
        LOG.append("finally")


@given(one, hit=False)
def test_a_generator_in_a_frame_with_a_finally_that_an_exception_leaves(x):
    try:
        fails_with_a_finally(x, lambda kept: kept)
    except ValueError:
        LOG.append("handled")
    LOG.append("behind")
    return x + 1
