"""Graph breaks in functions that an instruction calls without being a call: properties, operators, `__init__`, `__enter__`.

A case marked `@two` becomes two graphs around one break.
"""

import toy
from cases import given, two


def one():
    return (toy.arange(2),)


def logged():
    return (toy.arange(2), [])


def broken(x):
    y = x + 1
    toy.save(y)
    return y * 2


class Box:
    def __init__(self, x):
        self.x = x

    @property
    def value(self):
        return broken(self.x) - 1

    @value.setter
    def value(self, x):
        self.x = broken(x) - 1

    @value.deleter
    def value(self):
        self.x = broken(self.x) - 2

    @property
    def method(self):
        y = broken(self.x)
        return lambda n: y * n

    def __getitem__(self, key):
        return broken(self.x) * key

    def __setitem__(self, key, value):
        self.x = broken(self.x) * key + value

    def __delitem__(self, key):
        self.x = broken(self.x) * key

    def __call__(self, n):
        return broken(self.x) * n

    def __add__(self, other):
        if isinstance(other, str):
            broken(self.x)
            return NotImplemented
        if isinstance(other, Right):
            broken(self.x)
            return NotImplemented
        return broken(self.x) + other

    def __rsub__(self, other):
        return broken(self.x) - other

    def __imul__(self, other):
        self.x = broken(self.x) * other
        return self

    def __neg__(self):
        return broken(self.x) * -1

    def __lt__(self, other):
        if isinstance(other, (str, Right)):
            broken(self.x)
            return NotImplemented
        return broken(self.x) + other

    def __eq__(self, other):
        broken(self.x)
        return NotImplemented


class Dynamic(Box):
    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return broken(self.x) + len(name)


class Right:
    def __radd__(self, other):
        return other.x * 10

    def __gt__(self, other):
        return "greater"


@two
@given(one)
def test_property(x):
    return Box(x * 3).value + x


@two
@given(one)
def test_property_in_half_an_expression(x):
    b = Box(x * 3)
    return [x + 1, b.value, x + 2]


@two
@given(one)
def test_property_that_is_called(x):
    b = Box(x * 3)
    return x + b.method(2)


@two
@given(one)
def test_property_set(x):
    b = Box(x * 3)
    b.value = x + 5
    return b.x + x


@two
@given(one)
def test_property_deleted(x):
    b = Box(x * 3)
    del b.value
    return b.x + x


@two
@given(one)
def test_getattr(x):
    b = Dynamic(x * 3)
    return b.missing + x


@two
@given(one)
def test_getattr_that_is_called(x):
    return getattr(Box(x * 3), "value") + x


@given(one)
def test_getattr_with_a_default(x):
    b = Box(x * 3)
    return getattr(b, "value", 1) + getattr(b, "other", x)


class Table(dict):
    def __missing__(self, key):
        self[key] = broken(key)
        return self[key] + 1


@given(one)
def test_missing_key(x):
    table = Table()
    y = x * 3
    return table[y] + table[y]


class Made(type):
    def __call__(cls, x):
        made = super().__call__()
        made.x = broken(x)
        return made


class MadeSo(metaclass=Made):
    pass


@two
@given(one)
def test_call_of_a_metaclass(x):
    return MadeSo(x * 3).x + x


@given(one)
def test_property_beside_getattr(x):
    b = Dynamic(x * 3)
    return b.value + x


@two
@given(one)
def test_getitem(x):
    b = Box(x * 3)
    return b[4] + x


@two
@given(one)
def test_setitem(x):
    b = Box(x * 3)
    b[4] = x + 1
    return b.x + x


@two
@given(one)
def test_delitem(x):
    b = Box(x * 3)
    del b[4]
    return b.x + x


@two
@given(one)
def test_call(x):
    b = Box(x * 3)
    return b(4) + x


@two
@given(one)
def test_add(x):
    b = Box(x * 3)
    return (b + 4) * x


@two
@given(one)
def test_rsub(x):
    b = Box(x * 3)
    return (4 - b) * x


@given(one)
def test_inplace(x):
    b = c = Box(x * 3)
    b *= 4
    return b.x + c.x + x, b is c


@two
@given(one)
def test_imul(x):
    b = Box(x * 3)
    b *= 2
    return b.x + x


class InPlace:
    """Has no answer in place, and then those that it is told to have."""

    def __init__(self, x, answers):
        self.x, self.answers = x, answers

    def __iadd__(self, other):
        broken(self.x)
        return NotImplemented

    def __add__(self, other):
        return self.x + 4 if "left" in self.answers else NotImplemented


class InPlaceToo(InPlace):
    def __radd__(self, other):
        return self.x + 5


class Reflected:
    def __radd__(self, other):
        return other.x + 6


@given(one)
def test_iadd_without_an_answer(x):
    b = InPlace(x * 3, ["left"])
    b += 2
    return b + x


@given(one)
def test_iadd_that_the_right_operand_answers(x):
    b = InPlace(x * 3, [])
    b += Reflected()
    return b + x


@given(one)
def test_iadd_of_a_derived_right_operand(x):
    b = InPlace(x * 3, [])
    b += InPlaceToo(x, [])
    return b + x


def misfits():
    return (toy.arange(2), [1, None, "text", [1], InPlace(1, [])])


@given(misfits)
def test_iadd_that_nobody_answers(x, others):
    texts = []
    for other in others:
        b = InPlace(x * 3, [])
        try:
            b += other
        except TypeError as error:
            texts.append(str(error))
    return x + len(texts), texts


class Items(list):
    def __iadd__(self, other):
        broken(self[0])
        return NotImplemented


