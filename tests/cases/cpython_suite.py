"""What running CPython's own tests translated found: one case for each error that they showed."""

import abc
import builtins
import collections
import colorsys
import copy
import dis
import enum
import functools
import itertools
import operator
import pickle
import sys
import types
import warnings

import toy
from cases import given, whole


def one():
    return (toy.arange(2),)


def outcome(work, *args):
    try:
        return work(*args)
    except Exception as error:
        return type(error).__name__, str(error)


# Exceptions that keep more than their arguments.


@given(one)
def test_exceptions_that_hold_a_value(x):
    stop, leave, both = StopIteration(2), SystemExit(3), SystemExit(4, 5)
    toy.save(x)
    return x + 1, stop.value, leave.code, both.code, StopIteration().value


class Quiet(StopIteration):
    def __init__(self, given):
        self.given = given


@whole
@given(one)
def test_values_that_nothing_was_told_of(x):
    quiet, late = Quiet(1), StopIteration(1)
    late.args = (2,)
    return x + 1, quiet.value, late.value, late.args


@given(one)
def test_errors_that_keep_more_than_their_arguments(x):
    missing, named = OSError(2, "text", "file"), ImportError("text", name="module", path="place")
    toy.save(x)
    return x + 1, missing.filename, missing.args, named.name, named.path, named.args


@given(one)
def test_arguments_of_an_error_that_keeps_more(x):
    error = OSError(2, "text", "file")
    error.args = (1,)
    return x + 1, error.args, error.filename


class FailsToBeMade(Exception):
    def __init__(self):
        raise KeyError("made")


def waiting(seen):
    try:
        yield 1
    except Exception as error:
        seen.append((type(error).__name__, str(error)))
        yield 2


@given(one)
def test_thrown_class_that_fails_to_be_made(x):
    seen = []
    generator = waiting(seen)
    next(generator)
    return x + 1, generator.throw(FailsToBeMade), seen


@given(one)
def test_names_of_a_generator(x):
    def made():
        yield 1

    made.__name__, made.__qualname__ = "other", "its.other"
    generator = made()
    toy.save(x)
    return x + 1, generator.__name__, generator.__qualname__


def returns_when_closed():
    try:
        yield 1
    except GeneratorExit:
        return 0


@whole
@given(one)
def test_what_a_closed_generator_returns(x):
    generator = returns_when_closed()
    next(generator)
    return x + 1, generator.close(), generator.close()


# Special methods.

BOUND = []


class Counted:
    def __init__(self, function):
        self.function = function

    def __get__(self, instance, owner):
        BOUND.append(owner.__name__)
        return self.function.__get__(instance, owner)


class BoundOnce:
    __bytes__ = Counted(lambda self: b"bytes")
    __reversed__ = Counted(lambda self: [3, 2])
    __divmod__ = Counted(lambda self, other: (1, other))
    __len__ = Counted(lambda self: 2)
    __getitem__ = Counted(lambda self, key: range(2)[key])


@given(one, hit=False)
def test_special_methods_are_bound_once(x):
    value = BoundOnce()
    return x + 1, bytes(value), reversed(value), divmod(value, 2), bool(value), tuple(value)


class OnlyWrites:
    def __set__(self, instance, value):
        instance.__dict__["attribute"] = value


class HasOnlyWrites:
    attribute = OnlyWrites()


@whole
@given(one)
def test_descriptor_that_only_writes(x):
    value = HasOnlyWrites()
    before = type(value.attribute).__name__
    value.attribute = 42
    return x + 1, before, value.attribute


class WritesItems(dict):
    __setattr__ = dict.__setitem__
    __neg__ = dict.copy


@given(one)
def test_attributes_that_are_items(x):
    value = WritesItems()
    value.name = 42
    return x + 1, value["name"], -value


class Slotted:
    __slots__ = ("slot",)
    shared = 0


class Open:
    shared = 0


def write(value):
    value.shared = 1


def delete(value, name):
    delattr(value, name)


@given(one)
def test_attributes_that_cannot_be_written(x):
    results = [outcome(write, Slotted()), outcome(delete, Slotted(), "shared"), outcome(delete, Open(), "shared")]
    return x + 1, results


