"""Iterators of C code that were there before the trace: behind a break in a loop, held by objects, given as arguments."""

import collections

import toy
from cases import given, whole


def one():
    return (toy.arange(2),)


def logged():
    return (toy.arange(2), [])


@given(one)
def test_list(x):
    y = x * 2
    for n in [1, 2.5, True, "four"]:
        toy.save(y)
        y = y + len(str(n))
    return y


@given(one)
def test_tensors(x):
    y = x * 2
    for z in [x, x + 1, x * 3]:
        toy.save(y)
        y = y + z
    return y


@given(one)
def test_tuple_and_else(x):
    y = x * 2
    for z in (x, x + 1, x * 3):
        toy.save(y)
        y = y * z
    else:
        y = y - 1
    return y + 1


@given(one)
def test_enumerate_and_zip(x):
    y = x * 2
    for i, (a, b) in enumerate(zip([x, y, x], (1, 2, 3, 4)), 5):
        toy.save(y)
        y = y * a + i * b
    return y


@given(one)
def test_pair_as_a_whole(x):
    pairs = []
    for pair in enumerate([x, x + 1, x + 2]):
        toy.save(x)
        pairs.append(pair)
        x = x + pair[0]
    return [pairs, x, [type(pair) for pair in pairs]]


@given(one)
def test_zip_that_takes_one_too_many(x):
    first, second = iter([1, 2, 3]), iter([x, x * 2])
    y = x * 2
    for a, b in zip(first, second):
        toy.save(y)
        y = y + a * b
    return [y, list(first), list(second)]


@given(logged)
def test_list_that_grows(x, log):
    y = x * 2
    for n in log:
        y = y + n
    log.append(1)
    for n in log:
        toy.save(y)
        y = y + n
        if n < 5:
            log.append(n + 1)
    return y


@given(logged)
def test_list_that_shrinks(x, log):
    y = x * 2
    log.extend([1, 2, 3, 4])
    for n in log:
        toy.save(y)
        y = y + n
        log.pop()
    return y


@given(logged)
def test_list_with_other_items(x, log):
    y = x * 2
    log.extend([1, 2, 3, 4])
    for n in log:
        toy.save(y)
        y = y + n
        log[:] = [n * 10] * len(log)
    return y


def fill(y, items, log, item):
    for n in items:
        toy.save(y)
        y = y + n
        log.append(item)
        if len(log) > 6:
            log.clear()
    return y


@given(one)
def test_other_lists_and_then_the_same(x):
    # What held for two lists does not hold where they are one.
    results = []
    for _ in range(2):
        results.append(fill(x, [1, 2, 3], [], 1))
        same = [1, 2, 3]
        results.append([fill(x, same, same, 1), same])
    return results


def both(y, first, second):
    toy.save(y)
    total = y * 2
    for a in first:
        total = total + a
        break
    for b in second:
        total = total * b
        break
    return total


@given(one)
def test_other_iterators_and_then_the_same(x):
    results = []
    for _ in range(2):
        results.append(both(x, iter([2, 3]), iter([4, 5])))
        same = iter([2, 3])
        results.append([both(x, same, same), list(same)])
    return results


def pair_first(y, items, pairs):
    toy.save(y)
    total = y * 2
    for a in items:
        total = total + a
        break
    for n, b in pairs:
        total = total * b + n
        break
    return total


@given(one)
def test_iterator_inside_of_another(x):
    results = []
    for _ in range(2):
        results.append(pair_first(x, iter([2, 3]), enumerate([4, 5])))
        same = iter([2, 3, 4, 5])
        results.append([pair_first(x, same, enumerate(same)), list(same)])
    return results


@given(logged)
def test_same_iterator_in_two_loops(x, log):
    numbers = iter([1, 2, 3, 4, 5, 6])
    y = x * 2
    for a in numbers:
        toy.save(y)
        y = y + a
        for b in numbers:
            y = y * b
            log.append((a, b))
            break
    return y


class Source:
    def __init__(self, items):
        self.items = iter(items)

    def take(self, y):
        toy.save(y)
        return y + next(self.items)


@given(one)
def test_held_iterator(x):
    source = Source([1, 2])
    y = source.take(x)
    y = source.take(y)
    try:
        return source.take(y)
    except StopIteration:
        return y * 2


@given(one)
def test_default_at_the_end(x):
    numbers = iter([1])
    toy.save(x)
    y = x + next(numbers, 5)
    toy.save(y)
    z = y + next(numbers, 5)
    toy.save(z)
    return z * next(numbers, 5)


@given(one)
def test_exhausted_stays_exhausted(x):
    items = [1]
    numbers = iter(items)
    for n in numbers:
        toy.save(x)
        x = x + n
    items.append(2)
    toy.save(x)
    return [x, list(numbers)]


