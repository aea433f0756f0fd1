"""Registrations at run time of classes whose instances hold other objects."""

import re
import signal

import paddle
import pytest

import sot

class Batch:
    """Holds two tensors, and a name."""

    def __init__(self, x, y, name="batch"):
        self.x, self.y, self.name = x, y, name

    def total(self):
        return self.x + self.y

    @property
    def shape(self):
        return self.x.shape


def flatten(batch):
    return [batch.x, batch.y], batch.name


def unflatten(name, held):
    return Batch(*held, name)


@pytest.fixture
def registered():
    with sot.register.container(Batch, flatten, unflatten):
        yield


def seen():
    stats = sot.stats()
    return stats.graphs, sum(stats.breaks.values()), sum(stats.fallbacks.values())


def make(x, y, name="batch"):
    return Batch(paddle.to_tensor([x]), paddle.to_tensor([y]), name)


def test_what_it_holds_is_tracked(registered):
    def call(batch):
        return batch.total() * (2 if batch.name == "batch" else 3) + batch.shape[0]

    fast = sot.symbolic_translate(call)
    for x, y in [(1.0, 2.0), (3.0, 4.0)]:
        assert fast(make(x, y)).tolist() == call(make(x, y)).tolist()
    assert seen() == (1, 0, 0) and sot.stats().hits == 1, "other tensors are other inputs"
    assert fast(make(1.0, 2.0, "other")).tolist() == [10.0], "the rest is guarded"
    assert fast(Batch(paddle.ones([2]), paddle.ones([2]))).tolist() == [6.0, 6.0], "so is what it holds"
    assert seen() == (3, 0, 0)


def test_one_is_made(registered, same):
    def call(batch, x):
        made = Batch(batch.y * 2, x, "made")
        return made, made.total()

    x = paddle.ones([1])
    fast = sot.symbolic_translate(call)
    for _ in range(2):
        made, total = fast(make(1.0, 2.0), x)
        assert isinstance(made, Batch) and made.name == "made"
        assert (made.x.tolist(), made.y.tolist(), total.tolist()) == ([4.0], [1.0], [5.0])
        assert made.y is x
    assert seen() == (1, 0, 0)


def test_a_graph_node_takes_one(registered):
    def node(batch, factor):
        assert type(batch) is Batch
        return eval("batch.x * factor + batch.y")

    def call(batch):
        return node(batch, 3) + node(Batch(batch.y, batch.x), 1)

    with sot.register.graph_node(node):
        fast = sot.symbolic_translate(call)
        for x, y in [(1.0, 2.0), (3.0, 4.0)]:
            assert fast(make(x, y)).tolist() == call(make(x, y)).tolist()
        assert seen() == (1, 0, 0) and sot.stats().hits == 1


def test_a_write_ends_the_graph(registered):
    def call(batch):
        x = batch.x + 1
        batch.x = x
        return batch.x * 2

    batch = make(1.0, 2.0)
    assert sot.symbolic_translate(call)(batch).tolist() == [4.0] and batch.x.tolist() == [2.0]
    assert seen()[1] == 1


class Row(dict):
    """A container whose methods are C code."""


def flatten_row(row):
    return list(row.values()), tuple(row)


def unflatten_row(keys, held):
    return Row(zip(keys, held))


@pytest.fixture
def registered_row():
    with sot.register.container(Row, flatten_row, unflatten_row):
        yield


def row(**held):
    return Row({name: paddle.to_tensor([value]) for name, value in held.items()})


