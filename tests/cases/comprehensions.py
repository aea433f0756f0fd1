"""Comprehensions."""

import toy
from cases import given


def one():
    return (toy.arange(2),)


@given(one)
def test_whole__list(x):
    return [x * i for i in range(3)]


@given(one)
def test_whole__condition(x):
    return [x * i for i in range(6) if i % 2 if i > 1]


@given(one)
def test_whole__nested(x):
    return [[x + i * j for j in range(2)] for i in range(2)]


@given(one)
def test_whole__two_loops(x):
    return [x + i + j for i in (1, 2) for j in (10, i)]


@given(one)
def test_whole__dict(x):
    return {k: x * v for k, v in {"a": 1, "b": 2}.items()}


@given(one)
def test_whole__set(x):
    return x + 1, {i % 2 for i in range(5)}


@given(one)
def test_whole__variable_does_not_leak(x):
    i = "outer"
    items = [i for i in range(2)]
    return x + 1, i, items


@given(one)
def test_whole__outer_variable(x):
    n = 3
    return [x + n + k for k in range(2)]


@given(one)
def test_whole__outer_variable_in_a_lambda(x):
    n = 3
    return [(lambda: x + n + k)() for k in range(2)]


@given(one)
def test_whole__walrus(x):
    items = [y := i * 2 for i in range(3)]
    return x + 1, items, y


@given(one)
def test_whole__unpacking(x):
    return [a + b for a, *b, c in [([x], 1, 2)] if c == 2 for a, b in [(x, c)]]


@given(one)
def test_whole__over_a_tensor(x):
    return [row + 1 for row in x]


@given(lambda: (toy.arange(2), [1, 2, 3]))
def test_whole__over_an_argument(x, items):
    return [x + i for i in items], [i for i in items]


@given(one)
def test_whole__closures_in_a_comprehension(x):
    functions = [lambda: i for i in range(3)]
    return x + 1, [f() for f in functions]


@given(one)
def test_raises(x):
    y = x + 1
    return [y, [1 // i for i in (1, 0)]]


@given(one)
def test_break_in_a_comprehension(x):
    return [toy.save(x * i) for i in range(2)]


@given(one)
def test_whole__conditional_expression(x):
    return [x if i else -x for i in (0, 1)]


@given(one)
def test_whole__generator_in_a_call(x):
    return sum((x * i for i in range(3)), x), max(i * i for i in (-3, 2))


@given(lambda: (toy.arange(2), [1, 2]))
def test_variables_of_one_name_in_two_comprehensions(x, values):
    total = 0
    for value in values:
        total += int((x * value).sum())
    table = {k: z for k, z in zip("ab", values)}
    if total > 100:
        table["c"] = [(lambda: z)() for z in values]
    return x + total, table


@given(lambda: (toy.arange(2), [1, 2]))
def test_variables_of_one_name_in_two_comprehensions_both_run(x, values):
    first = [z + int(x.sum()) for z in values]
    second = [(lambda: z)() for z in first]
    return x * second[0], [z + int(x.sum()) for z in second]