@given(one)
def test_rest_of_an_iterator(x):
    numbers = iter([1, 2, 3])
    toy.save(x)
    x = x + next(numbers)
    return [x, list(numbers), sum(numbers)]


@given(logged)
def test_loop_in_a_handler(x, log):
    y = x
    for n in range(3):
        try:
            toy.save(y)
            y = y + n
            if n == 1:
                raise ValueError(n)
        except ValueError as error:
            log.append(error.args)
            continue
        finally:
            log.append(n)
    return y


class Rows(list):
    def __getitem__(self, index):
        return 7


@given(one)
def test_subclass_of_list(x):
    y = x
    for n in Rows([1, 2]):
        toy.save(y)
        y = y + n
    return y


@given(one)
def test_long_loop_has_few_translations(x):
    y = x
    for n in range(300):
        toy.save(y)
        y = y + 1
    return y


@given(one)
def test_long_loop_over_tensors(x):
    y = x
    for z in [x] * 100:
        toy.save(y)
        y = y + z
    return y


@given(one)
def test_long_loop_with_breaks_now_and_then(x):
    y = x
    for n in range(60):
        if n % 7 == 3:
            toy.save(y)
        y = y + 1
    return y


@given(one)
def test_huge_range(x):
    for n in range(2**70, 2**70 + 2):
        toy.save(x)
        x = x + 1
    return x


@given(one)
def test_long_loop_with_its_number(x):
    y = x
    for n in range(300):
        y = y + n
        toy.save(y)
    return y


@given(one)
def test_long_loop_of_pairs(x):
    y = x
    for n, z in enumerate([x] * 300):
        y = y * z
        toy.save(y)
        y = y + n
    return y


class Growing(list):
    pass


@given(one)
def test_other_lists_and_then_a_subclass(x):
    results = []
    for _ in range(2):
        results.append(fill(x, [1, 2, 3], Growing(), 1))
        same = Growing([1, 2, 3])
        results.append([fill(x, same, same, 1), list(same)])
    return results


class Reversing(list):
    def __iter__(self):
        return super().__iter__()


@given(one)
def test_iterator_over_what_was_made_in_the_trace(x):
    # The iterator goes over the very object.
    totals = []
    for kind in (list, Growing, Reversing):
        items = kind([1, 2])
        for n in items:
            toy.save(x)
            x = x + n
            if len(items) < 5:
                items.append(n + 1)
        totals.append(list(items))
    return [x, totals]


@given(one)
def test_two_steps_of_one_iterator_for_each_pair(x):
    numbers = iter([1, 2, 3, 4, 5, 6])
    toy.save(x)
    y = x
    for a, b in zip(numbers, numbers):
        y = y * a + b
    return y


@given(one)
def test_an_iterator_and_the_pairs_made_of_it(x):
    numbers = iter([1, 2, 3, 4, 5, 6])
    pairs = zip("abcdef", numbers)
    toy.save(x)
    letter, a = next(pairs)
    b = next(numbers)
    (other, c), d = next(pairs), next(numbers)
    return x * a + b, letter, other, c, d


@given(one)
def test_an_iterator_under_two_names(x):
    numbers = iter(range(9))
    other = numbers
    counted = enumerate(numbers)
    toy.save(x)
    y = x + next(numbers)
    y = y + next(other)
    y = y + next(counted)[1] + next(numbers)
    return y, list(other)


@given(one)
def test_the_rest_of_a_loop_without_a_break(x):
    y = x
    for n, z in enumerate([x, x + 1, x + 2, x + 3]):
        if n == 0:
            toy.save(y)
        y = y + z * n
    else:
        y = y * 2
    return y


@given(one)
def test_the_list_grows_between_steps(x):
    items = [1, 2]
    y = x
    for n in items:
        if n == 1:
            toy.save(y)
        if len(items) < 5:
            items.append(n + 2)
        y = y + n
    return y, items


@given(one)
def test_rounds_that_differ(x):
    y = x
    for n in range(40):
        if n * n % 11 == 5 or n in (2, 3, 30):
            toy.save(y)
        y = y + n
    return y


@given(one)
def test_a_counter_that_is_compared(x):
    y, n, lr = x, 0, 1.0
    while n < 40 and lr > 1e-3:
        toy.save(y)
        y = y * (2 if n % 3 else 1) + 1
        n += 1
        lr = lr * 0.9 if n // 2 > 5 else lr / 1.5
        if not n % 5:
            y = y - 1
    return y, n, lr


