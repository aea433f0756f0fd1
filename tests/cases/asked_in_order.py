"""What the program sees while C code asks it for one thing after another: items, comparisons, attributes."""

import collections
import functools
import math
import re

import toy
from cases import given, two, whole


def one():
    return (toy.arange(2),)


def counted(seen, count):
    for number in range(count):
        seen.append(number)
        yield number


def failing(count):
    yield from range(count)
    raise ValueError("no more")


def left_of(work, *args):
    try:
        work(*args)
    except ValueError as error:
        return str(error)


# A container that is filled shows what is in it already, and keeps that if there is an error.


@whole
@given(one)
def test_list_seen_while_it_grows(x):
    items = [x + 1]
    items.extend(len(items) for _ in range(3))
    items += (len(items) for _ in range(2))
    return items


@whole
@given(one)
def test_list_written_while_it_grows(x):
    items = []
    items.extend(items.append(x + number) or number for number in range(3))
    return items


@whole
@given(one)
def test_list_and_dict_left_by_errors(x):
    items, named = [0], {9: x + 1}
    said = [left_of(items.extend, failing(3)), left_of(named.update, zip(failing(3), [x] * 4))]
    return items, named, said


@whole
@given(one)
def test_sets_left_by_errors(x):
    chosen, rest = {0}, {0, 1, 2, 3}
    said = [left_of(chosen.update, failing(3)), left_of(rest.difference_update, failing(3))]
    return x + 1, sorted(chosen), rest, said


@whole
@given(one)
def test_deques_left_by_errors(x):
    queue = collections.deque([0])
    said = [left_of(queue.extend, failing(2)), left_of(queue.extendleft, failing(2))]
    return x + 1, queue, said


@whole
@given(one)
def test_dict_seen_while_it_grows(x):
    named = {}
    named.update((number, len(named)) for number in range(3))
    pairs = [(7, x + 1), (8,)]
    return named, left_of(named.update, pairs), named


class Summand:
    def __init__(self, value, seen):
        self.value = value
        self.seen = seen

    def __radd__(self, other):
        self.seen.append(("add", other))
        return self.value + other

    def __rmul__(self, other):
        self.seen.append(("multiply", other))
        return self.value * other

    def __lt__(self, other):
        self.seen.append(("less", self.value, other.value))
        return self.value < other.value


@whole
@given(one)
def test_sums_of_generators(x):
    seen = []
    total = sum(Summand(number, seen) for number in counted(seen, 3))
    product = math.prod(Summand(number, seen) for number in counted(seen, 3))
    return x + total, product, seen


@whole
@given(one)
def test_least_of_a_generator(x):
    seen = []
    least = min(Summand(-number, seen) for number in counted(seen, 3))
    key = max(counted(seen, 3), key=lambda number: seen.append(("key", number)) or -number)
    return x + least.value, key, seen


@whole
@given(one)
def test_counter_of_a_generator(x):
    seen = []
    return x + 1, collections.Counter(counted(seen, 3)), max(counted(seen, 0), default=7), seen


# Which comparisons a sort makes, and in what order.


class Part:
    """Some of them are not in any order."""

    def __init__(self, *members):
        self.members = frozenset(members)

    def __lt__(self, other):
        return self.members < other.members


@whole
@given(one)
def test_sort_of_what_has_no_order(x):
    parts = [Part(1, 2), Part(3), Part(1), Part(2), Part(4, 1), Part(), Part(3, 4)]
    orders = [sorted(parts), sorted(parts, reverse=True), sorted(parts[::-1])]
    return x + 1, [[sorted(part.members) for part in order] for order in orders]


@whole
@given(one)
def test_comparisons_of_a_sort(x):
    seen = []
    items = [Summand(number, seen) for number in (3, 1, 2, 5, 4, 1)]
    ordered = sorted(items)
    items.sort(reverse=True)

    def compare(left, right):
        seen.append((left, right))
        return left - right

    numbers = sorted([3, 1, 2, 5, 4, 1], key=functools.cmp_to_key(compare))
    return x + 1, [item.value for item in ordered + items], numbers, seen


class Meddler:
    items = []

    def __lt__(self, other):
        self.items.append(1)
        self.items.pop()
        return False


@given(one)
def test_sort_of_a_list_that_is_written_on_the_way_and_empty_again(x):
    seen, log = [], []
    for _ in range(20):

        def compare(left, right):
            items.append(3)
            items.pop()
            seen.append(x * left)
            return (left > right) - (left < right)

        items = [1, 2]
        log.append(left_of(functools.partial(items.sort, key=functools.cmp_to_key(compare))))
    return seen, log


