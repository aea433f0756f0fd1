"""Lists that were there before the trace and grow in it: how long they are is not assumed until somebody asks."""

import toy
from cases import given, whole


def one():
    return toy.full((1,), 2.0), []


def some():
    return toy.full((1,), 2.0), [1, 2.5, "three", toy.full((1,), 4.0)]


@whole
@given(one, some)
def test_append(x, out):
    out.append(x + 1)
    out.append(2)
    return x


@whole
@given(one, some)
def test_extend_and_add(x, out):
    out.extend([x + 1, 2])
    out.extend(n for n in range(3))
    out += [x * 3]
    out += (4, 5)
    return x, out


@whole
@given(one, some)
def test_then_asked(x, out):
    out.append(x + 1)
    n = len(out)
    out.append(n)
    if out and n < 3:
        out.append("short")
    return x * n, out[-1], out[-2], len(out)


@given(one, some)
def test_then_looked_into(x, out):
    out.append(x + 1)
    first = out[0]
    out.append("behind")
    out[0] = "new"
    out.insert(1, "inserted")
    return x, first, [item for item in out], out[1:], out.index("behind")


@whole
@given(one, some)
def test_itself(x, out):
    out.append(x + 1)
    out.extend(out)
    out += out
    return x, len(out)


@whole
@given(some)
def test_items_of_the_list(x, out):
    y = out[-1] + x
    out.append(y)
    z = out[-2] * 2
    out.append(z)
    same = out[-4] is out[1], out[-1] is z, out[-3] is out[3]
    return y, same, out[-5], out[-6]


@whole
@given(some)
def test_past_the_end(x, out):
    out.append(x + 1)
    try:
        return out[-6]
    except IndexError as error:
        return x * 2, str(error), out[-5]


@whole
@given(one, some)
def test_printed(x, out):
    out.append(1)
    print(len(out), bool(out), out == [1])
    out.append(x + 1)
    return out


@whole
@given(one, some)
def test_empty_then_not(x, out):
    before = bool(out), not out, len(out)
    out.append(x + 1)
    return before, bool(out), not out, len(out)


@whole
@given(one, some)
def test_two_names(x, out):
    other = out
    holder = [out]
    out.append(x + 1)
    other.append(2)
    holder[0].append(3)
    del holder[0][-1]
    return len(out), other is out


@given(lambda: (toy.full((1,), 2.0), [], []), lambda: (toy.full((1,), 2.0), *[[1]] * 2))
def test_two_lists_that_may_be_one(x, a, b):
    a.append(x + 1)
    b.append(2)
    return len(a), a is b, a[-1]


class Stack(list):
    def append(self, item):
        super().append(item)
        self.added = getattr(self, "added", 0) + 1


@whole
@given(lambda: (toy.full((1,), 2.0), Stack([1])))
def test_of_a_subclass(x, stack):
    stack.append(x + 1)
    stack.extend([3])
    return x, len(stack), stack.added, stack[-1]


@given(one, some)
def test_behind_a_break(x, out):
    toy.save(x)
    out.append(x + 1)
    toy.save(x)
    out.append(x * 2)
    return len(out), out[-1]


@given(one)
def test_collected_in_a_loop(x, out):
    for n in range(30):
        x = x + 1
        toy.save(x)
        out.append(x)
        if len(out) > 20:
            break
    return out


@given(one, some)
def test_last_of_a_loop(x, out):
    out.append(x)
    for n in range(6):
        toy.save(x)
        out.append(out[-1] + n)
    return out


@given(one, some)
def test_iterated_while_it_grows(x, out):
    seen = []
    for item in out + [1]:
        toy.save(x)
        seen.append(item)
        out.append(x + len(seen))
    for item in out:
        toy.save(x)
        seen.append(item)
        if len(out) < 9:
            out.append(x * 2)
    return seen, out