@given(one)
def test_a_counter_that_divides(x):
    seen = []
    for n in range(-3, 4):
        toy.save(x)
        try:
            seen.append(6 // n + 6 % n + 1 / n)
        except ZeroDivisionError as error:
            seen.append(str(error))
        seen.append((n**2, n**-1.0 if n else None, 2.5**n, n & 3, n | 8, n ^ 5, n >> 1, abs(n), -n))
    return x, seen


@given(one)
def test_a_counter_that_is_rounded(x):
    seen = []
    for n in range(-3, 4):
        toy.save(x)
        third = n / 3
        seen.append((round(third, 2), round(n, 1), round(third, 0), round(n * 25, -2), round(third), round(third, ndigits=1)))
        seen.append([type(number) for number in (round(n > 0, 1), round(n, 1), round(third, 0), round(third))])
    return x, seen


@given(one)
def test_a_root_of_a_counter(x):
    seen = []
    for n in range(2, -3, -1):
        toy.save(x)
        root = n**0.5 if n else 0
        seen.append((root, type(root)))
    return x + 1, seen


class Key:
    def __init__(self, name, log):
        self.name, self.log = name, log

    def __hash__(self):
        self.log.append(self.name)
        return hash(self.name)

    def __eq__(self, other):
        return self is other


def keyed():
    table = {"a": 1, "b": 2.5, "c": 3, "d": 4}
    return toy.arange(2), table, collections.OrderedDict(table)


@given(keyed)
def test_keys_values_and_items(x, table, ordered):
    y = x
    for source in (table, ordered):
        for key in source:
            toy.save(y)
            y = y + len(key)
        for value in source.values():
            toy.save(y)
            y = y + value
        for key, value in source.items():
            toy.save(y)
            y = y * value
        for n, (key, value) in enumerate(zip(source, source.items())):
            if n == 1:
                toy.save(y)
            y = y + n + value[1]
        for key in reversed(source) if source is ordered else ():
            toy.save(y)
            y = y + source[key]
    return y


@given(keyed)
def test_the_rest_of_the_items(x, table, ordered):
    y = x
    for key, value in table.items():
        if key == "a":
            toy.save(y)
        y = y + value
    for key, value in ordered.items():
        if key == "b":
            toy.save(y)
        y = y * value
    return y


@given(keyed)
def test_values_written_in_the_loop(x, table, ordered):
    y = x
    for source in (table, ordered):
        for key, value in source.items():
            toy.save(y)
            y = y + value
            source[key] = source["d"] = y
    return y, table, ordered


@given(keyed)
def test_a_key_added_in_the_loop(x, table, ordered):
    y, seen = x, []
    for source in (table, ordered):
        try:
            for key in source:
                if key == "a":
                    toy.save(y)
                y = y + source[key]
                if key == "b":
                    source["new"] = 1
        except RuntimeError as error:
            seen.append(type(error))
    return y, seen


@given(one)
def test_variables_of_the_module(x):
    globals()["late"] = 1
    y, names = x, []
    for name, value in globals().items():
        if name == "late":
            toy.save(y)
            y = y + value
            names.append(name)
    return y, names


@given(one)
def test_keys_that_the_program_hashes(x):
    log, y = [], x
    keys = [Key("a", log), Key("b", log), Key("c", log)]
    table = collections.OrderedDict((key, n) for n, key in enumerate(keys))
    plain = dict(table)
    toy.save(y)
    log.clear()
    for key, n in plain.items():
        toy.save(y)
        y = y + n
        log.append(key.name.upper())
    for n in plain.values():
        toy.save(y)
        y = y + n
    return y, log


@given(one)
def test_elements_of_sets(x):
    y = x
    for n in frozenset([3]):
        toy.save(y)
        y = y + n
    things = {1}
    steps = iter(things)
    toy.save(y)
    for n in steps:
        y = y * (n + 1)
        toy.save(y)
    try:
        for n in things:
            toy.save(y)
            things.add(n + 1)
    except RuntimeError as error:
        return y, str(error), things


class Cached(collections.OrderedDict):
    def __getitem__(self, key):
        return super().__getitem__(key) * 10


@given(lambda: (toy.arange(2), Cached(a=1, b=2)))
def test_items_of_a_subclass(x, table):
    y = x
    for key, value in table.items():
        toy.save(y)
        y = y + value
    for value in table.values():
        toy.save(y)
        y = y + value
    return y


def pairs():
    return toy.arange(2), enumerate(zip([1, 2, 3], "abc")), iter({"k": 1, "l": 2}.items())


@whole
@given(pairs)
def test_a_tuple_that_is_made_is_one_object(x, numbered, items):
    made = next(numbered)
    found = [(pair, n) for n, pair in numbered for _ in range(2)]
    return made, [made, made[1]], found, [(item, item) for item in items], x + 1
