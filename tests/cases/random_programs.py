"""Minimal programs that random ones were cut down to."""

import bisect
import operator

import toy
from cases import given, whole


def one():
    return (toy.arange(2),)


def a_list():
    return toy.arange(2), [3, 1, 2]


@given(a_list)
def test_c_function_that_writes(x, values):
    bisect.insort(values, 1)
    other = values
    operator.setitem(values, 0, 5)
    operator.delitem(values, 1)
    operator.iadd(values, [7])
    operator.iconcat(values, [8])
    return x + 1, other is operator.imul(values, 2), values


@given(a_list)
def test_c_function_that_gives_what_it_is_given(x, values):
    nested = [values, [1]]
    return x + 1, operator.is_(values, values), operator.getitem(nested, 0) is values, operator.is_not(values, values), nested


class Sized:
    def __init__(self, answer):
        self.answer = answer

    def __len__(self):
        return self.answer


class Truthful(Sized):
    def __bool__(self):
        return self.answer


def text_of_error(work):
    try:
        return work()
    except Exception as error:
        return type(error).__name__, str(error)


def sizes():
    return toy.arange(2), [Sized(answer) for answer in (0, 2, True, None, "a", -1, 2**70)]


@given(sizes)
def test_answers_of_len_and_bool(x, objects):
    lengths = [text_of_error(lambda: len(item)) for item in objects]
    truths = [text_of_error(lambda: bool(item)) for item in objects]
    strict = [text_of_error(lambda: not Truthful(item.answer)) for item in objects]
    return x + 1, lengths, truths, strict


LOG = []


def logged(n):
    try:
        while n:
            yield n
            n -= 1
    finally:
        LOG.append("closed")


def delegating(n):
    yield 0
    yield from logged(n)


@given(one)
def test_generator_dropped_inside_a_try(x):
    for a, b in zip([1], logged(3)):
        LOG.append(b)
    return x + 1


@given(one)
def test_generator_left_inside_a_try(x):
    for a in logged(3):
        if a == 2:
            break
    LOG.append("behind")
    return x + 1


@given(one)
def test_generator_dropped_inside_a_delegated_try(x):
    generator = delegating(3)
    next(generator)
    next(generator)
    return x + 1


@whole
@given(one, hit=False)
def test_generator_dropped_outside_of_a_try(x):
    generator = delegating(3)
    next(generator)
    return x + 1, list(logged(2)), LOG


def branches(x, *rest):
    if x.sum() > 1:
        return len(rest)
    return -1


@given(one)
def test_break_in_a_call_with_packed_arguments(x):
    out = []
    for k in (1, 2):
        if branches(x, k, *out) == 1:
            out.append(branches(x * k, *out, **{}))
        out.append(branches(*[x - k, *out]))
    return x + 1, [out, branches(*[x])]


@given(lambda: (toy.arange(2), 1))
def test_captured_argument_assigned_before_a_break(x, n):
    old, first = n, x
    n = n + 5
    x = x + 1
    toy.save(first)
    return old, (lambda: n)(), first, (lambda: x)()


@given(lambda: (toy.arange(2), {"b": 2, "a": 3}))
def test_dict_changed_under_an_iterator_before_a_break(x, values):
    copy = values.copy()
    for key, value in copy.items():
        copy.clear()
        toy.save(x + value)
    return x


class Sequence:
    def __init__(self, n):
        self.n = n

    def __getitem__(self, index):
        LOG.append(index)
        if index >= self.n:
            raise IndexError(index)
        return index * 2


class NoIterator:
    def __iter__(self):
        return [1, 2]


@given(one)
def test_iteration_through_getitem(x):
    items = [k + 1 for k in Sequence(3)]
    items[1:2] = Sequence(2)
    return x + 1, items, 2 in Sequence(4), dict([Sequence(2)]), dict(zip("abc", Sequence(2))), max(Sequence(3)), LOG


@given(one)
def test_iter_gives_no_iterator(x):
    return x + 1, text_of_error(lambda: [k for k in NoIterator()]), text_of_error(lambda: iter(NoIterator()))


@given(one)
def test_containment_stops_early(x):
    iterator = iter([1, 2, 3, 4])
    generator = logged(3)
    return x + 1, 2 in iterator, list(iterator), 2 in generator, LOG, next(generator), 9 in generator, LOG


class Mapping:
    def __init__(self, *names):
        self.names = names

    def keys(self):
        toy.save(toy.arange(1))
        return self.names

    def __getitem__(self, key):
        return key * 2


class Hashed:
    def __hash__(self):
        toy.save(toy.arange(1))
        return 7

    def __repr__(self):
        return "hashed"


def keywords(*args, **names):
    return args, names


@given(one)
def test_break_in_a_container_display(x):
    s, m, h = Sequence(2), Mapping("a", "b"), Hashed()
    out = [[0, *s], {*s, 5}, (1, *s, *s), {**m, "c": 1}]
    calls = [keywords(*s), keywords(1, *s), keywords(**m), keywords(2, **m, c=3), keywords(*s, **{"z": 1}, **m)]
    twice = text_of_error(lambda: keywords(a=1, **m)), text_of_error(lambda: keywords(**m, **m))
    made = [{h for _ in range(2)}, {h: k for k in range(2)}, [k for k in s]]
    return x + 1, out, calls, twice, repr(made), LOG


@given(lambda: (toy.arange(2), {"a": 1}, [3]))
def test_container_longer_before_a_break_in_its_loop(x, names, values):
    out = []
    names.update(b=1)
    for name in names:
        toy.save(x)
        out.append(name)
    values.extend([1, 2])
    for value in reversed(values):
        toy.save(x)
        out.append(value)
    return x + 1, out


@given(lambda: (toy.arange(2), {"a": 1}))
def test_keys_change_under_a_running_loop(x, names):
    """CPython finds out by where the new key lies, so the dict must change as the program changed it."""
    try:
        for _ in (1 for _ in names.values()):
            names.pop("a", 1)
            names["b"] = 1
    except RuntimeError as error:
        return x + 1, str(error)
    return x + 1


@given(lambda: (toy.arange(2), {"a": 1}))
def test_emptied_dict_is_updated_under_a_running_loop(x, names):
    try:
        for _ in (1 for _ in names.values()):
            names.pop("a", 1)
            names.update(b=1)
    except RuntimeError as error:
        return x + 1, str(error)
    return x + 1


@given(lambda: (toy.arange(2), [3, 1]))
def test_variable_of_a_comprehension_where_a_cell_is_and_a_number_that_differs(x, values):
    """Since 3.12 the comprehension keeps `z` in the slot of the cell, for which nobody may ask what number it is."""
    out = []
    for k in range(4):
        toy.save(x)
        values[0] += k
        out.append([[y for y in range(z % 3)] for z in [values[0], k]])
    out.append([(lambda: z)() for z in (0, 2)])
    return x + 1, out


def calls_what_is_not_there():
    return nobody_has_defined_this(1)  # noqa: F821


@given(one)
def test_call_of_an_undefined_name_in_a_called_function(x):
    """CPython loads what is to be called along with a NULL."""
    y = x + 1
    try:
        calls_what_is_not_there()
    except NameError as error:
        return str(error), y * 2


@given(one)
def test_call_of_an_undefined_name_leaves_a_called_function(x):
    LOG.append(x + 1)
    calls_what_is_not_there()