class Refuses:
    __iter__ = None
    __reversed__ = None
    __add__ = None

    def __getitem__(self, key):
        return key

    def __len__(self):
        return 2


@given(one)
def test_special_methods_that_are_none(x):
    value = Refuses()
    return x + 1, outcome(iter, value), outcome(reversed, value), outcome(lambda: value + 1)


class Hinted:
    def __init__(self):
        self.asked = 0

    def __iter__(self):
        return iter((1, 2))

    def __length_hint__(self):
        self.asked += 1
        return 2


@given(one)
def test_hints_of_a_length(x):
    value = Hinted()
    return x + 1, list(value), tuple(value), value.asked


class LengthOnce:
    asked = 0

    def __len__(self):
        self.asked += 1
        return 3

    def __getitem__(self, key):
        return key


@given(one)
def test_length_of_what_is_reversed(x):
    value = LengthOnce()
    backwards = reversed(value)
    toy.save(x)
    return x + 1, value.asked, next(backwards)


class Base(metaclass=abc.ABCMeta):
    def __eq__(self, other):
        self.log.append("base")
        return NotImplemented


class Virtual:
    def __eq__(self, other):
        self.log.append("virtual")
        return NotImplemented


Base.register(Virtual)


@whole
@given(one)
def test_virtual_subclasses_do_not_go_first(x):
    left, right = Base(), Virtual()
    left.log = right.log = []
    return x + 1, left == right, left.log, issubclass(Virtual, Base)


class Number(int, enum.Enum):
    TWO = 2


@whole
@given(one)
def test_values_and_members(x):
    two = Number.TWO
    return x + 1, 2 + 0j == two, 2.0 == two, 2.5 < two, 1.5 * two, 2.5 - two, two - 2.5, 2j != two


@given(one)
def test_new_of_another_type(x):
    return x + 1, outcome(int.__new__, bool, 0), int.__new__(int, "3"), outcome(float.__new__, int, 0)


class Reduced:
    def __init__(self):
        self.state = 1


@given(one)
def test_reduce_of_old_protocols(x):
    value = Reduced()
    return x + 1, [part for part in value.__reduce_ex__(0)[1:]], outcome(value.__reduce_ex__, None)


# Modules, classes and their orders.


class Module(types.ModuleType):
    def __getattribute__(self, name):
        LOG.append(name)
        return types.ModuleType.__getattribute__(self, name)


LOG = []
MODULE = Module("module")


@given(one, hit=False)
def test_modules_that_log_what_is_read(x):
    MODULE.name = 12
    value = MODULE.name
    return x + 1, value, list(LOG)


class ModuleWithMore(types.ModuleType):
    more = 1


@given(one)
def test_classes_of_modules(x):
    module = types.ModuleType("module")
    before = hasattr(module, "more")
    module.__class__ = ModuleWithMore
    return x + 1, before, hasattr(module, "more")


class Ordering(type):
    ordered = []

    def mro(cls):
        Ordering.ordered.append(cls.__name__)
        return type.mro(cls)


@given(one, hit=False)
def test_metaclasses_that_order_bases(x):
    class Ordered(metaclass=Ordering):
        pass

    return x + 1, Ordered.__name__, list(Ordering.ordered)


class HasSubclasses:
    pass


# What keeps them, as it depends on the collector when the others are gone.
KEPT = []


@given(one, hit=False)
def test_subclasses_that_a_class_has(x):
    class Sub(HasSubclasses):
        pass

    KEPT.append(Sub)
    toy.save(x)
    return x + 1, [len(HasSubclasses.__subclasses__()), HasSubclasses.__subclasses__()[-1] is Sub]


# What changes on the way.


class Clears:
    def __init__(self, target):
        self.target = target

    def __eq__(self, other):
        self.target.clear()
        return True


@given(one)
def test_lists_cleared_by_what_they_compare(x):
    left, right = [], [1]
    left.append(Clears(left))
    counted = [0]
    counted.append(Clears(counted))
    counted.append(2)
    return x + 1, left == right, counted.count(5), counted


@whole
@given(one)
def test_list_that_is_sorted(x):
    items = [3, 1, 2]
    seen = []

    def key(item):
        seen.append(list(items))
        return item

    items.sort(key=key)
    return x + 1, items, seen


