"""Loops that break in each round and change what they look into: containers and texts whose contents differ each time."""

import collections
import itertools

import toy
from cases import given


def one():
    return (toy.full((1,), 2.0),)


@given(one)
def test_a_set_that_grows(x):
    seen, out = set(), []
    for n in [1, 2, 1, 3, 4, 4, 5, 6, 7, 2, 8]:
        x = x + 1
        if n in seen:
            out.append(float(x))
        else:
            seen.add(n)
            toy.save(x)
    return x, out, sorted(seen), len(seen)


@given(one)
def test_a_stack(x):
    stack, out = [(0, "root")], []
    while stack:
        depth, name = stack.pop()
        x = x + depth
        out.append((name, float(x)))
        if depth < 3:
            stack.extend((depth + 1, name + letter) for letter in "ab")
    return x, out


@given(one)
def test_a_dict_that_grows(x):
    table = {}
    for n in range(12):
        x = x + 1
        toy.save(x)
        table[f"key {n % 5}"] = n
        if f"key {n}" in table:
            x = x + len(table)
    return x, list(table.items())


@given(one)
def test_a_text_that_differs(x):
    names, out = ["left", "right", "both", "left", "none", "up", "down"], []
    for name in names:
        toy.save(x)
        if name == "left" or name[-1] == "t":
            x = x + 1
        x = x + len(name)
        out.append(name.upper() + "!")
    return x, out


@given(one)
def test_a_queue(x):
    queue, out = collections.deque([1]), []
    while queue and len(out) < 12:
        n = queue.popleft()
        x = x + n
        out.append((n, float(x)))
        queue.append(n + 1)
        if n % 2:
            queue.append(n * 2)
    return x, out, queue


@given(one)
def test_many_conditions(x):
    for n in range(40):
        if n % 7 == 3:
            x = x * 2
        if n % 5 == 1:
            x = x - 1
        if n % 3 == 0:
            x = x / 3
        if n % 2 == 0:
            x = x + 3
        if n % 11 == 0 or n == 13:
            x = x + 3
        toy.save(x)
    return x


@given(one)
def test_many_conditions_in_a_while(x):
    n, out = 0, []
    while True:
        n += 1
        x = x + n % 2
        if n > 60:
            break
        if n * n % 19 < 5:
            toy.save(x)
        if n * n % 23 == 2:
            out.append(float(x))
            continue
        x = x * 1
    else:
        x = x * 100
    return x, out, n


@given(one)
def test_itertools_that_have_begun(x):
    cycle = itertools.cycle(iter([1, 2, 3]))
    later = itertools.cycle([4, 5])
    totals = itertools.accumulate([1, 2, 3, 4, 5, 6, 7, 8])
    products = itertools.accumulate(iter([1, 2, 3, 4, 5, 6, 7, 8]), lambda a, b: a * b)
    out = [next(cycle), next(later), next(later), next(later), next(totals)]
    toy.save(x)
    for _ in range(5):
        x = x + next(cycle) + next(later)
        out += [next(totals), next(products)]
        toy.save(x)
    return x, out, list(totals), list(products), [next(cycle), next(later)]


@given(one)
def test_an_accumulation_with_a_start(x):
    totals = itertools.accumulate([1, 2, 3], initial=10)
    first = itertools.accumulate([1, 2, 3], initial=10)
    out = [next(totals)]
    toy.save(x)
    return x * 2, out, list(totals), list(first)


@given(one)
def test_an_empty_cycle(x):
    cycle = itertools.cycle([])
    a = next(cycle, None)
    toy.save(x)
    return x + 1, a, next(cycle, None)
