"""Programs over data of `n` items: what the tracer does for them grows as the data does. Each makes a function of a tensor."""

import collections
import types

import toy


def takes(**keywords):
    return len(keywords)


class Point:
    def __init__(self, x):
        self.x = x


class Attributes:
    pass


class Watched:
    def __del__(self):
        pass


def instructions_while_a_list_holds_watched_values(n):
    box = [Watched() for _ in range(n)]

    def count(x):
        taken = list(box)
        box.clear()
        total = 0
        for i in range(100):
            total += i
        box.extend(taken)
        return x + total, len(box)

    return count


def writes_beside_a_value_that_a_global_holds(n):
    box, counter = [Watched()], Attributes()

    def count(x):
        global held_globally
        held_globally = [box.pop()]
        for i in range(n):
            counter.last = i
        box.append(held_globally.pop())
        return x + 1, len(box)

    return count


def writes_beside_a_value_that_is_watched(n):
    box, counter = [Watched()], Attributes()

    def count(x):
        held = [box.pop()]
        for i in range(n):
            counter.last = i
        box.append(held.pop())
        return x + 1, len(box)

    return count


def keywords(n):
    table = {f"key{i}": i for i in range(n)}
    return lambda x: x + takes(**table)


def format_of_keywords(n):
    table = {f"key{i}": i for i in range(n)}
    return lambda x: (x + 1, "{key1}".format(**table))


def dict_of_keywords(n):
    table = {f"key{i}": i for i in range(n)}
    return lambda x: (x + 1, dict(**table))


def copy_of_a_dict(n):
    table = {f"key{i}": i for i in range(n)}
    return lambda x: (x + 1, dict(table), {**table})


def update_of_a_dict(n):
    table = {f"key{i}": i for i in range(n)}

    def f(x):
        made = {}
        made.update(table)
        return x + 1, made

    return f


def keys_looked_up(n):
    table = {i: i for i in range(n)}
    return lambda x: x + sum(table[i] for i in range(n))


def keys_asked_for(n):
    table = {i: i for i in range(n)}
    return lambda x: x + sum(i in table for i in range(n))


def elements_asked_for(n):
    known = set(range(n))
    return lambda x: x + sum(i in known for i in range(n))


def set_of_a_list(n):
    items = list(range(n))
    return lambda x: (x + 1, set(items), frozenset(items))


def sets_combined(n):
    left, right = set(range(n)), set(range(n // 2, 2 * n))
    return lambda x: (x + 1, left & right, left | right, left - right, left ^ right)


def equal_dicts(n):
    left, right = {i: i for i in range(n)}, {i: i for i in range(n)}
    return lambda x: x + (left == right)


def keys_of_dicts(n):
    left, right = {i: i for i in range(n)}, {i: i for i in range(n // 2, n)}
    return lambda x: (x + 1, left.keys() & right.keys())


def dict_display(n):
    return lambda x: (x + 1, dict.fromkeys(range(n)), {i: i for i in ()})


def objects_made(n):
    return lambda x: (x + 1, [Point(i) for i in range(n)])


def attributes_written(n):
    def f(x):
        made = Attributes()
        for i in range(n):
            setattr(made, f"a{i}", i)
        return x + 1, made

    return f


def list_from_outside(n):
    def f(x, items):
        for i in range(n):
            items.append(i)
        return x + 1

    return lambda x: f(x, [])


def counters(n):
    items = [i % 10 for i in range(n)]
    return lambda x: x + collections.Counter(items)[3]


def objects_outside_written(n):
    points = [Point(i) for i in range(n)]

    def f(x):
        for point in points:
            point.x = 1
        return x + 1

    return f


def deque_rolled(n):
    items = collections.deque(range(n))

    def f(x):
        items.append(items.popleft())
        return x + 1

    return f


class Dying:
    def __del__(self):
        pass


class Holder:
    def __init__(self, held):
        self.held = held


def values_of_an_object_that_is_replaced_and_still_held(n):
    inner = Holder([Dying() for _ in range(n)])
    outer, kept = Holder(inner), [inner]

    def f(x):
        mine = kept
        same = mine[0] is outer.held
        outer.held = None
        total = 0
        for i in range(n):
            total += i
        return x + total, same, len(mine)

    return f


def is_program(value):
    """Whether a value of this module is a program: a function of the number of items."""
    return isinstance(value, types.FunctionType) and value.__code__.co_varnames[: value.__code__.co_argcount] == ("n",)


PROGRAMS = [value for value in list(globals().values()) if is_program(value)]


def tensor():
    return toy.full((1,), 2.0)
