"""Graph breaks in functions that were followed: all levels are gone on with together.

A case marked `@two` becomes two graphs around one break.
"""

import contextlib
import functools
import types

import toy
from cases import given, two


def one():
    return (toy.arange(2),)


def leaf(x):
    y = x + 1
    toy.save(y)
    return y * 2


def level2(x):
    return leaf(x * 3) - 1


def level3(x):
    y = x + 2
    return [y, level2(y)][1] + y


def level4(x, scale=2, *, bias=1):
    return level3(x) * scale + bias


def level5(*args, **kwargs):
    return level4(*args, **kwargs)


@two
@given(one)
def test_one_call_deep(x):
    y = leaf(x - 1)
    return y + x


@two
@given(one)
def test_two_calls_deep(x):
    y = x - 1
    return y + level2(y) * y


@two
@given(one)
def test_five_calls_deep(x):
    return level5(x, scale=3) + x


class Block:
    def __init__(self, weight, inner=None):
        self.weight = weight
        self.inner = inner
        self.calls = 0

    def __call__(self, x):
        return self.forward(x)

    def forward(self, x):
        self.calls += 1
        y = x * self.weight
        y = self.inner(y) if self.inner is not None else leaf(y)
        self.calls += 1
        return y + self.calls


class Derived(Block):
    def forward(self, x):
        y = super().forward(x + 1)
        return y * 2

    @classmethod
    def of(cls, x):
        return leaf(x) + len(cls.__name__)

    @staticmethod
    def plain(x):
        return leaf(x) + 1


@two
@given(lambda: (toy.arange(2), Derived(2, Block(3, Derived(4)))), hit=False)
def test_methods(x, block):
    y = block(x)
    return y + 1, block.calls


@given(one)
def test_class_and_static_methods(x):
    return Derived.of(x) + Derived.plain(x)


@two
@given(lambda: (toy.arange(2), functools.partial(level4, scale=5)))
def test_partial(x, function):
    return function(x) + 1


def wrapped(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs) + 1

    return wrapper


@wrapped
@wrapped
def decorated(x, y=1):
    return leaf(x) + y


@two
@given(one)
def test_decorators(x):
    return decorated(x, y=3) * 2


@two
@given(one)
def test_closure(x):
    total = x + 1

    def inner(y):
        nonlocal total
        total = total + y
        z = leaf(total)
        total = total * 2
        return z

    z = inner(x)
    total = total + 1
    return z, total, inner


@two
@given(one)
def test_closure_of_the_callee(x):
    def outer(y):
        count = 1

        def bump():
            nonlocal count
            count += 1
            return count

        bump()
        z = leaf(y)
        return z + bump(), bump

    z, bump = outer(x)
    return z + bump(), bump


@two
@given(one)
def test_closure_that_calls_itself(x):
    def outer(y):
        def down(z, n):
            return leaf(z) if n == 0 else down(z + 1, n - 1)

        return down(y, 2) + 1, down

    return outer(x)[0]


def descend(x, n):
    if n == 0:
        return leaf(x)
    return descend(x + n, n - 1) * 2


@two
@given(one)
def test_recursion(x):
    return descend(x, 4)


def descend_and_save(x, n):
    toy.save(x)
    if n == 0:
        return x
    y = descend_and_save(x + n, n - 1) * 2
    toy.save(y)
    return y


@given(one)
def test_recursion_with_breaks_at_each_level(x):
    return descend_and_save(x + 1, 4)


@given(one)
def test_deep_recursion(x):
    return descend(x, 60)


@given(one)
def test_deep_recursion_with_breaks(x):
    return descend_and_save(x, 40)


@given(one)
def test_loop_around_a_call_that_breaks(x):
    for i in range(5):
        x = level2(x + i)
    return x


def looping(x, items):
    total = x
    for i, item in enumerate(items):
        if item is None:
            continue
        toy.save(total)
        total = total + item + i
    else:
        total = total + 100
    return total


@given(lambda: (toy.arange(2), [1, None, 3, 4]))
def test_loop_in_the_callee(x, items):
    y = looping(x, items)
    return y + looping(y, items)


