"""Lists, tuples, dicts, sets, strings, slices."""

import collections
import sys
import time

import toy
from cases import given, whole


def one():
    return (toy.arange(2, 2),)


@whole
@given(one)
def test_list_returned(x):
    out = [x, 1]
    out.append(x + 1)
    out.extend([2, 3])
    out.insert(0, "first")
    out += (4,)
    out[1] = x * 2
    return out, out.pop(), [1, 2].index(2), [3].count(3), len(out)


@whole
@given(one)
def test_list_methods(x):
    a = [3, 1, 2]
    b = a.copy()
    b.sort()
    c = a[::-1]
    a.reverse()
    a.remove(1)
    del a[0]
    d = [1, 2] * 2 + [5]
    d[1:3] = [7, 8, 9]
    return x + 1, a, b, c, d, 3 in a, a is b, a == [3]


@whole
@given(one)
def test_aliases(x):
    a = [x + 1]
    b = (a, a)
    c = {"a": a, "b": b}
    a.append(2)
    return a, b, c, b[0] is a


@whole
@given(one)
def test_nested_list_changed(x):
    grid = [[0, 0], [0, 0]]
    grid[1][0] = x + 1
    grid[0].append(5)
    return grid


@given(one)
def test_list_containing_itself(x):
    a = [x + 1]
    a.append(a)
    return a


@whole
@given(one)
def test_tuples(x):
    t = (1, x * 2, "a")
    return t[0], t[-1], t[1:], t + (5,), (1, 2) * 2, len(t), 1 in (1, 2), (1, 2) < (1, 3), (1, 2).index(2), t


@whole
@given(one)
def test_tuple_identity(x):
    t = (x + 1, 2)
    return t, t


@whole
@given(lambda: (toy.arange(2), (1, [2])))
def test_tuple_argument_returned(x, t):
    t[1].append(3)
    return x + t[0], t, t[1]


@whole
@given(one)
def test_dict_built(x):
    d = {"a": x + 1, 2: "two", (1, 2): 3, None: 4, 2.5: 5}
    d["b"] = x * 2
    d.update({"c": 1}, e=2)
    d.setdefault("a", 0)
    d.setdefault("f", []).append(1)
    return d, d.get("a"), d.get("zz"), d.get("zz", 7), d.pop("c"), len(d), "b" in d, list(d), 2 in d


@whole
@given(one)
def test_dict_methods(x):
    d = dict(a=1, b=2)
    e = dict([("x", x + 1), ("y", 2)])
    f = {**d, **e, "a": 9}
    del d["a"]
    g = f.copy()
    g.pop("x")
    last = g.popitem()
    f.clear()
    return d, e, f, g, last, dict.fromkeys("ab", 0), sorted(e)


@given(one)
def test_missing_key(x):
    y = x + 1
    d = {"a": 1}
    return y, d["b"]


@given(one)
def test_index_out_of_range(x):
    y = [x + 1]
    return y[3]


@given(one)
def test_unhashable_key(x):
    y = x + 1
    return {[1]: y}


@given(one)
def test_pop_from_an_empty_list(x):
    y = x + 1
    return y, [].pop()


@given(one)
def test_list_index_of_a_missing_item(x):
    y = x + 1
    return y, [1, 2].index(3)


@given(one)
def test_list_remove_of_a_missing_item(x):
    y = x + 1
    return y, [1, 2].remove(3)


@given(one)
def test_tuple_assignment(x):
    y = (x + 1,)
    y[0] = 2
    return y


@given(one)
def test_wrong_index_type(x):
    y = [x + 1]
    return y["a"]


@whole
@given(one)
def test_sets(x):
    s = {1, 2}
    s.add(3)
    s.discard(9)
    t = s | {7}
    u = s & {1, 3}
    v = s - {1}
    w = s ^ {1, 8}
    s.update([4])
    return x + 1, s, t, u, v, w, 1 in s, len(s), frozenset([1, 2]), {1} <= s, set()


@whole
@given(lambda: (toy.arange(2), {1, 2}))
def test_set_argument(x, s):
    s.add(5)
    s.discard(1)
    return x + len(s)