def changed_while_iterated():
    items = collections.deque([1, 2])
    for item in items:
        items.append(item)


@given(one)
def test_deques_changed_while_iterated(x):
    items = collections.deque([1, 2, 3])
    iterator = iter(items)
    items[1] = 5
    taken = [next(iterator), next(iterator)]
    empty = collections.deque()
    late = iter(empty)
    empty.append(1)
    return x + 1, taken, outcome(changed_while_iterated), outcome(next, late), type(iterator).__name__


@given(one)
def test_iterators_over_deques_outlive_the_graph(x):
    items = collections.deque([1, 2, 3])
    iterator = iter(items)
    next(iterator)
    toy.save(x)
    return x + 1, list(iterator), type(iterator).__name__


@given(one)
def test_iterator_exhausted_by_its_own_function(x):
    def work():
        if not state:
            state.append(1)
            list(iterator)
            return 1
        return 2

    state = []
    iterator = iter(work, 2)
    return x + 1, outcome(next, iterator)


@given(one)
def test_iterators_over_texts(x):
    iterators = [iter("abc"), iter("\xe9b"), iter(b"ab"), reversed("abc")]
    first = [next(iterator) for iterator in iterators]
    toy.save(x)
    return x + 1, first, [type(iterator).__name__ for iterator in iterators], [list(iterator) for iterator in iterators]


class Lies(tuple):
    def __iter__(self):
        yield 7


@given(one)
def test_tuples_with_items_of_their_own(x):
    value = Lies((1, 2))
    return x + 1, tuple(value), list(value), len(value)


@given(one)
def test_sums_of_texts(x):
    return x + 1, outcome(sum, [], ""), outcome(sum, [], b""), outcome(sum, ["a"], ""), sum([[1]], [])


@whole
@given(one)
def test_there_is_one_empty_tuple(x):
    empty, other = (), tuple([])
    return x + 1, empty is other


@given(one)
def test_functions_of_other_modules_in_a_loop(x):
    results = []
    for function in copy.copy, copy.deepcopy:
        toy.save(x)
        made = function(ImportError("text", name="module"))
        results.append((made.args, made.name))
    return x + 1, results


@given(one)
def test_functions_that_leave_their_list(x):
    functions = LAST[:]
    HELD[:] = functions
    made = HELD.pop(0)(ImportError("text", name="module"))
    return x + 1, made.name, len(HELD)


LAST = [copy.copy, pickle.dumps]
HELD = []


@given(one)
def test_list_that_grows_long(x):
    items = []
    for number in range(20000):
        items.append(number)
    return x + 1, len(items), items[-1]


@whole
@given(one)
def test_what_is_left_behind_a_slice(x):
    results = []
    for bounds in [(3,), (3, 3), (0, 6, 2), (1, 5, 3), (5, 3), (0, None, 4)]:
        numbers = iter(range(10))
        taken = list(itertools.islice(numbers, *bounds))
        results.append((taken, list(numbers)))
    return x + 1, results


@given(one)
def test_slices_and_selections_outlive_the_graph(x):
    numbers = iter(range(10))
    cut = itertools.islice(numbers, 1, 8, 3)
    pairs, both = itertools.combinations("abc", 2), itertools.product((1, 2), (3,), repeat=2)
    first = next(cut), next(pairs), next(both)
    toy.save(x)
    kinds = [type(iterator).__name__ for iterator in (cut, pairs, both)]
    return x + 1, first, kinds, list(cut), list(pairs), list(both), list(numbers)


class Fields:
    def __init__(self, *fields):
        self.fields = fields

    def __hash__(self):
        return hash(self.fields)

    def __eq__(self, other):
        return self.fields == other.fields


@given(one)
def test_keys_that_change_behind_a_dict(x):
    key = Fields(1)
    table, both = {key: 1}, {key, Fields(2)}
    key.fields = (2,)
    toy.save(x)
    return x + 1, key in table, len(both), Fields(1) in both, list(table.values())


SEEN = []


@given(one, hit=False)
def test_keys_that_read_what_changes(x):
    global MODE

    class Key:
        def __hash__(self):
            return 1

        def __eq__(self, other):
            if MODE:
                raise KeyError("compared")
            return self is other

    MODE = False
    first = {Key(): 1}
    second = {Key(): 2, Key(): 3}
    MODE = True
    toy.save(x)
    return x + 1, len(second), outcome(first.update, second), len(first)


