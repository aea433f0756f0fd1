"""Graph breaks in special methods whose answers C code checks, and in what an iterator asks for its items.

A case marked `@two` becomes two graphs around one break.
"""

import toy
from cases import given, two


def one():
    return (toy.arange(2),)


def negative():
    return (toy.arange(2) * -1,)


def logged():
    return (toy.arange(2), [])


def broken(x):
    y = x + 1
    toy.save(y)
    return y * 2


class Box:
    def __init__(self, x, answer=None):
        self.x = x
        self.answer = answer

    def ask(self):
        self.x = broken(self.x) - 1
        return self.answer


class Truth(Box):
    def __bool__(self):
        return self.ask()


class Sized(Box):
    def __len__(self):
        return self.ask()


class Container(Box):
    def __contains__(self, item):
        return self.ask()


class Compared(Truth):
    """Compares to what has a truth of its own, and counts how often that is asked for."""

    asked = 0

    def __lt__(self, other):
        return self

    def __bool__(self):
        self.asked += 1
        return self.ask()


class Iterable(Box):
    def __iter__(self):
        return self.ask()


class Text(Box):
    def __str__(self):
        return self.ask()


class Represented(Box):
    def __repr__(self):
        return self.ask()


class Formatted(Box):
    def __format__(self, specification):
        return specification + self.ask()


class Iterator(Box):
    """Breaks once, where it gives the item of that number."""

    def __init__(self, x, at, count=3):
        self.x, self.at, self.count, self.number = x, at, count, 0

    def __iter__(self):
        return self

    def __next__(self):
        self.number += 1
        y = self.x * self.number
        if self.number == self.at:
            y = broken(y)
        if self.number > self.count:
            raise StopIteration
        return y


@two
@given(one)
def test_if(x):
    b = Truth(x * 3, True)
    if b:
        return b.x + x
    return b.x - x


@two
@given(one)
def test_if_not(x):
    b = Truth(x * 3, False)
    if b:
        return b.x + x
    return b.x - x


@two
@given(one)
def test_while(x):
    b = Truth(x * 3, False)
    while b:
        b.x = b.x * 2
    return b.x - x


@two
@given(one)
def test_not(x):
    b = Truth(x * 3, True)
    return [not b, b.x + x]


@two
@given(one)
def test_and(x):
    b = Truth(x * 3, False)
    c = b and x
    return [c is b, b.x + x]


@two
@given(one)
def test_or(x):
    b = Truth(x * 3, False)
    return [x + 1, b or x * 5, b.x + x]


@two
@given(one)
def test_and_that_goes_on(x):
    b = Truth(x * 3, True)
    return [b and x * 5, b.x + x]


@two
@given(one)
def test_conditional(x):
    b = Truth(x * 3, True)
    return [x + 1, x * 2 if b else x * 3, b.x + x]


@two
@given(one)
def test_bool(x):
    b = Truth(x * 3, True)
    return [bool(b), b.x + x]


@two
@given(one)
def test_truth_by_length(x):
    b = Sized(x * 3, 2)
    if not b:
        return b.x - x
    return b.x + x


@two
@given(one)
def test_no_truth_by_length(x):
    b = Sized(x * 3, 0)
    return [not b, b.x + x]


@two
@given(one)
def test_bool_by_length(x):
    b = Sized(x * 3, 2)
    return [bool(b), b.x + x]


@given(one)
def test_no_truth(x):
    b = Truth(x * 3, 1)
    try:
        if b:
            return b.x + x
    except TypeError as error:
        return [str(error), b.x * 2]


@two
@given(one)
def test_len(x):
    b = Sized(x * 3, 2)
    return [len(b), b.x + x]


@two
@given(one)
def test_len_of_a_bool(x):
    b = Sized(x * 3, True)
    return [len(b), b.x + x]


@given(one)
def test_no_length(x):
    texts = []
    for answer in [-1, -(1 << 70), 1 << 70, "two", None]:
        b = Sized(x * 3, answer)
        try:
            texts.append(len(b))
        except Exception as error:
            texts.append((type(error), str(error)))
        try:
            texts.append(bool(b))
        except Exception as error:
            texts.append((type(error), str(error)))
    return [texts, x * 2]


