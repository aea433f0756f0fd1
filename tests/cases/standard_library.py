"""What running more of CPython's own tests translated found, those of its library: one case for each error that they showed."""

import abc
import bisect
import builtins
import collections
import functools
import heapq
import io
import json
import logging
import operator
import random
import re
import struct
import sys
import types
import typing
import warnings

import toy
from cases import given, two, whole
from toy import steering

X = toy.arange(2)


LOG = []


def one():
    return (toy.arange(2),)


# Methods of C's that are bound before the trace.


def bound(name, *args):
    def make():
        items = [1, 2, 3]
        return X, getattr(items, name), *args

    return make


@given(bound("count", 2), bound("append", 2), bound("__contains__", 2), bound("__mul__", 2), bound("__eq__", 2), bound("count", 3))
def test_bound_methods_of_one_object(x, method, argument):
    return x + 1, method(argument), method.__self__


def of_float(name, argument):
    return lambda: (X, getattr(float, name), argument)


@given(of_float("fromhex", "10"), of_float("__getformat__", "float"), of_float("fromhex", "11"))
def test_bound_methods_of_one_class(x, method, argument):
    return x + 1, method(argument)


def ordered(name):
    def make():
        items = collections.OrderedDict(a=1, b=2)
        return X, dict.popitem.__get__(items) if name is None else getattr(items, name)

    return make


@given(ordered("popitem"), ordered(None), ordered("popitem"))
def test_methods_of_one_name(x, method):
    return x + 1, method(), len(method.__self__)


class Overrides(list):
    def append(self, item):
        super().append((item,))


def appends(method):
    return lambda: (X, method.__get__(Overrides()))


@given(appends(list.append), appends(list.append), appends(Overrides.append))
def test_methods_hidden_by_a_class(x, append):
    append(1)
    return x + 1, append.__self__


def iterators(name):
    def make():
        iterator = iter(getattr(collections.OrderedDict(a=1, b=2), name)())
        next(iterator)
        return X, iterator

    return make


@given(iterators("keys"), iterators("values"), iterators("items"), iterators("keys"))
def test_iterators_of_an_ordered_dict(x, iterator):
    return x + 1, list(iterator)


# Objects of classes derived from those of C code.


class Version(typing.NamedTuple):
    major: int
    minor: int = 1

    def __add__(self, other):
        return "added"

    def __radd__(self, other):
        return "added to"

    def __rmul__(self, other):
        return "multiplied"

    def __lt__(self, other):
        return "less"

    def __bool__(self):
        return False


class Grows(tuple):
    def __iadd__(self, other):
        return "grown"


@whole
@given(one)
def test_operators_of_named_tuples(x):
    version, grows = Version(1, 2), Grows((1,))
    grows += (2,)
    answers = version + version, (1,) + version, 2 * version, version < (1, 2), (1,) > version, version == (1, 2), version * 2
    return x + 1, answers, not version, grows


class Recorded(collections.OrderedDict):
    def __init__(self, *args):
        collections.OrderedDict.__setattr__(self, "log", [])
        super().__init__(*args)

    def __setitem__(self, key, value):
        self.log.append(("set", key))
        super().__setitem__(key, value)

    def __getitem__(self, key):
        self.log.append(("get", key))
        return super().__getitem__(key)

    def __contains__(self, key):
        self.log.append(("in", key))
        return super().__contains__(key)


@given(one)
def test_ordered_dicts_with_methods_of_their_own(x):
    recorded = Recorded([(1, 2)])
    toy.save(x)
    recorded.update({3: 4})
    found = recorded.setdefault(1, 5), recorded.setdefault(7, 8), recorded.pop(3)
    return x + 1, found, dict(recorded), recorded.log, {**recorded}, recorded.copy().log


class Plain(collections.OrderedDict):
    pass


@given(one)
def test_ordered_dicts_that_are_joined(x):
    plain = Plain(a=1)
    joined = plain.copy(), collections.OrderedDict(plain)
    if hasattr(dict, "__or__"):
        joined += plain | {"b": 2}, {"b": 2} | plain
    return x + 1, [(type(each).__name__, each) for each in joined]


if sys.version_info < (3, 13):  # There CPython itself crashes.

    @given(one)
    def test_ordered_dicts_out_of_order(x):
        broken = collections.OrderedDict(a=1)
        dict.popitem(broken)
        toy.save(x)
        try:
            return x + 1, broken.popitem()
        except KeyError as error:
            return x + 2, str(error)


