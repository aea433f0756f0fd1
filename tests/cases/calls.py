"""Calls: binding of arguments, defaults, unpacking, nesting."""

import toy
from cases import given, whole


def pair():
    return toy.arange(2, 3), toy.ones((2, 3))


@whole
@given(pair)
def test_two_operations(x, y):
    return toy.relu(x + y)


@whole
@given(pair)
def test_keyword_of_the_framework(x, y):
    return toy.add(x, y, alpha=3)


def scale(x, factor=2.0, *, shift=1.0):
    return x * factor + shift


@whole
@given(lambda: (toy.arange(2),))
def test_default_arguments(x):
    return scale(x), scale(x, 3.0), scale(x, shift=4.0), scale(factor=5.0, x=x)


def gather(first, *rest, **named):
    return first, rest, named


@whole
@given(pair)
def test_star_arguments(x, y):
    return gather(x + 1, y, 3, key=x * 2, other=None)


@whole
@given(pair)
def test_unpacked_arguments(x, y):
    args = [x + 1, y]
    named = {"a": x * 2, "b": 4}
    return gather(*args, 7, *(8, 9), **named, c=5)


@whole
@given(lambda: (toy.arange(2), (1, 2), {"k": 3}))
def test_given_arguments_unpacked(x, args, kwargs):
    return gather(x * 2, *args, **kwargs)


@whole
@given(pair)
def test_nested_calls(x, y):
    def inner(a, b):
        def innermost(c):
            return c * 2

        return innermost(a) + b

    return inner(inner(x, y), y)


@whole
@given(lambda: (toy.arange(3),))
def test_lambda(x):
    double = lambda v, times=2: v * times  # noqa: E731
    return double(x), double(x, 3)


@whole
@given(lambda: (toy.arange(3), 4))
def test_recursion(x, n):
    def power(v, k):
        return v if k == 0 else power(v * 2, k - 1)

    return power(x, n)


@given(lambda: (toy.arange(3),))
def test_missing_argument(x):
    y = x + 1
    return scale(), y


@given(lambda: (toy.arange(3),))
def test_unexpected_keyword(x):
    y = x + 1
    return scale(y, wrong=1)


@given(lambda: (toy.arange(3),))
def test_too_many_arguments(x):
    return scale(x + 1, 2, 3)


@given(lambda: (toy.arange(3),))
def test_argument_given_twice(x):
    return scale(x + 1, x=2)


@given(lambda: (toy.arange(3),))
def test_call_of_a_number(x):
    n = 5
    return n(x + 1)


@whole
@given(lambda: (toy.arange(3), max), lambda: (toy.arange(3), min))
def test_callable_argument(x, choose):
    return x * choose(2, 3)


def twice(function):
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs) * 2

    return wrapper


@twice
def decorated(x, y=1):
    return x + y


@whole
@given(lambda: (toy.arange(3),))
def test_decorator(x):
    return decorated(x), decorated(x, y=5)


@whole
@given(lambda: (toy.arange(3),))
def test_map_and_filter(x):
    return list(map(lambda k: x * k, filter(lambda k: k % 2, range(5))))


@whole
@given(lambda: (toy.arange(3),))
def test_partial(x):
    from functools import partial

    return partial(scale, factor=4.0)(x)


@whole
@given(lambda: (toy.arange(3),))
def test_reduce(x):
    from functools import reduce

    return reduce(lambda a, b: a + b, [x, x, x])


@whole
@given(lambda: (toy.arange(3), 2), lambda: (toy.arange(3), 3), lambda: (toy.arange(4), 2), lambda: (toy.arange(3), 2.0))
def test_arguments_that_change(x, n):
    return x * n


@whole
@given(lambda: (toy.arange(2, 2), None), lambda: (toy.arange(2, 2), toy.ones((2,))))
def test_optional_tensor(x, bias):
    return toy.linear(x, x, bias)


@given(lambda: (toy.arange(2),))
def test_break_in_the_middle(x):
    y = x + 1
    toy.save(y)
    return y * 2


@given(lambda: (toy.arange(2),))
def test_print_in_the_middle(x):
    y = x + 1
    print("hello", 3)
    return y * 2


@given(lambda: (toy.arange(2),), lambda: (toy.zeros((2,)),))
def test_branch_on_a_tensor(x):
    y = x + 1
    if y.sum() > 2:
        return y * 2
    return y - 1


def helper_that_breaks(x):
    y = x * 3
    toy.save(y)
    return y + 1


@given(lambda: (toy.arange(2),))
def test_break_in_a_called_function(x):
    y = x + 1
    z = helper_that_breaks(y)
    return y + z


@whole
@given(lambda: (toy.arange(2),))
def test_grad_mode(x):
    return x + 1 if toy.is_grad_enabled() else x - 1


@whole
@given(lambda: (toy.arange(2),))
def test_grad_mode_switched(x):
    y = x + 1
    toy.set_grad_enabled(not toy.is_grad_enabled())
    z = y * 2 if toy.is_grad_enabled() else y * 3
    toy.set_grad_enabled(True)
    return z


