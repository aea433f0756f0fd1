"""Generators and iterators made in the function."""

import toy
from cases import given, whole


def one():
    return (toy.arange(2),)


def count(n):
    for i in range(n):
        yield i


def scaled(x, n):
    while n:
        yield x * n
        n -= 1
    return "done"


def delegating(x):
    result = yield from scaled(x, 2)
    yield result


def echo():
    received = []
    while True:
        value = yield len(received)
        if value is None:
            return received
        received.append(value)


@whole
@given(one)
def test_loop_over_a_generator(x):
    for i in count(3):
        x = x + i
    return x


@whole
@given(one)
def test_generator_of_tensors(x):
    return [v for v in scaled(x, 3)]


@whole
@given(one)
def test_yield_from(x):
    return list(delegating(x))


@whole
@given(one)
def test_generator_expression(x):
    return sum(x * i for i in range(3)), tuple(i for i in (1, 2)), any(i > 1 for i in [1, 2])


@whole
@given(one)
def test_next_of_a_generator(x):
    g = count(3)
    return x + next(g), next(g), next(g), next(g, "end")


@given(one)
def test_send(x):
    g = echo()
    next(g)
    a = g.send("p")
    b = g.send("q")
    return x + a + b


@given(one)
def test_generator_returned(x):
    y = x + 1
    return scaled(y, 2), y


@given(one)
def test_generator_half_used_returned(x):
    y = x + 1
    g = count(4)
    next(g)
    return g, y


@given(lambda: (toy.arange(2), count(3)))
def test_generator_argument(x, g):
    return x + next(g)


@given(lambda: (toy.arange(2), iter([1, 2, 3])))
def test_iterator_argument(x, it):
    return x + next(it), [v for v in it]


@given(lambda: (toy.arange(2), iter([1, 2, 3])))
def test_iterator_argument_half_used(x, it):
    return x + next(it)


@given(one)
def test_iterator_returned(x):
    y = x + 1
    it = iter([y, 2, 3])
    next(it)
    return it, y


@whole
@given(one)
def test_zip_returned(x):
    return list(zip([x + 1, 2], "ab")), dict(zip("ab", [1, 2]))


@given(one)
def test_lazy_iterators_returned(x):
    y = x + 1
    return y, map(str, [1, 2]), zip([1], [2]), enumerate("a"), reversed([1, 2])


class Countdown:
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return self

    def __next__(self):
        if self.n == 0:
            raise StopIteration
        self.n -= 1
        return self.n


@whole
@given(lambda: (toy.arange(2), Countdown(3)))
def test_iterator_class(x, c):
    for i in c:
        x = x + i
    return x


class Sequence:
    def __len__(self):
        return 3

    def __getitem__(self, i):
        if i >= 3:
            raise IndexError(i)
        return i * 10


@given(lambda: (toy.arange(2), Sequence()))
def test_sequence_protocol(x, s):
    for i in s:
        x = x + i
    return x, list(s)


@given(one)
def test_generator_closed(x):
    log = []

    def g():
        try:
            yield 1
        finally:
            log.append("closed")

    it = g()
    next(it)
    it.close()
    return x + 1, log


@given(one)
def test_generator_throw(x):
    def g():
        try:
            yield 1
        except ValueError:
            yield 2

    it = g()
    next(it)
    return x + it.throw(ValueError("v"))


@given(one)
def test_generator_raises(x):
    def g():
        yield 1
        raise KeyError("inside")

    y = x + 1
    return [v for v in g()], y


@given(one)
def test_stop_iteration_inside_a_generator(x):
    def g():
        yield 1
        raise StopIteration

    y = x + 1
    return [v for v in g()], y


@whole
@given(one)
def test_itertools(x):
    import itertools

    return x + 1, list(itertools.chain([1], (2, 3))), list(itertools.islice([1, 2, 3, 4], 1, 3)), list(itertools.product([1, 2], "a")), list(itertools.repeat(5, 2))


@whole
@given(one)
def test_generator_with_effects_in_order(x):
    log = []

    def g():
        log.append("a")
        yield 1
        log.append("b")
        yield 2
        log.append("c")

    for v in g():
        log.append(v)
    return x + 1, log


def stopping():
    yield 1
    raise StopIteration(4)


@whole
@given(one)
def test_context_of_a_stop_that_leaves_a_generator(x):
    said = []
    try:
        list(stopping())
    except RuntimeError as error:
        said += [error.__cause__ is error.__context__, error.__suppress_context__, error.__context__.value]
    try:
        try:
            raise KeyError("first")
        except KeyError:
            list(stopping())
    except RuntimeError as error:
        said += [error.__cause__ is error.__context__, error.__context__.__context__.args]
    return x + 1, said


class Countdown:
    """An iterator that is no generator, and ends with a result."""

    def __init__(self, n):
        self.n, self.got = n, []

    def __iter__(self):
        return self

    def __next__(self):
        if self.n <= 0:
            raise StopIteration("end")
        self.n -= 1
        return self.n

    def send(self, value):
        self.got.append(value)
        if value == "fail":
            raise KeyError(value)
        return value


class Ended(StopIteration):
    pass


class EndsWithAnotherClass(Countdown):
    def __next__(self):
        raise Ended(self.n)


def delegating(inner):
    result = yield from inner
    yield "result", result


def outcome(call):
    try:
        return call()
    except Exception as error:
        return type(error).__name__, str(error)


@whole
@given(one)
def test_the_result_of_an_iterator_of_the_programs(x):
    inner = Countdown(3)
    outer = delegating(inner)
    sent = [next(outer), outer.send("sent"), outer.send(None), outcome(lambda: outer.send("fail"))]
    started = delegating(EndsWithAnotherClass(3))
    no_send = delegating(iter([1, 2]))
    next(no_send)
    return x + 1, list(delegating(Countdown(2))), list(started), sent, inner.got, outcome(lambda: no_send.send(3))


def ends_early(first, *, second=2):
    try:
        yield first
        yield second
    finally:
        first = None


@given(one)
def test_the_code_of_a_generator_that_has_ended(x):
    generator = ends_early(x)
    next(generator)
    generator.close()
    toy.save(x)
    return x + 1, generator.gi_code.co_name, generator.gi_frame, generator.__name__, list(generator)
