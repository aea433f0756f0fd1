"""The program's replacements for functions, methods and layers of Paddle run as often as in eager mode."""

import builtins
import functools
import types
import unittest.mock

import paddle
import paddle.nn.functional as F
import pytest
from paddle import _C_ops, nn

import sot

Tensor = paddle.Tensor
MISSING = object()


class Model(nn.Layer):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.LayerNorm(4), nn.Dropout(0.0))
        self.words = nn.Embedding(5, 4)

    def forward(self, x, ids):
        return F.softmax(self.body(x) + self.words(ids))


def assign_first(x):
    x[0] = 5.0
    return x


def first_or_last(x):
    return x * 2 if x.sum() > 0 else x - 1


# Who holds the function, its name, and a program whose operations come to it.
PLACES = {
    "operator": (Tensor, "__mul__", lambda x: x * 2 + 1),
    "reflected": (Tensor, "__rsub__", lambda x: 1 - x),
    "unary": (Tensor, "__neg__", lambda x: -x + 1),
    "comparison": (Tensor, "__lt__", lambda x: (x < 1).astype("int32")),
    "index": (Tensor, "__getitem__", lambda x: x[0] + 1),
    "assignment": (Tensor, "__setitem__", lambda x: assign_first(x + 0)),
    "len": (Tensor, "__len__", lambda x: x + len(x)),
    "truth": (Tensor, "__bool__", first_or_last),
    "number": (Tensor, "__float__", lambda x: float(x.sum()) + x),
    "method in Python": (Tensor, "sum", lambda x: x.sum() + 1),
    "method in C": (Tensor, "clone", lambda x: x.clone() * 2),
    "method that breaks": (Tensor, "item", lambda x: x.sum().item() + x),
    "in place": (Tensor, "add_", lambda x: (x + 0).add_(x)),
    "method of a result": (Tensor, "reshape", lambda x: (x + 1).reshape([3, 1]) * 2),
    "method inside a function": (Tensor, "astype", lambda x: F.one_hot(x.astype("int64") + 2, 8).sum()),
    "function": (F, "relu", lambda x: F.relu(x) + 1),
    "function of paddle": (paddle, "sum", lambda x: paddle.sum(x)),
    "function below a function": (
        paddle,
        "mean",
        lambda x: F.npair_loss(x.reshape([1, 3]), x.reshape([1, 3]), paddle.to_tensor([1.0])),
    ),
    "core": (_C_ops, "relu", lambda x: F.relu(x) + 1),
    "core below a method": (_C_ops, "sum", lambda x: x.sum()),
    "core below a layer": (_C_ops, "softmax", lambda x, layer=nn.Softmax(): layer(x)),
    "leaf layer": (F, "relu", lambda x, layer=nn.ReLU(): layer(x) + 1),
    "leaf layer with parameters": (F, "linear", lambda x, layer=nn.Linear(3, 3): layer(x) + 1),
    "loss": (F, "cross_entropy", lambda x, layer=nn.CrossEntropyLoss(): layer(x.reshape([1, 3]), paddle.to_tensor([1]))),
    "model, relu": (F, "relu", lambda x, model=Model(): model(x.reshape([1, 3]), paddle.to_tensor([1]))),
    "model, norm": (_C_ops, "layer_norm", lambda x, model=Model(): model(x.reshape([1, 3]), paddle.to_tensor([1]))),
    "model, dropout": (F, "dropout", lambda x, model=Model(): model(x.reshape([1, 3]), paddle.to_tensor([1]))),
    "model, embedding": (F, "embedding", lambda x, model=Model(): model(x.reshape([1, 3]), paddle.to_tensor([1]))),
    "question": (paddle.nn.functional.activation, "in_dynamic_or_pir_mode", lambda x: F.relu(x)),
    "forward": (nn.Linear, "forward", lambda x, layer=nn.Linear(3, 3): layer(x) * 2),
    "forward of a container": (nn.Sequential, "forward", lambda x, layer=nn.Sequential(nn.ReLU()): layer(x) * 2),
    "call of all layers": (nn.Layer, "__call__", lambda x, layer=nn.Sequential(nn.ReLU()): layer(x) * 2),
    "call of one class": (nn.Linear, "__call__", lambda x, layer=nn.Linear(3, 3): layer(x) * 2),
    "attributes of layers": (nn.Layer, "__getattr__", lambda x, layer=nn.Linear(3, 3): layer(x) * 2),
}