@given(one)
def test_generic_classes_made_in_the_trace(x):
    class Items(collections.deque):
        pass

    if not hasattr(Items, "__class_getitem__"):
        return x + 1, None
    numbers = Items[int]
    return x + 1, numbers.__origin__ is Items, type(numbers()) is Items


class Watching(type):
    read = []

    def __getattribute__(cls, name):
        Watching.read.append(name)
        return super().__getattribute__(name)


class Watched(metaclass=Watching):
    attribute = 1

    @classmethod
    def method(cls):
        return 2


@given(one)
def test_metaclasses_that_read_attributes_their_own_way(x):
    del Watching.read[:]
    read = Watched.attribute, Watched.method(), hasattr(Watched, "missing"), Watched().attribute
    return x + 1, read, Watching.read


class Holder:
    def __init__(self):
        self.module = MODULE


MODULE = types.ModuleType("module")


@whole
@given(lambda: (X, Holder()))
def test_variables_of_a_module_that_is_let_go(x, holder):
    del_first, holder.kept = holder.module, 1
    del_first.written = 1
    del holder.module
    del_first.written = 2
    return x + 1, MODULE.written, vars(holder)


@given(one)
def test_methods_that_call_what_has_them(x):
    calls = one.__call__, [].append.__call__, list.append.__call__, [1].__len__.__call__
    calls[1](1)
    return x + 1, [type(call).__name__ for call in calls], calls[1].__self__.__self__, calls[3](), one.__call__ == one


class Compares:
    def __init__(self, answer):
        self.answer = answer

    def __call__(self, *args):
        toy.save(X)
        return self.answer if len(args) == 1 else args


class HasCallables:
    __eq__ = Compares(NotImplemented)
    __lt__ = Compares(NotImplemented)
    __gt__ = Compares("greater")
    __add__ = Compares(NotImplemented)


class HasMore(HasCallables):
    __radd__ = Compares("added")
    __hash__ = None


@given(one)
def test_answers_of_the_right_operand(x):
    left, right = HasCallables(), HasMore()
    return x + 1, left < right, left == left, left == right, left + HasCallablesToo(), left < HasCallablesToo()


class HasCallablesToo:
    __radd__ = Compares("added")
    __gt__ = Compares("greater")


class Node:
    def __init__(self, parent):
        self.parent = parent


@whole
@given(one)
def test_sets_of_one_new_object(x):
    node = Node(None)
    alone, also = {node}, {each for each in [node, Node(node)] if each.parent is None}
    results = alone - also, alone & also, alone | also, alone ^ also, also.difference(alone), also.union(alone)
    alone -= also
    return x + 1, [len(result) for result in results], len(alone)


# Logging.

QUIET = logging.getLogger("cases.quiet")
QUIET.propagate = False


@given(one)
def test_levels_that_change_between_messages(x):
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    QUIET.addHandler(handler)
    QUIET.setLevel(logging.WARNING)
    QUIET.info("not seen")
    QUIET.setLevel(logging.INFO)
    QUIET.info("seen")
    QUIET.removeHandler(handler)
    return x + 1, stream.getvalue()


@given(one)
def test_messages_to_a_file_in_the_place_of_another(x):
    stream, before, handlers = io.StringIO(), sys.stderr, QUIET.handlers
    QUIET.handlers = [logging.lastResort]
    sys.stderr = stream
    try:
        QUIET.warning("seen")
        return x + 1, stream.getvalue()
    finally:
        sys.stderr = before
        QUIET.handlers = handlers


@given(one)
def test_results_that_keep_what_may_change(x):
    text, words = bytearray(b"abcd"), re.compile(b"[a-z]+")
    match, parts = words.search(text), struct.iter_unpack("2s", text)
    text[:] = b"wxyz"
    return x + 1, match.group(), match.string is text, list(parts), words.findall(bytearray(b"a b"))


@given(one, hit=False)
def test_patterns_that_are_kept_for_the_next_time(x):
    re.purge()
    flags = re.VERBOSE
    found = [
        bool(re.fullmatch("(?x) a", "a")),
        bool(re.fullmatch(" a", "a", re.VERBOSE)),
        bool(re.fullmatch("(?x) b", "a")),
        re.compile(re.compile("c", flags)).flags,
    ]
    return x + 1, found, [key[1:] for key in getattr(re, "_cache")]


# Attributes.


class Asked:
    def __init__(self):
        self.asked = []

    @property
    def fails(self):
        raise AttributeError("fails")

    @property
    def wants(self):
        return self.missing

    def __getattr__(self, name):
        self.asked.append(name)
        return name


class Refuses:
    @property
    def fails(self):
        raise AttributeError("fails")

    def __getattr__(self, name):
        raise AttributeError("refused " + name)


