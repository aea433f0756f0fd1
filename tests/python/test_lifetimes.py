"""Values whose destruction is observable die between the same lines as in eager mode.

The programs are all combinations of a place that holds the value, a way to drop it, an observer of its destruction,
the surrounding code, and a frame. A sample of them runs by default; `SOT_LIFETIMES=all` runs every one,
`SOT_LIFETIMES=SEED` another sample.
"""

import collections
import gc
import itertools
import linecache
import os
import random
import sys
import types
import weakref

import paddle
import pytest

import sot

log = []


class Mortal:
    def __init__(self, name):
        self.name = name

    def __del__(self):
        log.append(f"dies {self.name}")


class Plain:
    pass


class Slotted:
    __slots__ = ("value", "other")


class Managed:
    @property
    def value(self):
        return self._value

    @value.setter
    def value(self, value):
        self._value = value


class Hooked:
    def __setattr__(self, name, value):
        log.append(f"sets {name}")
        object.__setattr__(self, name, value)

    def __delattr__(self, name):
        log.append(f"deletes {name}")
        object.__delattr__(self, name)


def finalized(name):
    value = Plain()
    weakref.finalize(value, log.append, f"finalizes {name}")
    return value


references = []
held_globally = list_globally = None


def told_of(name):
    value = Plain()
    references.append(weakref.ref(value, lambda _: log.append(f"tells of {name}")))
    return value


def suspended(name):
    def generator():
        try:
            yield 1
        finally:
            log.append(f"closes {name}")

    started = generator()
    next(started)
    return started


def inside_an_object(name):
    value = Plain()
    value.inner = Mortal(name)
    return value


def inside_containers(name):
    return {"a": [(Mortal(name),), 1]}


def in_a_closure(name):
    held = Mortal(name)
    return lambda: held


class Sided(paddle.nn.Layer):
    pass


def with_layer(name):
    layer = Sided()
    layer.held = Mortal(name)
    return layer


OBSERVERS = [Mortal, finalized, told_of, suspended, inside_an_object, inside_containers, in_a_closure, with_layer]


def attribute_of(kind):
    def make(observer):
        box = kind()
        box.value = observer("value")
        return box

    make.__name__ = f"attribute_of_{kind.__name__}"
    return make


def layer(observer):
    box = Sided()
    box.value = observer("value")
    return box


def namespace(observer):
    return types.SimpleNamespace(value=observer("value"))


def items(observer):
    return [observer(number) for number in range(3)]


def named(observer):
    return {number: observer(number) for number in range(3)}


def ordered(observer):
    return collections.OrderedDict(named(observer))


def defaults(observer):
    return collections.defaultdict(list, named(observer))


class Hashed:
    def __init__(self, value):
        self.value = value


def in_set(observer):
    return {Hashed(observer("value"))}


def queue(observer):
    return collections.deque(items(observer), maxlen=3)


def nested(observer):
    return [items(observer), {"a": named(observer)}]


def object_of_containers(observer):
    box = Plain()
    box.items, box.named, box.inner = items(observer), named(observer), attribute_of(Plain)(observer)
    return box


def in_globals(observer):
    global held_globally, list_globally
    held_globally, list_globally = observer("global"), items(observer)


def native(observer):
    """Return a function whose call breaks the graph, and returns an observed object."""
    return lambda: observer("given")


