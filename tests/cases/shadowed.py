"""A module has globals named like builtins, which the functions of another module mean."""

import toy
from cases import given, two


def len(items):
    return 100


def one():
    return (toy.arange(2),)


OTHER = {"toy": toy, "__name__": "other"}
exec(
    """
def kept(t, items):
    toy.save(t)
    return items

def measure(t, items):
    return len(kept(t, items))

def measure_behind(t, items):
    toy.save(t)
    return len(items)
""",
    OTHER,
)
measure, measure_behind = OTHER["measure"], OTHER["measure_behind"]


@two
@given(one)
def test_builtin_on_the_stack_of_another_module(x):
    y = x + 1
    n = measure(y, [1, 2])
    return y * n, n


@two
@given(one)
def test_builtin_of_another_module_behind_a_break(x):
    y = x + 1
    n = measure_behind(y, [1, 2]) + len([])
    return y * n, n
