"""What tests of CPython's standard library found: corners of builtins that are asked by their names."""

import abc
import array
import bisect
import collections
import copy
import functools
import heapq
import io
import logging
import pickle
import re
import struct
import types
import typing
import weakref
from unittest import mock

import toy
from cases import given, whole


class Index:
    def __init__(self, ind):
        self.ind = ind

    def __index__(self):
        return self.ind


class File:
    def __init__(self):
        self.written = ""
        self.flushed = 0

    def write(self, text):
        self.written += text

    def flush(self):
        self.flushed += 1


def one():
    return (toy.arange(2),)


def outcome(work):
    try:
        return work()
    except Exception as error:
        return type(error).__name__, str(error)


@whole
@given(one)
def test_operators_of_views_give_sets(x):
    table = {"a": 1, "b": 2}
    keys, items = table.keys(), table.items()
    found = keys & frozenset("bc"), frozenset("bc") & keys, keys | frozenset("c"), frozenset("c") - keys
    return x + 1, [sorted(one) for one in found], [type(one).__name__ for one in found], type(items ^ frozenset()).__name__


@given(one)
def test_repeated_by_what_has_an_index(x):
    numbers = [5, 6]
    same = numbers.__imul__(Index(3))
    texts = "ab".__mul__(Index(2)), "ab".__rmul__(Index(2)), b"a".__mul__(Index(2)), (1,).__mul__(Index(2)), [1].__rmul__(Index(2))
    deques = collections.deque([1]).__mul__(2), outcome(lambda: collections.deque([1]) * Index(2))
    return x + 1, numbers, same is numbers, texts, deques, "ab".__add__("c"), outcome(lambda: "ab".__mul__("c")), (2).__mul__("c")


@given(one)
def test_a_proxy_of_no_mapping(x):
    proxies = [outcome(lambda: types.MappingProxyType(of)) for of in (10, ("a",), ["a"], None)]
    return x + 1, proxies, dict(types.MappingProxyType({"a": 1}))


@given(one)
def test_types_of_bound_methods(x):
    found = object().__init__, object().__str__, (42).__lt__, [].append, "".join, {}.__len__, [].__add__
    return x + 1, [type(one).__name__ for one in found], isinstance(found[0], types.MethodWrapperType)


@given(one)
def test_the_dict_of_a_function(x):
    def function():
        pass

    d = {"known": 7}
    function.__dict__ = d
    function.other = 3
    return x + function.known, d is function.__dict__, d, function.__dict__


@given(one)
def test_a_cell_is_written_and_emptied(x):
    a = 12

    def f():
        return a

    (cell,) = f.__closure__
    cell.cell_contents = 9
    seen = [cell.cell_contents, f(), a]
    del cell.cell_contents
    seen.append(outcome(lambda: cell.cell_contents)[0])
    seen.append(outcome(f)[0])
    return x + 1, seen


@given(one)
def test_print_to_a_file_of_the_program(x):
    file = File()
    print(1, file=file, end="", flush=True)
    print(2, file=file, end="", flush=True)
    print(3, file=file, flush=False)
    return x + 1, file.written, file.flushed, outcome(lambda: print(1, file=Index(1))), outcome(lambda: print(1, sep=3))


@given(one)
def test_the_hook_of_subclasses(x):
    class A(metaclass=abc.ABCMeta):
        @classmethod
        def __subclasshook__(cls, C):
            if cls is A:
                return "foo" in C.__dict__
            return NotImplemented

    class B:
        foo = 42

    class C:
        spam = 42

    asked = issubclass(A, A), issubclass(A, (A,)), issubclass(B, A), issubclass(B, (A,)), issubclass(C, A), isinstance(B(), A)
    return x + 1, asked, outcome(lambda: issubclass({}, A)), outcome(lambda: issubclass(42, A))


class Formats:
    def __format__(self, spec):
        return "[" + spec + "]"


@given(one)
def test_formats_that_are_no_text(x):
    bad = [outcome(lambda: format(value, None)) for value in (1, "a", Formats(), 1.5, None, [])]
    return x + 1, bad, format(Formats(), "5"), f"{Formats()}", outcome(lambda: format(1, "Q"))


class Thing:
    pass


@given(one)
def test_weak_references(x):
    thing = Thing()
    ref = weakref.ref(thing)
    table = weakref.WeakValueDictionary(a=thing)
    before = ref() is thing, len(table)
    del thing
    return x + 1, before, ref(), len(table)


@given(one)
def test_weak_references_after_a_loop(x):
    things = [Thing() for _ in range(3)]
    keyed = weakref.WeakKeyDictionary()
    for place, thing in enumerate(things):
        keyed[thing] = place
    lengths = [len(keyed)]
    del things[0]
    lengths.append(len(keyed))
    del things, thing
    lengths.append(len(keyed))
    return x + 1, lengths


