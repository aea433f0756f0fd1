"""Codecs, slots and classes of the program's where C code's are expected, and variables of modules written by another way."""

import array
import builtins
import codecs
import ctypes
import linecache
import sys
import types
import warnings

import toy
from cases import given, whole


def one():
    return (toy.arange(2),)


# Codecs and their error handlers.

CALLS = []


def question(error):
    CALLS.append(error.reason)
    return "?" * len(CALLS), error.end


codecs.register_error("sot-cases-question", question)


@given(one)
def test_an_error_handler_runs_each_time(x):
    CALLS.clear()
    first = "aé".encode("ascii", "sot-cases-question")
    second = b"a\xff".decode("ascii", errors="sot-cases-question")
    third = str(b"\xff", "ascii", "sot-cases-question") + bytes("é", "ascii", "sot-cases-question").decode()
    return x + 1, first, second, third, len(CALLS)


@given(one)
def test_an_error_handler_that_reads_what_the_trace_wrote(x):
    CALLS.clear()
    CALLS.append("before")
    return x + 1, "é".encode("ascii", "sot-cases-question")


@whole
@given(one)
def test_codecs_and_handlers_of_c_code(x):
    texts = ["aé".encode("ascii", handler) for handler in ("ignore", "replace", "backslashreplace", "xmlcharrefreplace")]
    return x + 1, texts, b"\xff".decode("utf-8", "surrogateescape"), "é".encode("cp1252"), "a".encode("utf-16-le")


# Variables of modules written through their dict.


@given(one)
def test_a_builtin_replaced_in_the_dict_of_its_module(x):
    usual, seen = abs, []
    builtins.__dict__["abs"] = lambda value: 42
    try:
        seen.append(abs(-1))
    finally:
        builtins.__dict__["abs"] = usual
    vars(builtins)["abs"] = lambda value: 43
    try:
        seen.append(abs(-1))
    finally:
        vars(builtins)["abs"] = usual
    return x + 1, seen, abs(-1)


@given(one)
def test_a_builtin_that_comes_and_goes(x):
    vars(builtins).update(sot_cases_new=7)
    seen = sot_cases_new  # noqa: F821
    vars(builtins).pop("sot_cases_new")
    try:
        return sot_cases_new  # noqa: F821
    except NameError:
        return x + 1, seen


@given(one)
def test_the_dict_of_a_module_and_its_attributes(x):
    names = sys.__dict__
    names["sot_cases"] = 1
    seen = [sys.sot_cases]
    sys.sot_cases = 2
    seen.append(names["sot_cases"])
    del names["sot_cases"]
    return x + 1, seen, hasattr(sys, "sot_cases")


# Slots.


class HidesArguments(Exception):
    __slots__ = ("args", "__traceback__")


class HidesValue(StopIteration):
    __slots__ = ("value",)


def slot(error, name):
    try:
        return getattr(error, name)
    except AttributeError:
        return "empty"


@given(one)
def test_exceptions_whose_slots_hide_what_c_code_keeps(x):
    error, stop = HidesArguments(1, 2), HidesValue(3)
    before = slot(error, "args"), slot(error, "__traceback__"), slot(stop, "value")
    error.args = 5
    return x + 1, before, error.args, str(error), stop.args


@given(one)
def test_raising_an_exception_with_such_slots(x):
    try:
        try:
            raise KeyError(1)
        except KeyError:
            raise HidesArguments(2)
    except HidesArguments as error:
        return x + 1, slot(error, "args"), slot(error, "__traceback__"), error.__context__


class Owner:
    __slots__ = ("slot", "other")


class Stranger:
    borrowed = Owner.slot
    append = list.append
    __dict__ = Owner.__dict__.get("__dict__", vars(types.FunctionType)["__dict__"])


class Heir(Owner):
    renamed = Owner.slot


def refusal(work, *args):
    try:
        return work(*args)
    except (TypeError, AttributeError) as error:
        return str(error)


@given(one)
def test_descriptors_of_other_classes(x):
    stranger = Stranger()
    reads = [refusal(getattr, stranger, name) for name in ("borrowed", "append", "__dict__")]
    writes = refusal(setattr, stranger, "borrowed", 1), refusal(delattr, stranger, "borrowed")
    return x + 1, reads, writes


@given(one)
def test_a_slot_by_another_name(x):
    heir = Heir()
    before = refusal(lambda: heir.slot)
    heir.renamed = 4
    return x + 1, before, heir.slot, heir.renamed


# Names of types that say nothing.


class ndarray:
    def __init__(self, value):
        self.value = value

    def __add__(self, other):
        return ndarray(self.value + other)


class getset_descriptor:
    def __get__(self, instance, owner):
        return "own"


class Decorated:
    got = getset_descriptor()


ARRAY = ndarray(5)


@whole
@given(one)
def test_classes_named_like_those_of_c_code(x):
    return x + 1, (ARRAY + 2).value, (ndarray(1) + 1).value, Decorated().got


# Memory.


@given(one)
def test_an_address_of_what_is_made_in_the_function(x):
    numbers = array.array("i", [100])
    view = ctypes.c_int.from_address(numbers.buffer_info()[0])
    before = view.value
    numbers[0] = 42
    return x + 1, before, view.value, numbers


# Filters of warnings around what breaks the graph.


@given(one)
def test_filters_of_warnings_between_breaks(x):
    before = warnings.filters[:]
    warnings.filterwarnings("ignore", "first")
    toy.save(x)
    warnings.filterwarnings("error", "second")
    warnings.filterwarnings("ignore", "third")
    toy.save(x)
    warnings.filterwarnings("ignore", "fourth")
    patterns = [entry[1].pattern for entry in warnings.filters[:4]]
    warnings.filters[:] = before
    return x + 1, patterns


# A cache of the library's that the trace has written to.

LINES = {"__name__": linecache.__name__, "__loader__": linecache.__loader__}


@given(one)
def test_lines_of_a_file_after_the_cache_was_cleared(x):
    name = "sot-cases-missing"
    first = linecache.getlines(name, LINES)
    linecache.clearcache()
    lazy = linecache.lazycache(name, LINES), len(linecache.cache)
    again = linecache.getlines(name)
    linecache.clearcache()
    return x + 1, lazy, first == again