ATTRIBUTE = [
    "box.value = None",
    "del box.value",
    "setattr(box, 'value', x)",
    "delattr(box, 'value')",
    "object.__setattr__(box, 'value', 1)",
    "o = box.value; box.value = None; {}; del o",
    "o = box.value; {}; box.value = None; {}; o = 1",
    "box.value, o = None, box.value; {}; o = None",
    "o = [box.value]; box.value = y; {}; o.clear()",
    "box.value = (1, box.value); {}; box.value = 2",
    "box.other = box.value; box.value = None; {}; box.other = None",
    "box.other = box.value; del box.value; {}; del box.other",
]
DICT = [
    "box.__dict__['value'] = 1",
    "del box.__dict__['value']",
    "box.__dict__.pop('value')",
    "box.__dict__.clear()",
    "vars(box).update(value=y)",
    "o = vars(box).pop('value'); {}; del o",
]
LIST = [
    "box.pop()",
    "o = box.pop(); {}; del o",
    "o = box.pop(0); {}; o = y",
    "box.clear()",
    "del box[1:]",
    "box[:] = []",
    "box[1] = y",
    "box *= 0",
    "box.remove(box[0])",
    "box.append(box.pop(0)); {}; box.pop()",
    "for o in box:\n        {}\n    box.clear(); {}; o = None",
    "while box:\n        o = box.pop(); {}\n    o = None",
    "box[0], box[1] = box[1], box[0]; {}; del box[0]",
]
MAP = [
    "box.pop(0)",
    "box.popitem()",
    "o = box.popitem(); {}; del o",
    "box.clear()",
    "del box[1]",
    "box[2] = y",
    "box.update({0: 1, 1: 2})",
    "o = box.pop(1); {}; o = None",
    "box['other'] = box.pop(1); {}; del box['other']",
]
PROGRAMS = [
    (attribute_of(Plain), ATTRIBUTE + DICT),
    (attribute_of(Slotted), ATTRIBUTE),
    (attribute_of(Managed), [ATTRIBUTE[0], ATTRIBUTE[5], "box._value = None", "del box._value"]),
    (attribute_of(Hooked), ATTRIBUTE[:2] + DICT[:1]),
    (layer, ATTRIBUTE[:4]),
    (namespace, ATTRIBUTE[:4] + DICT[:1]),
    (items, LIST),
    (named, MAP),
    (ordered, [*MAP, "box.popitem(last=False)", "box.move_to_end(0); {}; box.popitem()"]),
    (defaults, MAP),
    (
        in_set,
        [
            "o = box.pop(); {}; o = None",
            "box.pop()",
            "box.clear()",
            "o = next(iter(box)); box.discard(o); {}; del o",
            "box.remove(next(iter(box)))",
            "box -= box",
            "box.intersection_update([1])",
            "box.difference_update(list(box))",
        ],
    ),
    (queue, ["box.pop()", "box.popleft()", "box.clear()", "box.append(1)", "box.rotate(1); {}; box.popleft()", "del box[0]"]),
    (
        nested,
        [
            "box[0].pop()",
            "box[0].clear()",
            "del box[0]",
            "box[1]['a'][0] = y",
            "del box[1]['a'][1]",
            "box[1].clear()",
            "box[1]['a'] = None",
            "box.clear()",
            "o = box[0]; box[0] = None; {}; o.pop(); {}; o = None",
            "o = box.pop(); {}; del o['a']; {}; o = None",
        ],
    ),
    (
        object_of_containers,
        [
            "box.items.pop()",
            "box.items = []",
            "box.named.clear()",
            "del box.named[1]",
            "box.inner.value = None",
            "box.inner = None",
            "o = box.inner; box.inner = None; {}; o.value = 1; {}; del o",
            "del box.items, box.named",
            "box.items, box.named = box.named, box.items; {}; box.items = None",
            "box.__dict__.clear()",
        ],
    ),
    (
        in_globals,
        [
            "global held_globally\n    held_globally = None",
            "global held_globally\n    del held_globally",
            "global held_globally\n    o = held_globally; held_globally = y; {}; del o",
            "list_globally.pop()",
            "list_globally.clear()",
            "globals()['held_globally'] = None",
        ],
    ),
    (
        native,
        [
            "o = opaque(box); {}; o = None",
            "o = opaque(box); {}; del o",
            "opaque(box)",
            "o = [opaque(box), opaque(box)]; {}; o.pop(); {}; o = None",
            "o = Plain(); o.value = opaque(box); {}; o.value = 1",
            "o = opaque(box); {}; o = opaque(box); {}",
            "o = {'a': opaque(box)}; {}; del o['a']",
            "for o in (opaque(box), opaque(box)):\n        {}\n    {}; o = None",
        ],
    ),
]

# Code before the drop, code between the lines of a drop, and code behind it.
AROUND = [
    ("y = x + 1; log.append('a')", "log.append('m')", "log.append('b'); y = y * 2"),
    ("log.append('a'); y = x", "y = y + 1; log.append('m'); y = y * 2", "log.append('b')"),
    ("y = x * 2", "log.append('m'); y = y + 1; log.append('n')", "y = y + x; log.append('b'); y = y * 2"),
]

FRAMES = [
    "def program(x, box):\n    {before}\n    {drop}\n    {behind}\n    return y + 1\n",
    "def inner(x, box):\n    {before}\n    {drop}\n    {behind}\n    return y\n"
    "def program(x, box):\n    y = inner(x * 2, box)\n    log.append('back')\n    return y + 1\n",
    "def program(x, box):\n    y = x\n    try:\n        for _ in range(1):\n            {before}\n            {drop}\n"
    "        raise KeyError(1)\n    except KeyError:\n        {behind}\n    return y + 1\n",
]