MODE = False


class Tally(dict):
    def __eq__(self, other):
        return NotImplemented


class Items(list):
    def __eq__(self, other):
        return NotImplemented


@whole
@given(one)
def test_bases_see_through_their_subclasses(x):
    return x + 1, Tally(a=1) == {"a": 1}, {"a": 1} == Tally(a=1), Items([1]) == [1], [0] + Items([1])


class Removes:
    armed = []

    def __init__(self, value):
        self.value = value

    def __hash__(self):
        return 1

    def __eq__(self, other):
        if self.armed:
            table, key = self.armed.pop()
            del table[key]
        return self.value == other.value


@given(one)
def test_keys_that_remove_others_when_compared(x):
    first, second = Removes(1), Removes(2)
    table = {first: 1}
    Removes.armed.append((table, first))
    table[second] = 2
    return x + 1, len(table), list(table.values())


class Table(dict):
    def keys(self):
        raise KeyError("keys")


@given(one)
def test_views_of_subclasses_are_alive(x):
    table, plain = Table(a=1), Fields()
    views = [dict.keys(table), table.values(), table.items()]
    toy.save(x)
    table["b"] = 2
    plain.__dict__[1] = 1
    plain.name = 2
    return x + 1, [list(view) for view in views], plain.__dict__


class Frozen(frozenset):
    pass


class Method:
    def method(self):
        return self


@given(one)
def test_copies_of_frozen_sets_and_attributes_of_methods(x):
    plain, derived = frozenset([1]), Frozen([1])
    method = Method().method
    bound = method.__get__(Method(), Method)
    kinds = [type(derived.copy()).__name__, derived.copy() is derived, plain.copy() is plain]
    return x + 1, kinds, method.__class__.__name__, type(bound).__name__, bound() is method.__self__


class Real(float):
    pass


class Truncated:
    def __trunc__(self):
        return 7


@given(one)
def test_types_that_c_code_alone_makes_objects_of(x):
    number = Real("nan")
    makes = [outcome(type(iter("a"))), outcome(type(iter([]))), outcome(type(iter({})))]
    return x + 1, [made[0] for made in makes], hash(number) == float.__hash__(number)


@given(one)
def test_whole_numbers_of_what_is_truncated(x):
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        number = outcome(int, Truncated())
    return x + 1, number, [warning.category.__name__ for warning in warned]


def not_less(self, other):
    result = type(self).__lt__(self, other)
    if result is NotImplemented:
        return result
    return not result


class NeverCompares:
    __ge__ = not_less
    __le__ = not_less

    def __lt__(self, other):
        return NotImplemented


@given(one)
def test_operators_that_raise_when_both_sides_have_been_asked(x):
    left, right = NeverCompares(), NeverCompares()
    y = x + 1
    return y, left >= right


@given(one)
def test_operators_that_raise_and_are_caught(x):
    left, right = NeverCompares(), NeverCompares()
    try:
        return x + 1, left <= right
    except TypeError as error:
        toy.save(x)
        return x + 2, str(error)


class Answer:
    def __init__(self, work):
        self.work = work

    def __bool__(self):
        return self.work()


class Answers:
    def __init__(self, work):
        self.answer = Answer(work)

    def __enter__(self):
        return self

    def __exit__(self, *raised):
        return self.answer


def left_by(work):
    with Answers(work):
        raise KeyError("left")


