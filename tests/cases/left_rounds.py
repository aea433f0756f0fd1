"""Loops whose rounds differ in more than numbers: after some translations the rest of a round is left to CPython."""

import toy
from cases import given, left


class Quiet:
    def __enter__(self):
        toy.set_grad_enabled(False)

    def __exit__(self, kind, error, traceback):
        toy.set_grad_enabled(True)


def one():
    return (toy.full((1,), 2.0),)


@left
@given(one)
def test_a_tensor_that_grows(x):
    y = x
    for n in range(20):
        y = toy.concat([y, x * n])
        toy.save(y)
        x = x + y.sum()
    else:
        y = y * 2
    return x, y


@left
@given(one)
def test_in_a_while(x):
    y, n = x, 0
    while n < 20:
        n += 1
        y = toy.concat([y, x * n])
        toy.save(y)
        if n % 5 == 0:
            continue
        x = x + y.sum()
    else:
        y = y * 2
    return x, y, n


@left
@given(one)
def test_left_by_break(x):
    y = x
    for n in range(100):
        y = toy.concat([y, x * n])
        toy.save(y)
        if y.shape[0] > 17:
            z = y + 1
            break
        x = x + 1
    else:
        z = None
    toy.save(z)
    return x * 2, y * 2, z


@left
@given(one)
def test_left_by_return(x):
    y = x
    while True:
        y = toy.concat([y, x])
        try:
            toy.save(y)
            if y.shape[0] > 17:
                return y * 2
        finally:
            x = x + 1


@left
@given(one)
def test_left_by_an_exception(x):
    y, log = x, []
    try:
        for n in range(100):
            y = toy.concat([y, x * n])
            toy.save(y)
            log.append(12 // (17 - n))
            x = x + 1
    except ZeroDivisionError as error:
        x = x * 3
        log.append((str(error), error.__context__))
    return x, y * 2, log


@left
@given(one)
def test_blocks(x):
    y, log = x, []
    for n in range(20):
        try:
            with Quiet():
                y = toy.concat([y, x * n])
                toy.save(y)
                if n % 4 == 1:
                    raise ValueError(n)
                x = x + 1
        except ValueError as error:
            log.append(error.args)
            toy.save(x)
            x = x - 1
        finally:
            log.append(n)
            toy.save(x)
        x = x * 1
    return x, y, log


@left
@given(one)
def test_inside_of_blocks(x):
    y, log = x, []
    with Quiet():
        try:
            while y.shape[0] < 20:
                y = toy.concat([y, x])
                toy.save(y)
                x = x + 1
            log.append(toy.is_grad_enabled())
            y = y[100]
        except IndexError as error:
            log.append(str(error))
    return x * 2, y, log, toy.is_grad_enabled()


@left
@given(one)
def test_cells(x):
    total, functions = 0, []

    def add(n):
        nonlocal total, x
        total += n
        x = x + n

    y = x
    for n in range(20):
        y = toy.concat([y, x * n])
        functions.append(lambda n=n: (n, total, y.shape))
        toy.save(y)
        add(n)
    return x, y, total, [function() for function in functions]


@given(one)
def test_variables_that_come_and_go(x):
    y = x
    for n in range(24):
        y = toy.concat([y, x * n])
        if n % 3 == 0:
            z = n
        toy.save(y)
        if n % 3 == 2:
            x = x + z
            del z
    try:
        return x, y, z
    except UnboundLocalError as error:
        return x, y, str(error)


NUMBERS = [1, 1, 2, 1, 1, 1]
KEPT = {"a": 1}


class Point:
    def __init__(self, v):
        self.v = v


def add(values, item):
    if len(values) < 8:
        values.append(item)


@given(
    lambda: (toy.arange(2), 2, {"a": 1}),
    lambda: (toy.arange(2), 2.5, KEPT),
    lambda: (toy.arange(3), 2.5, KEPT),
    lambda: (toy.arange(4), 3.5, KEPT),
)
def test_variables_that_a_handler_does_not_have(x, n, a):
    first, second = NUMBERS, NUMBERS
    kept = list(map(toy.relu, [toy.ones([2]), toy.arange(2)]))
    for k, v in enumerate(a.values()):
        Point(int(float(x.mean()))).__dict__["w"] = 1
        try:
            n += int(x.sum())
            add(first, 1)
            second[0] = int(x.mean())
            found = {w: {}[w] for w in sorted(dict.fromkeys("c", x))}
        except (KeyError, IndexError) as error:
            pass
    return kept


@given(one)
def test_variables_that_a_handler_has(x):
    y = x
    for n in range(20):
        y = toy.concat([y, x * n])
        try:
            found = n
            toy.save(y)
            {}[n]
        except KeyError:
            x = x + found
            del found
    try:
        return x, y, found
    except UnboundLocalError as error:
        return x, y, str(error)


@given(one)
def test_variables_that_a_later_handler_has(x):
    y = x
    for n in range(20):
        y = toy.concat([y, x * n])
        toy.save(y)
        try:
            found = n
            {}[n]
        except KeyError:
            pass
        x = x + 1
    return x, y, found


@left
@given(one)
def test_comprehensions(x):
    y, k = x, 7
    for n in range(20):
        y = toy.concat([y, x * n])
        toy.save(y)
        x = x + sum([k * j for j in range(n)])
        names = {i: str(k) for k, i in enumerate([k, n])}
        toy.save(x)
    return x, y, k, names


def tensor_and_list():
    return toy.full((1,), 2.0), []


@left
@given(tensor_and_list)
def test_behind_two_variables_of_a_comprehension(x, numbers):
    log, n = [], 20
    while n:
        n -= 1
        x = x + len({k: t for k, t in {"a": x}.items() if t.sum() > 0})
        log.append([[k for k in range(j % 3)] for j in numbers])
        numbers.append(n)
    return x, log


@left
@given(one)
def test_a_loop_in_a_loop(x):
    y, log = x, []
    for n in range(4):
        for k in range(5):
            y = toy.concat([y, x * k])
            toy.save(y)
            if k == 3 and n == 2:
                break
            x = x + 1
        else:
            log.append(n)
        x = x * 2
        toy.save(x)
    return x, y, log


@left
@given(one)
def test_in_a_call(x):
    def grow(x):
        y = x
        for n in range(20):
            y = toy.concat([y, x * n])
            toy.save(y)
            x = x + 1
        return y * 2

    y = grow(x * 2)
    return y + 1, y * 2


@left
@given(one)
def test_an_item_in_the_middle_of_an_expression(x):
    y, log = x, []
    for n in range(20):
        y = toy.concat([y, x * n])
        log.append((n, float(y.sum()), [float(y[0]), *range(n % 3)]))
        x = x + 1
    return x, y, log


@left
@given(one)
def test_in_a_comprehension_that_is_an_argument(x):
    y, log = x, []
    for n in range(30):
        log.append([float(toy.concat([y, x * k]).sum()) for k in range(n % 4)])
        y = toy.concat([y, x * n])
    return x, y, log


@left
@given(lambda: (toy.full((1,), 2.0), 20), lambda: (toy.full((2,), 2.0), 20), lambda: (toy.full((1,), 2.0), 30))
def test_called_with_something_else(x, rounds):
    y = x
    for n in range(rounds):
        y = toy.concat([y, x * n])
        toy.save(y)
        x = x + 1
    return x, y
