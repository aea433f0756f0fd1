"""What 3.12 added."""


type Alias = list[int]


class Box[T]:
    def __init__(self, item: T):
        self.item = item


def first[T](items: list[T]) -> T:
    return items[0]


def generic_class(x):
    return x + Box(3).item, Box[int](4).item


def generic_function(x):
    return x + first([1, 2])


def alias_value(x):
    return x + 1, Alias.__name__


def batches(x):
    import itertools

    return x + 1, list(itertools.batched("abcde", 2))


def nested_quotes(x):
    d = {"a": 1}
    return x + 1, f"{d["a"]} {f"{1 + 1}"}"


def override(x):
    from typing import override

    return x + 1, override(len) is len


def generic_function_in_the_function(x):
    def last[T](items: list[T]) -> T:
        return items[-1]

    return x + last([1, 2]), last.__type_params__[0].__name__


def generic_class_in_the_function(x):
    class Pair[T]:
        def __init__(self, item: T):
            self.item = item

    return x + Pair(3).item


def alias_in_the_function(x):
    type Names = list[str]
    return x + 1, Names.__name__


def generic_forms_in_the_function(x):
    def pick[T: (int, str), *Ts, **P](items: dict[str, T]) -> T:
        return items["a"]

    class Node[K: str, V](Box):
        def get(self, key: K) -> V:
            return self.item

    type Pairs[K] = list[tuple[K, int]]
    names = [p.__name__ for p in pick.__type_params__]
    return x + Node(4).get("a"), pick({"a": 2}), names, Pairs.__type_params__[0].__name__, Node.__name__


def generic_things_returned(x):
    def last[T](items: list[T]) -> T:
        return items[-1]

    class Pair[T]:
        item: T

    type Names[T] = list[T]
    T = last.__type_params__[0]
    return x + 1, last.__annotations__["return"] is T, last, last.__annotations__, Pair, Names