counter = itertools.count()


@sot.disable
def opaque(function):
    return function()


def function(frame, before, between, behind, drop):
    drop = drop.replace("{}", between)
    if "{drop}\n        raise" in frame:
        drop = drop.replace("\n    ", "\n            ")
    text = frame.format(before=before, drop=drop, behind=behind)
    name = f"<lifetimes {next(counter)}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    exec(compile(text, name, "exec"), globals())
    return globals()["program"], text


def observe(program, make, observer):
    seen = []
    for call in range(3):
        held = make(observer)
        log.clear()
        try:
            result = program(paddle.full([2], call, "float32"), held).tolist()
        except Exception as error:
            result = type(error), str(error)
        log.append("returned")
        del held
        seen.append((list(log), result))
        globals().update(held_globally=None, list_globally=None)
        gc.collect()
    return seen


# How many programs of each place a sample has.
A_PLACE = 60

ALL = [
    (make, drop, observer, around, frame)
    for make, drops in PROGRAMS
    for drop in drops
    for observer in OBSERVERS
    for around in range(len(AROUND))
    for frame in range(len(FRAMES))
    if not (frame and "global " in drop)
    # A known divergence (docs/soundness.md): in a called function, an item found by iterating over a set dies at once.
    if not (frame and "next(iter(box)); box.discard" in drop)
]


def sample():
    chosen = os.environ.get("SOT_LIFETIMES", str(sys.version_info.minor))
    if chosen == "all":
        return ALL
    # A few programs of each place. The selection depends on the seed, which differs between interpreters.
    by_place, kept = collections.Counter(), []
    for program in random.Random(int(chosen)).sample(ALL, len(ALL)):
        if by_place[program[0]] < A_PLACE:
            by_place[program[0]] += 1
            kept.append(program)
    return kept


def differences(programs):
    for make, drop, observer, around, frame in programs:
        program, text = function(FRAMES[frame], *AROUND[around], drop)
        eager = observe(program, make, observer)
        translated = observe(sot.symbolic_translate(program), make, observer)
        if translated != eager:
            yield f"{make.__name__} {observer.__name__}\n{text}eager mode: {eager}\ntranslated: {translated}\n"


@pytest.fixture(autouse=True)
def nothing_else_is_collected():
    """Exclude the objects that earlier tests have left from garbage collection, which is slow otherwise."""
    gc.collect()
    gc.freeze()


@pytest.mark.alone("verify mode holds what a call reaches until it has been compared")
@pytest.mark.parametrize("make", [make for make, _ in PROGRAMS], ids=lambda make: make.__name__)
def test_values_die_between_the_same_lines(make):
    found = list(differences(program for program in sample() if program[0] is make))
    assert not found, f"{len(found)} differ\n" + "\n".join(found)


class Plain:
    pass


def dropped_local():
    value = Plain()
    reference = weakref.ref(value)
    del value
    return reference() is None


def dropped_argument(value=None):
    value = value or Plain()
    reference = weakref.ref(value)
    value = None
    return reference() is None


def dropped_holder():
    holder = Plain()
    holder.value = Plain()
    reference = weakref.ref(holder.value)
    holder = None
    return reference() is None


def dropped_list():
    items = [Plain() for _ in range(2)]
    reference = weakref.ref(items[1])
    items = items[:1]
    return reference() is None


def kept_value():
    value = Plain()
    reference = weakref.ref(value)
    other = [value]
    del value
    return reference() is other[0]


def dead_proxy():
    value = Plain()
    value.number = 5
    proxy = weakref.proxy(value)
    before = isinstance(proxy, Plain), proxy.number
    del value
    try:
        return before, proxy.number
    except ReferenceError:
        return before, "dead"


def collected_cycle():
    value = Plain()
    value.itself = value
    reference = weakref.ref(value)
    del value
    gc.collect()
    return reference() is None


def local_of_a_frame_that_an_exception_left():
    references = []

    def fail():
        value = Plain()
        references.append(weakref.ref(value))
        raise ValueError

    try:
        fail()
    except ValueError:
        pass
    return references[0]() is None


