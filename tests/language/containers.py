"""Lists, tuples, dicts, sets and the containers of collections."""

import collections
import inspect
import types


class Stack(list):
    def push(self, item):
        self.append(item)

    def top(self):
        return self[-1]


class Registry(dict):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.name = "registry"

    def __missing__(self, key):
        return len(key)


class Output(collections.OrderedDict):
    """Its items are its attributes, too."""

    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        super().__setattr__(key, value)


class AttrDict(dict):
    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name)

    def __setattr__(self, name, value):
        self[name] = value


class Bag(set):
    def total(self):
        return sum(self)


class Pair(tuple):
    @property
    def left(self):
        return self[0]


class Point(collections.namedtuple("Point", "x y")):
    def norm(self):
        return self.x + self.y


class Text(str):
    def shout(self):
        return self.upper() + "!"


class Number(int):
    def double(self):
        return self * 2


Named = collections.namedtuple("Named", ["a", "b"], defaults=[5])


def list_methods(x):
    a = [3, 1]
    a.append(2)
    a.extend((5, 4))
    a.insert(0, 9)
    a.sort()
    a.reverse()
    last = a.pop()
    a.remove(5)
    return x + a.index(9), a, last, a.count(3), a.copy() == a


def list_slices(x):
    a = list(range(6))
    a[1:3] = [10, 11, 12]
    del a[::2]
    a[:0] = "ab"
    return x + len(a), a, a[-1], a[::-1]


def list_operators(x):
    a = [1, 2]
    return x + 1, a + [3], a * 2, 2 * a, [1, 2] == a, a < [1, 3], 2 in a, 5 not in a


def list_of_tensors(x):
    parts = [x, x + 1]
    parts.append(parts[0] * 2)
    return parts[-1] + parts[1]


def tuple_methods(x):
    t = (1, 2, 1)
    return x + t.count(1), t.index(2), t + (3,), t * 2, t[1:], hash(t) == hash((1, 2, 1)), (1, 2) < (1, 3)


def dict_methods(x):
    d = {"a": 1}
    d["b"] = 2
    d.update(c=3)
    d.setdefault("d", []).append(4)
    popped = d.pop("a")
    return x + popped, d, d.get("zz"), d.get("b", 0), list(d.keys()), list(d.values()), list(d.items()), "b" in d, d.popitem()


def dict_views(x):
    d = {"a": 1, "b": 2}
    keys, items = d.keys(), d.items()
    d["c"] = 3
    return x + len(keys), list(keys), ("c", 3) in items, keys & {"a"}, sorted(keys | {"z"}), keys == {"a", "b", "c"}


def dict_iteration(x):
    d = {"a": x, "b": x * 2}
    total = 0
    for k, v in d.items():
        total = total + v
    return total


def dict_merging(x):
    return x + 1, {**{"a": 1}, **{"a": 2}}, dict({"a": 1}, b=2), dict.fromkeys("ab", 0), dict(zip("ab", [1, 2]))


def dict_missing_key(x):
    try:
        return {}["a"]
    except KeyError as e:
        return x + 1, e.args


def dict_comparison(x):
    return x + 1, {"a": 1} == {"a": 1.0}, {"a": 1} != {"b": 1}, {1: 2} == [1]


def dict_with_odd_keys(x):
    d = {(1, 2): "t", None: "n", 1.5: "f", True: "b", b"x": "y", frozenset([1]): "s"}
    return x + 1, d[1, 2], d[None], d[1], d[b"x"], d[frozenset([1])]


def set_methods(x):
    s = {1, 2}
    s.add(3)
    s.discard(9)
    s.remove(1)
    s |= {7}
    return x + len(s), sorted(s), s & {2}, sorted(s | {0}), s - {2, 3, 7}, s ^ {2, 3, 7}, s >= {2}, s.isdisjoint({8})


def frozensets(x):
    f = frozenset([1, 2])
    return x + len(f), 1 in f, f | {3} == {1, 2, 3}, hash(f) == hash(frozenset([2, 1])), f.union([5]) - f == {5}


def namedtuples(x):
    n = Named(1)
    m = n._replace(a=x)
    return m.a + n.b, n._fields, n._asdict(), n == (1, 5), tuple(n), n[0], Named._make([3, 4]).b


def namedtuple_unpacked(x):
    a, b = Named(x, 2)
    return a * b


def namedtuple_subclass(x):
    p = Point(1, y=2)
    return x + p.norm(), p, p._replace(x=5).norm(), repr(p), isinstance(p, tuple)


def namedtuple_returned(x):
    return Named(x + 1, b=[Named(1)])


def deques(x):
    d = collections.deque([1, 2, 3], maxlen=4)
    d.append(4)
    d.append(5)
    d.appendleft(0)
    return x + d[0], list(d), d.popleft(), d.pop(), len(d), d.maxlen, 2 in d


def deque_methods(x):
    d = collections.deque("abc")
    d.rotate(1)
    d.extend("de")
    d.extendleft("yz")
    d.remove("a")
    d.reverse()
    return x + d.count("b"), list(d), d.index("b"), d[1], bool(d), [v for v in d]


def deque_returned(x):
    return collections.deque([x + 1, 2], maxlen=3)


def deque_of_tensors(x):
    window = collections.deque(maxlen=2)
    for i in range(3):
        window.append(x * i)
    return window[0] + window[1]


