"""One piece of state seen through several doors in one call: what one writes the others read."""

import sys
import types

import toy
from cases import given, whole


def one():
    return (toy.arange(2),)


class Meta(type):
    pass


class Marked(metaclass=Meta):
    level = 1

    def __init__(self):
        self.v = 1

    def get(self):
        return self.level


class Sub(Marked):
    pass


class Plain:
    level = 1

    def __init__(self, v=1):
        self.v = v


THING, SUB, PLAIN = Marked(), Sub(), Plain()
G = 1



@given(one, hit=False)
def test_a_class_attribute_is_written_and_read_through_an_instance(x):
    Marked.level = Marked.level + 1
    y = x * THING.level
    Sub.level = 10
    return y, SUB.get(), THING.get(), Marked.level, Sub.level


@given(one, hit=False)
def test_a_plain_class_attribute_is_written(x):
    Plain.level += 1
    y = x * PLAIN.level
    del Plain.level
    z = getattr(PLAIN, "level", 100)
    Plain.level = z + 1
    return y, z, PLAIN.level


@given(one, hit=False)
def test_a_global_is_written_through_globals(x):
    global G
    G = 2
    a = globals()["G"]
    globals()["G"] = 3
    y = x * G
    globals().update(G=4)
    return y, a, G, globals().get("G")


@given(one, hit=False)
def test_a_global_is_read_through_a_kept_dict(x):
    global G
    names = globals()
    G = G + 1
    return x + names["G"], "G" in names


@given(one, hit=False)
def test_an_attribute_is_written_through_the_dict(x):
    table = PLAIN.__dict__
    table["v"] = 5
    y = x * PLAIN.v
    PLAIN.v = 6
    z = table["v"]
    table["w"] = 7
    del PLAIN.v
    return y, z, PLAIN.w, sorted(table), vars(PLAIN) is table


@given(one, hit=False)
def test_an_object_made_here_and_its_dict(x):
    thing = Plain(3)
    table = vars(thing)
    table["v"] += 1
    thing.w = x
    return x * thing.v, sorted(table), thing


@given(one, hit=False)
def test_an_object_gets_another_class(x):
    thing = Plain(3)
    thing.__class__ = Other
    PLAIN.__class__ = Other
    result = x * thing.level + PLAIN.level, type(thing).__name__, isinstance(PLAIN, Plain)
    PLAIN.__class__ = Plain
    return result


class Other:
    level = 9


@given(one, hit=False)
def test_an_object_gets_another_dict(x):
    thing = Plain(3)
    thing.__dict__ = {"v": 8}
    return x * thing.v, thing.__dict__


def counting():
    n = 1

    def count(x):
        nonlocal n
        n += 1
        return x * n

    return count


COUNT = counting()


@given(one, hit=False)
def test_a_cell_is_written_through_the_closure(x):
    y = COUNT(x)
    COUNT.__closure__[0].cell_contents = 10
    return y, COUNT(x)


def defaulted(x, by=2, *, more=1):
    return x * by + more


@given(one, hit=False)
def test_defaults_are_written(x):
    y = defaulted(x)
    defaulted.__defaults__ = (3,)
    defaulted.__kwdefaults__ = {"more": 5}
    z = defaulted(x)
    defaulted.__kwdefaults__["more"] = 6
    w = defaulted(x)
    defaulted.__defaults__, defaulted.__kwdefaults__ = (2,), {"more": 1}
    return y, z, w


@given(one, hit=False)
def test_the_code_of_a_function_is_written(x):
    before = defaulted.__code__
    defaulted.__code__ = (lambda x, by=2, *, more=1: x - by - more).__code__
    y = defaulted(x)
    defaulted.__code__ = before
    return y, defaulted(x)


@given(one, hit=False)
def test_a_function_attribute_is_written(x):
    defaulted.calls = getattr(defaulted, "calls", 0) + 1
    defaulted.__dict__["other"] = 3
    return x * defaulted.calls + defaulted.other, vars(defaulted)


class Slim:
    __slots__ = ("v",)


@given(lambda: (toy.arange(2), Slim()), hit=False)
def test_a_slot_is_written_through_its_descriptor(x, thing):
    Slim.v.__set__(thing, 4)
    y = x * thing.v
    thing.v = 5
    z = Slim.v.__get__(thing)
    object.__setattr__(thing, "v", 6)
    return y, z, thing.v


