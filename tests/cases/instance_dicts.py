"""`__dict__` of objects as what is looked at, iterated and written while the attributes change."""

import collections

import toy
from cases import given, whole


class Holder:
    pass


def holder():
    made = Holder()
    made.a, made.b, made.c = 1, 2, 3
    return made


def one():
    return (toy.arange(2), holder())


def outcome(work):
    try:
        return work()
    except (RuntimeError, KeyError, TypeError) as error:
        return type(error).__name__, str(error)


@whole
@given(one)
def test_items_while_attributes_are_written(x, o):
    seen = []
    for name, value in o.__dict__.items():
        seen.append((name, value))
        o.b = 20
        o.c = seen[-1][1] * 100
    return x + 1, seen, vars(o)


@whole
@given(one)
def test_values_of_a_new_object_while_they_are_written(x, _):
    o = Holder()
    o.a, o.b = 1, 2
    values = vars(o).values()
    before = list(values)
    seen = []
    for value in values:
        o.b = value + 10
        seen.append(value)
    return x + 1, before, seen, list(values), o.b in values


@whole
@given(one)
def test_views_are_alive(x, o):
    keys, items = o.__dict__.keys(), o.__dict__.items()
    o.d = 4
    del o.a
    return x + 1, list(keys), list(items), len(keys), "d" in keys, ("a", 1) in items, keys & {"b", "z"}


@whole
@given(one)
def test_an_attribute_deleted_and_written_anew_comes_last(x, o):
    del o.a
    o.d = 4
    o.a = 5
    fresh = Holder()
    fresh.p, fresh.q = 1, 2
    del fresh.p
    fresh.p = 3
    return x + 1, list(o.__dict__), list(fresh.__dict__.items()), fresh


@given(one)
def test_attributes_added_and_deleted_while_iterated(x, o):
    def adds():
        for name in o.__dict__:
            setattr(o, name + "2", 1)

    def deletes():
        for name in vars(o):
            delattr(o, name)

    return x + 1, outcome(adds), outcome(deletes), vars(o)


@whole
@given(one)
def test_methods_of_the_dict(x, o):
    attributes = o.__dict__
    popped = attributes.pop("a")
    attributes.update(e=5, b=20)
    default = attributes.setdefault("f", [])
    default.append(popped)
    last = attributes.popitem()
    copied = attributes.copy()
    attributes.clear()
    o.z = 1
    return x + 1, copied, last, attributes, attributes == {"z": 1}, {**attributes}, dict(attributes), set(attributes)


@whole
@given(one)
def test_questions_to_the_dict(x, o):
    attributes = o.__dict__
    o.n = 0
    texts = repr(attributes), len(attributes), bool(attributes), sorted(attributes), list(reversed(list(attributes)))
    return x + 1, texts, outcome(lambda: {attributes: 1}), attributes == vars(holder()), frozenset(attributes)


@given(one)
def test_a_view_that_goes_on_behind_a_break(x, o):
    views = o.__dict__.items()
    y = x + 1
    print(float(y.sum()))
    o.b = 7
    return y + len(views), list(views)


@given(one)
def test_an_iteration_that_goes_on_behind_breaks(x, o):
    seen = []
    for name, value in o.__dict__.items():
        o.c = value + float((x + value).sum())
        seen.append((name, value))
    return x + 2, seen, vars(o)


@given(one)
def test_an_iteration_of_a_new_object_that_goes_on_behind_breaks(x, _):
    o = holder()
    for name in vars(o):
        setattr(o, name, float((x + 1).sum()))
    return x + 2, vars(o)


@whole
@given(one)
def test_one_dict_copied_into_another(x, o):
    other = Holder()
    other.__dict__.update(o.__dict__)
    other.a = 10
    third = Holder()
    attributes = vars(third)
    if hasattr(dict, "__ior__"):
        attributes |= vars(other)
    else:
        attributes.update(vars(other))
    return x + other.a, other, third.__dict__ == other.__dict__, o.__dict__ != other.__dict__


@given(one)
def test_a_new_dict_of_attributes(x, o):
    old = o.__dict__
    o.__dict__ = {"z": 1}
    o.y = 2
    old["a"] = 5
    return x + o.z, old, o.__dict__, vars(o) is old