@whole
@given(one)
def test_hooks_asked_where_a_descriptor_fails(x):
    asked, refuses = Asked(), Refuses()
    try:
        refused = refuses.fails
    except AttributeError as error:
        refused = str(error)
    return x + 1, asked.fails, asked.wants, hasattr(asked, "fails"), refused, getattr(refuses, "fails", 5), asked.asked


class AsksMeta(type):
    def __getattr__(cls, name):
        return "meta " + name

    @property
    def __dict__(cls):
        return {"only": 3}


class OfMeta(metaclass=AsksMeta):
    @types.DynamicClassAttribute
    def hidden(self):
        return 1


@given(one)
def test_hooks_of_metaclasses(x):
    class Sub(OfMeta):
        pass

    return x + 1, OfMeta.hidden, hasattr(OfMeta, "hidden"), OfMeta().hidden, Sub.hidden, Sub().hidden, OfMeta.__dict__


# Identities.


class Simple:
    pass


THERE = Simple()


def by_identity(*keys):
    return lambda: (X, {key(): 1 for key in keys}, THERE)


@given(by_identity(lambda: id(THERE)), by_identity(), by_identity(lambda: 5), by_identity(lambda: id(THERE), lambda: 3))
def test_identities_that_were_there_before(x, known, there):
    found = known.get(id(there)), id(there) in known, id(there) in set(known)
    known[id(there)] = 2
    size = len(known)
    known.clear()
    return x + 1, found, size


@given(by_identity(lambda: (id(THERE), 0)), by_identity(), by_identity(lambda: (id(THERE), 0)))
def test_identities_in_tuples_that_were_there_before(x, known, there):
    found = known.get((id(there), 0)), (id(there), 0) in known
    known.clear()
    return x + 1, found


# Builtins.


@given(one)
def test_builtins_that_are_replaced(x):
    before = builtins.ascii
    builtins.ascii = lambda items: 99
    builtins.added = 5
    try:
        replaced = ascii([1]), added  # noqa: F821
        del builtins.added
        try:
            return x + 1, replaced, added  # noqa: F821
        except NameError:
            return x + 2, replaced
    finally:
        builtins.ascii = before


@given(one)
def test_exhausted_iterators_keep_their_types(x):
    made = [reversed([1]), reversed((1,)), reversed("a"), reversed(range(1)), reversed(collections.deque([1]))]
    made += [reversed({"a": 1}), reversed({"a": 1}.values()), reversed({"a": 1}.items())]
    made += [iter({"a": 1}), iter({"a": 1}.values()), iter({"a": 1}.items()), iter("\u00e9")]
    items = [list(iterator) for iterator in made]
    return x + 1, items, made


@given(one)
def test_extremes_of_nothing(x):
    errors = []
    for ask in (min, max):
        for arguments in ((), ((),), ([], [])):
            try:
                errors.append(ask(*arguments))
            except (TypeError, ValueError) as error:
                errors.append(str(error))
    return x + 1, errors


class AskedKeys(dict):
    def __iter__(self):
        return super().__iter__()

    def keys(self):
        LOG.append("keys")
        return super().keys()

    def __getitem__(self, key):
        LOG.append(key)
        return super().__getitem__(key) * 2


class OwnIndex(int):
    def __index__(self):
        return 0


@given(one)
def test_copies_of_a_dict_that_is_iterated_in_its_own_way(x):
    LOG.clear()
    asked, empty = AskedKeys(a=1, b=2), AskedKeys()
    copies = [asked.copy(), dict(asked), {**asked}, empty.copy(), dict.copy(asked)]
    if hasattr(dict, "__or__"):
        copies += [asked | {"c": 3}, asked | asked]
    return x + 1, copies, [type(copied).__name__ for copied in copies]


@given(one)
def test_integers_are_not_asked_for_an_index(x):
    two, items = OwnIndex(2), [1, 2, 3, 4]
    found = items[two], tuple(items)[two], "abcd"[two], items[two:], list(range(two)), [0] * two, hex(two), items[:-two]
    items[two] = 9
    del items[-two]
    return x + 1, found, items, (5,) * two, list(range(8, 0, -two)), bytes(two), items.pop(OwnIndex(-1)), round(2.345, two)


class OwnKeys(dict):
    def keys(self):
        return ["b"]


class OwnValues(dict):
    def __getitem__(self, key):
        return "own"


class OnlyItems:
    def items(self):
        return [("a", 1)]


