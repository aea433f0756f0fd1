"""What CPython's own tests and the properties of opcodes found: corners of the object model, and what errors say."""

import toy
from cases import given, whole


def one():
    return (toy.arange(2),)


def outcome(work, *args):
    try:
        return type(work(*args)).__name__
    except Exception as error:
        return type(error).__name__, str(error)


class property(property):  # noqa: A001
    """A property by name, with a lookup of its own."""

    member = "of the class"

    def __get__(self, instance, owner=None):
        return self.member if instance is None else "of an instance"


class HasProperty:
    kind = property(lambda self: 1)


@whole
@given(one)
def test_class_that_is_called_property(x):
    return x + 1, HasProperty.kind, HasProperty().kind


class Wrapper:
    def __init__(self, wrapped):
        self.wrapped = wrapped

    def __get__(self, instance, owner):
        return lambda: (owner.__name__, self.wrapped)


class WithWrapped:
    inner = classmethod(Wrapper(3))
    unreadable = __builtins__["property"]() if isinstance(__builtins__, dict) else __builtins__.property()


@given(one)
def test_class_method_around_a_descriptor(x):
    return x + 1, outcome(lambda: WithWrapped.inner()), outcome(lambda: WithWrapped().inner())


@whole
@given(one)
def test_property_without_functions(x):
    def write():
        WithWrapped().unreadable = 1

    def delete():
        del WithWrapped().unreadable

    return x + 1, outcome(lambda: WithWrapped().unreadable), outcome(write), outcome(delete)


class NoException(Exception):
    def __new__(cls, *args):
        return 3


@whole
@given(one)
def test_raised_class_makes_something_else(x):
    def fails():
        raise NoException

    return x + 1, outcome(fails)


@whole
@given(one)
def test_context_of_what_is_raised_again(x):
    try:
        raise ValueError(1)
    except ValueError as error:
        first = error
    try:
        try:
            raise KeyError(2)
        except KeyError:
            raise first  # noqa: B904
    except ValueError as error:
        return x + 1, error.__context__.args


class CallsItself:
    pass


CallsItself.__call__ = CallsItself()


@given(one)
def test_call_that_never_ends(x):
    try:
        CallsItself()()
    except RecursionError:
        return x + 1


class Wrong:
    def __float__(self):
        return "a"

    def __int__(self):
        return "a"

    def __str__(self):
        return 1

    def __repr__(self):
        return 1

    def __hash__(self):
        return "a"

    def __format__(self, spec):
        return 1


class LargeHash:
    def __hash__(self):
        return 2**70

    def __index__(self):
        return 7


@given(one)
def test_special_methods_that_give_something_else(x):
    y = x + 1
    wrong = Wrong()
    return y, [outcome(f, wrong) for f in (float, int, str, repr, hash, format)]


@given(one)
def test_numbers_that_are_converted(x):
    return x + 1, hash(LargeHash()), float(LargeHash()), int(LargeHash())


class Base:
    def method(self):
        return "base"


class Method(Base):
    def without_self(self):
        del self
        super().method()

    def without_parameters(*args):
        return super().method()

    def of_an_int(self):
        return super(1, int).method()

    def of_others(self):
        return super(Wrong, self).method()

    def missing(self):
        return super().nothing()


@given(one)
def test_super_that_fails(x):
    method = Method()
    names = ("without_self", "without_parameters", "of_an_int", "of_others", "missing")
    return x + 1, [outcome(getattr(method, name)) for name in names]


class Pretends:
    def __init__(self, of):
        self.__of = of

    def __getattribute__(self, name):
        if name.startswith("_Pretends__"):
            return object.__getattribute__(self, name)
        return getattr(self.__of, name)


@given(one)
def test_super_of_an_object_that_pretends(x):
    def method(self):
        return super(Method, self).method()

    return x + 1, method(Pretends(Method()))


def evaluates(text, *names):
    return eval(text, None, None)


@given(one)
def test_eval_in_the_frame_it_is_called_from(x):
    y = x + 1
    return y, evaluates("names[0]", 1, 2)


class Own:
    def __init__(self, *args):
        object.__init__(self, *args)


class Plain:
    pass


class Slot:
    __slots__ = ("slot",)