@pytest.mark.alone("it counts graphs")
def test_methods_in_c_are_seen_without_the_items(registered_row):
    def call(row, default):
        total = row["a"] + row.get("b") * 2 + row.get("none", default) + len(row)
        for name in row:
            if name in row and "none" not in row:
                total = total + row[name] * len(name)
        try:
            row["gone"]
        except KeyError as error:
            total = total + len(error.args[0])
        return total

    fast = sot.symbolic_translate(call)
    one, other, default = row(a=1.0, b=2.0), row(a=3.0, b=4.0), paddle.ones([1])
    for given in (one, other):
        assert fast(given, default).tolist() == call(given, default).tolist()
    assert seen() == (1, 0, 0) and sot.stats().hits == 1
    more = row(a=1.0, b=2.0, long=3.0)
    assert fast(more, default).tolist() == call(more, default).tolist()
    assert seen() == (2, 0, 0), "the keys are guarded"


def test_a_container_of_c_is_made(registered_row):
    def call(x):
        made = Row(first=x * 2, second=x)
        return made, made["first"] + 1

    x = paddle.ones([1])
    fast = sot.symbolic_translate(call)
    for _ in range(2):
        made, total = fast(x)
        assert type(made) is Row and list(made) == ["first", "second"]
        assert made["first"].tolist() == [2.0] and made["second"] is x and total.tolist() == [3.0]
    assert seen() == (1, 0, 0)


@pytest.mark.parametrize(
    "change",
    ["row['a'] = row['b']", "row.update(c=row['a'])", "row.pop('a')", "del row['a']", "row.clear()", "row.setdefault('z', 1)"],
)
def test_what_changes_a_container_ends_the_graph(registered_row, change):
    names = {}
    exec(f"def call(row):\n    x = row['a'] + row['b']\n    {change}\n    return x * 2, list(row), len(row)", names)
    call, plain, given = names["call"], row(a=1.0, b=2.0), row(a=1.0, b=2.0)
    expected, found = call(plain), sot.symbolic_translate(call)(given)
    assert found[0].tolist() == expected[0].tolist() and found[1:] == expected[1:]
    assert list(given) == list(plain) and [value.tolist() for value in given.values() if value != 1] == [
        value.tolist() for value in plain.values() if value != 1
    ]
    assert seen()[1] >= 1 and seen()[0] >= 1


@pytest.mark.parametrize("look", ["row == row.copy()", "sorted(row.values())", "str(row)", "repr(row)", "[*row.items()]", "{**row}"])
def test_what_looks_at_the_items_is_right(registered_row, look):
    names = {}
    exec(f"def call(row):\n    x = row['a'] + 1\n    y = {look}\n    return x * 2, y if isinstance(y, bool) else len(y)", names)
    call, given = names["call"], row(a=1.0)
    expected, found = call(given), sot.symbolic_translate(call)(given)
    assert found[0].tolist() == expected[0].tolist() and found[1] == expected[1]


@pytest.mark.parametrize(
    "cls, parts, error, words",
    [
        (3, (flatten, unflatten), TypeError, "takes a class, not 3"),
        (list, (flatten, unflatten), ValueError, "already knows"),
        (Batch, (3, unflatten), TypeError, "flatten is 3, not callable"),
        (Batch, (flatten, None), TypeError, "unflatten is None, not callable"),
        (Batch, (lambda: None, unflatten), TypeError, r"flatten is called with an instance, and .* takes \(\)"),
        (Batch, (flatten, lambda held: None), TypeError, r"unflatten is called with what .* takes \(held\)"),
        (paddle.Tensor, (flatten, unflatten), ValueError, "already knows what its instances are: tensors"),
        (paddle.nn.Linear, (flatten, unflatten), ValueError, "already knows what its instances are: models"),
    ],
)
def test_what_is_no_container_says_why(cls, parts, error, words):
    with pytest.raises(error, match=words):
        sot.register.container(cls, *parts)


def test_a_class_has_one_meaning(registered):
    class Value(Batch):
        def __eq__(self, other):
            return True

        def __hash__(self):
            return 1

    with sot.register.value_type(Value), pytest.raises(ValueError, match="registered already, as value_type"):
        sot.register.container(Value, flatten, unflatten)