def put(owner, name, value):
    if value is not MISSING:
        setattr(owner, name, value)
    elif name in vars(owner):
        delattr(owner, name)


def plain(result):
    return result.tolist() if isinstance(result, Tensor) else result


def again(program):
    """Return a copy of the program with a new code object, which has no translations."""
    parts = program.__globals__, program.__name__, program.__defaults__, program.__closure__
    return types.FunctionType(program.__code__.replace(), *parts)


def observe(program, steps, calls):
    """Do the steps. Return the result of each call of the program, and the number of calls of the spy in it."""
    seen = []
    for step in steps:
        if step == "call":
            calls.clear()
            seen.append((plain(program(paddle.to_tensor([1.0, -2.0, 3.0]))), len(calls)))
        else:
            step()
    return seen


def compare(program, steps, calls=()):
    calls = calls if isinstance(calls, list) else []
    eager = observe(program, steps, calls)
    sot.reset()
    assert str(observe(sot.symbolic_translate(again(program)), steps, calls)) == str(eager)
    assert sot.stats().hits
    return eager


@pytest.fixture
def replaced(request):
    """Replace attributes of Paddle's modules and classes until the test ends."""
    held = []

    def replace(owner, name, value):
        held.append((owner, name, vars(owner).get(name, MISSING)))
        put(owner, name, value)

    yield replace
    for owner, name, was in reversed(held):
        put(owner, name, was)


@pytest.mark.alone("a spy in Paddle's place counts each run")
@pytest.mark.parametrize("place", ["operator", "function", "core", "leaf layer", "question", "call of one class"])
def test_walked_guards_see_a_late_spy(place, monkeypatch, replaced):
    """Guards that are executed record the memory of a call's foundation. Spies are installed after that, twice."""
    monkeypatch.setenv("SOT_GUARD_MEMORY", "0")
    owner, name, program = PLACES[place]
    calls, original = [], getattr(owner, name)

    def spy(*args, **kwargs):
        calls.append(args)
        return original(*args, **kwargs)

    was = vars(owner).get(name, MISSING)
    begin, end = (lambda: replaced(owner, name, spy)), (lambda: put(owner, name, was))
    warm = ["call"] * 5
    compare(program, [*warm, begin, "call", "call", end, *warm, begin, "call", end, "call"], calls)


@pytest.mark.alone("a spy in Paddle's place counts each run")
@pytest.mark.parametrize("disguised", [True, False], ids=["decorated", "plain"])
@pytest.mark.parametrize("place", PLACES)
def test_a_spy_runs_as_often(place, disguised):
    owner, name, program = PLACES[place]
    was, original, calls = vars(owner).get(name, MISSING), getattr(owner, name), []

    def spy(*args, **kwargs):
        calls.append(args)
        return original(*args, **kwargs)

    spy = functools.wraps(original)(spy) if disguised else spy
    begin, end = (lambda: put(owner, name, spy)), (lambda: put(owner, name, was))
    try:
        seen = compare(program, [begin, "call", "call", "call", end, "call", "call"], calls)
        assert seen[0][1] > 0
        seen = compare(program, ["call", "call", "call", begin, "call", "call", end, "call", "call"], calls)
        assert [count > 0 for _, count in seen] == [False, False, False, True, True, False, False]
    finally:
        end()


@pytest.mark.alone("a spy in Paddle's place counts each run")
@pytest.mark.parametrize("name", ["shape", "T", "ndim"])
def test_a_property_in_the_place_of_an_attribute_runs_as_often(name):
    was, calls = vars(Tensor)[name], []

    def get(self):
        calls.append(self)
        return was.__get__(self)

    programs = {"shape": lambda x: x * x.shape[0], "T": lambda x: x.T + 1, "ndim": lambda x: x + x.ndim}
    begin, end = (lambda: setattr(Tensor, name, property(get))), (lambda: setattr(Tensor, name, was))
    try:
        compare(programs[name], ["call", "call", begin, "call", "call", end, "call"], calls)
        compare(programs[name], [begin, "call", "call", end, "call"], calls)
    finally:
        end()