@whole
@given(lambda: (toy.arange(2), {3, 1, 2}))
def test_set_in_order(x, s):
    return x + 1, sorted(s), sum(s), max(s)


@whole
@given(one)
def test_strings(x):
    s = "a,b"
    return x + 1, s.split(","), s.upper(), "-".join(["p", "q"]), s * 2, s[0], s[::-1], "a" in s, s.replace("a", "z"), len(s), s == "a,b", s < "b"


@whole
@given(lambda: (toy.arange(2), "abc"), lambda: (toy.arange(2), "xyz"))
def test_string_argument(x, s):
    return x + len(s), s.upper(), s + "!"


@whole
@given(one)
def test_bytes(x):
    b = b"ab"
    return x + b[0], b + b"c", b.decode(), "é".encode("utf-8"), bytes([1, 2]), b"a" in b


@whole
@given(one)
def test_slices(x):
    s = slice(1, None)
    items = [1, 2, 3]
    return items[s], x[0:1], x[s], x[:, 1], x[1, 0], x[-1], items[-2:], s


@whole
@given(lambda: (toy.arange(4), slice(1, 3)))
def test_slice_argument(x, s):
    return x[s] * 2


@whole
@given(lambda: (toy.arange(2), [toy.ones((2,)), toy.zeros((2,))]))
def test_tensors_in_a_list_argument(x, items):
    return x + items[0] * items[-1], toy.concat(items)


@whole
@given(lambda: (toy.arange(2), {"w": toy.ones((2,)), "deep": {"b": [toy.zeros((2,))]}}))
def test_tensors_in_nested_arguments(x, table):
    return {"out": x * table["w"] + table["deep"]["b"][0]}


def shared():
    x = toy.arange(2)
    return x, x, [x]


@whole
@given(shared)
def test_one_tensor_thrice(x, y, items):
    return x is y, x is items[0], x + y + items[0]


def same_list():
    a = [1]
    return toy.arange(2), a, a


@whole
@given(same_list)
def test_one_list_twice(x, a, b):
    a.append(2)
    return x + len(b), b, a is b


@whole
@given(same_list, lambda: (toy.arange(2), [1], [1]))
def test_one_list_twice_then_two_lists(x, a, b):
    a.append(2)
    return x + len(b), b, a is b


@whole
@given(lambda: (toy.arange(2), [3, 1, 2]))
def test_list_argument_sorted(x, items):
    items.sort(key=lambda v: -v)
    return x + items[0]


@whole
@given(lambda: (toy.arange(2), [1, 2, 3]), lambda: (toy.arange(2), [1, 2]), lambda: (toy.arange(2), (1, 2)))
def test_length_that_changes(x, items):
    return x * len(items)


@whole
@given(lambda: (toy.arange(2), {"a": 1}), lambda: (toy.arange(2), {"a": 1, "b": 2}), lambda: (toy.arange(2), {}))
def test_key_that_may_be_missing(x, table):
    return x + 1 if "b" in table else x - len(table)


@whole
@given(lambda: (toy.arange(2), {"a": 1, "b": 2}))
def test_dict_argument_changed(x, table):
    table["c"] = x + 1
    table["a"] += 5
    del table["b"]
    return x * 2


@whole
@given(lambda: (toy.arange(2), {"a": 1, "b": 2}))
def test_dict_argument_reordered(x, table):
    first = table.pop("a")
    table["a"] = first
    return x + 1, list(table)


@whole
@given(lambda: (toy.arange(2), [1, 2, 3, 4]))
def test_list_argument_changed(x, items):
    items[0] = x + 1
    items.pop()
    del items[1]
    items.insert(0, "new")
    items.extend(items)
    return x


@whole
@given(lambda: (toy.arange(2), [[1], [2]]))
def test_nested_list_argument_changed(x, items):
    items[0].append(x * 2)
    items.append(items[1])
    return items


@whole
@given(one)
def test_constants_compared(x):
    return x + 1, 1 == 1.0, "a" != "b", None is None, 3 > 2 > 1, not [], [] or "x", 1 and 2, [1] == [1], {} == {}, (1,) != [1]


