"""Generators, itertools and functools."""

import contextlib
import functools
import itertools


def _count(n):
    for i in range(n):
        yield i


def _echo():
    got = []
    while True:
        value = yield len(got)
        if value is None:
            return got
        got.append(value)


def _catching():
    try:
        yield 1
    except ValueError as e:
        yield "caught " + str(e)
    finally:
        yield "end"


def _cleanup(log):
    try:
        yield 1
        yield 2
    finally:
        log.append("closed")


def _delegating():
    result = yield from _echo()
    yield result


def _delegating_catch():
    yield from _catching()


@contextlib.contextmanager
def _managed(log):
    log.append("enter")
    try:
        yield len(log)
    finally:
        log.append("exit")


@functools.lru_cache(maxsize=None)
def _fib(n):
    return n if n < 2 else _fib(n - 1) + _fib(max(n - 2, 0))


@functools.lru_cache(maxsize=None)
def _recipe(pattern, *axes, ndim):
    left, right = pattern.split("->")
    return _Recipe(left.split(), right.split(), sorted(set(axes)), ndim)


class _Recipe:
    def __init__(self, left, right, axes, ndim):
        self.order = [left.index(name) for name in right]
        self.axes, self.ndim = axes, ndim


# A trace uses what the caches have.
_fib(10), _recipe("a b -> b a", "b", "a", ndim=1)


def cached_objects(x):
    recipe = _recipe("a b -> b a", "b", "a", ndim=x.ndim)
    return x + recipe.order[0] * 2 + recipe.ndim, recipe.order, recipe.axes, recipe is _recipe("a b -> b a", "b", "a", ndim=1)


def _wrapped(f):
    @functools.wraps(f)
    def wrapper(*args):
        return f(*args) + 1

    return wrapper


@_wrapped
def _triple(v):
    return v * 3


class Lazy:
    def __init__(self):
        self.count = 0

    @functools.cached_property
    def value(self):
        self.count += 1
        return 5


class Dispatching:
    def method(self, a, b):
        return a - b

    part = functools.partialmethod(method, 10)


@functools.total_ordering
class Ordered:
    def __init__(self, v):
        self.v = v

    def __eq__(self, other):
        return self.v == other.v

    def __lt__(self, other):
        return self.v < other.v


def generator_loop(x):
    for i in _count(3):
        x = x + i
    return x


def generator_expression(x):
    return sum(x * i for i in range(3))


def generator_send(x):
    g = _echo()
    next(g)
    return x + g.send("a") + g.send("b")


def generator_return_value(x):
    g = _echo()
    next(g)
    g.send(5)
    try:
        g.send(None)
    except StopIteration as e:
        return x + e.value[0]


def generator_throw(x):
    g = _catching()
    next(g)
    return x + 1, g.throw(ValueError("v")), next(g), next(g, "done")


def generator_throw_unhandled(x):
    g = _count(3)
    next(g)
    try:
        g.throw(KeyError("k"))
    except KeyError as e:
        return x + 1, e.args, list(g)


def generator_throw_at_the_start(x):
    g = _count(3)
    try:
        g.throw(KeyError("k"))
    except KeyError:
        return x + 1, list(g)


def generator_close(x):
    log = []
    g = _cleanup(log)
    next(g)
    g.close()
    return x + 1, log, list(g)


def generator_close_fresh(x):
    log = []
    g = _cleanup(log)
    g.close()
    return x + 1, log, list(g)


def yield_from_send(x):
    g = _delegating()
    next(g)
    g.send(4)
    return x + g.send(None)[0]


def yield_from_throw(x):
    g = _delegating_catch()
    next(g)
    return x + 1, g.throw(ValueError("w"))


def yield_from_an_iterable(x):
    def g():
        yield from [1, 2]
        yield from "ab"
        return (yield from _count(2))

    return x + 1, list(g())


def generator_with_a_local_state(x):
    def running():
        total = 0
        while True:
            total += yield total

    g = running()
    next(g)
    g.send(3)
    return x + g.send(4)


def contextmanager_function(x):
    log = []
    with _managed(log) as n:
        y = x + n
        log.append("body")
    return y, log