class Guarded:
    def __init__(self):
        object.__setattr__(self, "writes", 0)

    def __setattr__(self, name, value):
        object.__setattr__(self, "writes", self.writes + 1)
        super().__setattr__(name, value * 2)

    def __delattr__(self, name):
        object.__setattr__(self, "writes", self.writes + 100)
        super().__delattr__(name)


@whole
@given(lambda: (toy.arange(2), Guarded()))
def test_writes_through_a_hook_are_made_once(x, thing):
    thing.v = 3
    thing.w = 1
    thing.v = thing.v + 1
    del thing.w
    made = Guarded()
    made.v = 7
    return x * thing.v, thing.writes, made, made.v


class Shadowing:
    @property
    def v(self):
        return 10 + self.__dict__["v"]

    @v.setter
    def v(self, value):
        self.__dict__["v"] = value
        LOG.append(value)


LOG = []


@given(lambda: (toy.arange(2), Shadowing()))
def test_a_property_that_hides_an_entry_of_its_name(x, thing):
    thing.v = 3
    thing.v += 1
    made = Shadowing()
    made.v = 5
    return x * thing.v, vars(thing), made, made.v


@given(lambda: (toy.arange(2), [1, 2]))
def test_one_list_in_two_places(x, values):
    table = {"a": values, "b": [values, values]}
    thing = Plain(values)
    table["b"][0].append(3)
    thing.v += [4]
    first, second = table["b"]
    second[:] = first[::-1]
    print(x.shape, values)
    LOG.append(x.sum().item())
    thing.v.append(9)
    return x + len(values), table, thing, values


@given(lambda: (toy.arange(2), [[1], [2]]))
def test_an_item_of_two_lists(x, rows):
    copy = rows[:]
    inner = rows[0]
    rows.append(inner)
    inner.append(5)
    y = x * len(copy[0])
    if y.sum() > 100:
        rows.clear()
    copy[0].append(6)
    rows[-1] += [7]
    return y, rows, copy, inner


@given(lambda: (toy.arange(2), {"k": [1]}))
def test_a_list_of_a_dict(x, table):
    values = table["k"]
    table["j"] = values
    table["k"] = values + [2]
    values.append(3)
    x = x + int(x.sum())
    table["j"].append(4)
    return x * len(table["k"]), table, values


@given(one, hit=False)
def test_bound_methods_of_one_object(x):
    thing = Marked()
    get = thing.get
    thing.level = 5
    y = x * get()
    thing.__dict__.clear()
    return y, get(), get == thing.get, get is thing.get


@given(lambda: (toy.arange(2), [3, 1, 2]))
def test_an_iterator_sees_the_writes(x, values):
    iterator = iter(values)
    first = next(iterator)
    values.append(7)
    values[1] = 50
    x = x * int(x.sum() + 1)
    rest = list(iterator)
    return x + first, rest


@given(lambda: (toy.arange(2), [3, 1, 2]))
def test_an_iterator_sees_writes_of_the_same_length(x, values):
    iterator = iter(values)
    reverse = reversed(values)
    pairs = enumerate(values)
    next(iterator), next(reverse), next(pairs)
    values[1], values[2] = 20, 30
    print(x)
    values[2] = 40
    return x, list(iterator), list(reverse), list(pairs)


@given(lambda: (toy.arange(2), {"a": 1, "b": 2, "c": 3}))
def test_a_view_sees_writes_of_the_same_length(x, table):
    items, keys, values = iter(table.items()), iter(table), iter(table.values())
    view = table.items()
    next(items), next(keys), next(values)
    table["b"], table["c"] = 20, 30
    print(x)
    table["c"] = 40
    return x, list(items), list(keys), list(values), list(view)


@given(lambda: (toy.arange(2), {"a": 1, "b": 2, "c": 3}))
def test_a_dict_is_made_anew_under_an_iterator(x, table):
    keys = iter(table)
    first = next(keys)
    del table["c"]
    table["d"] = 4
    print(x)
    rest = []
    try:
        for key in keys:
            rest.append(key)
    except RuntimeError as error:
        rest.append(str(error))
    return x, first, rest, table


@given(lambda: (toy.arange(2), {1, 2, 3}))
def test_a_set_is_changed_under_an_iterator(x, values):
    items = iter(values)
    first = next(items)
    values.discard(3)
    values.add(4)
    print(x)
    rest = []
    try:
        for item in items:
            rest.append(item)
    except RuntimeError as error:
        rest.append(str(error))
    return x, first, len(rest), sorted(values)