def defaultdicts(x):
    d = collections.defaultdict(list)
    d["a"].append(1)
    d["b"]
    return x + len(d), dict(d), d.get("zz"), "zz" in d, d == {"a": [1], "b": []}


def defaultdict_with_a_lambda(x):
    d = collections.defaultdict(lambda: x)
    return d["k"] + 1


def defaultdict_counts(x):
    d = collections.defaultdict(int)
    for c in "hello":
        d[c] += 1
    return x + d["l"], d


def ordered_dicts(x):
    d = collections.OrderedDict([("a", 1), ("b", 2)])
    d.move_to_end("a")
    d["c"] = 3
    return x + 1, list(d), d.popitem(last=False), list(d.items()), d == {"a": 1, "c": 3}


def ordered_dict_that_writes_items_in_its_own_way(x):
    output = Output()
    output["a"], output["b"] = x + 1, 2
    output.move_to_end("a")
    return output, output.a, list(output)


def counters(x):
    c = collections.Counter("hello")
    c.update("lo")
    c["z"] += 2
    return x + c["l"], c.most_common(1), c["none"], sorted(c.elements())[0], sum(c.values())


def counter_operators(x):
    a, b = collections.Counter("aab"), collections.Counter("ab")
    return x + 1, a - b, a + b, a & b, a | b


def chain_maps(x):
    m = collections.ChainMap({"a": 1}, {"a": 2, "b": 3})
    return x + m["a"] + m["b"], len(m), "b" in m


def list_subclass(x):
    s = Stack([1])
    s.push(5)
    s += [6]
    return x + s.top(), len(s), list(s), isinstance(s, list), s[0], 5 in s, [v for v in s]


def list_subclass_returned(x):
    s = Stack([x + 1])
    s.note = "n"
    return s


def dict_subclass(x):
    r = Registry(a=1)
    r["b"] = 2
    return x + r["a"] + r["abc"], r.name, len(r), dict(r), "b" in r, r.get("zz"), list(r.items())


def dict_subclass_returned(x):
    r = Registry({"t": x + 1})
    return r


def attribute_dict(x):
    d = AttrDict(a=1)
    d.b = x
    return d.b + d.a, hasattr(d, "c"), dict(a=d["a"])


def set_subclass(x):
    b = Bag([1, 2])
    b.add(3)
    return x + b.total(), len(b), 2 in b


def tuple_subclass(x):
    p = Pair((x, 2))
    return p.left + p[1], len(p), isinstance(p, tuple)


def str_subclass(x):
    t = Text("hi")
    return x + len(t), t.shout(), t == "hi", isinstance(t, str), t.upper()


def int_subclass(x):
    n = Number(4)
    return x + n, n.double(), n + 1, n == 4, isinstance(n, int)


def nested_containers(x):
    d = {"a": [x, {"b": (x + 1,)}]}
    return d["a"][1]["b"][0] + d["a"][0]


def container_identity(x):
    a = [1]
    b = {"a": a, "l": [a, a]}
    b["l"][0].append(2)
    return x + len(a), b, b["l"][0] is b["l"][1]


def self_containing_list(x):
    a = [1]
    a.append(a)
    return x + len(a), a[1] is a


def heaps(x):
    import heapq

    h = [5, 1, 4]
    heapq.heapify(h)
    heapq.heappush(h, 0)
    return x + heapq.heappop(h), heapq.nsmallest(2, [3, 1, 2]), heapq.nlargest(1, [3, 1, 2]), h[0]


def bisection(x):
    import bisect

    a = [1, 3, 5]
    bisect.insort(a, 4)
    return x + bisect.bisect_left(a, 3), a


def arrays_of_bytes(x):
    b = bytearray(b"abc")
    return x + len(b), bytes(b), b[0]


def mapping_proxy(x):
    import types

    m = types.MappingProxyType({"a": 1})
    return x + m["a"], dict(m), "a" in m


SIGNATURE = inspect.signature(lambda a, b=2, *c: None)
PROXIES = [types.MappingProxyType(collections.OrderedDict([("b", 2), ("a", 1)]))]


def mapping_proxies_of_ordered_dicts(x):
    m = PROXIES[0]
    return x + m["a"], list(m), [*m.values()], [*m.items()], m.get("c", 3), "b" in m, len(m)


def parameters_of_a_signature(x):
    parameters = SIGNATURE.parameters
    return x + len(parameters), [name for name, p in parameters.items() if p.default is p.empty], "b" in parameters


def struct_sequence(x):
    import time

    t = time.struct_time(range(9))
    return x + t.tm_year, t[1], len(t)


def user_dict(x):
    d = collections.UserDict(a=1)
    d["b"] = 2
    return x + d["a"] + len(d)


class Frozen(collections.OrderedDict):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        for key, value in self.items():
            setattr(self, key, value)
        self.__frozen = True

    def __setitem__(self, name, value):
        if hasattr(self, "_Frozen__frozen"):
            raise KeyError(name)
        super().__setitem__(name, (name, value))


def an_ordered_dict_with_its_own_set_item(x):
    known = {"a": x + 1, "b": 2}
    frozen = Frozen(known, c=3)
    refused = []
    for change in (lambda: frozen.update({"d": 4}), lambda: frozen.update(d=4), lambda: frozen.__setitem__("d", 4)):
        try:
            change()
        except KeyError as error:
            refused.append(error.args)
    frozen.update()
    return list(frozen.items()), frozen.a[1] * 2, frozen.c, refused, Frozen(), list(known)