@given(one)
def test_sort_that_finds_the_list_written(x):
    Meddler.items = [Meddler(), Meddler()]
    return x + 1, left_of(Meddler.items.sort)


# A `__getattribute__` of the program's is asked when the program asks, and not by new code or guards.


asked = []


class Watched:
    def __init__(self, x):
        self.x = x

    def __getattribute__(self, name):
        asked.append(name)
        return object.__getattribute__(self, name)


class Doubled:
    __slots__ = ("x", "count")

    def __init__(self, x, count):
        self.x = x
        self.count = count

    def __getattribute__(self, name):
        value = object.__getattribute__(self, name)
        return value * 2 if name in ("x", "count") else value


class Lenient:
    __slots__ = ("x",)

    def __getattr__(self, name):
        asked.append(name)
        return 1


@whole
@given(lambda: (Watched(toy.arange(2)),))
def test_watched_attribute(box):
    global asked
    asked = []
    y = box.x + 1
    return y, list(asked)


@two
@given(lambda: (Watched(toy.arange(2)),))
def test_watched_attribute_behind_a_break(box):
    global asked
    asked = []
    y = box.x + 1
    toy.save(y)
    return y + box.x, list(asked)


@whole
@given(lambda: (Doubled(toy.arange(2), 5),))
def test_doubled_slots(box):
    return box.x + 1, box.count


@two
@given(lambda: (Doubled(toy.arange(2), 5),))
def test_doubled_slots_around_a_break(box):
    y = box.x + 1
    toy.save(y)
    return y + box.x, box.count


@two
@given(lambda: (toy.arange(2), Lenient()))
def test_empty_slot_behind_a_hook(x, box):
    global asked
    asked = []
    y = x + box.x
    toy.save(y)
    return y + box.x, list(asked)


# The interpreter's own words for arguments that do not fit.


def words_of(call):
    try:
        call()
    except TypeError as error:
        return str(error)


def plain(first, second=1, *, third):
    return first, second, third


def positional(first, /, second):
    return first, second


@whole
@given(one)
def test_arguments_that_do_not_fit(x):
    calls = [
        lambda: plain(1, 2, 3, third=1),
        lambda: plain(1, 2, 3),
        lambda: plain(),
        lambda: plain(1, thrid=2),
        lambda: plain(1, first=2, third=3),
        lambda: positional(first=1, second=2),
        lambda: positional(1),
        lambda: positional(1, 2, 3),
    ]
    return x + 1, [words_of(call) for call in calls]


@given(one)
def test_arguments_that_builtins_refuse(x):
    calls = [
        lambda: len(),
        lambda: len(obj=[]),
        lambda: plain(*3),
        lambda: {}.pop(1, default=2),
        lambda: [].append(item=1),
        lambda: isinstance(1),
        lambda: reversed(),
        lambda: collections.deque().extend(),
    ]
    return x + 1, [words_of(call) for call in calls]


# Unpacking asks for one item more than it needs, and no further.


class Asking:
    def __init__(self, seen):
        self.seen = seen
        self.left = 3

    def __iter__(self):
        self.seen.append("iter")
        return self

    def __next__(self):
        self.seen.append("next")
        self.left -= 1
        if self.left < 0:
            raise StopIteration
        return self.left


def endless():
    number = 0
    while True:
        yield number
        number += 1


@whole
@given(one)
def test_unpacking_of_what_does_not_end(x):
    numbers = endless()
    try:
        first, second = numbers
    except ValueError as error:
        return x + 1, str(error), next(numbers)


@whole
@given(one)
def test_starred_unpacking_of_an_iterator(x):
    seen = []
    [*everything] = Asking(seen)
    first, *rest = Asking(seen)
    *rest_of_all, last = Asking(seen)
    return x + 1, everything, first, rest, rest_of_all, last, seen


@whole
@given(one)
def test_unpacking_of_what_is_no_iterable(x):
    said = []
    for value in (Part(1), 5, None, Part):
        try:
            first, *second = value
        except TypeError as error:
            said.append(str(error))
    return x + 1, said


def replaced(pattern, piece, text):
    try:
        return re.sub(pattern, piece, text), re.subn(pattern, piece, text, count=1)
    except TypeError as error:
        return str(error)


@whole
@given(one)
def test_substitutions_that_may_fail(x):
    return x + 1, replaced("a", "b", "banana"), replaced("(a)", r"\1\1", "aba"), replaced("a", 5, "abc")


# Operands that leave the answer to the other one, in functions.


class Unable:
    def __divmod__(self, other):
        return NotImplemented

    def __pow__(self, other, modulus=None):
        return NotImplemented