def test_an_attribute_is_put_on_tensors_and_taken_away():
    def zap(self, by):
        return self * by

    def program(x):
        return x.zap(3) if hasattr(x + 1, "zap") else x - 1

    steps = ["call", "call", lambda: setattr(Tensor, "zap", zap), "call", "call", lambda: delattr(Tensor, "zap"), "call"]
    assert len({str(result) for result, _ in compare(program, steps)}) == 2


def test_an_attribute_of_tensors_is_deleted():
    was = vars(Tensor)["tanh"]

    def program(x):
        return x.tanh() + 1 if hasattr(x, "tanh") else x - 1

    steps = ["call", "call", lambda: delattr(Tensor, "tanh"), "call", "call", lambda: setattr(Tensor, "tanh", was), "call"]
    assert len({str(result) for result, _ in compare(program, steps)}) == 2


class Counting:
    """A callable object that replaces a function."""

    def __init__(self, function, calls):
        functools.update_wrapper(self, function)
        self.function, self.calls = function, calls

    def __call__(self, *args, **kwargs):
        self.calls.append(args)
        return self.function(*args, **kwargs)


@pytest.mark.alone("a spy in Paddle's place counts each run")
@pytest.mark.parametrize("kind", ["object", "partial", "mock", "another of Paddle's"])
@pytest.mark.parametrize("program", [lambda x: F.relu(x) + 1, lambda x, layer=nn.ReLU(): layer(x) + 1], ids=["function", "layer"])
def test_what_is_no_function_of_the_program(kind, program, replaced):
    calls, original = [], F.relu
    counting = Counting(original, calls)
    other = {
        "object": counting,
        "partial": functools.partial(counting),
        "mock": unittest.mock.MagicMock(side_effect=counting),
        "another of Paddle's": F.gelu,
    }[kind]
    begin, end = (lambda: replaced(F, "relu", other)), (lambda: setattr(F, "relu", original))
    compare(program, ["call", "call", begin, "call", "call", end, "call"], calls)
    compare(program, [begin, "call", "call", end, "call"], calls)


def test_the_program_replaces_a_function_while_it_runs(replaced):
    calls, original, layer = [], F.relu, nn.ReLU()

    def spy(x, *rest):
        calls.append(x)
        return original(x, *rest)

    def in_the_module(x):
        F.relu = spy
        try:
            return layer(x) + F.relu(x)
        finally:
            F.relu = original

    def in_a_mock(x):
        with unittest.mock.patch.object(F, "relu", spy):
            return layer(x) + 1

    for program in (in_the_module, in_a_mock):
        eager = observe(program, ["call"] * 3, calls)
        assert str(observe(sot.symbolic_translate(program), ["call"] * 3, calls)) == str(eager)


def test_what_does_not_matter_keeps_translations(replaced):
    layer = nn.Linear(3, 3)

    def program(x):
        return layer(x) + F.relu(x)

    fast = sot.symbolic_translate(program)
    x = paddle.ones([3])
    for _ in range(3):
        fast(x)
    before = sot.stats()
    replaced(F, "gelu", lambda x: x)
    replaced(F, "unheard_of", lambda x: x)
    replaced(Tensor, "unheard_of", 1)
    for _ in range(3):
        fast(x)
    after = sot.stats()
    assert (after.translations, after.hits - before.hits) == (before.translations, 3)


@pytest.mark.alone("a spy in Paddle's place counts each run")
def test_a_spy_on_a_function_is_part_of_one_graph(check, replaced):
    calls, original, layer = [], F.relu, nn.ReLU()

    def spy(x, *rest):
        calls.append(1)
        return original(x, *rest)

    def program(x):
        return layer(x) + x.sum()

    replaced(F, "relu", spy)
    check(program, paddle.ones([3]))
    assert len(calls) == 3


