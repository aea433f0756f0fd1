"""Graph breaks in functions that C code calls several times: as the key of `sorted`, `min` and `max`, and by `reduce`.

A case marked `@pieces` becomes one graph for each stretch between two breaks.
"""

import functools

import toy
from cases import given, pieces


def one():
    return (toy.arange(2) + 1,)


def several():
    return tuple(toy.arange(2) + n for n in (3, 1, 2))


def broken(x, y):
    z = x * 2 + y
    toy.save(z)
    return z - y * 3


@pieces
@given(several)
def test_reduce(a, b, c):
    x = a + 1
    y = functools.reduce(broken, [a, b, c, x])
    return y * 2


@pieces
@given(several)
def test_reduce_with_a_start(a, b, c):
    return functools.reduce(lambda x, y: broken(x, y) + 1, (a, b), c) * a


@given(several)
def test_reduce_of_a_generator(a, b, c):
    out = []

    def items():
        for x in (a, b, c):
            out.append(float(x.sum()))
            yield x * 2

    return functools.reduce(broken, items()), out


@given(one)
def test_reduce_of_many(x):
    return functools.reduce(lambda y, n: broken(y, x) * 0.5 + n, range(100), x)


@pieces
@given(one)
def test_reduce_in_a_callee(x):
    def total(items):
        y = functools.reduce(broken, items)
        return y + 1

    y = total([x, x * 2]) * 2
    return y + total((y, x, y))


@given(one)
def test_reduce_that_raises(x):
    def step(y, n):
        if n > 2:
            raise ValueError(float(y.sum()))
        return broken(y, x)

    y = x * 3
    try:
        return functools.reduce(step, [1, 2, 3, 4], y)
    except ValueError as error:
        return y, error.args


@given(one)
def test_reduce_that_raises_all_the_way(x):
    def step(y, n):
        z = broken(y, x)
        return z / n

    return functools.reduce(step, [1, 2, 0, 4], x * 3) + 1


@given(one)
def test_reduce_in_a_reduce(x):
    def inner(y, n):
        return functools.reduce(lambda z, m: broken(z, y) + m, range(n), y)

    return functools.reduce(inner, [1, 2, 3], x)


def weight(x):
    toy.save(x)
    return float((x * 2).sum())


@given(several)
def test_sorted(a, b, c):
    x = a + 1
    items = sorted([x, a, b, c], key=weight)
    return [item * 2 for item in items], x


@given(several)
def test_sorted_backwards(a, b, c):
    items = sorted((a, b, c), key=lambda x: weight(x) + 1, reverse=True)
    return [item * 2 for item in items], sorted([], key=weight), sorted([a], key=weight)


@given(several)
def test_sorted_that_raises(a, b, c):
    def key(x):
        y = x * 2
        if weight(y) > 8:
            raise KeyError("heavy")
        return 1

    try:
        return sorted([a, b, c], key=key)
    except KeyError as error:
        return a * 2, error.args


@given(several)
def test_sorted_of_keys_that_do_not_compare(a, b, c):
    keys = iter([1, "two", 3.0])

    def key(x):
        toy.save(x * 2)
        return next(keys)

    return sorted([a, b, c], key=key)


@given(several)
def test_sorted_of_many(a, b, c):
    return sorted(range(70), key=lambda n: -float((a * n).sum()))[:5], a + 1


@given(several)
def test_min_and_max(a, b, c):
    x = a + 1
    return min([x, a, b, c], key=weight) * 2, max(a, b, c, key=weight) * 3, x


@given(several)
def test_of_an_iterator(a, b, c):
    return max(map(lambda x: x * 2, [a, b, c]), key=weight), min(zip([a], [b]), key=lambda p: weight(p[0]), default=3)


@given(several)
def test_max_that_raises(a, b, c):
    def key(x):
        y = x * 2
        toy.save(y)
        return None if float(y.sum()) < 5 else 1

    try:
        return max([a, b, c], key=key)
    except TypeError as error:
        return a * 2, error.args


@given(several)
def test_in_a_method(a, b, c):
    class Ranking:
        def __init__(self, items):
            self.items, self.asked = items, 0

        def key(self, item):
            self.asked += 1
            return weight(item) * -1

        @property
        def best(self):
            return max(self.items, key=self.key) + self.asked

        def __len__(self):
            return int(functools.reduce(lambda n, x: n + weight(x), self.items, 0))

    ranking = Ranking([a, b, c])
    return ranking.best * 2, len(ranking), ranking.asked


@given(several)
def test_half_evaluated(a, b, c):
    return a + 1, [b * 2, max([a, b, c], key=weight), *sorted([b, c], key=weight)], functools.reduce(broken, [a, b])


@given(several)
def test_in_a_loop(a, b, c):
    x = a
    for n in range(12):
        x = max([x * 0.5, a, b + n, c], key=weight) + 1
    return x