@two
@given(one)
def test_in(x):
    b = Container(x * 3, 5)
    return [x in b, b.x + x]


@two
@given(one)
def test_not_in(x):
    b = Container(x * 3, "")
    return [3 not in b, b.x + x]


@two
@given(one)
def test_if_in(x):
    b = Container(x * 3, [1])
    if x in b:
        return b.x + x
    return b.x - x


@two
@given(one)
def test_if_compared(x):
    b = Compared(x * 3, True)
    if b < 1:
        return b.x + x, b.asked
    return b.x - x, b.asked


@two
@given(one)
def test_while_compared(x):
    b = Compared(x * 3, False)
    while b < 1:
        b.x = b.x * 2
    return b.x - x, b.asked


@given(one, negative)
def test_in_what_answers_with_a_tensor(x):
    b = Container(x * 3, x.sum())
    return [1 in b, b.x + x]


@two
@given(one)
def test_iter(x):
    b = Iterable(x * 3, Iterator(x, 0))
    return [[y + 1 for y in b], b.x + x]


@two
@given(one)
def test_for(x):
    b = Iterable(x * 3, Iterator(x, 0))
    for y in b:
        x = x + y
    return [x, b.x + x]


@two
@given(one)
def test_iter_called(x):
    b = Iterable(x * 3, Iterator(x, 0))
    return [list(iter(b)), b.x + x]


@given(one)
def test_no_iterator(x):
    b = Iterable(x * 3, [1, 2])
    try:
        for y in b:
            x = x + y
    except TypeError as error:
        return [str(error), b.x + x]


@two
@given(one)
def test_str(x):
    b = Text(x * 3, "text")
    return [str(b), b.x + x]


@two
@given(one)
def test_repr(x):
    b = Represented(x * 3, "text")
    return [repr(b), b.x + x]


@two
@given(one)
def test_str_by_repr(x):
    b = Represented(x * 3, "text")
    return [str(b), b.x + x]


@two
@given(one)
def test_formatted(x):
    b = Formatted(x * 3, "text")
    return [f"a {b:>3}", b.x + x]


@two
@given(one)
def test_formatted_by_str(x):
    b = Text(x * 3, "text")
    return [f"a {b} c", b.x + x]


@two
@given(one)
def test_formatted_by_repr(x):
    b = Represented(x * 3, "text")
    return [f"a {b}", format(x.ndim), b.x + x]


@given(one)
def test_formatted_with_conversion(x):
    b = Represented(x * 3, "text")
    return [f"a {b!r:>7}", f"{b!s}", b.x + x]


class Letters(str):
    def __str__(self):
        return "letters"

    def __format__(self, specification):
        return "formatted"


@given(one)
def test_texts_of_a_subclass(x):
    texts = []
    for box in [Text, Represented, Formatted]:
        b = box(x * 3, Letters("abc"))
        texts += [(type(text), str.upper(text)) for text in [str(b), repr(b)[:3], format(b), f"{b}"]]
    return [texts[:1] + texts[2:4], x * 2]


@given(one)
def test_no_text(x):
    texts = []
    for box in [Text, Represented, Formatted]:
        for text in [str, repr, format]:
            b = box(x * 3, 3)
            try:
                texts.append(type(text(b)))
            except TypeError as error:
                texts.append(str(error))
    return [texts, x * 2]


@given(one)
def test_text_of_a_container(x):
    b = Represented(x * 3, "text")
    return [repr([b]), str({1: b}), b.x + x]


@given(one)
def test_next_item(x):
    total = x
    for y in Iterator(x * 3, 2):
        total = total + y
    return total


@two
@given(one)
def test_last_item(x):
    total = x
    for y in Iterator(x * 3, 3):
        total = total + y
    return total


@two
@given(one)
def test_end_of_a_loop(x):
    total = x
    for y in Iterator(x * 3, 4):
        total = total + y
    else:
        total = total * 2
    return total + 1