@whole
@given(one)
def test_conversions(x):
    return x + 1, int("7"), float("2.5"), str(12), bool([]), list("ab"), tuple([1]), set([1]), dict(a=1), int(2.9), complex(1, 2), abs(-3), round(2.567, 2), divmod(7, 2), hex(255), chr(65), pow(2, 5)


Point = collections.namedtuple("Point", "a b")


@given(one)
def test_namedtuple(x):
    p = Point(x + 1, b=2)
    a, b = p
    return a + b, p.a, p[1], p._replace(b=5).b, p == (1, 2), len(p), p


@given(lambda: (toy.arange(2), Point(1, [2])))
def test_namedtuple_argument(x, p):
    return x + p.a, p.b, p[1], p


@whole
@given(one)
def test_isinstance(x):
    return (
        isinstance(x, toy.Tensor), isinstance([], (list, tuple)), type(x) is toy.Tensor, isinstance(1, str),
        issubclass(bool, int), type([]) is list, type(x + 1) is toy.Tensor, x + 1,
    )


@whole
@given(one)
def test_augmented(x):
    n = 1
    n += 2
    n *= 3
    n -= 1
    n //= 3
    n **= 2
    n <<= 3
    n |= 1
    n &= 0xFF
    n ^= 2
    n %= 50
    items = [1]
    alias = items
    items += [2]
    text = "a"
    text += "b"
    x += 1
    x *= n
    return x, n, items, alias, text, alias is items


@whole
@given(one)
def test_chained_comparison_of_known(x):
    n = x.ndim
    return x + 1 if 0 < n <= 2 else x - 1


@whole
@given(lambda: (toy.arange(3), 1e308), lambda: (toy.arange(3), float("nan")), lambda: (toy.arange(3), -0.0), lambda: (toy.arange(3), 0.0))
def test_floats(x, n):
    return x + 1, n, n * 10, -n, n == n, n in [n], [n] == [n]


@whole
@given(lambda: (toy.arange(3), True), lambda: (toy.arange(3), 1), lambda: (toy.arange(3), 1.0))
def test_true_is_not_one(x, n):
    return x + 1, n, [n], {n: n}


@given(one)
def test_division_by_zero(x):
    y = x + 1
    return y, 1 // 0


@given(one)
def test_unsupported_operands(x):
    y = x + 1
    return y, 1 + "a"


@given(one)
def test_unsupported_comparison(x):
    y = x + 1
    return y, 1 < "a"


@given(one)
def test_tensor_plus_string(x):
    y = x + 1
    return y + "a"


@whole
@given(one)
def test_starred_displays(x):
    a = [1, 2]
    d = {"k": x + 1}
    return [*a, *a], (*a, 3), {*a, 5}, {**d, "m": 1}, [*range(2)], [*"ab"]


@whole
@given(one)
def test_is_of_values(x):
    a = [1]
    return x + 1, a is a, a is not [1], None is not a, x is x, (x + 1) is x


def refusal(work):
    try:
        return work()
    except TypeError as error:
        return str(error)


@given(one)
def test_named_tuples_of_c_code_made_by_force(x):
    y = x + 1
    types = [type(sys.flags), type(sys.float_info), time.struct_time]
    return y, [refusal(lambda: ty.__new__(ty)) for ty in types], [refusal(lambda: tuple.__new__(ty, (1, 2))) for ty in types]


class Named(set):
    pass


class Hashed(set):
    def __hash__(self):
        return 3


@whole
@given(lambda: (toy.arange(2), {3}))
def test_sets_looked_for_in_sets(x, given_set):
    answers = []
    for sought in ({1, 2}, set(), given_set, frozenset([1]), [1], Named([2, 1]), Hashed([1, 2])):
        for items in (set(), {z + 1 for z in []}, {frozenset()}, {frozenset([1, 2]), 3}, frozenset([frozenset([1])])):
            try:
                answers.append((sought in items, sought not in items))
            except TypeError as error:
                answers.append(str(error))
        for change in ("discard", "remove"):
            items = {frozenset([1, 2]), 3, frozenset()}
            try:
                answers.append((getattr(items, change)(sought), len(items)))
            except (TypeError, KeyError) as error:
                answers.append(error.args)
        try:
            answers.append({1: 2}.get(sought))
        except TypeError as error:
            answers.append(str(error))
    return x + 1, answers


