"""Attributes: instances, classes, properties, descriptors, slots, hooks."""

import threading
import types

import toy
from cases import given, whole


class Base:
    bias = 10

    def __init__(self, scale):
        self.scale = scale
        self.calls = 0

    def forward(self, x):
        return x * self.scale + self.bias

    def __call__(self, x):
        return self.forward(x)

    @property
    def doubled(self):
        return self.scale * 2

    @doubled.setter
    def doubled(self, value):
        self.scale = value / 2

    @staticmethod
    def triple(x):
        return x * 3

    @classmethod
    def make_bias(cls, x):
        return x + cls.bias


class Derived(Base):
    bias = 20

    def forward(self, x):
        return super().forward(x) - 1


class Slots:
    __slots__ = ("a", "b")

    def __init__(self, a):
        self.a = a


class Fallback:
    def __init__(self):
        self.real = 1

    def __getattr__(self, name):
        if name.startswith("x_"):
            return len(name)
        raise AttributeError(name)


class Upper:
    def __get__(self, instance, owner):
        return 7 if instance is None else instance.n * 2


class WithDescriptor:
    upper = Upper()

    def __init__(self):
        self.n = 4


def base():
    return toy.arange(2), Base(2.0)


def derived():
    return toy.arange(2), Derived(2.0)


@whole
@given(base)
def test_method(x, m):
    return m.forward(x)


@whole
@given(base)
def test_call_of_an_instance(x, m):
    return m(x)


@whole
@given(derived)
def test_super(x, m):
    return m(x)


@whole
@given(base, derived, base)
def test_class_that_changes(x, m):
    return m(x)


@whole
@given(base, lambda: (toy.arange(2), Base(3.0)))
def test_attribute_that_changes(x, m):
    return m.forward(x)


@whole
@given(base)
def test_property(x, m):
    return x + m.doubled


@whole
@given(base)
def test_property_written(x, m):
    m.doubled = 10.0
    return x * m.scale, m.doubled


@whole
@given(base)
def test_static_and_class_method(x, m):
    return m.triple(x), Base.triple(x), m.make_bias(x), Derived.make_bias(x)


@whole
@given(base)
def test_attribute_written(x, m):
    m.calls += 1
    m.last = x * 2
    return m.last + m.calls


@whole
@given(base)
def test_attribute_deleted(x, m):
    del m.calls
    return x + 1, hasattr(m, "calls")


@given(base)
def test_missing_attribute(x, m):
    y = x + 1
    return y, m.nothing


@given(base)
def test_deleted_attribute_read(x, m):
    y = x + 1
    del m.calls
    return y, m.calls


@given(base)
def test_deleted_missing_attribute(x, m):
    y = x + 1
    del m.nothing
    return y


@whole
@given(lambda: (toy.arange(2), Slots(3)))
def test_slots(x, s):
    s.b = x + s.a
    return s.b * 2


@given(lambda: (toy.arange(2), Slots(3)))
def test_unset_slot(x, s):
    y = x + 1
    return y, s.b


@given(lambda: (toy.arange(2), Slots(3)))
def test_attribute_no_slot(x, s):
    y = x + 1
    s.c = y
    return y


@whole
@given(lambda: (toy.arange(2), Fallback()))
def test_getattr_hook(x, f):
    return x + f.x_abc + f.real


@given(lambda: (toy.arange(2), Fallback()))
def test_getattr_hook_raises(x, f):
    y = x + 1
    return y, f.nothing


@whole
@given(lambda: (toy.arange(2), WithDescriptor()))
def test_descriptor(x, d):
    return x + d.upper + WithDescriptor.upper


@whole
@given(base)
def test_bound_method_kept(x, m):
    f = m.forward
    return f(x) + f(x * 2)


@whole
@given(base)
def test_bound_method_returned(x, m):
    return m.forward, x + 1


@whole
@given(base)
def test_unbound_method(x, m):
    return Base.forward(m, x)


@whole
@given(base)
def test_function_on_the_instance(x, m):
    m.forward = lambda v: v - 1
    return m(x)


@whole
@given(base)
def test_instance_dict_read(x, m):
    return x + 1, m.__class__.__name__, type(m) is Base, isinstance(m, Base)


@whole
@given(base)
def test_getattr_setattr(x, m):
    setattr(m, "extra", x + 1)
    return getattr(m, "scale") * x, getattr(m, "nothing", 3), m.extra


@given(base)
def test_class_attribute_written(x, m):
    Base.bias = 11
    return m(x)


@given(base)
def test_property_without_setter(x, m):
    y = x + 1
    m.__class__.doubled.fget
    return y


class ReadOnly:
    @property
    def value(self):
        return 1