def contextmanager_with_exception(x):
    log = []
    try:
        with _managed(log):
            raise ValueError("v")
    except ValueError:
        log.append("caught")
    return x + len(log), log


def suppressing(x):
    with contextlib.suppress(KeyError):
        {}["a"]
    return x + 1


def null_context(x):
    with contextlib.nullcontext(3) as n:
        return x + n


def exit_stack(x):
    log = []
    with contextlib.ExitStack() as stack:
        stack.enter_context(_managed(log))
        stack.callback(log.append, "callback")
    return x + 1, log


def closing(x):
    log = []

    class Thing:
        def close(self):
            log.append("close")

    return x + 1


def chains(x):
    return x + 1, list(itertools.chain([1], "a")), list(itertools.chain.from_iterable([[1], [2, 3]]))


def islices(x):
    return x + 1, list(itertools.islice(itertools.count(5, 2), 3)), list(itertools.islice("abcdef", 1, 5, 2))


def products(x):
    return (
        x + 1,
        list(itertools.product("ab", [1, 2])),
        list(itertools.permutations([1, 2, 3], 2)),
        list(itertools.combinations("abc", 2)),
        list(itertools.combinations_with_replacement("ab", 2)),
        list(itertools.product([0, 1], repeat=2)),
    )


def products_of_tensors(x):
    return sum(a * b for a, b in itertools.product([x, x + 1], [2, 3])), [p[1] for p in itertools.permutations([x, 1], 2)][1]


def accumulates(x):
    return (
        x + 1,
        list(itertools.accumulate([1, 2, 3])),
        list(itertools.accumulate([1, 2, 3], lambda a, b: a * b)),
        list(itertools.accumulate([1], initial=5)),
    )


def accumulated_tensors(x):
    return list(itertools.accumulate([x, x, x]))[-1]


def groups(x):
    return x + 1, [(k, list(g)) for k, g in itertools.groupby("aabca")], [k for k, _ in itertools.groupby([1, 1, 2], key=lambda v: v % 2)]


def tees(x):
    a, b = itertools.tee([1, 2, 3])
    next(a)
    return x + sum(a), list(b)


def takes_and_drops(x):
    return x + 1, list(itertools.takewhile(lambda v: v < 3, [1, 2, 3, 1])), list(itertools.dropwhile(lambda v: v < 3, [1, 2, 3, 1]))


def repeats_and_cycles(x):
    return x + 1, list(itertools.repeat(1, 3)), list(itertools.islice(itertools.cycle("ab"), 5))


def starmaps(x):
    return x + 1, list(itertools.starmap(lambda a, b: a * b, [(1, 2), (3, 4)])), list(itertools.starmap(pow, [(2, 3)]))


def zip_longest(x):
    return x + 1, list(itertools.zip_longest([1, 2], "a", fillvalue="-"))


def filterfalses(x):
    return x + 1, list(itertools.filterfalse(lambda v: v % 2, range(4))), list(itertools.compress("abc", [1, 0, 1]))


def reduces(x):
    return functools.reduce(lambda a, b: a + b, [x, x, 1]), functools.reduce(max, [3, 5, 1]), functools.reduce(pow, [], 4)


def partials(x):
    add = functools.partial(lambda a, b, c=0: a + b + c, 1, c=5)
    return add(x), add.args, add.keywords, functools.partial(add, 4)()


def partial_methods(x):
    return x + Dispatching().part(3)


def cached_functions(x):
    return x + _fib(10)


def wrapped_functions(x):
    return _triple(x), _triple.__name__, _triple.__wrapped__(2)


def wraps_in_the_function(x):
    @_wrapped
    def named(v):
        return v * 2

    return named(x), named.__name__


def cached_properties(x):
    lazy = Lazy()
    return x + lazy.value + lazy.value, lazy.count


def cmp_to_key(x):
    return x + 1, sorted([3, 1, 2], key=functools.cmp_to_key(lambda a, b: b - a))


def total_orders(x):
    return x + 1, Ordered(1) <= Ordered(2), Ordered(1) > Ordered(2), Ordered(2) >= Ordered(2), max(Ordered(1), Ordered(5)).v