@given(lambda: (toy.arange(2),))
def test_item(x):
    y = x.sum()
    return x * y.item()


def positional_only(a, b, /, c=3):
    return a * b + c


@whole
@given(lambda: (toy.arange(2),))
def test_positional_only(x):
    return positional_only(x, 2), positional_only(x, 2, c=1)


@given(lambda: (toy.arange(2),))
def test_positional_only_by_name(x):
    return positional_only(x + 1, b=2)


@whole
@given(lambda: (toy.arange(2),))
def test_methods_of_tensors(x):
    return x.reshape([2, 1]).sum(axis=0, keepdim=True), x.shape, x.ndim, x.dtype, len(x), x.T if x.ndim == 2 else None


@whole
@given(lambda: (toy.arange(2, 3),))
def test_tensor_property(x):
    return x.T


@whole
@given(lambda: (toy.arange(4, 3),))
def test_results_in_a_list(x):
    a, b = toy.split(x, 2)
    low, high = toy.minmax(a)
    return toy.concat([b, a]), low, high


@given(lambda: (toy.arange(4, 3),))
def test_bad_shapes(x):
    return x @ x


@given(lambda: (toy.arange(4, 3),))
def test_missing_tensor_attribute(x):
    y = x + 1
    return y.nothing


@whole
@given(lambda: (toy.arange(4, 3),))
def test_getattr_with_default(x):
    return getattr(x, "nothing", None), getattr(x, "relu")(), hasattr(x, "exp"), hasattr(x, "nothing")


class Asked:
    """Notes what is asked of it."""

    def __init__(self, names, log):
        self.names = names
        self.log = log

    def __getattr__(self, name):
        self.log.append(name)
        if name != "keys":
            raise AttributeError(name)
        return lambda: iter(self.names)

    def __getitem__(self, key):
        self.log.append(key)
        return key + "!"


def named(**keywords):
    return keywords


def asked():
    return toy.arange(2), [], {"q": 5}


@whole
@given(asked)
def test_a_mapping_is_asked_for_its_keys_once(x, log, others):
    mapping = Asked(["p", "q", "r"], log)
    found = [named(**mapping), named(**mapping, s=1), {**mapping}, {1: 2, **mapping}, dict(mapping)]
    try:
        named(**others, **mapping)
    except TypeError as error:
        found.append(error.args)
    return found, x + 1


def first(p):
    return p


def second(p):
    return p


@whole
@given(lambda: (toy.arange(2), first), lambda: (toy.arange(2), second))
def test_errors_name_the_callable(x, function):
    found = []
    for mapping in ([], {"q": 2}):
        try:
            function(q=1, **mapping)
        except TypeError as error:
            found.append(error.args)
    return found, x + 1


class Plain:
    pass


@whole
@given(asked)
def test_errors_that_know_nothing_of_an_operand(x, items, others):
    found = []
    for step in (1, 2):
        try:
            items[::step] = Plain()
        except TypeError as error:
            found.append(error.args)
    taken = []
    for wrong in (0.5, "a"):
        try:
            items[wrong:] = (taken.append(n) for n in (1, 2))
        except TypeError as error:
            found.append((error.args, taken))
    for value in (1, 2.5, None):
        try:
            value[Plain()]
        except TypeError as error:
            found.append(error.args)
    return found, x + 1


@given(lambda: (toy.arange(2), int), lambda: (toy.arange(2), [1]), lambda: (toy.arange(2), 5))
def test_stars_of_what_is_not_iterable(x, value):
    y = x + 1
    try:
        first(*[], *value)
    except TypeError as error:
        y = y + len(error.args)
    return second(*value, *[]), y


@given(pair)
def test_calls_of_what_is_not_callable_behind_a_break(x, y):
    class Holder:
        number, array = 5, [1]

    found, holder = [], Holder()
    for call in (lambda: holder.number(float(x.sum())), lambda: holder.array(float(x.sum())), lambda: Holder.number(float(x.sum()), k=1)):
        try:
            found.append(call())
        except TypeError as error:
            found.append(str(error))
    return x + 1, found


@given(pair)
def test_arguments_that_do_not_fit_a_function_made_in_the_trace(x, y):
    def inner(p, /, q):
        return p

    found = []
    for call in (lambda: inner(x), lambda: inner(x, r=1), lambda: (lambda p, *, q: p)(x), lambda: (lambda p: p)(1, 2)):
        try:
            call()
        except TypeError as error:
            found.append(str(error))
    return x + 1, found


def refused(call):
    try:
        return call()
    except TypeError as error:
        return str(error)


def takes_any(*args, **kwargs):
    return args, kwargs


@given(lambda: (toy.arange(2), 0, ()))
def test_arguments_that_are_refused(x, number, none):
    return (
        x + 1,
        refused(lambda: list(1, key=2)),
        refused(lambda: list(1, *none, key=2)),
        refused(lambda: tuple((1, 2), key=2)),
        refused(lambda: takes_any(1, *number, key=2)),
        refused(lambda: takes_any(1, *none, *number)),
        refused(lambda: list(1, *number)),
    )