def wrapped(function, calls):
    def wrapper(*args, **kwargs):
        calls.append(len(args))
        return function(*args, **kwargs)

    return wrapper


def test_what_is_replaced_and_not_run_leaves_graphs_whole(check, replaced):
    """Libraries wrap functions whose names Paddle's code for programs contains: `max`, and `gather_nd`, which indexes
    by tensors there."""
    calls = []
    for name in ("max", "gather_nd"):
        replaced(paddle, name, wrapped(getattr(paddle, name), calls))
        replaced(Tensor, name, wrapped(getattr(Tensor, name), calls))
    x = paddle.to_tensor([1.0, 2.0, 3.0])
    check(lambda x: ((x + 1)[1:] == 3).astype("float32") * x[:2] - x[0], x)
    # The `max` in the code of `dropout` is Python's.
    check(lambda x: F.dropout(x, 0.0) + 1, x)
    assert not calls


@pytest.mark.alone("a spy in Paddle's place counts each run")
def test_what_is_replaced_is_not_run_while_a_statement_is_made(replaced):
    """Eager mode indexes without `gather_nd`. Paddle's code for programs would call it."""
    calls = []
    replaced(paddle, "gather_nd", wrapped(paddle.gather_nd, calls))

    def program(x):
        rows, at = paddle.stack([x, x + 1]), paddle.to_tensor([1, 0])
        return rows[at, at] * 2 + paddle.gather_nd(rows, at).sum()

    assert [ran for _, ran in compare(program, ["call", "call"], calls)] == [1, 1]
    stats = sot.stats()
    assert (stats.graphs, dict(stats.breaks)) == (1, {})


def refusing(*args, **kwargs):
    raise AssertionError("eager mode does not come here")


INDICES = {
    "one tensor": lambda x, at: (x + 1)[at] * 2,
    "two": lambda x, at: (x + 1)[at, at + 1] * 2,
    "behind a slice": lambda x, at: (x + 1)[1:, at] * 2,
    "a mask": lambda x, at: (x + 1)[x > 1] * 2,
    "a mask of rows": lambda x, at: (x + 1)[at[:2] > 0] * 2,
}


@pytest.mark.parametrize("place", INDICES)
def test_indexing_is_paddles_own_whatever_stands_in_its_functions_places(check, replaced, place):
    for name in ("gather_nd", "masked_select", "broadcast_tensors"):
        replaced(paddle, name, refusing)
    check(INDICES[place], paddle.arange(6, dtype="float32").reshape([2, 3]) / 2, paddle.to_tensor([1, 0, 1]))


def other(x, *rest, **named):
    return x * 2 + 5


# A function of Paddle's in Python that is given other code, and a program whose operations come to it.
GIVEN_CODE = {
    "function": (F.tanhshrink, lambda x: F.tanhshrink(x) + 1),
    "held by the program": (F.tanhshrink, lambda x, function=F.tanhshrink: function(x) + 1),
    "method": (Tensor.sum, lambda x: x.sum() * 3),
    "function below a layer": (F.relu, lambda x, layer=nn.ReLU(): layer(x) + 1),
    "forward": (nn.ReLU.forward, lambda x, layer=nn.ReLU(): layer(x) + 1),
    "function below a function": (paddle.mean, lambda x: F.npair_loss(x.reshape([1, 3]), x.reshape([1, 3]), paddle.ones([1]))),
}


@pytest.mark.parametrize("place", GIVEN_CODE)
def test_a_function_is_given_other_code(place):
    function, program = GIVEN_CODE[place]
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    own = function.__code__

    def give():
        function.__code__ = (forward if place == "forward" else other).__code__

    def give_back():
        function.__code__ = own

    try:
        eager = compare(program, ["call", "call", "call", give, "call", "call", give_back, "call", "call"])
        assert eager[2] != eager[3] == eager[4] != eager[5]
        compare(program, [give, "call", "call", give_back, "call", "call"])
    finally:
        give_back()


def forward(self, x):
    return x * 2 + 5