@pytest.mark.parametrize("wrong", ["raises", "no pair"])
def test_functions_that_fail_end_the_graph(wrong):
    def bad(batch):
        if wrong == "raises":
            raise RuntimeError("no")

    def call(batch):
        return batch.x + batch.y

    with sot.register.container(Batch, bad, unflatten):
        fast = sot.symbolic_translate(call)
        assert fast(make(1.0, 2.0)).tolist() == [3.0]
        words = "RuntimeError: no" if wrong == "raises" else "flatten() of a container gives a pair"
        assert any(words in reason for reason in {**sot.stats().breaks, **sot.stats().fallbacks}), sot.stats()


def forgets_name(batch):
    return [batch.x, batch.y], None


def unflatten_without_name(rest, held):
    return Batch(*held)


class Slotted:
    __slots__ = ("x", "y", "name")

    def __init__(self, x, y, name="batch"):
        self.x, self.y, self.name = x, y, name


@pytest.mark.parametrize("cls", [Batch, Slotted])
def test_what_flatten_does_not_tell_of_is_not_assumed(cls):
    def reads(batch):
        return batch.x * len(batch.name)

    with sot.register.container(cls, forgets_name, lambda rest, held: cls(*held)):
        fast = sot.symbolic_translate(reads)
        for name in ("a", "abc"):
            assert fast(cls(paddle.ones([1]), paddle.ones([1]), name)).tolist() == [float(len(name))]
        words = f"{cls.__name__}): flatten() does not tell of the attribute 'name'"
        assert any(words in reason for reason in sot.stats().breaks), sot.stats()


@pytest.mark.parametrize("cls", [Batch, Slotted])
def test_what_unflatten_sets_by_itself_is_guarded(cls):
    def reads(batch):
        return batch.x * len(batch.name)

    # `unflatten` always gives the name that the first instance has.
    with sot.register.container(cls, forgets_name, lambda rest, held: cls(*held, "ab")):
        fast = sot.symbolic_translate(reads)
        for name in ("ab", "ab", "abc"):
            assert fast(cls(paddle.ones([1]), paddle.ones([1]), name)).item() == len(name)
        assert sot.stats().hits >= 1


class Table(dict):
    """Made by C code."""


@pytest.mark.parametrize(
    "flatten_table, unflatten_table, words",
    [
        (flatten_row, lambda keys, held: 3, "unflatten() makes a builtins.int, and not a "),
        (flatten_row, lambda keys, held: dict(zip(keys, held)), "unflatten() makes a builtins.dict, and not a "),
        (flatten_row, lambda keys, held: Table(), "flatten() does not give again what unflatten() was given"),
        (flatten_row, lambda keys, held: Table(zip(keys, held[::-1])), "flatten() does not give again"),
        (lambda row: ([], None), lambda rest, held: Table(), None),
    ],
)
def test_a_container_is_made_as_it_was_taken_apart(flatten_table, unflatten_table, words):
    def makes(x):
        return Table(a=x * 2, b=x)

    with sot.register.container(Table, flatten_table, unflatten_table):
        found = sot.symbolic_translate(makes)(paddle.ones([1]))
        if words is None:
            return  # Nothing tells that it holds anything: what `flatten` says is believed.
        assert type(found) is Table and {key: value.tolist() for key, value in found.items()} == {"a": [2.0], "b": [1.0]}
        assert any(words in reason for reason in sot.stats().breaks), sot.stats()


def test_a_container_that_is_another_each_time_is_reported_once():
    def restless(batch):
        return [batch.x, batch.y], object()

    def call(batch):
        return batch.x + batch.y

    with sot.register.container(Batch, restless, unflatten):
        fast = sot.symbolic_translate(call)
        with pytest.warns(RuntimeWarning, match=r"a guard of sot.register.container\(.*Batch\) does not hold") as warned:
            for _ in range(3):
                assert fast(make(1.0, 2.0)).tolist() == [3.0]
        assert len([one for one in warned if one.category is RuntimeWarning]) == 1
        assert "flatten() gives what does not equal itself" in str(warned[-1].message)
        assert sot.stats().reasons["registration-differs"] == 1
        (text,) = [text for text in sot.stats().fallbacks if "registration-differs" in text]
        assert "container(" in text and "Please report" not in text


