"""New objects that hold themselves, by whatever way, leave the function."""

import functools
import toy
from cases import given, whole


def one():
    return (toy.arange(2),)


class Node:
    def __init__(self, value):
        self.value = value
        self.others = []


@whole
@given(one)
def test_a_list_in_itself(x):
    items = [1]
    items.append(items)
    items.append(x + 1)
    return items


@whole
@given(one)
def test_a_dict_in_itself(x):
    table = {"a": 1, 2: x + 1}
    table["own"] = table
    table["list"] = [table, 3]
    del table["a"]
    table["a"] = 4
    return table


@whole
@given(one)
def test_a_list_in_a_tuple_in_a_list(x):
    items = []
    pair = (items, x + 1)
    items.append(pair)
    items.append([pair, items])
    return pair, items


@whole
@given(one)
def test_a_tuple_first(x):
    items, table = [], {}
    pair = (table, items)
    table["pair"] = pair
    items.append((pair, table))
    return (x + 1, pair, pair[1][0][0] is pair)


@whole
@given(one)
def test_objects_that_hold_each_other(x):
    first, second = Node(x + 1), Node(2)
    first.others.append(second)
    second.others += [first, first.others]
    first.table = {"first": first, "others": second.others}
    return first.others, second


@whole
@given(one)
def test_a_function_that_calls_itself(x):
    def count(n):
        return n if n < 1 else count(n - 1) + 1

    return x + count(3), count


def is_own(function):
    cells = dict(zip(function.__code__.co_freevars, function.__closure__))
    return [cells[name].cell_contents is function for name in sorted(cells)]


@whole
@given(one)
def test_functions_that_call_each_other(x):
    def even(n):
        return True if n == 0 else odd(n - 1)

    def odd(n):
        return False if n == 0 else even(n - 1)

    functions = {"odd": odd, "all": [even, odd]}

    def ask(n):
        return functions["odd"](n), ask

    return x + 1, even(4), ask, functions


@given(one)
def test_the_functions_that_come_out_work(x):
    def even(n):
        return True if n == 0 else odd(n - 1)

    def odd(n):
        return False if n == 0 else even(n - 1)

    y = x + 1
    toy.save(y)
    return y * 2, even(4), odd(4), is_own(even), is_own(odd)


@whole
@given(one)
def test_with_attributes(x):
    def function():
        return function.own

    function.own = [function]
    function.own.append(function.own)
    return x + 1, function


@whole
@given(one, hit=False)
def test_a_cycle_is_put_into_what_is_there(x):
    items = [x + 1]
    items.append({"items": items})
    KEPT.clear()
    KEPT.append(items)
    KEPT.append(KEPT)
    return items[1]


KEPT = []


@whole
@given(one)
def test_dispatch(x):
    @functools.singledispatch
    def kind(value):
        return "any"

    @kind.register(int)
    def _(value):
        return "int", kind("a")

    return x + 1, kind(1), kind


@given(lambda: (toy.arange(2), toy.arange(3)))
def test_behind_a_break(x, y):
    items, node = [x + 1], Node(y * 2)
    items.append((items, node))
    node.others.append(items)
    toy.save(x)
    return items, node, items[1][0] is items, node.others[0] is items


class Tree(dict):
    def __getitem__(self, key):
        node = Tree(dict.__getitem__(self, key))
        self[key] = node
        node.parent = self
        return node


class Forest:
    def __init__(self, trees):
        self.trees = Tree(trees)
        self.trees.forest = self


@given(one)
def test_items_of_a_dict_that_lead_back_to_it(x):
    forest = Forest({"a": {"b": 1}})
    forest.trees["a"].forest = forest
    return x + 1, forest, list(dict.items(forest.trees))


class Row(list):
    pass


@given(one)
def test_items_of_a_list_that_lead_back_to_it(x):
    row = Row()
    row.owner = owner = Node(row)
    row.append(owner)
    return x + 1, owner
