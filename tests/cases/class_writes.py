"""Writes to attributes of classes that were there before the function: counters, registries, switches."""

import toy
from cases import given, whole


class Counter:
    total = 0
    last = None

    def __init__(self):
        Counter.total += 1

    def __enter__(self):
        Counter.total += 10
        return self

    def __exit__(self, *raised):
        type(self).total -= 10
        return False

    @classmethod
    def count(cls, by):
        cls.total = cls.total + by
        return cls.total


class Derived(Counter):
    pass


class Meta(type):
    @property
    def watched(cls):
        return 5

    @watched.setter
    def watched(cls, value):
        cls.seen = value


class WithMeta(metaclass=Meta):
    seen = 0


class Slotted:
    __slots__ = ("own",)
    shared = 1


def one():
    return (toy.arange(2),)


@given(one, hit=False)
@whole
def test_a_counter(x):
    for _ in range(3):
        Counter.total += 1
        x = x + 1
    return x


@given(one, hit=False)
@whole
def test_a_manager(x):
    with Counter(), Counter():
        x = x * 2
    return x + 1, Counter.total


@given(one, hit=False)
@whole
def test_a_tensor(x):
    Counter.last = x * 2
    return Counter.last + 1


@given(one, hit=False)
@whole
def test_a_new_attribute(x):
    Counter.added = [1]
    Counter.added.append(2)
    return x * 2, Counter.added, hasattr(Counter, "added"), getattr(Counter, "other", 3)


@given(one, hit=False)
@whole
def test_a_class_method(x):
    return Counter.count(2), Counter.count(3), Counter.total, x * 2


@given(one)
def test_a_derived_class(x):
    return Counter.count(2), Derived.count(3), Derived.total, Counter.total, x * 2


@given(one)
def test_the_dict_read_before(x):
    kept = Counter.__dict__
    Counter.total = 4
    return kept["total"], x * 2


@given(one)
def test_read_through_an_object(x):
    counter = Counter()
    before = counter.total
    Counter.total = 50
    return before, counter.total, Derived.total, x * 2


@given(one)
def test_read_through_super(x):
    class Inner(Counter):
        def read(self):
            return super().total

    inner = Inner()
    Counter.total = 7
    return inner.read(), Inner.total, x * 2


@given(one)
def test_read_through_the_dict(x):
    Counter.total = 8
    return Counter.__dict__["total"], vars(Counter)["total"], "total" in vars(Counter), x * 2


@given(one)
def test_a_method(x):
    Counter.method = lambda self: "new"
    try:
        return Counter().method(), x * 2
    finally:
        del Counter.method


@given(one)
def test_a_property(x):
    Counter.value = property(lambda self: 3)
    return Counter().value, x * 2


@given(one)
def test_through_a_metaclass(x):
    WithMeta.watched = 9
    WithMeta.seen += 1
    return WithMeta.watched, WithMeta.seen, x * 2


@given(one)
def test_what_c_code_defines(x):
    told = []
    for cls in (int, list, type):
        try:
            cls.other = 1
        except TypeError as error:
            told.append(str(error))
    return told, x * 2


@given(one)
def test_special_names(x):
    Slotted.__len__ = lambda self: 3
    Slotted.shared = 2
    return len(Slotted()), Slotted.shared, Slotted().shared, x * 2


@given(one)
def test_an_error_behind(x):
    Counter.total = 1
    try:
        Counter.total = 2
        raise KeyError(Counter.total)
    except KeyError as error:
        Counter.total += error.args[0]
    raise ValueError(Counter.total)


@given(one)
def test_a_break_behind(x):
    Counter.total = 5
    toy.save(x)
    Counter.total += 1
    return Counter.total, Counter().total, x * 2


@given(one)
def test_deleted(x):
    Counter.gone = 1
    del Counter.gone
    return hasattr(Counter, "gone"), x * 2


@given(lambda: (toy.arange(2),))
def test_an_attribute_that_c_code_of_a_metaclass_refuses(x):
    import ctypes

    class Node(ctypes.Structure):
        pass

    try:
        Node._fields_ = [("next", Node)]
    except AttributeError as refused:
        return x + 1, str(refused)
    return x, None