@given(one)
def test_an_ordered_dict_asks_a_dict_of_a_subclass(x):
    LOG.clear()
    made = [collections.OrderedDict(of(a=1, b=2)) for of in (OwnKeys, OwnValues, AskedKeys)]
    made[0].update(OwnValues(c=3))
    return x + 1, made, LOG, dict(OwnKeys(a=1)), dict(OwnValues(a=1))


@given(one)
def test_an_ordered_dict_takes_items_without_keys(x):
    return x + 1, collections.OrderedDict(OnlyItems())


class FalseList(list):
    def __bool__(self):
        return False

    def __len__(self):
        return 0

    def __iter__(self):
        return iter("no")


class FalseDict(dict):
    def __bool__(self):
        return False


class FalseTuple(tuple):
    def __bool__(self):
        return False


class OtherFloat(float):
    def __ne__(self, other):
        return True


@given(one)
def test_json_in_c_does_not_ask_the_contents(x):
    made = [FalseList([3]), FalseDict(a=1), FalseTuple((1,)), OtherFloat(2.5), {"a": [FalseList([1])]}]
    return x + 1, [json.dumps(value) for value in made]


@given(one)
def test_heaps_in_c_do_not_ask_the_list(x):
    heap = FalseList([3, 1, 2])
    heapq.heapify(heap)
    heapq.heappush(heap, 0)
    popped = [heapq.heappop(heap), heapq.heapreplace(heap, 7), heapq.heappushpop(heap, 5)]
    return x + 1, popped, [list.__getitem__(heap, at) for at in range(3)]


@given(one)
def test_a_heap_has_to_be_a_list(x):
    try:
        return x + 1, heapq.heappop(collections.deque([1]))
    except TypeError as error:
        return x + 1, str(error)


class Plain(str):
    pass


@given(one)
def test_texts_that_formatting_leaves_unchanged(x):
    text, empty = Plain("ab"), Plain("")
    kept = [text % (), text % {}, text.format(), text.format_map({}), format(text, "s"), f"{text:1}", "{:s}".format(text)]
    made = [f"{text}", "%s" % text, "{}".format(text), f"{text:3}", f"{text:.1}", text.format(1), empty % (), empty.format()]
    made += [Plain("%s") % "a", Plain("{}").format("a"), Plain("%%") % (), "-{:s}".format(text), str.upper(text)]
    return x + 1, kept, made, [type(one).__name__ for one in kept + made], [one is text for one in kept]


class OwnText(str):
    def __repr__(self):
        return "own"


class OwnItems(set):
    def __iter__(self):
        return iter([7])

    def __contains__(self, item):
        return item == 7


class OwnFrozenItems(frozenset):
    def __iter__(self):
        return iter([7])


@given(one)
def test_numbers_in_texts_of_a_class(x):
    errors = []
    for convert in (int, float):
        try:
            convert(OwnText("twelve"))
        except ValueError as error:
            errors.append(str(error))
    return x + 1, int(OwnText("12")), float(OwnText("1.5")), errors


@given(one)
def test_sets_of_a_class_that_is_iterated_in_its_own_way(x):
    found = []
    for items in (OwnItems([1, 2]), OwnFrozenItems([1, 2])):
        made = [set(items), frozenset(items), {1, 3}.union(items), {1, 3}.difference(items), {1, 3}.intersection(items)]
        made += [{1, 3}.symmetric_difference(items), {1, 3} | items, {1}.issubset(items), {1, 2, 3}.issuperset(items)]
        changed = {1, 3}
        changed.update(items)
        changed.difference_update(items)
        found.append((made, {7}.isdisjoint(items), changed, [*items], list(items), sorted(items), 1 in items, 7 in items))
    return x + 1, found


class OwnList(list):
    def __iter__(self):
        return iter([7, 8])


@given(one)
def test_lists_take_in_what_a_list_of_a_class_gives(x):
    added, extended, called, replaced = [1], [1], [1], [1, 2]
    added += OwnList([2])
    extended.extend(OwnList([2]))
    called.__iadd__(OwnList([2]))
    replaced[:1] = OwnList([2])
    return x + 1, added, extended, called, replaced, [1] + OwnList([2])


# What a seeded generator has given shows in its state, and in what it gives behind the graph.


@two
@given(one, hit=False)
def test_random_numbers_across_a_break(x):
    random.seed(5)
    y = x + random.random()
    normal = random.gauss(0, 1)
    steering.breakgraph()
    random.seed("text")
    return y * 2, normal, random.random(), random.gauss(0, 1)


@given(one)
def test_random_numbers_left_behind(x):
    random.seed(5)
    before = random.gauss(0, 1)
    steering.breakgraph()
    return x + before, random.random(), random.gauss(0, 1), hash(random.getstate())


def _given_its_state(x, generator):
    generator.seed(2)
    return x + generator.random()