def context_variables(x):
    import contextvars

    return x + _variable.get(), _variable.get(7)


import contextvars

_variable = contextvars.ContextVar("v", default=3)


def groups_of_tensors(x):
    rows = [("a", x), ("a", x + 1), ("b", x * 2)]
    return [sum(t for _, t in group) for _, group in itertools.groupby(rows, key=lambda r: r[0])]


def groups_left_behind(x):
    found = []
    for key, group in itertools.groupby([1, 1, 2, 3, 3]):
        if key != 2:
            found.append(next(group))
    return x + 1, found


def tees_of_tensors(x):
    a, b = itertools.tee(v for v in [x, x + 1])
    return next(a) + next(a) + sum(b)


def tees_in_three(x):
    a, b, c = itertools.tee([1, 2], 3)
    return x + next(a), list(b), list(c), list(a)


def compresses(x):
    return x + 1, list(itertools.compress([x, x + 1, x + 2], [0, 1, 0]))[0], list(itertools.compress("abcd", [True, False, True]))


def cycles_and_counts(x):
    c = itertools.cycle([1, 2])
    return x + next(c) + next(c) + next(c), next(itertools.count(3)), list(itertools.islice(itertools.count(0.5, 0.5), 2))


def islices_of_an_iterator(x):
    it = iter(range(10))
    return x + 1, list(itertools.islice(it, 3)), next(it), list(itertools.islice(it, 1, None, 2))


def sentinel_iterators(x):
    values = [1, 2, 0, 3]
    return x + sum(iter(values.pop, 2)), list(iter(lambda: 1 if len(values) > 5 else 0, 0))


def partials_of_methods(x):
    add = functools.partial("{}-{}".format, 1)
    return x + 1, add(2), functools.partial(Dispatching.method, b=2)(Dispatching(), 5)


def wraps_with_attributes(x):
    def decorate(f):
        @functools.wraps(f)
        def wrapper(*args, **kwargs):
            """outer"""
            return f(*args, **kwargs)

        wrapper.calls = 3
        return wrapper

    @decorate
    def inner(v):
        """doc"""
        return v + 1

    return inner(x), inner.__name__, inner.__doc__, inner.calls, inner.__wrapped__(1)


def compared_by_a_function(x):
    def by_length(a, b):
        return len(a) - len(b)

    key = functools.cmp_to_key(by_length)
    words = ["ccc", "a", "bb"]
    return x + 1, sorted(words, key=key), max(words, key=key), key("a") < key("bb"), key("a") == key("b")


def exit_stack_of_callbacks(x):
    log = []
    with contextlib.ExitStack() as stack:
        stack.callback(log.append, 1)
        stack.callback(log.append, item) if False else None
        stack.push(lambda *exc: log.append(exc[0]))
    return x + 1, log


def exit_stack_suppresses(x):
    log = []
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.suppress(ValueError))
        raise ValueError
    return x + 1, log


def cached_property_kept(x):
    lazy = Lazy()
    lazy.value
    return x + lazy.__dict__["value"], lazy.count


def zipped_by_iterator(x):
    it = iter([1, 2, 3, 4])
    return x + 1, list(zip(it, it)), dict(zip(["a", "b"], [x, x]))["a"]


def enumerated_generator(x):
    return x + sum(i * v for i, v in enumerate(_count(3), 1)), dict(enumerate("ab"))


def reversed_iterators(x):
    return x + 1, list(reversed({"a": 1, "b": 2}.values())), next(reversed([1, 2])), list(map(lambda p: p[0], reversed([(1, 2)])))


def generator_in_a_dict(x):
    d = dict((k, v) for k, v in [("a", 1)])
    return x + d["a"], set(v % 2 for v in range(4)) == {0, 1}, tuple(v for v in "ab"), min(v for v in (3, 2))


class _Steps:
    def __init__(self):
        self.n = 0

    def __iter__(self):
        return self

    def __next__(self):
        self.n += 1
        if self.n > 2:
            raise StopIteration("done")
        return self.n


def result_of_an_iterator(x):
    def outer():
        result = yield from _Steps()
        yield result

    return x + 1, list(outer())