@whole
@given(one)
def test_kept_from_before_a_write(x, o):
    attributes = o.__dict__
    o.a = 7
    return x + o.a, attributes, attributes is o.__dict__


class Logged:
    log = []

    @property
    def v(self):
        return 10 + self.__dict__["v"]

    @v.setter
    def v(self, value):
        self.__dict__["v"] = value
        self.log.append(value)


class LoggedError(ValueError):
    v = Logged.__dict__["v"]
    log = []


class LoggedList(list):
    v = Logged.__dict__["v"]
    log = []


@whole
@given(lambda: (toy.arange(2),))
def test_a_property_is_not_set_again_when_an_object_is_made(x):
    made = Logged(), LoggedError(1), LoggedList([1])
    for place, one in enumerate(made):
        one.v = place
    return x + made[0].v, made, [one.log for one in made]


@given(lambda: (lambda o: (toy.arange(2), o, vars(o)))(holder()))
def test_reached_as_a_dict_first(x, o, attributes):
    attributes["a"] = 10
    o.b = attributes["a"] + 1
    return x + o.a, attributes is o.__dict__, o.__dict__, attributes


@given(lambda: (lambda o: (toy.arange(2), o, vars(o)))(holder()))
def test_reached_as_a_dict_last(x, o, attributes):
    own = o.__dict__
    own["a"] = 10
    attributes["b"] = 11
    return x + o.a, o.b, attributes is own, o.__dict__ is own, own, attributes


class AttrDict(dict):
    """A dict whose items are its attributes."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.__dict__ = self


class OfDict:
    def __init__(self, attributes):
        self.__dict__ = attributes


class OwnDict(dict):
    pass


#: An `OrderedDict` does not see that its items are written as attributes.
DICTS = {"dict": dict, "default": lambda **items: collections.defaultdict(int, items), "own": OwnDict}


def shared(kind):
    """A number, two objects that share one dict of a kind, and the dict."""
    attributes = DICTS[kind](a=1, b=2)
    return toy.arange(2), OfDict(attributes), OfDict(attributes), attributes


def own():
    """The same for a dict that is its own `__dict__`."""
    attributes = AttrDict(a=1, b=2)
    return toy.arange(2), attributes, attributes, attributes




def again():
    return [*(lambda kind=kind: shared(kind) for kind in DICTS), own]


WRITES = {
    "attribute": lambda one, d: setattr(one, "a", 5),
    "new attribute": lambda one, d: setattr(one, "c", 5),
    "deleted attribute": lambda one, d: delattr(one, "a"),
    "item": lambda one, d: d.__setitem__("a", 5),
    "new item": lambda one, d: d.__setitem__("c", 5),
    "deleted item": lambda one, d: d.__delitem__("a"),
    "update": lambda one, d: d.update(a=7, c=8),
    "by vars": lambda one, d: vars(one).update(a=9),
}


def seen_by(one, other, d):
    return [getattr(o, name, None) for o in (one, other) for name in "abc"], sorted(d.items()), len(d), sorted(vars(other).items())


@given(*again())
def test_dicts_that_are_reached_in_several_ways(x, one, other, d):
    seen = []
    for name, write in WRITES.items():
        try:
            write(one, d)
        except (AttributeError, KeyError) as error:
            seen.append(type(error))
        seen.append(seen_by(one, other, d))
    return x + len(d), seen, one.__dict__ is d


@given(*again())
def test_an_attribute_is_written_before_the_dict_is_seen(x, one, other, d):
    one.a = 5
    return x + d["a"], other.a


@given(*again())
def test_an_attribute_is_written_through_one_object_and_read_through_another(x, one, other, d):
    one.a = 5
    return x + other.a


@given(*again())
def test_an_item_is_written_and_the_attribute_read(x, one, other, d):
    before = one.a
    d["a"] = 5
    return x + one.a, before, other.a


@whole
@given(*again())
def test_dicts_reached_in_several_ways_that_are_only_read(x, one, other, d):
    return x + one.a + d["b"], other.b, len(d), "c" in d