@given(one)
def test_weak_references_to_functions_and_classes(x):
    def function():
        pass

    class Local:
        def method(self):
            pass

    refs = weakref.ref(function), weakref.WeakMethod(Local().method)
    kept = Local()
    method = weakref.WeakMethod(kept.method)
    before = [ref() is None for ref in refs], method() == kept.method
    del function, kept
    return x + 1, before, [ref() is None for ref in refs], method() is None


class Final:
    def __init_subclass__(cls, **kwargs):
        for base in cls.__bases__:
            if base is not Final and issubclass(base, Final):
                raise TypeError("final: " + base.__name__)
        super().__init_subclass__(**kwargs)


@given(one)
def test_a_class_that_must_not_be_derived_from(x):
    T = typing.TypeVar("T")

    class Test(typing.Generic[T], Final):
        pass

    def plainly():
        class Subclass(Test):
            pass

    def of_a_form():
        class Subclass(Test[int]):
            pass

    return x + 1, outcome(plainly), outcome(of_a_form)


@given(one)
def test_forms_of_type_variables_made_in_the_function(x):
    T, P = typing.TypeVar("T"), typing.TypeVar("P")
    listed = typing.List[T]
    both = typing.Dict[listed, T]
    held = {T: 1, P: 2}
    return (
        x + 1,
        listed.__parameters__[0] is T,
        both.__parameters__ == (T,),
        typing.Dict[P, listed].__parameters__ == (P, T),
        (held[T], held[P], T in held, len({T, P, T})),
    )


@given(one)
def test_forms_that_are_no_bases(x):
    def derived(base):
        class Subclass(base):
            pass

    forms = typing.ClassVar, typing.Union, typing.ClassVar[int], typing.Any
    outcomes = [outcome(lambda: derived(form)) for form in forms[:3]]
    return x + 1, outcomes


@given(one)
def test_a_list_is_repeated_in_place(x):
    numbers = same = [1, 2]
    numbers *= Index(2)
    return x + 1, numbers, same, numbers is same


@given(one)
def test_operators_of_ordered_dicts(x):
    a = collections.OrderedDict([(0, 0), (1, 1), (2, 1)])
    b = collections.OrderedDict([(1, 1), (2, 2), (3, 3)])
    if not hasattr(dict, "__or__"):
        return x + 1
    same = c = a.copy()
    c |= b
    merged = a | b, dict(a) | b, a | dict(b), dict(a) | dict(b), b | a
    return x + 1, merged, [type(one).__name__ for one in merged], c, c is same, outcome(lambda: a | [(1, 2)])


class Ordered(collections.OrderedDict):
    pass


class Plain(dict):
    pass


@given(one)
def test_copies_of_dicts_with_attributes(x):
    made = []
    for kind in (Ordered, Plain, collections.OrderedDict):
        table = kind([("c", 1), ("b", 2)])
        try:
            table.x = ["x"]
        except AttributeError:
            pass
        made += [table.copy(), copy.copy(table), copy.deepcopy(table)]
    return x + 1, made, [type(one).__name__ for one in made], [getattr(one, "x", None) for one in made]


@given(one)
def test_methods_of_dict_on_ordered_dicts(x):
    def of(method, *args):
        table = collections.OrderedDict(a=1, b=2)
        return outcome(lambda: getattr(dict, method)(table, *args)), outcome(lambda: repr(table)), outcome(lambda: list(table))

    return x + 1, of("__delitem__", "a"), of("pop", "a"), of("get", "a"), of("__contains__", "a"), of("keys")


@given(one)
def test_packed_into_a_buffer(x):
    buffer, packer = bytearray(b" " * 12), struct.Struct("4s")
    packer.pack_into(buffer, 0, b"abcd")
    struct.pack_into("2s", buffer, 6, b"xy")
    view = memoryview(buffer)
    view[8:10] = b"zz"
    return x + 1, bytes(buffer), packer.unpack_from(buffer), struct.pack("<i", 5), packer.pack(b"ab"), list(struct.iter_unpack("2s", b"abcd"))


@given(one)
def test_arrays_and_buffers(x):
    numbers = array.array("i", [1, 2])
    numbers.append(3)
    numbers.extend([4])
    same = numbers
    same[0] = 9
    data = bytearray(b"ab")
    data += b"c"
    data.append(100)
    data[0:1] = b"zz"
    return x + numbers[0], numbers.tolist(), bytes(data), data.decode(), len(data), numbers.pop(), io.BytesIO(bytes(data)).read(2)


@given(one)
def test_a_function_is_patched(x):
    def original():
        return 1

    holder = Holder()
    holder.work = original
    with mock.patch.object(holder, "work", return_value=5) as patched:
        inside = holder.work()
    with mock.patch.dict(TABLE, {"b": 2}):
        during = dict(TABLE)
    return x + 1, inside, holder.work(), patched.call_count, during, TABLE