def consume(iterator, x):
    for item in iterator:
        x = x + item
    return x


@given(lambda: (toy.arange(2), map(int, "123")), hit=False)
def test_iterator_in_the_callee(x, iterator):
    return consume(iterator, x + 1) * 2


def branching(x):
    y = x + 1
    if y.sum() > 2:
        return y * 2
    return y - 1


@given(lambda: (toy.arange(2),), lambda: (toy.zeros((2,)),))
def test_branch_in_the_callee(x):
    return branching(x) + 3


def logic(x):
    return (x.sum() > 2 or x + 5), (x.sum() > 2 and x + 6), not x.sum() > 2, (1 if x.max() > 1 else 2)


@given(lambda: (toy.arange(2),), lambda: (toy.arange(5),))
def test_values_of_branches_in_the_callee(x):
    return logic(x + 1), x


def looping_on_a_tensor(x):
    while x.sum() < 20:
        x = x * 2 + 1
    return x


@given(one)
def test_while_on_a_tensor_in_the_callee(x):
    return looping_on_a_tensor(x + 1) + 1


def unpacking(x):
    a, b = x
    first, *rest = x
    return a, b, rest


@given(one)
def test_unpacking_a_tensor_in_the_callee(x):
    return unpacking(x + 1), x


def fails_natively(x, kind):
    y = x + 1
    toy.save(kind)
    return y


def passes_on(x, kind):
    return fails_natively(x, kind) + 1


def catches(x, kind):
    try:
        return passes_on(x, kind)
    except AttributeError as error:
        return x + len(error.args)


def catches_below(x, kind):
    y = x * 2
    try:
        toy.save(kind)
    except AttributeError:
        y = y + 1
    return y


def catches_something_else(x, kind):
    try:
        return passes_on(x, kind)
    except KeyError:
        return None


def cleans_up(x, kind, log):
    try:
        return passes_on(x, kind)
    finally:
        log.append("cleaned")


@given(lambda: (toy.arange(2), 3))
def test_exception_through_levels(x, kind):
    return passes_on(x, kind)


@given(lambda: (toy.arange(2), 3))
def test_exception_caught_in_the_middle(x, kind):
    return catches(x, kind) * 2


@given(lambda: (toy.arange(2), 3), lambda: (toy.arange(2), toy.ones((2,))))
def test_exception_caught_where_it_is_raised(x, kind):
    return catches_below(x, kind) * 2


@given(lambda: (toy.arange(2), 3))
def test_exception_caught_outside(x, kind):
    try:
        return passes_on(x, kind)
    except AttributeError as error:
        return x + len(error.args)


@given(lambda: (toy.arange(2), 3))
def test_exception_not_caught_on_the_way(x, kind):
    return catches_something_else(x, kind)


@given(lambda: (toy.arange(2), 3, []), lambda: (toy.arange(2), toy.ones((1,)), []))
def test_exception_through_finally(x, kind, log):
    try:
        y = cleans_up(x, kind, log)
    except AttributeError:
        y = x + len(log)
    return y


def raises_later(x):
    y = leaf(x)
    raise ValueError("later")


def passes_on_later(x):
    return raises_later(x) + 1


@given(one)
def test_exception_behind_the_break(x):
    return passes_on_later(x + 1)


@given(one)
def test_exception_behind_the_break_caught(x):
    try:
        return passes_on_later(x + 1)
    except ValueError as error:
        return x + 1, str(error)


class Manager:
    def __init__(self, swallows=False):
        self.log = []
        self.swallows = swallows

    def __enter__(self):
        self.log.append("enter")
        return self

    def __exit__(self, kind, error, traceback):
        self.log.append(kind.__name__ if kind else None)
        return self.swallows


@two
@given(lambda: (toy.arange(2), Manager()), hit=False)
def test_with_around_the_call(x, manager):
    with manager as m:
        y = level2(x) + len(m.log)
    return y * 2


@given(lambda: (toy.arange(2), Manager(True)), hit=False)
def test_with_around_a_call_that_raises(x, manager):
    y = x
    with manager:
        y = passes_on(x, 3)
    return y * 2