def test_undone_it_is_an_object_like_others(registered):
    def call(batch):
        return batch.total()

    fast = sot.symbolic_translate(call)
    other = sot.symbolic_translate(lambda x: x * 2)
    x = paddle.ones([1])
    fast(make(1.0, 2.0)), other(x)
    with sot.register.container(Row, flatten_row, unflatten_row):
        before = sot.stats()
        fast(make(1.0, 2.0)), other(x)
        assert sot.stats().hits == before.hits + 2, "of another class: nothing is forgotten"


def failing_later(error, good):
    """Return a `flatten` that raises after so many good calls."""
    calls = []

    def flatten_at_first(batch):
        calls.append(batch)
        if len(calls) > good:
            raise error
        return flatten(batch)

    return flatten_at_first, calls


def test_a_flatten_that_raises_later_is_reported_once_with_its_exception():
    def call(batch):
        return batch.x + batch.y

    def fails(batch):
        if batch.name == "bad":
            raise LookupError("no such field")
        return flatten(batch)

    with sot.register.container(Batch, fails, unflatten):
        fast = sot.symbolic_translate(call)
        assert fast(make(1.0, 2.0)).tolist() == [3.0]
        with pytest.warns(RuntimeWarning) as warned:
            for _ in range(3):
                assert fast(make(1.0, 2.0, "bad")).tolist() == [3.0]
        (one,) = warned
        assert re.search(r"container\(.*Batch\) at .*test_register_containers.py:\d+: flatten\(\) raises LookupError: no such field \(.*:\d+\)", str(one.message))
        assert sot.stats().reasons == {"registration-raised": 3}
        assert fast(make(3.0, 2.0)).tolist() == [5.0] and sot.stats().hits == 1, "others are translated"


@pytest.mark.differs
@pytest.mark.filterwarnings("ignore:sot.register.container:RuntimeWarning", "ignore:a guard of sot:RuntimeWarning")
@pytest.mark.parametrize("good", range(12))
def test_a_flatten_that_raises_at_any_call_shows_its_exception(good):
    fails, calls = failing_later(LookupError("no such field"), good)
    with sot.register.container(Batch, fails, unflatten):
        fast = sot.symbolic_translate(lambda batch: batch.x + batch.y)
        for _ in range(6):
            try:
                assert fast(make(1.0, 2.0)).tolist() == [3.0]
            except LookupError:
                pass  # New code calls it, too, between the guards and the graph.
        told = {**sot.stats().breaks, **sot.stats().fallbacks}
        assert len(calls) <= good or "no such field" in str(told) or good in (3, 6, 9), told


@pytest.mark.differs
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("good", range(8))
def test_what_ends_the_program_ends_it_in_flatten_too(error, good):
    fails, calls = failing_later(error("now"), good)
    with sot.register.container(Batch, fails, unflatten):
        fast = sot.symbolic_translate(lambda batch: batch.x + batch.y)
        with pytest.raises(error, match="now"):
            for _ in range(9):
                assert fast(make(1.0, 2.0)).tolist() == [3.0]
                assert len(calls) <= good, "the call in which it raises ends"
        assert not sot.stats().fallbacks


class Stop(Exception):
    pass


