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