@two
@given(one)
def test_try_around_the_call(x):
    try:
        y = level2(x)
    except ValueError:
        y = x
    finally:
        x = x + 1
    return y * x


def in_handler(x):
    try:
        raise KeyError("k")
    except KeyError:
        return leaf(x)


@given(one)
def test_break_under_a_handler(x):
    return in_handler(x + 1) + 1


def numbers(x):
    for i in range(3):
        y = leaf(x + i)
        yield y


@given(one)
def test_break_in_a_generator(x):
    return sum(numbers(x), x)


class Pair:
    def __init__(self, x):
        self.first = leaf(x)
        self.second = x

    @property
    def total(self):
        return leaf(self.first) + self.second

    def __add__(self, other):
        return leaf(self.first) + other


@given(one)
def test_break_where_the_result_is_another(x):
    pair = Pair(x + 1)
    return pair.total + (pair + x)


@given(one)
def test_break_in_a_comprehension_of_the_callee(x):
    def each(x):
        return [leaf(x + i) for i in range(3)]

    return each(x)


def capturing(x):
    functions = [lambda: i + leaf(x) for i in range(2)]
    return functions[0]() + 1


@given(one)
def test_comprehension_that_makes_cells(x):
    return capturing(x) + 1


def reads_names(x):
    y = x + 1
    names = sorted(locals())
    return y, names, __name__


@given(one)
def test_locals_of_the_callee(x):
    return reads_names(x * 2)


def reads_globals(x):
    y = x + 1
    toy.save(y)
    return y * globals()["NUMBER"], eval("NUMBER + 1")


NUMBER = 3


@given(one)
def test_globals_of_the_callee(x):
    return reads_globals(x)


other = types.ModuleType("other")
vars(other).update(toy=toy, leaf=leaf, NUMBER=7)
exec(
    """
def elsewhere(x):
    y = x * NUMBER
    toy.save(y)
    return leaf(y) * globals()["NUMBER"]
""",
    vars(other),
)


@given(one)
def test_function_with_other_globals(x):
    return other.elsewhere(x) + 1


def star(x, *args, k=1, **kwargs):
    toy.save(x)
    return x + len(args) + k + len(kwargs)


@two
@given(one)
def test_stars(x):
    return star(x + 1, 2, 3, k=4, z=5) * 2


@two
@given(one)
def test_in_a_half_evaluated_call(x):
    return toy.add(x + 1, toy.add(leaf(x), x.clone().add(x)), alpha=2)


@two
@given(one)
def test_in_a_half_evaluated_method_call(x):
    return (x + 1).add(level2(x))


def rebinding(x):
    def read():
        return x

    before = x
    x = x + 1
    toy.save(x)
    return before, read()


@given(one)
def test_argument_of_the_callee_in_a_cell(x):
    return rebinding(x + 1)


@given(one)
def test_argument_in_a_cell(x):
    def read():
        return x

    before = x
    x = x + 1
    toy.save(x)
    return before, read()


def two_breaks(x):
    toy.save(x)
    y = x + 1
    toy.save(y)
    return y * 2


@given(one)
def test_two_breaks_in_the_callee(x):
    return two_breaks(x + 1) + 1


def mutates(items, x):
    items.append(x + 1)
    toy.save(x)
    items.append(x + 2)
    return items


@two
@given(lambda: (toy.arange(2), []), hit=False)
def test_writes_around_the_break(x, items):
    items.append(x)
    same = mutates(items, x)
    same.append(x * 2)
    return same is items


def raising(x, kind=ValueError):
    y = x * 2
    raise kind(y.shape[0])


def through(x, log):
    y = x + 1
    try:
        return raising(y)
    finally:
        log.append(y)


def translating(x, log):
    y = x + 1
    try:
        return raising(y, KeyError)
    except KeyError as error:
        log.append(y * 2)
        raise RuntimeError("translated") from error


def again(x, log):
    try:
        return raising(x)
    except ValueError:
        log.append(x * 3)
        raise


class Exits:
    def __init__(self, log, suppresses):
        self.log, self.suppresses = log, suppresses

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        self.log.append(kind.__name__)
        toy.save(self.log[0])
        self.log.append(self.log[0] * 2)
        return self.suppresses


