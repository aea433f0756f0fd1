"""Objects of classes derived from those of values, where C code asks them as it asks values."""

import toy
from cases import given, whole


def one():
    return (toy.arange(2),)


class Half(float):
    def __index__(self):
        return 3


class Kinds(tuple):
    pass


class Text(str):
    def __repr__(self):
        return "own repr"

    def __str__(self):
        return "own str"


class Plain(str):
    pass


class Count(int):
    def __repr__(self):
        return "own"


@given(one)
def test_lists_times_what_has_an_index(x):
    found = []
    for work in (lambda: [1] * Half(2), lambda: Half(2) * (1,), lambda: "a" * Half(2), lambda: [1, 2, 3, 4][Half(0)], lambda: [1] * 1.5):
        try:
            found.append(work())
        except TypeError as error:
            found.append(str(error))
    return x + 1, found


@whole
@given(one)
def test_kinds_in_a_derived_tuple(x):
    return x + 1, isinstance(1, Kinds((int, str))), isinstance(1.5, Kinds((int, str))), issubclass(bool, Kinds([int])), isinstance(1, (str, Kinds([int])))


@given(one)
def test_templates_of_derived_texts(x):
    return x + 1, Text("abc").format(1), Text("a{}c").format(1), Plain("{}-{k}").format(1, k=2), "{}".format(Text("t")), "{!r}".format(Text("t"))


@given(one)
def test_ranges_of_derived_numbers(x):
    return x + 1, range(Count(4))[2], len(range(Count(1), Count(4))), list(range(Count(2)))


@given(one)
def test_keywords_that_are_no_texts(x):
    def f(**keywords):
        return keywords

    found = []
    for work in (lambda: f(**{1: 2}), lambda: dict(**{1: 2}), lambda: f(**{"a": 1}, **{2: 3}), lambda: f(**{Plain("a"): 1})):
        try:
            found.append(work())
        except TypeError as error:
            found.append(str(error))
    return x + 1, found


class Asked:
    def __init__(self, log):
        self.log = log

    def __eq__(self, other):
        self.log.append(other)
        return True


class Keyed:
    keys = "no method"


class Floored:
    def __rfloordiv__(self, other):
        return "floored"

    __rmod__ = __rfloordiv__


@whole
@given(one)
def test_tuples_of_other_lengths_ask_their_items(x):
    log = []
    pair = (Asked(log), 0)
    found = [pair == (1,), pair != (2,), pair < (3,), pair in (4, (5,)), [*pair] == [6], (slice(7) == slice(8))]
    return x + 1, found, log


@given(one)
def test_errors_of_operands_that_are_not_known(x):
    found, text, numbers = [], "a", [1]
    for work in (lambda: text[(Asked([]),)], lambda: text.encode()[(Asked([]),)], lambda: numbers[Asked([])], lambda: int(Asked([]), key=0), lambda: float(Asked([]), key=0), lambda: dict(**Keyed()), lambda: {**Keyed()}, lambda: 1j // Floored(), lambda: 1j % Floored(), lambda: Floored() // 1j):
        try:
            found.append(work())
        except TypeError as error:
            found.append(str(error))
    return x + 1, found


class Slotted:
    __slots__ = ("tag",)


EMPTY = Slotted()


@whole
@given(one)
def test_slots_without_a_value(x):
    found = []
    for holder in (EMPTY, Slotted()):
        for work in (lambda: holder.tag, lambda: delattr(holder, "tag")):
            try:
                found.append(work())
            except AttributeError as error:
                found.append(error.args)
    return x + 1, found