def callback_of_a_dropped_reference():
    log, value = [], Plain()
    weakref.ref(value, lambda _: log.append("dropped"))
    reference = weakref.ref(value, lambda _: log.append("replaced"))
    reference = weakref.ref(value, lambda _: log.append("kept"))
    value = None
    log.append("end")
    return log, reference() is None


def written_behind_the_reference():
    value = Plain()
    reference = weakref.ref(value)
    value.number = 1
    del value
    return reference() is None


def written_through_the_reference():
    value = Plain()
    value.number = 1
    reference = weakref.ref(value)
    reference().number += 1
    number, value = reference().number, None
    return reference() is None, number


def written_in_a_container():
    held = {1: Plain()}
    reference = weakref.ref(held[1])
    held[1].number = 2
    number = reference().number
    held.clear()
    return reference() is None, number


WEAK = [
    written_behind_the_reference,
    written_through_the_reference,
    written_in_a_container,
    callback_of_a_dropped_reference,
    dropped_local,
    dropped_argument,
    dropped_holder,
    dropped_list,
    kept_value,
    dead_proxy,
    collected_cycle,
    local_of_a_frame_that_an_exception_left,
]


@pytest.mark.parametrize("depth", range(3))
@pytest.mark.parametrize("seen", WEAK, ids=lambda seen: seen.__name__)
@pytest.mark.alone("verify mode holds what a call reaches until it has been compared")
def test_weak_references_to_values_of_called_functions(seen, depth):
    """A value dies where the called function drops it: no caller's frame holds it any longer."""

    def nested(level):
        return seen() if level == 0 else [nested(level - 1)][0]

    def fn(x):
        y = x * 2
        found = nested(depth)
        return y + 1, found

    fast, x = sot.symbolic_translate(fn), paddle.ones([2])
    expected = fn(x)[1]
    for _ in range(3):
        result, found = fast(x)
        assert found == expected and result.tolist() == [3.0, 3.0]
    assert sot.stats().graphs


def fail(value):
    raise KeyError(value)


def suspended(value):
    try:
        yield value
    finally:
        log.append("closed")


def past_another_handler(x):
    held, y = Mortal("held"), x * 2
    try:
        fail(y)
    except ValueError:
        pass


def past_a_finally(x):
    held = suspended(x)
    y = next(held) * 2
    try:
        fail(y)
    finally:
        log.append("left")


def past_a_with(x):
    held, y = Mortal("held"), x * 2
    with paddle.no_grad():
        fail(y)


def past_a_loop(x):
    held = Mortal("held")
    for _ in range(2):
        y = x * 2
        try:
            fail(y)
        finally:
            log.append("left")


def raised_again(x):
    held, y = Mortal("held"), x * 2
    try:
        fail(y)
    except KeyError:
        log.append("caught")
        raise


def dropped_in_the_handler(x):
    held, y = Mortal("held"), x * 2
    try:
        fail(y)
    except KeyError:
        held = None
        log.append("dropped")
        raise


def caught_by_the_function(x):
    held, y = Mortal("held"), x * 2
    try:
        fail(y)
    except KeyError as error:
        kept = error
    log.append("behind")
    return y, kept


LEFT = [
    past_another_handler,
    past_a_finally,
    past_a_with,
    past_a_loop,
    raised_again,
    dropped_in_the_handler,
    caught_by_the_function,
]


@pytest.mark.parametrize("fn", LEFT, ids=lambda fn: fn.__name__)
@pytest.mark.alone("verify mode runs each call twice")
def test_a_traceback_keeps_the_locals_of_a_frame_that_looked_at_its_exception(fn):
    def run(call):
        log.clear()
        try:
            result = call(paddle.ones([2]))
            log.append("returned")
            del result
        except KeyError as error:
            log.append("left the frame")
        gc.collect()
        return list(log)

    expected, fast = run(fn), sot.symbolic_translate(fn)
    assert [run(fast) for _ in range(3)] == [expected] * 3


def test_a_proxy_beside_a_weak_reference_with_a_callback(same):
    """A proxy's callback cannot be read, so the object counts as one whose death is seen."""

    class Held:
        pass

    def fn(x):
        log = []
        held = Held()
        held.tensor = x * 2
        reference = weakref.ref(held, lambda _: log.append("dies"))
        proxy = weakref.proxy(held)
        held = None
        log.append("behind")
        return reference() is None, log, proxy is None

    translated = sot.symbolic_translate(fn)
    for _ in range(3):
        same(translated(paddle.ones([2])), fn(paddle.ones([2])))
    assert sot.stats().graphs