@pytest.mark.parametrize("program", [lambda x: F.elu(x) + 1, lambda x, layer=nn.ELU(): layer(x) + F.elu(x)], ids=["function", "layer"])
def test_a_function_is_given_other_defaults(program):
    function = F.elu
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    own = function.__defaults__

    def give():
        function.__defaults__ = (0.25, *own[1:])

    def give_back():
        function.__defaults__ = own

    try:
        eager = compare(program, ["call", "call", "call", give, "call", "call", give_back, "call", "call"])
        assert eager[2] != eager[3]
    finally:
        give_back()


def test_other_functions_that_are_given_code_keep_translations():
    def mine(x):
        return x

    fast = sot.symbolic_translate(lambda x: F.relu(x) + 1)
    x = paddle.ones([3])
    for _ in range(3):
        fast(x)
    before = sot.stats()
    mine.__code__ = (lambda x: x + 1).__code__
    mine.__defaults__ = (3,)
    for _ in range(3):
        fast(x)
    after = sot.stats()
    assert (after.translations, after.hits - before.hits) == (before.translations, 3)


def with_builtins(code, **changes):
    """Return the function `f` that a module with these builtins defines."""
    names = {"__builtins__": {**vars(builtins), **changes}, "paddle": paddle}
    exec(code, names)
    return names["f"]


@pytest.mark.parametrize("place", ["function", "callee"])
def test_builtins_of_its_own(place):
    f = with_builtins("def f(x):\n    return x + len([1]) + abs(-2)", len=lambda v: 500)
    call = f if place == "function" else lambda x: f(x) * 2
    fast = sot.symbolic_translate(call)
    x = paddle.ones([1])
    assert fast(x).item() == call(x).item()
    f.__globals__["__builtins__"]["abs"] = lambda v: 7
    assert fast(x).item() == call(x).item()
    del f.__globals__["__builtins__"]["len"]
    with pytest.raises(NameError, match="name 'len' is not defined"):
        fast(x)
    told = [*sot.stats().breaks, *sot.stats().fallbacks]
    assert told and all("builtins of its own" in reason for reason in told), told


# Layers that a program makes at each call: whose `__init__` is replaced, and the program.
MADE_LAYERS = {
    "its own": (nn.MSELoss, lambda x: nn.MSELoss()(x, x * 2)),
    "of the base": (nn.Layer, lambda x: nn.Dropout(0.5)(x) + 1),
    "of a function": (nn.Layer, lambda x: nn.ReLU()(x - 1) * 2),
}


@pytest.mark.alone("a spy in Paddle's place counts each run")
@pytest.mark.parametrize("before", [False, True], ids=["late", "early"])
@pytest.mark.parametrize("place", MADE_LAYERS)
def test_layers_that_are_made_run_a_replaced_init(replaced, place, before):
    owner, program = MADE_LAYERS[place]
    own, calls = owner.__init__, []

    def init(self, *args, **kwargs):
        own(self, *args, **kwargs)
        calls.append(type(self).__name__)
        self.training, self.reduction = False, "none"

    translated = sot.symbolic_translate(again(program))
    x = paddle.to_tensor([[0.25, 0.75, 0.5]])
    if not before:
        for _ in range(3):
            translated(x)
        assert sot.stats().hits == 2
    replaced(owner, "__init__", init)
    expected = program(x).tolist()
    counts = []
    for _ in range(3):
        calls.clear()
        assert translated(x).tolist() == expected
        counts.append(len(calls))
    assert counts == [1, 1, 1]


def test_an_operation_that_takes_other_arguments_in_programs_breaks_the_graph(replaced):
    """A replaced `unique` is followed, down to the operation."""
    unique, calls = paddle.unique, []

    def counted(*args, **kwargs):
        calls.append(len(args))
        return unique(*args, **kwargs)

    replaced(paddle, "unique", counted)
    translated = sot.symbolic_translate(lambda x: paddle.unique(x * 2) + 1)
    for _ in range(3):
        assert translated(paddle.to_tensor([3, 1, 3])).tolist() == [3, 7]
    assert len(calls) == 3
    # Paddle 3.0 has `unique` as one operation, with the same arguments.
    assert sot.stats().graphs and sum(sot.stats().breaks.values()) == hasattr(paddle, "compat")