@whole
@given(lambda: (toy.arange(2), 1.0, {3, 1}))
def test_which_of_two_equal_elements_is_common(x, n, few):
    found = [few & {n}, {n} & few, few & {n, 5, 6}, few.intersection([n, 5, 6]), frozenset(few).intersection((n,))]
    found += [{1, 2} & {n}, {1, 2} & {n, 5}, {1, 2} & {n, 5, 6}, {1, 2}.intersection([n, 5, 6]), {1, 2}.intersection({n: 0})]
    kept = set(few)
    kept &= {n, 7}
    kept.intersection_update([True, n])
    views = {1: 0}.keys() & {n, 3}, {1: 0}.keys() & [n, 3], {1: 0, 2: 0, 3: 0}.keys() & {n}
    return x + 1, found, kept, views


@whole
@given(lambda: (toy.arange(2), {1: "a", 2.0: "b"}, True))
def test_which_of_two_equal_elements_of_a_view_is_common(x, d, one):
    keys, items = d.keys(), d.items()
    others = [{1.0}, {1.0, 7}, {1.0, 7, 8}, [1.0, 7, 8], (one,), frozenset([1.0]), frozenset([1.0, 4]), frozenset([1.0, 4, 5]), {1.0: 0}]
    others += [{1.0: 0}.keys(), {1.0: 0, 4: 0}.keys(), {1.0: 0, 4: 0, 5: 0}.keys(), [], set(), frozenset(), {one: 0}.items()]
    found = [keys & other for other in others] + [other & keys for other in others]
    found += [keys | other for other in others] + [other ^ keys for other in others]
    found += [keys - other for other in others] + [other - keys for other in others]
    pairs = [{(1.0, "a")}, {(1.0, "a"), 3, 4}, [(one, "a")], frozenset([(1.0, "a"), (one, "b")]), {1.0: "a"}.items(), {1: "a", 2: "b", 3: "c"}.items()]
    found += [items & other for other in pairs] + [other & items for other in pairs]
    found += [items ^ other for other in pairs] + [other - items for other in pairs]
    return x + 1, found


class Even:
    """Equal to others of its kind."""

    def __init__(self, n):
        self.n = n

    def __eq__(self, other):
        return isinstance(other, Even)

    def __hash__(self):
        return 3

    def __repr__(self):
        return f"Even {self.n}"


@given(lambda: (toy.arange(2), Even(1), Even(2)))
def test_elements_of_a_view_that_the_program_compares(x, one, two):
    d = {one: 0}
    found = [d.keys() & {two}, {two} & d.keys(), d.keys() & [two], d.keys() & {two, 4}, d.keys() & {two, 4, 5}, d.keys() & frozenset([two])]
    return x + 1, found


@whole
@given(lambda: (toy.arange(2), Even(1)))
def test_elements_of_a_view_that_are_in_the_other(x, one):
    d = {one: 0, 4: 1}
    return x + 1, [d.keys() & {one}, {one} | d.keys(), d.keys() - {one}, d.keys() ^ {one}]


@given(
    lambda: (toy.arange(2), {(1.0, "a")}, frozenset([(0.0,)])),
    lambda: (toy.arange(2), {(True, "a")}, frozenset([(-0.0,)])),
    lambda: (toy.arange(2), {(1, "a")}, frozenset([(0,)])),
    lambda: (toy.arange(2), {(1, "a")}, frozenset([(0,)])),
)
def test_equal_elements_of_other_types(x, some, few):
    return x + 1, [str(item) for item in some], [str(item) for item in few], {(few, 1): 2}


@given(
    lambda: (toy.arange(2), {0.0: 1}, {0.0}, (frozenset([1]), 0.0)),
    lambda: (toy.arange(2), {-0.0: 1}, {-0.0}, (frozenset([1.0]), 0.0)),
    lambda: (toy.arange(2), {0: 1}, {0}, (frozenset([True]), 0.0)),
    lambda: (toy.arange(2), {False: 1}, {False}, (frozenset([True]), -0.0)),
)
def test_equal_keys_of_other_signs(x, d, some, pair):
    return x + 1, [str(key) for key in d], [str(item) for item in some], repr(pair)
