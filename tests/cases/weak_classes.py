"""Weak references to classes, as keys and by themselves."""

import functools
import inspect
import typing
import weakref

import toy
from cases import changed, given, whole


def one():
    return (toy.arange(2),)


class A:
    value = 1


class B(A):
    value = 2


class Meta(type):
    def __eq__(cls, other):
        return isinstance(other, Meta)

    def __hash__(cls):
        return 7


class Odd(metaclass=Meta):
    pass


class Other(metaclass=Meta):
    pass


REFERENCE = weakref.ref(A)
TABLE = {weakref.ref(A): 10, weakref.ref(B): 20}


@whole
@given(one)
def test_a_reference_to_a_class(x):
    reference = weakref.ref(B)
    known = {reference: 1, weakref.ref(A): 2}
    return (
        x + reference().value,
        reference is weakref.ref(B),
        reference == weakref.ref(A),
        known[weakref.ref(B)],
        weakref.ref(int) in known,
        hash(reference) == hash(B),
        reference,
    )


@changed("REFERENCE = weakref.ref(B)", "REFERENCE = lambda: A", "REFERENCE = weakref.ref(A)", "A = B")
def test_a_reference_from_outside_is_the_same(x):
    return x + 1, weakref.ref(A) is REFERENCE, REFERENCE() is A


@changed(
    "del A\nclass A:\n    value = 3\n",
    "TABLE[weakref.ref(A)] = 30",
    "TABLE = {weakref.ref(B): 5}",
    "A = B",
)
def test_a_class_is_deleted_and_made_again(x):
    return x + A.value, TABLE.get(weakref.ref(A)), weakref.ref(A)() is A


@whole
@given(one)
def test_a_class_made_here(x):
    class Own:
        value = 4

    reference = weakref.ref(Own)
    known = {reference: "own"}
    return x + reference().value, known[weakref.ref(Own)], reference is weakref.ref(Own), reference() is Own


@whole
@given(one)
def test_a_reference_to_a_class_made_here_is_returned(x):
    class Own:
        pass

    reference = weakref.ref(Own)
    return x + 1, Own, reference() is Own, [reference, weakref.ref(Own)][0] is reference


@given(one, hit=False)
def test_references_to_classes_that_compare_themselves(x):
    known = {weakref.ref(Odd): 1}
    return x + 1, known.get(weakref.ref(Other)), weakref.ref(Odd) == weakref.ref(Other)


class Shown:
    @functools.singledispatchmethod
    def show(self, value):
        return "any", value

    @show.register(int)
    def _(self, value):
        return "int", value, self.name

    name = "class"


SHOWN = Shown()


@whole
@given(one)
def test_a_method_dispatched_for_new_objects(x):
    first, second = Shown(), Shown()
    first.name = "first"
    return x + 1, first.show(1), second.show(1), first.show("a"), first.show is first.show


@whole
@given(one)
def test_a_method_dispatched_for_an_object_that_is_returned(x):
    shown = Shown()
    return x + 1, shown.show(1), shown


@given(one, hit=False)
def test_a_method_dispatched_for_an_object_from_outside(x):
    return x + 1, SHOWN.show(1), SHOWN.show("a")


class EqualShown(Shown):
    def __eq__(self, other):
        return True

    def __hash__(self):
        return 3


@given(one, hit=False)
def test_a_method_dispatched_for_objects_that_are_equal(x):
    first, second = EqualShown(), EqualShown()
    first.name = "first"
    return x + 1, first.show(1), second.show(1)


class Slotted:
    __slots__ = ("value",)

    @functools.singledispatchmethod
    def show(self, value):
        return "any", value


@given(one, hit=False)
def test_a_method_dispatched_for_objects_without_weak_references(x):
    return x + 1, Slotted().show(1), Slotted().show("a")


KEYS = weakref.WeakKeyDictionary()


@given(one, hit=False)
def test_a_dict_of_weak_keys_from_outside(x):
    key = A()
    KEYS[key] = 1
    found = KEYS[key], len(KEYS), key in KEYS
    del key
    return x + 1, found, len(KEYS)


@typing.runtime_checkable
class Closes(typing.Protocol):
    def close(self): ...


class Door:
    pass


DOOR = Door()


@changed("Door.close = lambda self: 1", "DOOR.close = None", "del Door.close", "del DOOR.close", "Door = A; DOOR = Door()")
def test_protocols_of_classes_that_change(x):
    return x + 1, isinstance(DOOR, Closes), inspect.getattr_static(DOOR, "close", "none") is None