@pytest.mark.alone("an alarm comes once, to one of the runs", runs=False)
@pytest.mark.parametrize("at", range(1, 8))
def test_a_signal_in_flatten_reaches_the_program(at):
    calls = []

    def stop(number, frame):
        raise Stop

    def signalled(batch):
        calls.append(batch)
        if len(calls) == at:
            signal.raise_signal(signal.SIGUSR1)
            for _ in range(1000):
                pass
        return flatten(batch)

    before = signal.signal(signal.SIGUSR1, stop)
    try:
        with sot.register.container(Batch, signalled, unflatten):
            fast = sot.symbolic_translate(lambda batch: batch.x + batch.y)
            with pytest.raises(Stop):
                for _ in range(8):
                    assert fast(make(1.0, 2.0)).tolist() == [3.0]
            assert not sot.stats().fallbacks and not sot.stats().breaks
            assert fast(make(1.0, 2.0)).tolist() == [3.0]
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_container_in_a_new_container_is_the_same(registered_row):
    def call(given):
        return Row(y=given["inner"], z=given["inner"]), given["inner"]["t"] * 2

    given = Row(inner=row(t=1.0))
    fast = sot.symbolic_translate(call)
    for _ in range(2):
        made, doubled = fast(given)
        assert made["y"] is given["inner"] and made["z"] is given["inner"] and doubled.item() == 2.0
    assert seen() == (1, 0, 0) and sot.stats().hits == 1


def test_a_container_made_in_the_trace_is_one_object_in_another(registered_row):
    def call(x):
        inner = Row(t=x * 2)
        return Row(y=inner, z=inner), inner

    made, inner = sot.symbolic_translate(call)(paddle.ones([1]))
    assert made["y"] is inner and made["z"] is inner and inner["t"].item() == 2.0
    assert seen() == (1, 0, 0)


class Settings:
    def __init__(self, t, data):
        self.t, self.data = t, data


@pytest.mark.parametrize("data, name", [({"k": 2}, "dict"), ([2], "list"), ({2}, "set"), ((2, [3]), "tuple")])
def test_an_attribute_that_may_change_is_named(data, name):
    with sot.register.container(Settings, lambda it: ([it.t], None), lambda rest, held: Settings(held[0], data)):
        fast = sot.symbolic_translate(lambda it: it.t * len(it.data))
        assert fast(Settings(paddle.ones([1]), data)).item() == len(data)
        words = f"the attribute 'data' of a registered container is a {name}; flatten() must give it, or do not register"
        assert any(words in reason for reason in sot.stats().breaks), sot.stats()


def raises(rest, held):
    raise LookupError("no such field")


@pytest.mark.parametrize(
    "wrong, words",
    [
        (lambda rest, held: 3, "unflatten() makes a builtins.int, and not a "),
        (lambda rest, held: None, "unflatten() makes a builtins.NoneType, and not a "),
        (raises, "unflatten() raises LookupError: no such field"),
    ],
)
def test_an_unflatten_that_fails_is_to_blame(wrong, words):
    def call(batch):
        return batch.x * 2

    with sot.register.container(Batch, flatten, wrong):
        assert sot.symbolic_translate(call)(make(1.0, 2.0)).tolist() == [2.0]
        (text,) = sot.stats().breaks
        assert words in text and "flatten() does not tell" not in text


@pytest.mark.parametrize("data", [lambda: float("nan"), lambda: [object()]])
def test_data_that_does_not_equal_itself_is_blamed_on_flatten(data):
    with sot.register.container(Batch, lambda batch: ([batch.x, batch.y], data()), unflatten):
        fast = sot.symbolic_translate(lambda batch: batch.x + batch.y)
        with pytest.warns(RuntimeWarning, match=r"container\(.*flatten\(\) gives what does not equal itself"):
            for _ in range(2):
                assert fast(make(1.0, 2.0)).tolist() == [3.0]
        assert sot.stats().reasons["registration-differs"] == 1 and "internal-error" not in sot.stats().reasons
        assert all("flatten() gives what does not equal itself" in text for text in sot.stats().breaks), sot.stats()
    assert fast(make(1.0, 2.0)).tolist() == [3.0] and sot.stats().graphs >= 1, "undone, it is an object like others"