@whole
@given(one)
def test_errors_of_attributes(x):
    def delete(of, name):
        delattr(of, name)

    def write(of, name):
        setattr(of, name, 1)

    return (
        x + 1,
        outcome(Own, 1),
        outcome(Plain, 1),
        outcome(getattr, Plain, "missing"),
        outcome(getattr, Plain(), "missing"),
        outcome(delete, Plain(), "missing"),
        outcome(write, Slot(), "missing"),
        outcome(lambda: +Plain()),
        outcome(lambda: ~Plain()),
        outcome(int, Plain()),
        outcome(float, Plain()),
        outcome(next, Plain()),
    )


class MeantWell:
    def __init__(self):
        return 10


@whole
@given(one)
def test_init_that_returns_something(x):
    return x + 1, outcome(MeantWell)


@whole
@given(one)
def test_attributes_of_a_new_function(x):
    def first():
        return 1

    def second():
        pass

    first.count = [1]
    second.__dict__.update(first.__dict__)
    return x + 1, first, second, first.__dict__, second.count is first.count


class SaysInt:
    __class__ = int


@whole
@given(one)
def test_isinstance_of_an_object_that_pretends(x):
    pretends = Pretends(Method())
    return (
        x + 1,
        isinstance(pretends, Base),
        isinstance(pretends, Pretends),
        isinstance(SaysInt(), (str, int)),
        SaysInt().__class__,
        issubclass(SaysInt, int),
    )


class DictLike(dict):
    pass


@given(one)
def test_fromkeys_of_a_subclass(x):
    made = DictLike.fromkeys("ab"), DictLike().fromkeys("a")
    return x + 1, made, [type(one) for one in made]


@whole
@given(one)
def test_set_changed_while_iterated(x):
    def grows():
        found = {1, 2, 3}
        for item in found:
            found.add(item + 10)

    return x + 1, outcome(grows), type(iter({1})).__name__


@given(one)
def test_attributes_that_c_code_keeps(x):
    def write(of):
        of.start = 1

    y = x + 1
    return y, outcome(write, range(3)), outcome(write, slice(3))


class NoContainer:
    __contains__ = None

    def __iter__(self):
        return iter([1])


@whole
@given(one)
def test_in_what_is_no_container(x):
    return x + 1, outcome(lambda: 1 in NoContainer()), outcome(lambda: 1 in Plain())


@whole
@given(one)
def test_unpacked_as_a_mapping(x):
    return x + 1, outcome(lambda: {**()}), outcome(lambda: {"a": 1, **Plain()})


@whole
@given(one)
def test_exhausted_iterators(x):
    iterators = iter([1]), iter((1,)), iter({1: 2}), (i for i in (1,)), iter(range(1)), iter({1})
    for iterator in iterators:
        list(iterator)
    return x + 1, iterators


def delegated():
    try:
        yield 1
        yield 2
    finally:
        toy.zeros([1])


@whole
@given(one)
def test_close_through_yield_from(x):
    def outer():
        yield from delegated()

    generator = outer()
    return x + 1, next(generator), generator.close(), list(generator)


@given(one)
def test_count_of_no_number(x):
    import itertools

    y = x + 1
    return y, outcome(itertools.count, "a"), next(itertools.count(2.5))


class Declines:
    def __and__(self, other):
        return NotImplemented

    def __rand__(self, other):
        return "reflected"


@whole
@given(one)
def test_operands_of_one_type(x):
    return x + 1, outcome(lambda: Declines() & Declines()), outcome(lambda: Declines() & 3), 3 & Declines()


@whole
@given(one)
def test_errors_of_sequences(x):
    def adds(left, right):
        left += right

    return x + 1, outcome(adds, "", ()), outcome(adds, (), [1]), outcome(lambda: b"" + ())


@whole
@given(one)
def test_errors_of_bound_methods(x):
    return x + 1, outcome(lambda: Method().method.nothing)


THING = Plain()


@given(one)
def test_sequences_that_cannot_be_joined(x):
    texts = []
    for left in ("", b""):
        for right in ((THING,), [THING], {"k": THING}, {1: THING}):
            try:
                left + right
            except TypeError as error:
                texts.append(str(error))
            try:
                left += right
            except TypeError as error:
                texts.append(str(error))
    return x + 1, texts
