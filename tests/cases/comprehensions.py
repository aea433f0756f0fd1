"""Comprehensions."""

import toy
from cases import given, whole


def one():
    return (toy.arange(2),)


@whole
@given(one)
def test_list(x):
    return [x * i for i in range(3)]


@whole
@given(one)
def test_condition(x):
    return [x * i for i in range(6) if i % 2 if i > 1]


@whole
@given(one)
def test_nested(x):
    return [[x + i * j for j in range(2)] for i in range(2)]


@whole
@given(one)
def test_two_loops(x):
    return [x + i + j for i in (1, 2) for j in (10, i)]


@whole
@given(one)
def test_dict(x):
    return {k: x * v for k, v in {"a": 1, "b": 2}.items()}


@whole
@given(one)
def test_set(x):
    return x + 1, {i % 2 for i in range(5)}


@whole
@given(one)
def test_variable_does_not_leak(x):
    i = "outer"
    items = [i for i in range(2)]
    return x + 1, i, items


@whole
@given(one)
def test_outer_variable(x):
    n = 3
    return [x + n + k for k in range(2)]


@whole
@given(one)
def test_outer_variable_in_a_lambda(x):
    n = 3
    return [(lambda: x + n + k)() for k in range(2)]


@whole
@given(one)
def test_walrus(x):
    items = [y := i * 2 for i in range(3)]
    return x + 1, items, y


@whole
@given(one)
def test_unpacking(x):
    return [a + b for a, *b, c in [([x], 1, 2)] if c == 2 for a, b in [(x, c)]]


@whole
@given(one)
def test_over_a_tensor(x):
    return [row + 1 for row in x]


@whole
@given(lambda: (toy.arange(2), [1, 2, 3]))
def test_over_an_argument(x, items):
    return [x + i for i in items], [i for i in items]


@whole
@given(one)
def test_closures_in_a_comprehension(x):
    functions = [lambda: i for i in range(3)]
    return x + 1, [f() for f in functions]


@given(one)
def test_raises(x):
    y = x + 1
    return [y, [1 // i for i in (1, 0)]]


@given(one)
def test_break_in_a_comprehension(x):
    return [toy.save(x * i) for i in range(2)]


@whole
@given(one)
def test_conditional_expression(x):
    return [x if i else -x for i in (0, 1)]


@whole
@given(one)
def test_generator_in_a_call(x):
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


@given(lambda: (toy.arange(2), [1, 2, 3]))
def test_break_beside_a_comprehension_with_captured_variables(x, values):
    y = x + 1
    toy.save(y)
    functions = [lambda: i for i in values]
    y = y * functions[0]()
    toy.save(y)
    return y + sum(f() for f in functions)


@given(lambda: (toy.arange(2), [1, 2, 3]))
def test_break_in_a_comprehension_with_captured_variables(x, values):
    functions = [(toy.save(x + i), lambda: x * i)[1] for i in values]
    return [f() for f in functions]


@given(lambda: (toy.arange(2), [1, 2, 3]))
def test_break_in_a_comprehension_with_a_variable_captured_outside(x, values):
    i = 10

    def outside():
        return i

    y = x + outside()
    functions = [(toy.save(y + i), lambda: y * i)[1] for i in values]
    i = 20
    toy.save(y)
    return [f() for f in functions], outside()


@given(lambda: (toy.arange(2), [1, 2, 3]))
def test_break_in_a_comprehension_whose_variable_is_captured_outside_alone(x, values):
    i = 10

    def outside():
        nonlocal i
        i += 1
        return i

    y = x + outside()
    toy.save(y)
    numbers = [i * 2 for i in values]
    y = y + outside()
    saved = [toy.save(y + i) for i in values]
    return y, numbers, outside(), saved


@given(lambda: (toy.arange(2), [1, 2, 3]))
def test_break_in_nested_comprehensions_with_captured_variables(x, values):
    table = {k: [(toy.save(x * i), lambda: (i, k))[1] for i in values] for k in "ab"}
    toy.save(x)
    return {k: [f() for f in row] for k, row in table.items()}


def functions_of(x, values):
    y = x * 2
    functions = [lambda: y * i for i in values]
    toy.save(y)
    y = y + 1
    return functions + [(toy.save(y), lambda: y + i)[1] for i in values]


@given(lambda: (toy.arange(2), [1, 2]))
def test_break_in_a_followed_function_with_such_a_comprehension(x, values):
    y = x - 1
    return [f() * y for f in functions_of(y, values)]


@given(lambda: (toy.arange(2), [1, 2, 3]))
def test_break_in_a_comprehension_whose_variables_are_unbound_and_captured_outside(x, values):
    def outside():
        return i, j

    saved = [(toy.save(x + i), [j * x for j in values if toy.save(x + j) is None]) for i in values]
    i, j = 5, 6
    toy.save(x)
    return saved, outside(), [i + j for i in values for j in values]


@given(lambda: (toy.arange(2), [1, 2, 3]))
def test_break_among_many_variables_and_a_captured_one_of_a_comprehension(x, values):
    a, b, c, d, e, f, g, h = range(8)
    j, k, m, n, o, p, q = range(7)
    i = 10

    def outside():
        return i

    toy.save(x)
    y = x * outside()
    pairs = [(i + r, r * i) for i in values for r in values if i != r]
    y = y + len(pairs)
    toy.save(y)
    try:
        rest = [i - s for i in values for s in (1, 0) if s or i // s]
    except ZeroDivisionError:
        rest = [i * s for i in values for s in values]
    return y + a + b + c + d + e + f + g + h, pairs, rest, j + k + m + n + o + p + q, outside()


@given(lambda: (toy.arange(2), [1, 2, 3]))
def test_break_behind_a_comprehension_whose_variable_is_captured_outside(x, values):
    def outside():
        return i

    saved = [toy.save(x + i) or i for i in values]
    toy.save(x * 2)
    i = 7
    toy.save(x * 3)
    return saved, outside(), x + i