class Able(Unable):
    def __divmod__(self, other):
        return "divmod", other

    def __rdivmod__(self, other):
        return "rdivmod", type(other).__name__

    def __rpow__(self, other):
        return "rpow", type(other).__name__


@given(one)
def test_operands_without_an_answer(x):
    y = x + 1
    answers = divmod(Unable(), Able()), divmod(10, Able()), divmod(Able(), 3), pow(Unable(), Able())
    said = [words_of(lambda: divmod(Unable(), 1)), words_of(lambda: pow(Unable(), 1, 2)), words_of(lambda: divmod(1, ""))]
    return y, answers, said


class Breaking:
    def __init__(self, x):
        object.__setattr__(self, "x", x)

    def __getattribute__(self, name):
        held = object.__getattribute__(self, "__dict__")
        toy.save(held[name])
        return held[name] * 2


@two
@given(one)
def test_break_in_a_getattribute_of_a_new_object(x):
    box = Breaking(x)
    object.__setattr__(box, "x", x * 3)
    return box.x + 1


class Held:
    def __init__(self, x):
        object.__setattr__(self, "x", x)

    def __getattribute__(self, name):
        asked.append(name)
        return object.__getattribute__(self, name)


@given(lambda: (Held(toy.arange(2)),))
def test_dict_around_a_break(box):
    global asked
    asked = []
    held = object.__getattribute__(box, "__dict__")
    held["y"] = held["x"] + 1
    toy.save(held["y"])
    held["x"] = held["y"] * 2
    return box.x, box.y, sorted(held), list(asked)


class Lending:
    """Has every name, and a number in the place of an index; notes who asks."""

    def __init__(self, told):
        self.told = told

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        asked.append(name)
        return self.told

    def __index__(self):
        asked.append("index")
        return 1


def _of_an_operation(operation, *args):
    try:
        return operation(*args)
    except Exception as e:
        return type(e).__name__, e.args


@given(lambda: (toy.arange(2), Lending(None)), lambda: (toy.arange(2), Lending(lambda: 5)), lambda: (toy.arange(2), Lending(lambda: 5)))
def test_object_that_an_operation_asks(x, lent):
    global asked
    asked = []
    found = [_of_an_operation(toy.relu, lent), _of_an_operation(toy.stack, [x, lent]), _of_an_operation(toy.full, (2,), lent)]
    return x + 1, found[:2], list(asked)


@given(lambda: (toy.arange(2, 2), Lending(None)))
def test_object_that_is_an_index(x, lent):
    global asked
    asked = []
    return x[lent] + 1, x.sum(lent) * 2, list(asked)


class Named:
    """Equal by its name; notes who is asked, and whom for."""

    def __init__(self, name):
        self.name = name

    def __eq__(self, other):
        asked.append((self.name, getattr(other, "name", other)))
        return self.name == getattr(other, "name", other)

    def __hash__(self):
        return 1


@given(lambda: (toy.arange(2),))
def test_who_is_asked_whether_it_is_contained(x):
    global asked
    asked = []
    a, b, c = Named("a"), Named("b"), Named("c")
    d = {1: a, 2: b}
    found = [b in [a, c, Named("b")], b in (a, c), c in collections.deque([a]), b in d.values(), (1, c) in d.items(), (2, Named("b")) in d.items()]
    found += [(1,) in d.items(), [1, a] in d.items(), (3, a) in d.items(), a in iter([b, c]), [c, b].index(b), a in range(2), 5 in [a]]
    return x + 1, found, list(asked)


class Count(int):
    def __repr__(self):
        return f"Count({int(self)})"


@given(lambda: (toy.arange(2), Count(3)))
def test_range_of_a_number_of_its_own_class(x, n):
    return x + 1, repr(range(n)), repr(range(True)), [type(i).__name__ for i in range(n)], type(range(1, n).stop).__name__


class Declining:
    def __init__(self, breaks):
        self.breaks = breaks

    def __radd__(self, other):
        if self.breaks:
            toy.arange(2).tolist()
        return NotImplemented

    def __iter__(self):
        return iter((1, 2))


def added(left, breaks):
    try:
        left += Declining(breaks)
    except TypeError as error:
        return str(error)
    return left


@given(one)
def test_sequences_go_on_where_the_right_operand_declines(x):
    outcomes = [added(left, breaks) for breaks in (False, True) for left in ([0], (0,), "a", 1)]
    for breaks in False, True:
        try:
            [0] + Declining(breaks)
        except TypeError as error:
            outcomes.append(str(error))
    return x + 1, outcomes