class Holder:
    pass


TABLE = {"a": 1}


@given(one)
def test_what_pickle_makes_of_cycles(x):
    inner = Items([1])
    inner.append(inner)
    again = pickle.loads(pickle.dumps(inner))
    held = Holder()
    held.own = held
    copied = copy.deepcopy(held)
    return x + 1, again[1] is again, copied.own is copied, type(again).__name__


class Items(list):
    pass


@given(one)
def test_named_tuples_with_more(x):
    class Point(typing.NamedTuple):
        a: int
        b: int = 2

        def total(self):
            return self.a + self.b

    point = Point(1)
    other = point._replace(a=5)
    return x + point.total(), point == (1, 2), other, other.total(), Point._fields, Point._field_defaults, point._asdict()


@given(one)
def test_simple_namespaces_and_enumerations(x):
    space = types.SimpleNamespace(a=1, b=[2])
    space.c = 3
    del space.a
    same = space == types.SimpleNamespace(b=[2], c=3)
    return x + space.c, repr(space), same, vars(space), space


@given(one)
def test_sorted_collections(x):
    words = ["b", "a", "c"]
    bisect.insort(words, "bb")
    heap = [5, 1, 4]
    heapq.heapify(heap)
    heapq.heappush(heap, 0)
    smallest = heapq.heappop(heap), heapq.nsmallest(2, heap), heapq.nlargest(1, heap)
    counter = collections.Counter("abca")
    counter.update("a")
    chain = collections.ChainMap({"a": 1}, {"a": 2, "b": 3})
    chain["c"] = 4
    return x + 1, words, heap, smallest, counter.most_common(1), counter - collections.Counter("a"), dict(chain), chain.maps


class Members(set):
    pass


class Frozen(frozenset):
    pass


class Numbers(list):
    pass


class Queue(collections.deque):
    pass


class Defaults(collections.defaultdict):
    pass


class Tallies(collections.Counter):
    pass


class Word(str):
    pass


class Pair(tuple):
    pass


@given(one)
def test_types_of_what_methods_of_derived_containers_give(x):
    members, frozen, numbers, queue = Members([1, 2]), Frozen([1, 2]), Numbers([1, 2]), Queue([1, 2], 5)
    defaults, tallies, word, pair = Defaults(int, a=1), Tallies("ab"), Word("ab"), Pair((1, 2))
    made = [members.copy(), members | {3}, {3} | members, members & {1}, members - {1}, members ^ {1}, members.union([4])]
    made += [frozen.copy(), frozen | {3}, frozen & {1}, frozen - {1}, frozen.union([3])]
    made += [numbers.copy(), numbers + [3], numbers * 2, numbers[:], sorted(numbers)]
    made += [queue.copy(), queue + queue, queue * 2, copy.copy(queue)]
    made += [defaults.copy(), copy.copy(defaults), tallies.copy(), tallies + tallies, +tallies, tallies.most_common(1)]
    made += [word.upper(), word + "c", word[:], word * 2, pair + (3,), pair * 2, pair[:], pair * 1, str(word), tuple(pair)]
    return x + 1, [type(one).__name__ for one in made], made


class Remembering:
    @functools.cached_property
    def value(self):
        self.log = float(toy.ones((2,)).sum())
        return self.log + 1


@given(one)
def test_a_lock_of_a_cache_around_a_break(x):
    holder = Remembering()
    return x + 1, holder.value, holder.value, vars(holder)


@given(one)
def test_loggers(x):
    logger = logging.getLogger("library.test")
    child = logger.getChild("more")
    logger.setLevel(logging.INFO)
    enabled = logger.isEnabledFor(logging.DEBUG), child.isEnabledFor(logging.INFO)
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    logger.addHandler(handler)
    logger.propagate = False
    try:
        logger.info("sum %s", float(x.sum()))
        logger.debug("not shown")
        child.warning("more %d", 2)
        try:
            raise ValueError("text")
        except ValueError:
            logger.exception("failed")
    finally:
        logger.removeHandler(handler)
    return x + 1, enabled, stream.getvalue().splitlines()[:3], logging.getLevelName(20)


@given(one)
def test_a_logger_that_the_function_has_set_up(x):
    called = []
    root = logging.root
    old, handlers = logging.basicConfig, root.handlers
    def mine(*a, **kw):
        called.append((a, kw))
    logging.basicConfig = mine
    root.handlers = []
    try:
        logging.debug("x")
    finally:
        logging.basicConfig = old
        root.handlers = handlers
    return x + 1, called


