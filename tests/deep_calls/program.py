"""Runs one of the functions below translated: its name, a number, the thread's stack in bytes (0: the main thread), and the recursion
limit (0: CPython's own). Prints what it gives, or which error it raises, and the reasons for which frames were left to CPython."""

import sys
import threading

import toy
import tracer


def plain(n):
    return 0 if n == 0 else 1 + plain(n - 1)


def by_map(n):
    return 0 if n == 0 else 1 + sum(map(by_map, [n - 1]))


class Number:
    def __init__(self, n):
        self.n = n

    def __add__(self, other):
        return other if self.n == 0 else Number(self.n - 1) + other + 1


def by_operator(n):
    return Number(n) + 0


def by_key(n):
    return 0 if n == 0 else 1 + max([n - 1], key=by_key)


def by_generator(n):
    def numbers(n):
        if n:
            yield 1
            yield from numbers(n - 1)

    return sum(numbers(n))


def endless(n):
    return endless(n + 1)


def nested_list(n):
    made = []
    for _ in range(n):
        made = [made]
    return depth(made)


class Node:
    def __init__(self, behind):
        self.behind = behind


def nested_objects(n):
    made = None
    for _ in range(n):
        made = Node(made)
    return depth(made)


def depth(made):
    levels = 0
    while made:
        made = made[0] if isinstance(made, list) else made.behind
        levels += 1
    return levels


def translated_deep_down(n):
    """Is not translated itself. The function that it calls in the end is."""
    return small(7) if n == 0 else translated_deep_down(n - 1)


def small(x):
    return x + 1


NATIVE = (translated_deep_down, depth)


def codes(holder):
    for value in list(vars(holder).values()):
        if isinstance(value, type) and value.__module__ == __name__:
            yield from codes(value)
        elif hasattr(value, "__code__") and value not in NATIVE:
            yield value.__code__


def main(name, n, stack, limit):
    function = globals()[name]
    for code in codes(sys.modules[__name__]):
        tracer.mark(code)
    tracer.always_compile(True)
    sys.setrecursionlimit(limit or sys.getrecursionlimit())

    def run():
        try:
            print("gives", tracer.run(function, n))
        except RecursionError:
            print("raises RecursionError")
        for reason in sorted({reason.split(":")[0] for reason in toy.stats()["fallbacks"]}):
            print("left:", reason)
        print("translations:", toy.stats()["translations"])

    if not stack:
        return run()
    threading.stack_size(stack)
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()


main(sys.argv[1], *map(int, sys.argv[2:]))
