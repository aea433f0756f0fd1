"""Writes that outlive the call: globals, arguments, closures, and their order."""

import abc

import toy
from cases import given, whole

COUNT = 0
ITEMS = []
TABLE = {"a": 1}
TENSOR = toy.ones((2,))
LAST = None


class Holder:
    pass


HOLDER = Holder()


def one():
    return (toy.arange(2),)


@whole
@given(one, hit=False)
def test_global_written(x):
    global COUNT
    COUNT += 1
    return x + COUNT


@whole
@given(one, hit=False)
def test_global_list_appended(x):
    ITEMS.append(len(ITEMS))
    return x + len(ITEMS)


@whole
@given(one)
def test_global_tensor_written(x):
    global LAST
    LAST = x + 1
    return LAST * 2


@whole
@given(one)
def test_global_deleted(x):
    global EXTRA
    EXTRA = 1
    del EXTRA
    return x + 1


@given(one)
def test_deleted_global_read(x):
    global EXTRA
    EXTRA = x + 1
    del EXTRA
    return EXTRA


@whole
@given(one, hit=False)
def test_global_dict_written(x):
    TABLE["b"] = x + 1
    TABLE["a"] = 1
    return TABLE["b"]


@whole
@given(one)
def test_global_tensor_read(x):
    return x + TENSOR


@whole
@given(one)
def test_global_object_written(x):
    HOLDER.value = x * 2
    HOLDER.list = [HOLDER.value]
    return x + 1


@whole
@given(lambda: (toy.arange(2), []))
def test_append_to_an_argument(x, items):
    items.append(x + 1)


@whole
@given(lambda: (toy.arange(2), [], {}))
def test_one_new_object_in_two_places(x, items, table):
    new = [x + 1]
    items.append(new)
    table["new"] = new
    HOLDER.new = new
    return new


@whole
@given(lambda: (toy.arange(2), [1], [2]))
def test_swap_contents(x, a, b):
    a[:], b[:] = b[:], a[:]
    return x + a[0]


@whole
@given(lambda: (toy.arange(2), [1], {}))
def test_cyclic_arguments(x, a, t):
    a.append(t)
    t["a"] = a
    return x + 1


@whole
@given(lambda: (toy.arange(2), Holder()))
def test_written_then_restored(x, h):
    h.a = 1
    y = x + h.a
    h.a = 2
    z = y + h.a
    del h.a
    return z


@given(lambda: (toy.arange(2), []))
def test_effects_before_a_break(x, items):
    items.append(x + 1)
    toy.save(x)
    items.append(len(items))
    return items[0] * 2


@given(lambda: (toy.arange(2), []))
def test_effects_seen_by_native_code(x, items):
    items.append(1)
    text = repr(items)
    y = x + len(text)
    print(items, text)
    return y


@given(lambda: (toy.arange(2), Holder()))
def test_effects_on_an_object_before_a_break(x, h):
    h.value = x + 1
    toy.save(h.value)
    h.value = h.value * 2
    return h.value


@given(one)
def test_global_written_before_a_break(x):
    global LAST
    LAST = x + 1
    toy.save(LAST)
    LAST = LAST * 2
    return LAST


@whole
@given(lambda: (toy.arange(2), [3, 4]))
def test_argument_rebound(x, items):
    items = [*items, 5]
    items.append(6)
    return x + 1, items


@whole
@given(lambda: (toy.arange(2),))
def test_argument_returned_as_it_is(x):
    y = x + 1
    return x, y, x


@whole
@given(lambda: (toy.arange(2), [1, 2]))
def test_argument_list_returned(x, items):
    return items, x + 1, items


def add_to(items, value):
    items.append(value)
    return len(items)


@whole
@given(lambda: (toy.arange(2), []))
def test_effect_in_a_called_function(x, items):
    n = add_to(items, x + 1)
    m = add_to(items, x + 2)
    return x + n + m


def default_list(x, seen=[]):  # noqa: B006
    seen.append(1)
    return x + len(seen)


@whole
@given(one, hit=False)
def test_mutable_default(x):
    return default_list(x)


@whole
@given(one)
def test_import(x):
    import math
    from math import sqrt

    return x * sqrt(4.0) + math.ceil(0.5)


@given(one)
def test_import_of_something_missing(x):
    y = x + 1
    import nothing_of_this_name

    return y, nothing_of_this_name


@given(one)
def test_missing_global(x):
    y = x + 1
    return y, no_such_name  # noqa: F821


@given(one)
def test_unbound_local(x):
    y = x + 1
    if y.ndim == 7:
        z = 1
    return y, z


@given(lambda: (toy.arange(2), [0]))
def test_only_an_effect_and_no_tensor(x, items):
    items[0] += 1
    return x


@whole
@given(lambda: (toy.arange(2), {}))
def test_setdefault_on_an_argument(x, table):
    table.setdefault("k", []).append(x + 1)
    return table["k"][0]


@whole
@given(lambda: (toy.arange(2), [5]))
def test_list_cleared(x, items):
    items.clear()
    return x + len(items)


@given(lambda: (toy.arange(2),))
def test_globals_call(x):
    y = x + 1
    globals()["COUNT"] = 77
    return y + COUNT


@given(lambda: (toy.arange(2),))
def test_locals_call(x):
    y = x + 1
    names = sorted(locals())
    return y, names


@given(lambda: (toy.arange(2),))
def test_exec_call(x):
    y = x + 1
    exec("COUNT = 5", globals())
    return y + COUNT


class Counted(abc.ABC):
    made = 0

    def __init__(self):
        type(self).made += 1


class CountedToo(Counted):
    pass


@given(one, hit=False)
def test_class_attribute_of_another_metaclass_written(x):
    try:
        first, second = Counted(), CountedToo()
    except AttributeError as error:
        return x - 100, str(error)
    return x + first.made, CountedToo.made, second.made
