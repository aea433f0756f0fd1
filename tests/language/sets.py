"""Sets that are gone round, whose order only CPython's table knows."""

import collections

import toy

BASE = frozenset([64, 3, 8, 0, 24])
GRAPH = {"a": ["b", "c"], "b": ["d", "e"], "c": ["e", "f"], "d": ["g"], "e": ["g", "h"], "f": ["h"], "g": [], "h": ["a"]}
OUTSIDE = set()
for _n in range(40):
    OUTSIDE.add(_n * 8)
for _n in range(5, 37):
    OUTSIDE.discard(_n * 8)


class Bag(set):
    def grown(self, item):
        self.add(item)
        return self


class Frozen(frozenset):
    pass


def operators(x):
    a, b = {0, 8, 16, 33, 1}, {16, 24, 1, 40, 7, 99}
    out = [list(one) for one in (a | b, b | a, a & b, b & a, a - b, b - a, a ^ b, b ^ a)]
    return x + 1, out, a | b, a & b, a - b, a ^ b


def operators_in_place(x):
    a = {0, 8, 16, 33, 1}
    out = []
    a |= {24, 32, 40}
    out.extend(a)
    a -= {0, 16}
    out.extend(a)
    a ^= {8, 100, 200, 300}
    out.extend(a)
    a &= set(range(50))
    out.extend(a)
    return x + 1, out, a


def with_itself(x):
    a, b, c = {1, 9, 17}, {8, 0, 16}, {8, 0, 16, 24, 32}
    a |= a
    b -= b
    c &= c
    d = {7, 15}
    d ^= d
    for s in (a, b, c, d):
        s.add(64)
        s.add(0)
    return x + 1, [list(s) for s in (a, b, c, d)], a, b, c, d, c | c, c & c, c - c, c ^ c


def methods(x):
    s = {0, 8, 16}
    out = [*s.union([24, 1], {5: 0, 13: 0, 21: 0}, (2,)), *s.intersection([16, 8, 5]), *s.intersection({8: 0, 0: 1})]
    out += [*s.difference([0], {8}), *s.difference({16: 0}), *s.symmetric_difference([8, 24, 32]), *s.copy(), *s.union()]
    s.update([32, 40], {48, 56}, {64: 0, 72: 1})
    out += s
    s.difference_update({0, 8}, [16], {32: 0})
    out += s
    s.symmetric_difference_update([56, 3, 11])
    out += s
    s.intersection_update({3, 11, 40}, [40, 3])
    out += s
    return x + 1, out, s


def added_one_by_one_and_at_once(x):
    one_by_one = set()
    for n in (16, 1, 2, 3, 20):
        one_by_one.add(n)
    return x + 1, list(one_by_one), list({16, 1, 2, 3, 20}), list({16, 1, 2, 3, *[20]}), one_by_one, {16, 1, 2, 3, 20}


def literals(x):
    out = []
    for n in {33, 17, 1, 49, 65, 2}:
        out.append(n)
    s = {33, 17, 1, 49, 65, 2}
    t = {*s, *[5, 6], 7}
    return x + 1, out, list(s), list(t), s, t


def conversions(x):
    s = {n * 8 for n in range(9)}
    s.discard(8)
    return x + 1, list(set(s)), list(frozenset(s)), list(set({n * 16: n for n in range(9)})), set(s), frozenset(s), set({n * 16: n for n in range(9)}), frozenset({n * 16: 0 for n in range(5)})


def strings(x):
    words = "the order of words is that of their hashes which are salted anew in each process".split()
    s, t = set(words), {"order", "hashes", "x", "y"}
    joined = ",".join(s - t) + ";" + ",".join(s & t) + ";" + ",".join(s | t) + ";" + ",".join(s ^ t)
    return x + len(joined), joined, repr(s | t), str(frozenset(words)), f"{s & t}"


def unpacking(x):
    first, *rest = {8, 0, 16} | {24, 5}
    a, b = {9, 1} - {0}
    return x + 1, first, rest, a, b, [*{3, 11} ^ {3, 19}], max({1, 9} | {17}), min({1, 9} - {1}), sum({1, 9} | {17})


def pops(x):
    s = {0, 8, 16, 24, 5}
    out = [s.pop(), s.pop()]
    s.add(8)
    s.add(32)
    out.append(s.pop())
    out += s
    while s:
        out.append(s.pop())
    s.add(8)
    s.add(0)
    return x + 1, out, list(s), s


