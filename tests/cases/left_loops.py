"""Loops without tensors behind a break: CPython runs the rest of such a loop, and a resume function begins behind it."""

import toy
from cases import given


def calls_of(*numbers):
    """Makers of arguments for calls with these numbers in turn."""
    return [lambda number=number: (toy.arange(3), number) for number in numbers]


def lengths():
    return calls_of(*range(1, 21), 3, 0, 40)


@given(*lengths())
def test_range(x, n):
    total = 0
    for i in range(n):
        total += i * i % 7
    return x * total, total, n


@given(*lengths())
def test_printed(x, n):
    total = 0
    for i in range(n):
        print("at", i)
        total += i
    return x + total, total


@given(*lengths())
def test_branches(x, n):
    odd, even = [], 0
    for i in range(n):
        if i % 3 == 1:
            odd.append(i)
        elif i % 5 == 2:
            continue
        else:
            even += i
        even -= 1
    return x + even, odd


@given(*lengths())
def test_while(x, n):
    steps = 0
    while n > 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    else:
        steps += 100
    return x * steps, n, steps


@given(*lengths())
def test_break_and_else(x, n):
    print("before")
    for i in range(n):
        if i * i > 50:
            found = i
            break
    else:
        found = None
    return x + n, found


@given(*lengths())
def test_unbound_behind_the_loop(x, n):
    for i in range(n):
        last = i
    try:
        return x + last
    except UnboundLocalError as error:
        return x, str(error)


@given(*lengths())
def test_return_in_the_loop(x, n):
    for i in range(n):
        if i == 13:
            return x * i
    return x - n


@given(*lengths())
def test_nested(x, n):
    total = 0
    for i in range(n):
        for j in range(i):
            total += i * j % 3
    return x + total


@given(*lengths())
def test_inner_loop_beside_tensors(x, n):
    for i in range(3):
        total = 0
        for j in range(n):
            total += j % (i + 2)
        x = x * 2 + total
    return x


@given(*lengths())
def test_exceptions(x, n):
    caught = 0
    for i in range(n):
        try:
            if i % 4 == 3:
                raise ValueError(i)
        except ValueError as error:
            caught += error.args[0]
    return x + caught


@given(*lengths())
def test_exception_that_leaves_the_loop(x, n):
    done = []
    try:
        for i in range(n):
            done.append(10 // (15 - i))
    except ZeroDivisionError:
        done.append("zero")
    return x + len(done), done


@given(*lengths())
def test_a_tensor_that_begins_late(x, n):
    total = 0
    for i in range(n):
        total = total + (x if i == 12 else i)
    return x + total


@given(*lengths())
def test_cells(x, n):
    total = 0

    def add(i):
        nonlocal total
        total += i

    for i in range(n):
        add(i)
    return x + total


@given(*lengths())
def test_iterators_and_comprehensions(x, n):
    numbers = iter(range(n))
    squares = {}
    for i, j in zip(numbers, range(5, 100)):
        squares[i] = [k * j for k in range(i % 4)]
    return x + len(squares), squares, list(numbers)


@given(*lengths())
def test_generator(x, n):
    def numbers():
        for i in range(n):
            yield i * 2

    total = 0
    for i in numbers():
        total += i
    return x + total


@given(*lengths())
def test_called_function(x, n):
    def count(n):
        steps = 0
        for i in range(n):
            steps += i % 2
            print(steps)
        return steps

    return x * count(n) + count(2)


@given(*lengths())
def test_with(x, n):
    class Level:
        depth = 0

        def __enter__(self):
            Level.depth += 1

        def __exit__(self, *error):
            Level.depth -= 1

    seen = 0
    with Level():
        for i in range(n):
            with Level():
                seen += Level.depth * i
    return x + seen, Level.depth
