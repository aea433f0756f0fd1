"""Loops: unrolled over what is known while tracing."""

import toy
from cases import given, whole


def one():
    return (toy.arange(2, 2),)


@whole
@given(one)
def test_range(x):
    for i in range(3):
        x = x * 2 + i
    return x


@whole
@given(lambda: (toy.arange(2), 3), lambda: (toy.arange(2), 1), lambda: (toy.arange(2), 3))
def test_range_of_an_argument(x, n):
    for i in range(n):
        x = x + i
    return x


@whole
@given(one)
def test_range_steps(x):
    for i in range(5, 0, -2):
        x = x * i
    return x, list(range(1, 10, 4)), len(range(7)), range(3)[1]


@whole
@given(lambda: (toy.arange(2), [1, 2, 3]))
def test_list_argument(x, items):
    for item in items:
        x = x + item
    return x


@whole
@given(lambda: (toy.arange(2), {"a": 1, "b": 2.5}))
def test_dict_argument(x, table):
    for key in table:
        x = x * table[key]
    for key, value in table.items():
        x = x + value
    return x, [k for k in table.keys()], [v for v in table.values()]


@whole
@given(one)
def test_enumerate_and_zip(x):
    out = []
    for i, (a, b) in enumerate(zip([1, 2], (3, 4)), 5):
        out.append(x * a + b + i)
    return out


@whole
@given(one)
def test_while(x):
    i = 0
    while i < 4:
        x = x + i
        i += 1
    return x, i


@whole
@given(one)
def test_break_and_continue(x):
    for i in range(10):
        if i == 1:
            continue
        if i == 4:
            break
        x = x + i
    return x, i


@whole
@given(one)
def test_else_of_a_loop(x):
    for i in range(2):
        x = x + 1
    else:
        x = x * 10
    while False:
        pass
    else:
        x = x - 1
    return x


@whole
@given(one)
def test_else_skipped(x):
    for i in range(3):
        if i == 1:
            break
    else:
        x = x * 10
    return x + i


@whole
@given(one)
def test_nested_loops(x):
    total = x
    for i in range(2):
        for j in range(3):
            if j == i:
                continue
            total = total + i * 10 + j
    return total


@whole
@given(one)
def test_over_a_tensor(x):
    rows = []
    for row in x:
        rows.append(row * 2)
    return rows


@whole
@given(one)
def test_over_a_string(x):
    for letter in "abc":
        x = x + ord(letter)
    return x


@whole
@given(one)
def test_reversed_and_sorted(x):
    out = []
    for i in reversed([1, 2, 3]):
        out.append(x + i)
    return out, sorted([3, 1, 2]), sorted("bca", reverse=True)


@whole
@given(one)
def test_iterator_by_hand(x):
    it = iter([1, 2, 3])
    a = next(it)
    rest = [v for v in it]
    last = next(it, "done")
    return x + a, rest, last


@given(one)
def test_stop_iteration(x):
    y = x + 1
    it = iter([])
    return y, next(it)


@given(one)
def test_while_on_a_tensor(x):
    n = 0
    y = x
    while y.sum() < 100:
        y = y * 3
        n += 1
    return y, n


@given(one)
def test_break_in_a_loop(x):
    for i in range(3):
        x = x + i
        toy.save(x)
    return x * 2


@whole
@given(one)
def test_unpacking(x):
    a, (b, *c), d = x, (1, 2, 3), 4
    *e, f = [x, 5, 6]
    g, *h = "xyz"
    return a + b, c, d, e, f, g, h


@given(one)
def test_unpacking_too_many(x):
    y = x + 1
    a, b = [y, 1, 2]
    return a


@given(one)
def test_unpacking_too_few(x):
    y = x + 1
    a, b, c = y, 1
    return a


@given(one)
def test_unpacking_a_number(x):
    y = x + 1
    a, b = 5
    return a, y


@given(one)
def test_unpacking_star_too_few(x):
    y = x + 1
    a, b, *c = [y]
    return a


@whole
@given(one)
def test_unpacking_a_tensor(x):
    a, b = x
    return b - a


@whole
@given(one)
def test_any_all_sum(x):
    return x + sum([1, 2, 3]), any([0, 1]), all([1, 0]), sum([x, x * 2], x), min(3, 1, 2), max([4, 9]), max("ab", key=ord)


@whole
@given(lambda: (toy.arange(2), [1, 2, 3]))
def test_list_grows_while_looped_over(x, items):
    for item in items:
        x = x + item
        if len(items) < 6:
            items.append(item * 10)
    return x


@given(lambda: (toy.arange(2), {"a": 1}))
def test_dict_grows_while_looped_over(x, table):
    y = x + 1
    for key in table:
        table[key + "b"] = 2
    return y


@whole
@given(lambda: (toy.arange(2),))
def test_loop_variable_after_an_empty_loop(x):
    i = "before"
    for i in []:
        pass
    return x + 1, i


@given(lambda: (toy.arange(2),))
def test_unbound_loop_variable(x):
    y = x + 1
    for i in []:
        pass
    return y, i


@given(lambda: (toy.arange(2),))
def test_deleted_variable(x):
    y = x + 1
    del x
    return y, x
