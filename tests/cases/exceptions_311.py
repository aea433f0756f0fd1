"""Exception groups."""

import sys

import toy
from cases import given


def one():
    return (toy.arange(2),)


@given(one)
def test_except_star(x):
    out = []
    try:
        raise ExceptionGroup("g", [ValueError(1), TypeError(2), KeyError(3)])
    except* ValueError as group:
        out.append(group.exceptions[0].args)
    except* (TypeError, KeyError) as group:
        out.append(len(group.exceptions))
    return x + 1, out


@given(one)
def test_except_star_lets_through(x):
    y = x + 1
    try:
        raise ExceptionGroup("g", [ValueError(1), TypeError(2)])
    except* ValueError:
        y = y * 2
    return y


@given(one)
def test_note(x):
    y = x + 1
    try:
        raise ValueError("v")
    except ValueError as error:
        error.add_note("note")
        raise
    return y


@given(one)
def test_a_part_of_a_group_is_handled(x):
    y = x + 1
    seen = []
    try:
        raise ExceptionGroup("g", [ValueError(1), KeyError(2)])
    except* ValueError as group:
        y = y * 2
        toy.save(y)
        seen.append((group.exceptions, sys.exc_info()[1] is group))
        y = y + 1
    except* KeyError:
        toy.save(y)
        seen.append(repr(sys.exc_info()[1]))
        y = y * 3
    return y, seen


@given(one)
def test_the_rest_of_a_group_goes_out(x):
    y = x + 1
    try:
        raise ExceptionGroup("g", [ValueError(1), KeyError(2)])
    except* ValueError:
        y = y * 2
        toy.save(y)
        y = y + 1
    return y


@given(one)
def test_raise_in_a_handler_of_a_group(x):
    y = x + 1
    try:
        raise ExceptionGroup("g", [ValueError(1), KeyError(2)])
    except* ValueError:
        y = y * 2
        raise TypeError(y.ndim)
    except* KeyError as error:
        toy.save(y)
        raise OSError(1) from error


@given(one)
def test_one_exception_in_a_handler_of_groups(x):
    y = x + 1
    try:
        raise ValueError(1)
    except* ValueError as error:
        y = y * 2
        toy.save(y)
        text = repr(error)
    return y, text


@given(one)
def test_groups_that_are_to_be_caught_as_such(x):
    try:
        try:
            raise OSError("text")
        except* ExceptionGroup:
            pass
    except TypeError as error:
        return x + 1, str(error)
    return x


def refusal(work):
    try:
        return work()
    except (TypeError, ValueError) as error:
        return type(error).__name__, str(error)


@given(one)
def test_groups_of_what_is_no_sequence(x):
    y = x + 1
    wrong = [{ValueError(1)}, None, [], [OSError], iter([ValueError(1)]), {1: 2}, "text"]
    return y, [refusal(lambda: repr(ExceptionGroup("group", members))) for members in wrong]


# How deep groups may be nested is the interpreter's to say.
@given(one)
def test_groups_nested_deeply(x):
    group = ValueError(1)
    for _ in range(1500):
        group = ExceptionGroup("", [group])
    try:
        parts = len(group.split(TypeError))
    except RecursionError:
        parts = "too deep"
    return x + 1, parts


class Keeps:
    def __enter__(self):
        return self

    def __exit__(self, ty, value, tb):
        self.value = value
        return True


@given(one)
def test_group_of_a_list_that_changes(x):
    found = []
    errors = [TypeError(0)]
    errors[0] = ValueError(1)
    group = ExceptionGroup("g", errors)
    errors[0] = KeyError(2)
    errors.append(OSError(3))
    for part in group.split(ValueError):
        found.append(part and len(part.exceptions))
    return x + 1, group.exceptions, group.args, group.args[1] is errors, found, str(group)


@given(lambda: (*one(), [TypeError(0)]), lambda: (*one(), []))
def test_group_of_a_list_from_outside_that_changes(x, errors):
    errors.append(ValueError(1))
    group = ExceptionGroup("g", errors)
    errors.clear()
    return x + 1, [repr(error) for error in group.exceptions], group.args[1] is errors, errors


@given(lambda: (*one(), [TypeError(0)]), lambda: (*one(), []))
def test_group_of_a_list_from_outside_that_grows_is_kept(x, errors):
    with Keeps() as kept:
        errors.append(ValueError(x.ndim))
        raise ExceptionGroup("g", errors)
    return x + 1, [repr(error) for error in kept.value.exceptions], kept.value.args[1] is errors


@given(one)
def test_group_made_by_except_star(x):
    try:
        raise KeyError("plain")
    except* KeyError as group:
        seen = repr(group), type(group.args[1]).__name__, group.exceptions
    return x + 1, seen[:2], [repr(part) for part in seen[2]]