@given(one)
def test_random_numbers_of_two_generators(x):
    one, other = random.Random(1), random.Random(2)
    steering.breakgraph()
    y = _given_its_state(x, one) + _given_its_state(x, other)
    return y, one.random(), other.random(), one.getstate() == other.getstate()


# What C code keeps of warnings that were filtered while the trace lasted: one that it has shown before is shown again.


@given(one, hit=False)
def test_warnings_around_filters(x):
    for _ in range(2):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("default")
            for _ in range(2):
                warnings.warn("by default")
            warnings.simplefilter("ignore")
            warnings.warn("ignored")
            steering.breakgraph()
            warnings.simplefilter("always")
            warnings.warn("behind")
        x = x + len(caught)
    return x, [str(w.message) for w in caught], len(warnings.filters), sorted(map(str, __warningregistry__))[:-1]


@given(one)
def test_what_is_kept_of_warnings(x):
    globals().pop("__warningregistry__", None)
    steering.breakgraph()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.warn("no")
    steering.breakgraph()
    return x + 1, list(__warningregistry__)


@whole
@given(one)
def test_arguments_of_an_exception_are_one_tuple(x):
    error = ValueError("a", 2)
    return x + 1, error.args, error


# Arguments that C code refuses, in the `try` around the call.

WRONG = {
    "cache": lambda: functools.cache("a"),
    "lru_cache": lambda: functools.lru_cache(2)("a"),
    "proxy": lambda: types.MappingProxyType(type("L", (list,), {})([1])),
    "proxy_of_deque": lambda: types.MappingProxyType(collections.deque([1])),
    "symmetric": lambda: {1, 2}.symmetric_difference_update([2], [3]),
    "symmetric_alone": lambda: {1, 2}.symmetric_difference_update(),
    "bisect": lambda: bisect.bisect({}, 2),
    "bisect_keys": lambda: bisect.bisect({"a": 1}, 2),
    "abs": lambda: operator.abs([1]),
    "abs_of_text": lambda: operator.abs("a"),
    "heappop": lambda: heapq.heappop([]),
    "split": lambda: re.compile("a").split("bab", None),
    "split_often": lambda: re.split("a", "bab", "x"),
    "split_number": lambda: re.split("a", 5),
    "unpacked_match": lambda: one_of(*re.match("a", "a")),
    "match_in_a_list": lambda: [*re.match("a", "a")],
    "joined_match": lambda: ",".join(re.match("a", "a")),
    "two_of_match": lambda: (lambda pair: [None for a, b in [pair]])(re.match("a", "a")),
    "pairs_of_match": lambda: dict([re.match("a", "a")]),
    "reduce": lambda: functools.reduce(max, 5),
    "reduce_object": lambda: functools.reduce(max, object()),
    "reduce_match": lambda: functools.reduce(max, re.match("a", "a")),
    "abstract": lambda: Unfinished(1),
    "abstract_keyword": lambda: Unfinished(a=1),
    "abstract_init": lambda: UnfinishedWithInit(1),
    "abstract_alone": lambda: Unfinished(),
    "next": lambda: next(1, 2, 3),
    "next_alone": lambda: next(),
    "sum": lambda: sum(5, "a"),
    "sum_of_texts": lambda: sum(["a"], "a"),
    "ordered": lambda: collections.OrderedDict("ab"),
    "ordered_numbers": lambda: collections.OrderedDict([1]),
    "ordered_update": lambda: collections.OrderedDict(a=1).update([(1, 2), (1, 2, 3)]),
    "heapreplace": lambda: heapq.heapreplace([], 1),
}


def one_of(item):
    return item


class Unfinished(abc.ABC):
    @abc.abstractmethod
    def work(self): ...


class UnfinishedWithInit(Unfinished):
    def __init__(self, a):
        self.a = a


@given(*[lambda name=name: (X, name) for name in sorted(WRONG)], hit=False)
def test_arguments_that_are_refused(x, name):
    log = []
    try:
        log.append(WRONG[name]())
    except Exception as error:
        log.append((type(error).__name__, str(error)))
    return x + 1, log


@given(one)
def test_arguments_that_are_refused_for_nothing(x):
    log = []
    for name in ("cache", "proxy", "symmetric", "abs"):
        try:
            WRONG[name]()
            log.append("no error")
        except TypeError as error:
            log.append(str(error))
    return x + 1, log


@given(one)
def test_hashes_of_views(x):
    values = {"a": 1}.values()
    return x + 1, hash(values) == hash(values), {hash(values): 1}.get(hash(values)), {values: 2}.get(values)