def managing(x, log, suppresses):
    y = x + 1
    with Exits(log, suppresses):
        y = y * 2
        raising(y)
    return y * 3


def with_log():
    return toy.arange(2), [toy.ones([2])]


@given(with_log)
def test_a_callee_raises(x, log):
    y = x - 1
    log.append(y * 2)
    return raising(y)


@given(with_log)
def test_a_callee_raises_through_another(x, log):
    y = x - 1
    return through(y, log) + y


@given(with_log)
def test_a_callee_raises_and_the_caller_catches(x, log):
    y = x - 1
    try:
        through(y, log)
    except ValueError as error:
        y = y * (1 + error.args[0])
    return y


@given(with_log)
def test_a_callee_raises_something_else(x, log):
    y = x - 1
    return translating(y, log) + y


@given(with_log)
def test_a_callee_raises_something_else_that_is_caught(x, log):
    y = x - 1
    try:
        translating(y, log)
    except RuntimeError as error:
        log.append((str(error), error.__cause__.args))
    return y * 2


@given(with_log)
def test_a_callee_raises_again(x, log):
    y = x - 1
    return again(y, log) + y


@given(with_log)
def test_a_callee_raises_again_and_the_caller_catches(x, log):
    y = x - 1
    try:
        again(y, log)
    except ValueError as error:
        log.append(error)
    return y * 2


@given(with_log)
def test_a_callee_leaves_a_with_by_an_exception(x, log):
    y = x - 1
    return managing(y, log, True) + y


@given(with_log)
def test_a_callee_leaves_a_with_by_an_exception_that_is_caught(x, log):
    y = x - 1
    try:
        managing(y, log, False)
    except ValueError as error:
        log.append(error)
    return y * 2


@given(with_log)
def test_a_callee_leaves_a_with_by_an_exception_that_is_not_caught(x, log):
    y = x - 1
    return managing(y, log, False) + y


BLOCKS = types.SimpleNamespace(Block=Block, leaf=leaf)


@two
@given(one)
def test_class_of_callables_made_with_what_breaks(x):
    y = x - 1
    block = BLOCKS.Block(leaf(y))
    return block.weight + y, block.calls


@given(one)
def test_function_of_an_object_called_with_what_breaks(x):
    return BLOCKS.leaf(leaf(x - 1)) + 1


@contextlib.contextmanager
def never_enters():
    if not NEVER:
        raise KeyError("entering")
    yield


NEVER = []


@contextlib.contextmanager
def never_ends():
    yield
    yield


class Plain:
    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        return None


def enters_a_librarys(x, manager):
    with Plain(), manager():
        return x + 2


def catches_inside(x, manager):
    try:
        with Plain(), manager():
            return x + 2
    except (KeyError, TypeError, RuntimeError) as error:
        return x + 3, str(error), error.__traceback__ is not None


@given(lambda: (toy.arange(2), never_enters), hit=False)
def test_a_librarys_enter_raises_in_a_callee(x, manager):
    return enters_a_librarys(x - 1, manager) * 2


@given(lambda: (toy.arange(2), contextlib.contextmanager(lambda: None)), hit=False)
def test_a_librarys_enter_raises_of_itself_in_a_callee(x, manager):
    return enters_a_librarys(x - 1, manager) * 2


@given(lambda: (toy.arange(2), never_ends), hit=False)
def test_a_librarys_exit_raises_in_a_callee(x, manager):
    return enters_a_librarys(x - 1, manager) * 2


@given(lambda: (toy.arange(2), never_enters), hit=False)
def test_what_a_librarys_enter_raises_is_caught_in_the_callee(x, manager):
    return catches_inside(x - 1, manager)


@given(lambda: (toy.arange(2), never_ends), hit=False)
def test_what_a_librarys_exit_raises_is_caught_in_the_callee(x, manager):
    return catches_inside(x - 1, manager)


@given(lambda: (toy.arange(2), contextlib.contextmanager(lambda: None)), hit=False)
def test_what_a_librarys_enter_raises_of_itself_is_caught_in_the_callee(x, manager):
    return catches_inside(x - 1, manager)