@given(one, some)
def test_removed_from_meanwhile(x, out):
    out.append(x)
    toy.save(x)
    out.append(out.pop())
    toy.save(x)
    out.append(3)
    out.clear()
    out.append(4)
    return out


@given(one, some)
def test_raises_behind_an_append(x, out):
    toy.save(x)
    out.append(x + 1)
    raise ValueError(len(out))


@given(lambda: (toy.full((1,), 2.0), 3))
def test_no_list(x, out):
    try:
        list.append(out, x)
    except TypeError as error:
        return x + 1, str(error)


@given(some, lambda: (toy.full((1,), 2.0), [1, 2]))
def test_iterators_of_a_list_that_changes(x, out):
    seen = []
    for item in out:
        if len(out) < 8:
            out.append(len(out))
        if item == 5:
            toy.save(x)
        seen.append(item)
    for item in out:
        if len(out) > 2:
            out.pop()
            toy.save(x)
        seen.append(item)
    return x + 1, seen, out


@given(some)
def test_past_what_the_list_had(x, out):
    seen = []
    for item in out:
        seen.append(item)
        if len(seen) > 6:
            toy.save(x)
            break
        out.append(len(out))
    steps = reversed(out)
    seen.append(next(steps))
    toy.save(x)
    seen.extend(steps)
    return x * 2, seen


@given(some)
def test_backwards_over_what_is_new(x, out):
    out.extend([5, 6, 7])
    steps, others = reversed(out), iter(out)
    seen = [next(steps), next(others), next(others), next(others), next(others), next(others), next(others)]
    toy.save(x)
    out.append(8)
    return x * 2, seen, list(steps), list(others)


@given(lambda: (toy.full((1,), 2.0), Stack([1, 2])))
def test_iterators_of_a_subclass_that_grows(x, out):
    seen = []
    for item in out:
        seen.append(item)
        if len(out) < 6:
            out.append(item + 5)
        if len(out) == 5:
            toy.save(x)
    return x * 2, seen, out.added


@whole
@given(one, some)
def test_slices_from_the_end(x, out):
    out.append(x + 1)
    out.append(2)
    return x, out[-2:], out[-1:], out[-3:], out[-5:], out[-2::2], out[-2:-1], out


def last(*items):
    """A list of the last results, from outside; a number may be in it twice."""
    return lambda: (toy.full((1,), 2.0), list(items))


@whole
@given(last(1, 2, 3), last(1, 1, 1), last(5, 7, 5, 7), last(1))
def test_the_last_results(x, out):
    out.append(x + 1)
    out.pop(0)
    return x


@whole
@given(last(1, 2, 3, 4), last(1, 2, 1, 2))
def test_the_first_items_are_dropped(x, out):
    gone = [out.pop(0), out[0]]
    del out[0]
    return x + 1, gone, out


@whole
@given(last(1, 2.5, "three", 4), last(5, 5, 6, 6))
def test_items_of_the_list_behind_the_last_results(x, out):
    # New items that are found by their places in the list, and places that change.
    out.append(out[2])
    out.append(out[0])
    out[:] = out[2:] + [out[1], x * 2]
    return x, out[-1]


@whole
@given(last(1, 2, 3, 4, 5, 6))
def test_the_last_results_in_another_order(x, out):
    kept = out[3:]
    out[:] = [*kept, x, *kept[::-1]]
    kept.append(out)
    return x + 1, kept


class Window(list):
    def __setitem__(self, key, value):
        raise AssertionError("the window is not assigned to")


@whole
@given(lambda: (toy.full((1,), 2.0), Window([1, 2, 3, 4])))
def test_the_last_results_of_a_subclass(x, out):
    out.append(x + 1)
    out.pop(0)
    out.pop(0)
    return x


@given(last(1, 2, 3, 4))
def test_the_last_results_behind_a_break(x, out):
    out.append(x + 1)
    toy.save(x)
    out.pop(0)
    out.append(len(out))
    toy.save(x)
    del out[:2]
    return x * 2, out