@given(lambda: (toy.arange(2), ReadOnly()))
def test_read_only_property(x, r):
    y = x + 1
    r.value = 2
    return y


@given(lambda: (toy.arange(2), ReadOnly()))
def test_read_only_property_deleted(x, r):
    y = x + 1
    del r.value
    return y


def chain():
    m = Base(2.0)
    m.inner = Base(3.0)
    m.inner.inner = Derived(0.5)
    return toy.arange(2), m


@whole
@given(chain)
def test_chain(x, m):
    return m(m.inner(m.inner.inner(x)))


@whole
@given(chain)
def test_chain_written(x, m):
    m.inner.inner.scale = 4.0
    m.inner.count = m.inner.inner.scale + 1
    return m.inner.inner(x)


def linked():
    m = Base(2.0)
    m.me = m
    return toy.arange(2), m


@whole
@given(linked)
def test_object_that_refers_to_itself(x, m):
    m.me.me.scale = 3.0
    return m(x), m.me is m


WEIGHT = toy.Parameter([1.0, 2.0, 3.0, 4.0], (2, 2), "float32")


class Linear:
    def __init__(self):
        self.weight = WEIGHT

    def __call__(self, x):
        return toy.linear(x, self.weight)


layer = Linear()


@whole
@given(lambda: (toy.arange(2, 2),))
def test_parameter(x):
    return layer(x), layer.weight


@whole
@given(lambda: (toy.arange(2, 2),))
def test_module_attribute(x):
    import math

    return x * math.pi + math.floor(2.5)


class Vector:
    def __init__(self, a):
        self.a = a

    def __add__(self, other):
        return Vector(self.a + other.a)

    def __radd__(self, other):
        return other * 100

    def __eq__(self, other):
        return self.a == other.a

    def __len__(self):
        return 3

    def __getitem__(self, key):
        return key * 2

    def __contains__(self, item):
        return item == 1

    def __bool__(self):
        return False

    def __neg__(self):
        return "negated"

    def __iadd__(self, other):
        self.a = self.a + other
        return self

    def __lt__(self, other):
        return NotImplemented

    def __enter__(self):
        return self.a

    def __exit__(self, *exc):
        self.left = True

    def __iter__(self):
        return iter([1, 2])

    def __str__(self):
        return "vector"


@whole
@given(lambda: (toy.arange(2), Vector(1), Vector(2)))
def test_operators_of_a_class(x, a, b):
    return x + 1, 5 + a, a == b, len(a), a[4], 1 in a, not a, -a, [*a]


@whole
@given(lambda: (toy.arange(2), Vector(1)))
def test_inplace_operator_of_a_class(x, a):
    before = a
    a += 5
    return x + a.a, a is before


@given(lambda: (toy.arange(2), Vector(1), Vector(2)))
def test_comparison_not_implemented(x, a, b):
    y = x + 1
    return y, a < b


@whole
@given(lambda: (toy.arange(2), Vector(1)))
def test_context_manager(x, a):
    with a as value:
        y = x + value
    return y


@whole
@given(lambda: (toy.arange(2), Vector(toy.ones((2,)))))
def test_tensor_in_an_instance(x, a):
    return x + a.a


@whole
@given(lambda: (toy.arange(2), Vector(toy.ones((2,)))), lambda: (toy.arange(2), Vector(toy.ones((2, 2)))), lambda: (toy.arange(2), Vector(4)))
def test_attribute_whose_type_changes(x, a):
    return x + a.a


class Slotted:
    __slots__ = ("a",)


class OfAThread(threading.local):
    pass


@whole
@given(lambda: (toy.arange(2),))
def test_vars_of_what_has_no_dict(x):
    texts = []
    for value in (Slotted(), 3, [], None, len, object()):
        try:
            texts.append(vars(value))
        except TypeError as error:
            texts.append(str(error))
    return x + 1, texts


MODULE, LOCAL = types.ModuleType("of_a_case"), OfAThread()


@given(lambda: (toy.arange(2),))
def test_object_writes_to_what_has_a_way_of_its_own(x):
    outcomes = []
    for value in (MODULE, LOCAL, Slotted):
        try:
            object.__setattr__(value, "extra", 2)
            outcomes.append(value.extra)
            object.__delattr__(value, "extra")
        except (AttributeError, TypeError) as error:
            outcomes.append(str(error))
        outcomes.append(hasattr(value, "extra"))
    return x + 1, outcomes


@given(lambda: (toy.arange(2),))
def test_a_module_that_is_not_initialised(x):
    bare = types.ModuleType.__new__(types.ModuleType)
    return x + 1, bare.__dict__, hasattr(bare, "__name__"), bare.__doc__ == types.ModuleType.__doc__
