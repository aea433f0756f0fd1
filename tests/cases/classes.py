"""Instances and classes made in the function."""

import toy
from cases import given, whole


def one():
    return (toy.arange(2),)


class Point:
    kind = "point"

    def __init__(self, a, b=2):
        self.a = a
        self.b = b

    def moved(self, d):
        return Point(self.a + d, self.b + d)

    def total(self):
        return self.a + self.b


class Point3(Point):
    def __init__(self, a, b, c):
        super().__init__(a, b)
        self.c = c

    def total(self):
        return super().total() + self.c


class WithNew:
    def __new__(cls, value):
        self = super().__new__(cls)
        self.made = value
        return self


class Plain:
    pass


@whole
@given(one)
def test_instance_used(x):
    return Point(x, 1).moved(2).total()


@whole
@given(one)
def test_instance_returned(x):
    p = Point(x + 1)
    p.extra = [p.a]
    return p


@whole
@given(one)
def test_subclass_with_super(x):
    return Point3(x, 1, 2).total()


@whole
@given(one)
def test_new_method(x):
    return WithNew(x).made + 1


@whole
@given(one)
def test_instance_changed_later(x):
    p = Plain()
    q = [p]
    p.value = x + 1
    q[0].other = 2
    return q, p


@whole
@given(one)
def test_two_instances(x):
    a, b = Point(x), Point(x)
    return a is b, a.a is b.a, a.total() + b.total()


@given(one)
def test_wrong_arguments_of_init(x):
    y = x + 1
    return Point(), y


@given(one)
def test_plain_class_takes_no_arguments(x):
    y = x + 1
    return Plain(1), y


@given(one)
def test_class_made_in_the_function(x):
    class Local:
        def go(self, v):
            return v * 2

    return Local().go(x)


@given(one)
def test_class_of_a_type_call(x):
    made = type("Made", (), {"value": 3})
    return x + made.value


@whole
@given(one)
def test_isinstance_of_new(x):
    p = Point3(x, 1, 2)
    return isinstance(p, Point), type(p) is Point3, p.kind, type(p).__name__, p.total()


@whole
@given(lambda: (toy.arange(2), Plain))
def test_class_as_an_argument(x, cls):
    p = cls()
    p.v = x * 2
    return p


class Meta(type):
    def __call__(cls, *args):
        made = super().__call__(*args)
        made.tagged = True
        return made


class Tagged(metaclass=Meta):
    def __init__(self, v):
        self.v = v


@given(one)
def test_metaclass(x):
    t = Tagged(x + 1)
    return t.v, t.tagged


class Items(list):
    def twice(self):
        return [v * 2 for v in self]


class Table(dict):
    def __missing__(self, key):
        return key + "?"


@given(lambda: (toy.arange(2), Items([1, 2])))
def test_subclass_of_list(x, items):
    items.append(x + 1)
    return items, len(items), items[0]


@given(lambda: (toy.arange(2), Items([1, 2])))
def test_method_of_a_subclass_of_list(x, items):
    return x + 1, items.twice()


@given(lambda: (toy.arange(2), Table(a=1)))
def test_subclass_of_dict(x, table):
    table["b"] = x + 1
    return table["a"], table["zz"], table


class Number(int):
    pass


@given(lambda: (toy.arange(2), Number(4)))
def test_subclass_of_int(x, n):
    return x + 1, n + 1, n


@whole
@given(lambda: (toy.arange(2),))
def test_dataclass(x):
    return Data(x, 3).total()


import dataclasses  # noqa: E402


@dataclasses.dataclass
class Data:
    a: object
    b: int = 1
    c: list = dataclasses.field(default_factory=list)

    def total(self):
        return self.a + self.b + len(self.c)


@whole
@given(lambda: (toy.arange(2), Data(toy.ones((2,)))))
def test_dataclass_argument(x, d):
    d.c.append(1)
    return x + d.total()


import enum  # noqa: E402


class Color(enum.Enum):
    RED = 1
    BLUE = 2


@given(lambda: (toy.arange(2), Color.RED), lambda: (toy.arange(2), Color.BLUE))
def test_enum(x, color):
    return x + 1 if color is Color.RED else x - color.value


@whole
@given(lambda: (toy.arange(2), Color.RED))
def test_enum_identity(x, color):
    return x + 1 if color is Color.RED else x - 1


import copy  # noqa: E402
import functools  # noqa: E402


class Answering:
    asked = []

    def __init__(self, value):
        self.value = value

    def __getattr__(self, name):
        Answering.asked.append(name)


@given(lambda: (toy.arange(2), Answering(1)))
def test_copy_of_an_object_that_answers_everything(x, answering):
    y = x + 1
    try:
        copied = copy.copy(answering)
    except TypeError as error:
        copied = str(error)
    return y, type(copied).__name__


@given(lambda: (toy.arange(2), [3, 1, 2]))
def test_sorted_by_a_comparison(x, values):
    return x + 1, sorted(values, key=functools.cmp_to_key(lambda a, b: b - a))


class Listed:
    first = 1
    second = 2


@given(one)
def test_loops_over_the_dict_of_a_class_with_breaks(x):
    found = []
    for name in Listed.__dict__:
        toy.save(x)
        found.append(name)
    for name, value in Listed.__dict__.items():
        toy.save(x)
        found.append((name, value == 1))
    for value in Listed.__dict__.values():
        toy.save(x)
        found.append(value == 2)
    names = iter(Listed.__dict__)
    found.append(next(names))
    toy.save(x)
    return x + 1, found, list(names)
