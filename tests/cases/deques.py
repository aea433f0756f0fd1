"""Deques from outside: kept by objects, given as arguments, global."""

import copy
from collections import deque
from types import SimpleNamespace

import toy
from cases import given, whole

LAST = deque(maxlen=3)


class Recorder:
    def __init__(self, maxlen=None):
        self.seen = deque([1, 2], maxlen)


def outcome(work):
    try:
        return work()
    except (IndexError, RuntimeError, ValueError) as error:
        return type(error).__name__, str(error)


def one():
    return toy.arange(2), deque([1, 2, 3])


def bounded():
    return toy.arange(2), deque([1, 2, 3], 3)


@whole
@given(one, bounded)
def test_questions(x, d):
    inside = d[0], d[-1], len(d), 2 in d, list(d), d.maxlen, d.count(2), d.index(3), bool(d)
    return x + sum(d), inside, list(reversed(d)), d == deque([1, 2, 3]), d < deque([2]), d + d, d * 2, d.copy(), d


@whole
@given(one, bounded)
def test_edits(x, d):
    popped = d.pop(), d.popleft()
    d.appendleft(0)
    d.extendleft([7, 8])
    d.rotate()
    d.insert(0, 5) if d.maxlen is None else None
    d[0] = 10
    d.remove(8)
    d += [4]
    d.append(x)
    return x + 1, popped, d


@whole
@given(one, bounded)
def test_items_in_the_places_of_others(x, d):
    it = iter(d)
    first = next(it)
    d[1] = x + first
    d[-1] = 4
    return x + 1, d, next(it)


@whole
@given(one, bounded)
def test_cleared(x, d):
    d.clear()
    empty = not d
    d.append(1)
    return x + 1, empty, d, outcome(lambda: deque().pop()), outcome(lambda: d[5])


def found(deques=[deque([1], 2), deque([1, 2, 3])]):
    return toy.arange(2), deques.pop()


@whole
@given(found)
def test_appended_to_whatever_is_in_it(x, d):
    d.append(x + 1)
    d.extend([1, 2])
    d += (3,)
    return x + 2


@whole
@given(lambda: (toy.arange(2), Recorder()), lambda: (toy.arange(2), Recorder(2)))
def test_kept_by_an_object(x, recorder):
    y = x + 1
    recorder.seen.append(y)
    return y + len(recorder.seen), recorder.seen[-1]


@whole
@given(lambda: (toy.arange(2),), hit=False)
def test_of_the_module(x):
    LAST.append(len(LAST))
    return x + sum(LAST)


@given(one, bounded)
def test_across_breaks(x, d):
    d.append(4)
    seen = []
    for item in d:
        seen.append(float((x + item).sum()))
    d.popleft()
    print(float(x.sum()))
    d.appendleft(9)
    return x + len(d), seen, d


@given(one, bounded)
def test_iterated_and_changed(x, d):
    def grows():
        for item in d:
            d.append(item)

    it = iter(d)
    next(it)
    d.pop()
    print(float(x.sum()))
    return x + 1, outcome(lambda: next(it)), outcome(grows), d


@given(one)
def test_an_iterator_made_after_a_change(x, d):
    d.append(4)
    it = iter(d)
    next(it)
    print(float(x.sum()))
    return x + 1, list(it), d


@given(one, bounded)
def test_iterators_behind_a_break(x, d):
    forwards, backwards, made = iter(d), reversed(d), reversed(deque([1, 2, 3, 4]))
    next(forwards), next(backwards), next(made), next(made)
    print(float(x.sum()))
    return x + 1, list(forwards), list(backwards), list(made)


@given(lambda: (lambda x, d: (x, d, [d], deque([d])))(*one()))
def test_one_deque_in_two_places(x, d, inside, around):
    inside[0].append(5)
    around[0].appendleft(6)
    d.pop()
    return x + len(d), inside, around, d is around[0]


class Window(deque):
    def last(self):
        return self[-1]

    def __len__(self):
        log.append("len")
        return super().__len__()


class Counted(deque):
    def __init__(self, items=(), maxlen=None):
        super().__init__(items, maxlen)
        self.count_of = 0

    def append(self, item):
        self.count_of += 1
        super().append(item)


log = []
outside = Window([1, 2], maxlen=3)


@whole
@given(one)
def test_a_deque_of_a_class_of_its_own(x, _):
    c = Counted([1, 2], 2)
    c.append(x + 1)
    c.append(4)
    c.extend([x, 5])
    return x * 2, c, c.count_of, c.maxlen


@given(one)
def test_copies_of_a_deque_of_a_class_of_its_own(x, _):
    w = Counted([1], 3)
    w.seen = 1
    made = [w.copy(), copy.copy(w), w + w, w * 2, repr(w), w == deque([1])]
    return x + 1, made, [type(m).__name__ for m in made]


@given(one)
def test_a_deque_of_a_class_of_its_own_from_outside(x, _):
    outside.append(3)
    return x + outside.last(), len(outside), list(outside), outside.maxlen


@given(one)
def test_a_deque_is_made_again(x, _):
    w = Window([1, 2, 3], 2)
    w.__init__([4, 5, 6])
    d = deque([1, 2, 3], 2)
    d.__init__("abc")
    return x + 1, w, w.maxlen, d, d.maxlen


@whole
@given(one)
def test_a_deque_from_outside_is_repeated(x, d):
    d *= 2
    return x + 1, len(d)


@whole
@given(one, bounded, lambda: (toy.arange(2), deque([4])), lambda: (toy.arange(2), deque([4], 2)))
def test_the_text_of_a_deque(x, d):
    texts = repr(d), str(d), f"{d}", "%s" % (d,), "{}".format(d), str(ValueError(d))
    held = repr([d]), str({"d": d}), f"{(d,)}", repr(SimpleNamespace(d=d))
    d.append(5)
    return x + 1, texts, held, f"{d}", d


@whole
@given(lambda: (toy.arange(2), deque([[1]])), lambda: (toy.arange(2), deque([[2]])))
def test_the_text_of_a_deque_of_lists(x, d):
    return x + 1, f"{d}"


def empty():
    return toy.arange(2), deque()


def full():
    return toy.arange(2), deque([1, 2.5, "three"], 3)


def nearly_full():
    return toy.arange(2), deque([1, 2], 3)


def never_filled():
    return toy.arange(2), deque(maxlen=0)


@whole
@given(empty, one, full, nearly_full, never_filled)
def test_asked_from_the_end_while_it_grows(x, d):
    lengths = [len(d)]
    for n in range(3):
        d.append(x + n)
        lengths.append((len(d), bool(d), d.maxlen, outcome(lambda: d[-1]), outcome(lambda: d[-2])))
    return x + 1, lengths, outcome(lambda: d[-4]), d


@given(empty, one, full, nearly_full, never_filled)
def test_looked_into_after_it_grew(x, d):
    d.append(x)
    last = outcome(lambda: d[-1])
    d.extend([4, 5])
    before = list(d)
    d.appendleft("front")
    d.append("back")
    return x, last, before, outcome(lambda: d[0]), outcome(d.popleft), [item for item in d], d == deque(d, d.maxlen)


class OwnLength(deque):
    def __len__(self):
        return 4


@given(lambda: (toy.arange(2),))
def test_a_negative_index_counts_from_the_length_that_the_class_tells(x):
    own = OwnLength([1, 2, 3, 4, 5])
    own[-1] = 7
    del own[-2]
    return x + 1, own[-3], own[1], deque.__getitem__(own, -2), list(own), outcome(lambda: OwnLength([1])[-1])