@given(one)
def test_log_records(x):
    d = {"less": "more"}
    r = logging.makeLogRecord({"msg": "%(less)s", "args": d})
    s = logging.LogRecord("n", 1, "p", 2, "%(less)s", (d,), None)
    return x + 1, r.args is d, s.args is d, r.getMessage(), s.getMessage()


@given(one)
def test_children_of_loggers(x):
    root = logging.getLogger("zz")
    a = root.getChild("a")
    b = root.getChild("b.c")
    return x + 1, a is logging.getLogger("zz.a"), a.parent is root, b.name, b.parent is root


@whole
@given(one)
def test_methods_that_write_to_their_arguments(x):
    text, numbers, source = bytearray(3), array.array("B"), io.BytesIO(b"abcdef")
    count = source.readinto(text)
    numbers.fromfile(source, 2)
    target = io.BytesIO()
    numbers.tofile(target)
    rest = bytearray(5)
    short = source.readinto(rest)
    try:
        numbers.fromfile(source, 9)
    except EOFError:
        pass
    text.extend(text)
    return x + 1, count, text, numbers, target.getvalue(), short, rest, source.tell()


@given(one)
def test_views_of_memory_made_in_the_trace(x):
    text = bytearray(3)
    view = memoryview(text)
    view[0] = 97
    view[1:] = b"bc"
    return x + 1, text, bytes(view)


@given(lambda: (toy.arange(2),))
def test_a_search_keeps_the_memory_of_a_text_that_can_be_changed(x):
    data = bytearray(b"ab")
    matches = re.finditer(b"a", data)
    try:
        data.extend(b"c" * 400)
    except BufferError:
        return x + 1, "kept", len(list(matches))
    return x, "not kept"


FORMS = {
    "Optional": lambda held: typing.Optional[held],
    "Union": lambda held: typing.Union[held, int],
    "List": lambda held: typing.List[held],
    "Dict": lambda held: typing.Dict[str, held],
    "Tuple": lambda held: typing.Tuple[held, ...],
    "Callable": lambda held: typing.Callable[[held], held],
    "nested": lambda held: typing.Optional[typing.List[held]],
    "ClassVar": lambda held: typing.ClassVar[held],
}


def held_by(form):
    """The arguments of a form, at any depth."""
    found = []
    for held in form.__args__:
        found += held_by(held) if hasattr(held, "__args__") else [held]
    return found


@given(one)
def test_forms_of_typing_hold_the_classes_that_the_function_makes(x):
    class Local:
        pass

    forms = {name: make(Local) for name, make in FORMS.items()}
    found = {name: [held is Local for held in held_by(form)] for name, form in forms.items()}
    return x + 1, Local, forms["Optional"], found, isinstance(Local(), held_by(forms["List"])[0])


class NoDict:
    __slots__ = ("a",)

    def __getattr__(self, name):
        raise AttributeError(name)


class OtherDict(NoDict):
    __slots__ = ()

    def __getattr__(self, name):
        return 3


class HiddenDict:
    def __init__(self):
        self.a = 1

    def __getattribute__(self, name):
        if name == "__dict__":
            raise AttributeError(name)
        return object.__getattribute__(self, name)


class RaisingDict(NoDict):
    __slots__ = ()

    def __getattr__(self, name):
        raise KeyError(name)


@given(lambda: (toy.arange(2), [NoDict(), OtherDict(), HiddenDict(), RaisingDict()]))
def test_names_of_objects_without_a_dict(x, objects):
    names = [outcome(lambda: [name for name in dir(o) if not name.startswith("__")]) for o in objects]
    return x + 1, names, [outcome(lambda: vars(o)) for o in objects]


class ByAddress:
    def __hash__(self):
        return id(self)

    def __eq__(self, other):
        return self is other


KEYS = ByAddress(), ByAddress()
TABLE = {(KEYS[0],): 1, (KEYS[1], 2): 3}


@whole
@given(lambda: (toy.arange(2), TABLE, (KEYS[0],)))
def test_tuples_of_objects_that_are_hashed_by_address_as_keys(x, table, key):
    return x + table[key], table.get((KEYS[1], 2)), table.get((KEYS[1],)), (KEYS[1],) in table, len(table)


class Span(typing.NamedTuple):
    begin: int
    end: int


class Interval(Span):
    def __eq__(self, other):
        return self.begin == other.begin

    __hash__ = Span.__hash__

    def __len__(self):
        return self.end - self.begin

    def __getitem__(self, at):
        raise IndexError(at)


class Renamed(Interval):
    begin = Span.end


@whole
@given(lambda: (toy.arange(2), Interval(2, 5), Renamed(2, 5)), lambda: (toy.arange(2), Interval(3, 5), Renamed(2, 6)))
def test_fields_of_a_named_tuple_with_methods_of_its_own(x, span, renamed):
    return x + span.begin, span.end, len(span), renamed.begin, renamed.end