@two
@given(logged)
def test_end_of_a_loop_in_a_handler(x, log):
    total = x
    try:
        for y in Iterator(x * 3, 4):
            total = total + y
    except StopIteration:
        log.append("caught")
    finally:
        log.append(total)
    return total + 1


@two
@given(one)
def test_comprehension(x):
    return [[y + 1 for y in Iterator(x * 3, 3)], x + 1]


@two
@given(one)
def test_next(x):
    b = Iterator(x * 3, 1)
    return [next(b), next(b), x + 1]


@given(one)
def test_next_at_the_end(x):
    b = Iterator(x * 3, 1, 0)
    try:
        return next(b)
    except StopIteration:
        return x + 1


class Failing(Iterator):
    def __next__(self):
        self.number += 1
        y = broken(self.x * self.number)
        if self.number == self.count:
            raise ValueError(self.number)
        return y


@given(logged)
def test_item_that_raises(x, log):
    for y in Failing(x * 3, 0):
        log.append(y)


@given(logged)
def test_item_that_raises_in_a_handler(x, log):
    total = x
    try:
        for y in Failing(x * 3, 0):
            total = total + y
    except ValueError as error:
        log.append(error.args)
        try:
            raise
        except ValueError:
            log.append("again")
    return total * 2


class Outside:
    """What C code raises ends the loop as well."""

    def __init__(self, x, count):
        self.x, self.numbers = x, map(toy.save, [x] * count)

    def __iter__(self):
        return self

    def __next__(self):
        y = self.x + 1
        next(self.numbers)
        self.x = y * 2
        return y


@given(one)
def test_end_by_what_the_break_raises(x):
    total = x
    for y in Outside(x * 3, 2):
        total = total + y
    return total * 2


class Ending(Box):
    """Its method is called, and ends the loop, without being `__next__`."""

    def __iter__(self):
        return self

    def __next__(self):
        return self.item()

    def item(self):
        self.x = broken(self.x)
        return self.stop()

    def stop(self):
        raise StopIteration(3)


@two
@given(one)
def test_end_raised_deeper(x):
    b = Ending(x)
    for _ in b:
        x = x * 100
    return b.x + x


def check(y):
    return broken(y) - 1


@given(one)
def test_item_of_map(x):
    for y in map(check, [x * 3]):
        x = x + y
    return x


@two
@given(one)
def test_next_of_map(x):
    return [x + 1, next(map(check, [x * 3])), x + 2]


@given(one)
def test_item_of_map_of_several(x):
    total = x
    for y in map(lambda a, b: a + (broken(b) if b is x else b), [x * 3, x * 2], [x * 4, x]):
        total = total + y
    return total


def stopping(y):
    toy.save(y)
    raise StopIteration


@two
@given(one)
def test_map_that_stops(x):
    y = x * 2
    for z in map(stopping, [y, y]):
        y = y + z
    return y + 1


@given(logged)
def test_all_of_it_in_a_loop(x, log):
    for number in range(3):
        b = Truth(x * number, number > 0)
        if b:
            log.append(len(Sized(b.x, number)))
        for y in Iterator(b.x, number):
            x = x + y
        log.append(f"{Text(x, 'text')}")
    return x


def truth_five_deep(x, n):
    y = x + n
    if n:
        return truth_five_deep(y, n - 1) + 1
    b = Truth(y, True)
    if b:
        return b.x * 2
    return b.x * 3


@two
@given(one)
def test_five_calls_deep(x):
    return truth_five_deep(x * 3, 4) * 2


class Sneaky:
    """The special method itself is made by a function that breaks."""

    def __init__(self, x):
        self.x = x

    @property
    def __len__(self):
        self.x = broken(self.x)
        return lambda: 3

    @property
    def __getitem__(self):
        self.x = broken(self.x)
        return lambda key: key


@given(one)
def test_special_method_that_is_a_property(x):
    b = Sneaky(x)
    return [len(b), b[4], b.x + x]