@given(one)
def test_truth_of_what_a_manager_answers(x):
    def saves():
        toy.save(x)
        return True

    works = [lambda: True, lambda: False, lambda: 1 // 0, saves]
    return x + 1, [outcome(left_by, work) for work in works]


# What is kept of an object.


class Point(collections.namedtuple("Point", "x y")):
    pass


@given(one)
def test_attributes_of_what_holds_more_than_attributes(x):
    point = Point(1, 2)
    point.label, point.self = x + 1, point
    toy.save(x)
    return point.label, point.self is point


@given(one)
def test_names_in_the_dict_of_a_function_that_c_code_keeps(x):
    def wrapper():
        pass

    wrapper.__dict__["__name__"] = 1
    functools.update_wrapper(wrapper, type)
    return x + 1, wrapper.__name__, sorted(wrapper.__dict__)[:3]


class Slotted:
    __slots__ = ("slot", "__dict__")


@given(one)
def test_entries_beside_a_slot_of_that_name(x):
    value = Slotted()
    value.__dict__["slot"] = 1
    unset = outcome(getattr, value, "slot")
    value.slot = 2
    return x + 1, unset, value.slot, value.__dict__


# Containers that change while they are asked.


class EmptiesIt:
    def __init__(self, items):
        self.items = items

    def __iter__(self):
        yield from self.items
        self.items.clear()


@given(one)
def test_slice_of_a_list_that_its_new_items_empty(x):
    def assign(key):
        items = list(range(4))
        items[key] = EmptiesIt(items)
        return items

    # CPython writes outside of the list where its steps are counted first, as they were up to 3.12.
    return x + 1, assign(slice(1, 3)), assign(slice(None))


def take_out(x, entries, key):
    del entries[key]
    return x + 1


def keys_that_take_each_other_out(x):
    class Key:
        taken = None

        def __init__(self, value):
            self.value = value

        def __hash__(self):
            return 1

        def __eq__(self, other):
            if Key.taken:
                entries, key = Key.taken
                Key.taken = None
                take_out(x, entries, key)
            return self.value == other.value

    first, second = Key(1), Key(2)
    entries = {first: 1}
    Key.taken = (entries, first)
    entries[second] = 2
    return len(entries), entries == {second: 2}, entries.get(second)


@given(one)
def test_key_that_goes_while_another_comes(x):
    return x + 1, keys_that_take_each_other_out(x)


def delete_and_set(kind):
    entries = {0: 0}
    for _ in getattr(entries, kind)():
        del entries[0]
        entries[0] = 0
    return entries


@given(one)
def test_entry_set_anew_while_it_is_iterated(x):
    return x + 1, [outcome(delete_and_set, kind) for kind in ("keys", "values", "items")]


@given(one)
def test_attributes_of_an_error_of_the_wrong_type(x):
    error = ValueError(1)
    names = ("__cause__", "__context__", "__suppress_context__")
    return x + 1, [outcome(setattr, error, name, 1) for name in names], error.__cause__, error.__suppress_context__


# What is asked past the usual way.


class Described(type):
    """of the metaclass"""


class OfDescribed(metaclass=Described):
    """of the class"""


@given(one)
def test_getattribute_of_object_for_a_class(x):
    return x + 1, object.__getattribute__(OfDescribed, "__doc__"), outcome(object.__getattribute__, OfDescribed, "none")


class AskedOften:
    def __init__(self, asked):
        self.asked = asked

    def __len__(self):
        self.asked.append("len")
        return 2

    def __iter__(self):
        self.asked.append("iter")
        return iter((1, 2))


class OwnList(list):
    pass


@given(one)
def test_how_often_lists_ask_for_a_length(x):
    asked = []
    often = AskedOften(asked)
    made = list(often), OwnList(often), [*often], {*often}, (*often, 3), [].extend(often)
    return x + 1, made, asked


def body_of(lines):
    namespace = {}
    exec("def body():\n" + "\n" * lines + "    return 1\n", namespace)
    return namespace["body"].__code__


@given(*(lambda lines=lines: (toy.arange(2), body_of(lines)) for lines in range(3)))
def test_lines_of_code_that_is_equal(x, code):
    return x + 1, list(dis.findlinestarts(code))


@given(one)
def test_function_of_the_code_of_a_module(x):
    variables = {"count": 1}
    made = types.FunctionType(compile("count = len([count, 2])", "module", "exec"), variables)
    return x + 1, made(), variables["count"]


@given(one)
def test_arguments_of_a_partial_have_one_owner(x):
    made = functools.partial(dict, a=x)
    copied, held = copy.copy(made), made.keywords
    made.keywords["b"] = 2
    toy.save(x)
    made.keywords["c"] = 3
    return x + 1, made(), copied(d=4), held is made.keywords, copied.args is made.args


def made_outside():
    return toy.arange(2), functools.partial(dict, a=1)


@given(made_outside, hit=False)
def test_keywords_of_a_partial_from_outside(x, call):
    call.keywords["b"] = x + 1
    return call(c=2)


@given(one)
def test_partial_of_a_partial_with_attributes(x):
    inner = functools.partial(max, 1)
    inner.label = "inner"
    outer = functools.partial(inner, 2)
    return x + 1, outer(0), outer.func is inner, outer.args, functools.partial(functools.partial(max, 1), 2).args


# What takes long.


@given(one)
def test_ring_of_lists_as_an_argument_of_a_pure_call(x):
    root = []
    root[:] = [root, root, None]
    for item in range(4):
        last = root[0]
        last[1] = root[0] = [last, root, item]
    return x + 1, outcome(hash, (root,)), outcome(int, root)[0]


@given(one)
def test_many_items_shared_by_iterators(x):
    first, second = itertools.tee(itertools.repeat(None, 500_000))
    return x + 1, any(first), next(second)


class Asked:
    blech = None

    def __getattr__(self, name):
        raise AttributeError(23)


def told(error):
    return getattr(error, "name", None), type(getattr(error, "obj", None)).__name__, error.args


@given(one)
def test_an_error_of_a_hook_is_told_what_was_read(x):
    try:
        return Asked().bluch
    except AttributeError as error:
        return x + 1, told(error)


@given(one)
def test_an_error_of_a_hook_is_told_what_was_read_behind_a_break(x):
    try:
        Asked().bluch
    except AttributeError as error:
        toy.save(x)
        return x + 1, told(error), repr(sys.exc_info()[1])


@given(one)
def test_an_error_of_a_hook_that_is_asked_by_getattr(x):
    try:
        return getattr(Asked(), "bluch")
    except AttributeError as error:
        x = x + 1
        return x, told(error), getattr(Asked(), "bluch", 3), hasattr(Asked(), "bluch")


@given(one)
def test_an_error_of_a_hook_leaves_the_function(x):
    return x + Asked().bluch


@given(one)
def test_empty_frozensets(x):
    f = frozenset()
    all_of_them = [frozenset(), frozenset([]), frozenset(()), frozenset(""), frozenset(range(0)), frozenset(f), f]
    return x + 1, len(set(map(id, all_of_them))), all_of_them[1] is all_of_them[3]


def with_own_globals(function):
    return types.FunctionType(function.__code__, {"given": 2, "toy": toy})


@with_own_globals
def without_builtins(x):
    y = [x + i for i in (1, given)]
    toy.save(x)
    return [toy.save(x + i) for i in (3, 4)], y


@given(one)
def test_global_variables_without_builtins(x):
    return x + 1, without_builtins(x)


class Failure(Exception):
    def __del__(self):
        self.args = ()


def fail():
    raise Failure()


@given(one)
def test_what_dies_behind_its_handler(x):
    for step in (1, 2):
        try:
            fail()
        except Failure:
            toy.save(x)
            x = x + step
    return x


@given(one)
def test_totals_that_are_none(x):
    totals = itertools.accumulate([None, None, None], operator.is_)
    first = next(totals)
    toy.save(x)
    return x + 1, first, list(totals)


# Tuples of classes.


def ask_ever_deeper(question, asked):
    classes = (str,)
    for _ in range(20000):
        classes = (classes,)
        question(asked, classes)


@given(one)
def test_classes_in_tuples_nested_without_end(x):
    try:
        ask_ever_deeper(isinstance, "")
    except RecursionError as error:
        return x + 1, str(error).split(" in ")[0]


# Imports.


@given(one)
def test_own_function_in_the_place_of_import(x):
    asked, before = [], builtins.__import__

    def own(name, *args):
        asked.append(name)
        return operator

    builtins.__import__ = own
    try:
        import math as found

        squares = (i * i for i in (2, 3, 4))
        first = next(squares)
        toy.save(x)
        rest = list(map(operator.neg, squares))
    finally:
        builtins.__import__ = before
    return x + 1, found is operator, asked, first, rest


@given(one, hit=False)
def test_modules_that_the_program_takes_out(x):
    kept = sys.modules.pop("colorsys")
    import colorsys as again

    known = sys.modules["colorsys"] is again
    sys.modules["colorsys"] = kept
    import colorsys as last

    return x + 1, kept is colorsys, again is kept, known, last is kept