@given(one)
def test_iadd_of_a_list_of_a_derived_class(x):
    items = Items([x * 3])
    items += [x]
    return items[0] + items[-1], len(items)


@two
@given(one)
def test_neg(x):
    b = Box(x * 3)
    return -b + x


@two
@given(one)
def test_less(x):
    b = Box(x * 3)
    y = b < 4
    return y + x


@given(one)
def test_less_as_a_condition(x):
    b = Box(x * 3)
    try:
        return x if b < 4 else x + 1
    except Exception as error:
        return type(error).__name__


@given(one)
def test_add_declines_and_the_right_operand_answers(x):
    b = Box(x * 3)
    return (b + Right()) * x


@given(one)
def test_add_declines_and_nobody_answers(x):
    b = Box(x * 3)
    y = x + 1
    return b + "text", y


@given(one)
def test_add_declines_and_the_error_is_caught(x):
    b = Box(x * 3)
    y = x + 1
    try:
        return b + "text", y
    except TypeError as error:
        return str(error), y + 1


@given(one)
def test_less_declines(x):
    b = Box(x * 3)
    y = b < Right()
    try:
        z = b < "text"
    except TypeError as error:
        z = str(error)
    return y, z, x + 1


@given(one)
def test_equal_declines(x):
    b, c = Box(x * 3), Box(x)
    y = b == c
    z = b != b
    return y, z, x + 1


class Made:
    def __init__(self, x, out=None):
        self.x = broken(x)
        self.y = self.x + 1
        if out is not None:
            out.append(self)


class Derived(Made):
    def __init__(self, x):
        super().__init__(x - 1)
        self.z = self.y * 2


class Wrong:
    def __init__(self, x):
        broken(x)
        return x.ndim


class Own:
    def __new__(cls, x):
        self = super().__new__(cls)
        self.n = 2
        return self

    def __init__(self, x):
        self.x = broken(x) * self.n


@two
@given(one)
def test_init(x):
    m = Made(x * 3)
    return m.x + m.y * x


@two
@given(logged)
def test_init_that_shares_itself(x, log):
    m = Made(x * 3, log)
    return m, log[0] is m, m.y * x


@two
@given(one)
def test_init_of_a_base(x):
    m = Derived(x * 3)
    return m.x + m.z * x


@given(one)
def test_init_that_returns_something(x):
    y = x * 3
    m = Wrong(y)
    return m, y


@given(one)
def test_new_and_init(x):
    m = Own(x * 3)
    return m.x + x


class Manager:
    def __init__(self, log):
        self.log = log

    def __enter__(self):
        self.log.append(broken(self.log[0]))
        return self.log[0] + 1

    def __exit__(self, kind, error, traceback):
        self.log.append(broken(self.log[1]))
        self.log.append(kind and kind.__name__)
        return kind is KeyError


@given(lambda: (toy.arange(2), [toy.ones([2])]))
def test_enter_and_exit(x, log):
    y = x * 3
    with Manager(log) as z:
        y = y + z
    return y * x


@given(lambda: (toy.arange(2), [toy.ones([2])]))
def test_exit_that_suppresses(x, log):
    y = x * 3
    with Manager(log) as z:
        y = y + z
        raise KeyError("suppressed")
    return y * x


@given(lambda: (toy.arange(2), [toy.ones([2])]))
def test_exit_that_lets_through(x, log):
    y = x * 3
    try:
        with Manager(log) as z:
            y = y + z
            raise ValueError("through")
    except ValueError as error:
        log.append(str(error))
    return y * x


class Descriptor:
    def __get__(self, instance, owner):
        return broken(instance.x)

    def __set__(self, instance, value):
        instance.x = broken(value)


class Described:
    d = Descriptor()

    def __init__(self, x):
        self.x = x


@two
@given(one)
def test_descriptor(x):
    return Described(x * 3).d + x


@two
@given(one)
def test_descriptor_set(x):
    o = Described(x * 3)
    o.d = x - 1
    return o.x + x


class Deep:
    def __init__(self, x):
        self.box = Box(x)

    @property
    def first(self):
        return self.box.value * 2

    def __getitem__(self, key):
        return self.first + key


@two
@given(one)
def test_levels_of_properties_and_operators(x):
    return -Deep(x * 3)[2] + x


@given(one)
def test_property_in_a_loop(x):
    b = Box(x * 3)
    for _ in range(3):
        x = x + b.value
        b.value = x
    return x


class Failing:
    def __init__(self, x):
        self.x = x

    @property
    def value(self):
        broken(self.x)
        raise ValueError("inside")

    def __add__(self, other):
        toy.save(self.x + 1)
        return [][other]


@given(one)
def test_exception_of_a_property_behind_a_break(x):
    y = x * 2
    return Failing(y).value + y


@given(one)
def test_exception_of_an_operator_is_caught(x):
    y = x * 2
    try:
        y = Failing(y) + 1
    except IndexError as error:
        y = y + len(str(error))
    return y * 2


class Power:
    """Declines to be raised in place, and would not be raised else."""

    def __init__(self, breaks):
        self.breaks = breaks
        self.asked = []

    def __ipow__(self, other):
        self.asked.append("ipow")
        if self.breaks:
            toy.save(other)
        return NotImplemented

    def __pow__(self, other, modulo=None):
        self.asked.append("pow")
        return 5


@given(one)
def test_a_power_in_place_that_is_declined(x):
    found = []
    for breaks in (False, True):
        power = given = Power(breaks)
        try:
            power **= x
        except TypeError as error:
            found.append(str(error))
        found.append((given.asked, power == 5))
    return x + 1, found