def removed_and_added_again(x):
    s = set()
    for n in range(12):
        s.add(n * 8)
    for n in range(0, 12, 2):
        s.remove(n * 8)
    s.add(8 * 100)
    s.add(0)
    before = list(s)
    s.clear()
    s.add(16)
    s.add(0)
    return x + 1, before, list(s), s


def search_in_width(x):
    seen, frontier, order = set(), {"a"}, []
    while frontier:
        seen |= frontier
        order.append(sorted(frontier))
        frontier = {m for n in frontier for m in GRAPH[n]} - seen
    for name in seen:
        x = x + len(GRAPH[name])
    return x, order, seen


def search_by_pop(x):
    todo, done = {"a"}, []
    while todo:
        name = todo.pop()
        done.append(name)
        todo.update(m for m in GRAPH[name] if m not in done)
        x = x * 1.5 + len(todo)
    return x, done


def changed_while_gone_round_a_copy(x):
    s = {1, 9, 17, 25}
    for n in s.copy():
        if n > 9:
            s.discard(n)
            s.add(n - 1)
    for n in list(s):
        x = x + n
    return x, s


def views(x):
    d, e = {8: 1, 0: 2, 16: 3}, {16: 3, 24: 1, 8: 7}
    out = [*(d.keys() | e.keys()), *(d.keys() & e), *(d.keys() - e.keys()), *(d.keys() ^ [24, 0]), *(d.items() & e.items())]
    s = {16, 40, 8}
    s |= d.keys()
    return x + 1, out, [*(s - d.keys())], [*(s & d.keys())], [*(d.keys() ^ s)], d.items() | e.items(), d.keys() ^ e.keys()


def with_sets_from_outside(x):
    out = [*(OUTSIDE | {1, 9}), *({8, 16, 3} & OUTSIDE), *(OUTSIDE - {0}), *(BASE ^ OUTSIDE), *OUTSIDE.copy(), *(BASE | {1})]
    return x + 1, out, OUTSIDE | BASE, OUTSIDE - BASE


def copies_of_a_set_from_outside(x):
    s = OUTSIDE.copy()
    s.add(3)
    s.discard(0)
    return x + 1, list(s), list(set(OUTSIDE)), s


def subclasses(x):
    b = Bag([8, 0, 16])
    b.grown(24).grown(5)
    out = list(b | {32})
    b -= {0}
    return x + 1, out, list(b), b, list(Frozen([16, 8, 0]) | b), Frozen([24, 8, 0])


def elements_of_all_kinds(x):
    s = {None, 1.5, (1, 2), "a", b"a", frozenset([3, 11]), True, ...} | {(), 2j, range(3)}
    return x + 1, [repr(one) for one in s], len(s)


def classes_and_functions(x):
    s = {int, str, len, toy.arange} | {dict, list}
    return x + 1, [one.__name__ for one in s - {len}]


def equal_ones_of_two_types(x):
    s = {1, 2.0, 9}
    s |= {1.0, 2, True, 10}
    return x + 1, [repr(n) for n in s], [repr(n) for n in {1.0, 3} | s], [repr(n) for n in {1.0, 3} & s]


def sorted_by_a_key(x):
    s = {"bb", "aa", "cc", "d", "ee"} | {"ff"}
    return x + 1, sorted(s, key=len), sorted(s, key=len, reverse=True), sorted(s), max(s, key=len), min(s, key=len)


def counted_and_grouped(x):
    seen, twice = set(), set()
    for n in [3, 11, 3, 19, 11, 3]:
        (twice if n in seen else seen).add(n)
    d = collections.defaultdict(set)
    for n in seen | {8, 16}:
        d[n % 3].add(n)
    return x + 1, list(twice), {k: list(v) for k, v in d.items()}, dict(d)


def of_generators(x):
    s = set(n * n % 32 for n in range(9))
    t = frozenset(map(lambda n: n * 8, s))
    return x + 1, list(s), list(t), s, t, [n for n, m in zip(s, t)], list(enumerate(s - {0})), dict.fromkeys(s | t)


def many(x):
    s = set()
    for n in range(300):
        s.add(n * 37 % 1024)
    t = {n for n in s if n % 3}
    return x + 1, list(s), list(s - t), t, s ^ t


def visited_and_left(x):
    OUTSIDE.add("here")
    x = x + len(OUTSIDE)
    OUTSIDE.discard("here")
    return x, "here" in OUTSIDE
