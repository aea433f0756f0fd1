"""Mixed precision entered inside translated code: traced like the grad mode, and ended where the block ends.

On a CPU Paddle casts nothing, and switches nothing; the fixture `casting` makes it believe that it has another
device, so that programs show which values would be cast.
"""

import contextlib
import sys
import warnings

import types

import numpy as np
import paddle
import pytest
from paddle import nn
from paddle.nn import functional as F

import sot
from conftest import has_avx512

AUTO_CAST = sys.modules["paddle.amp.auto_cast"]


class OtherPlace:
    def is_gpu_place(self):
        return False

    def is_xpu_place(self):
        return False

    def is_custom_place(self):
        return True


class OtherTracer:
    """Wraps Paddle's tracer, and pretends another device."""

    __module__ = AUTO_CAST.__name__

    def __init__(self, tracer):
        vars(self)["tracer"] = tracer

    def __getattr__(self, name):
        return OtherPlace() if name == "_expected_place" else getattr(self.tracer, name)

    def __setattr__(self, name, value):
        setattr(self.tracer, name, value)


@pytest.fixture
def casting(monkeypatch, request):
    if not has_avx512():
        pytest.skip("without AVX-512 oneDNN has no bfloat16 kernels, and Paddle's program ends the process")
    # The program's own run casts nothing, so verify mode rightly reports a difference.
    request.node.add_marker(pytest.mark.differs)
    monkeypatch.setattr(AUTO_CAST, "real_tracer", AUTO_CAST._dygraph_tracer, raising=False)
    monkeypatch.setattr(AUTO_CAST, "OtherTracer", OtherTracer, raising=False)
    put_in_place(monkeypatch, "_dygraph_tracer", lambda: None if real_tracer() is None else OtherTracer(real_tracer()))
    put_in_place(monkeypatch, "_is_custom_device_bfloat16_supported", lambda: True)


def put_in_place(monkeypatch, name, function):
    """Replace a function by one that looks like Paddle's own, because a function of the program would be followed."""
    code = function.__code__.replace(co_filename=AUTO_CAST.__file__)
    monkeypatch.setattr(AUTO_CAST, name, types.FunctionType(code, vars(AUTO_CAST), name))


def state():
    tracer = paddle.base.framework._dygraph_tracer()
    return tracer._amp_level, tracer._amp_dtype, tracer._use_promote, tracer._get_amp_op_list(), AUTO_CAST._g_amp_state_


def dtypes(outputs):
    return [str(y.dtype).rpartition(".")[2] for y in outputs]


def product(x):
    return paddle.matmul(x, x) * 1.0


def nested(x):
    a = product(x)
    with paddle.amp.auto_cast(level="O1", dtype="bfloat16"):
        b = product(x)
        with paddle.amp.auto_cast(enable=False):
            c = product(x)
        d = product(x)
    return a, b, c, d, product(x)


def listed(x):
    with paddle.amp.auto_cast(dtype="bfloat16", custom_white_list=["tanh"], custom_black_list={"matmul", "matmul_v2"}):
        return product(x), paddle.tanh(x) * 1.0


def second_level(x):
    with paddle.amp.auto_cast(level="O2", dtype="bfloat16", use_promote=False):
        y = (x + x) * 1.0
    return y, (x + x) * 1.0


def raised_and_caught(x):
    try:
        with paddle.amp.auto_cast(dtype="bfloat16"):
            y = product(x)
            raise ValueError
    except ValueError:
        return y, product(x)


def chosen(x):
    manager = paddle.amp.auto_cast(dtype="bfloat16") if x.ndim == 2 else contextlib.nullcontext()
    with manager:
        return product(x), product(x)


def broken_inside(x):
    with paddle.amp.auto_cast(dtype="bfloat16"):
        y = product(x)
        z = product(x * float(x.sum()))
    return y, z, product(x)


def returned_inside(x):
    with paddle.amp.auto_cast(dtype="bfloat16"):
        for i in range(3):
            y = product(x)
            if i == 1:
                return (y,)
    return (x,)


EXPECTED = {
    nested: ["float32", "bfloat16", "float32", "bfloat16", "float32"],
    listed: ["float32", "bfloat16"],
    second_level: ["bfloat16", "float32"],
    raised_and_caught: ["bfloat16", "float32"],
    chosen: ["bfloat16", "bfloat16"],
    broken_inside: ["bfloat16", "bfloat16", "float32"],
    returned_inside: ["bfloat16"],
}


@pytest.mark.parametrize("fn", EXPECTED, ids=lambda fn: fn.__name__)
def test_operations_are_cast_inside_the_block_only(fn, casting, monkeypatch):
    monkeypatch.setenv("MIN_GRAPH_SIZE", "0")
    x = paddle.rand([4, 4])
    before = state()
    fast = sot.symbolic_translate(fn)
    for _ in range(2):
        assert dtypes(fast(x)) == EXPECTED[fn]
        assert state() == before
    stats = sot.stats()
    if fn is not broken_inside:
        assert stats.graphs == 1 and not stats.breaks and not stats.fallbacks, f"\n{stats}"


@pytest.mark.filterwarnings("ignore:amp_guard can only be enabled")
@pytest.mark.parametrize("fn", EXPECTED, ids=lambda fn: fn.__name__)
def test_equals_eager_on_the_cpu(fn, same):
    x = paddle.rand([4, 4])
    x.stop_gradient = False
    fast = sot.symbolic_translate(fn)
    before = state()
    for _ in range(2):
        expected, found = fn(x), fast(x)
        assert dtypes(found) == dtypes(expected)
        same(found, expected)
        assert state() == before


X = np.random.RandomState(5).randn(4, 4).astype("float32")
LISTS = [{}, {"custom_white_list": ["scale", "tanh"]}, {"custom_black_list": {"matmul", "matmul_v2", "scale"}}]


@pytest.mark.filterwarnings("ignore:amp_guard can only be enabled")
@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize("lists", LISTS, ids=["", "white", "black"])
@pytest.mark.parametrize("level", ["O0", "OD", "O1", "O2"])
def test_levels_and_lists_have_the_bits_of_eager_mode(level, lists, inside, monkeypatch):
    monkeypatch.setenv("MIN_GRAPH_SIZE", "0")

    def block():
        return paddle.amp.auto_cast(level=level, dtype="bfloat16", **lists)

    def f(x):
        with block() if inside else contextlib.nullcontext():
            y = product(x)
            return y, paddle.tanh(y + 1) * 0.3, F.softmax(y).mean()

    def run(fn):
        x = paddle.to_tensor(X)
        x.stop_gradient = False
        with contextlib.nullcontext() if inside else block():
            results = fn(x)
        results[2].backward()
        return dtypes(results), [result.numpy().tobytes() for result in (*results, x.grad)]

    fast, expected = sot.symbolic_translate(f), run(f)
    for _ in range(2):
        assert run(fast) == expected
    stats = sot.stats()
    assert stats.graphs == 1 and not stats.replayed and not stats.breaks and not stats.fallbacks, f"\n{stats}"


def test_a_small_graph_is_called_under_the_state_of_its_statements(casting, monkeypatch):
    """On a CPU neither eager mode nor a replayed graph casts anything."""

    def f(x):
        with paddle.amp.auto_cast(level="O2", dtype="bfloat16", use_promote=False):
            y = (x + x) * 1.0
        return y

    x = paddle.rand([4])
    fast = sot.symbolic_translate(f)
    monkeypatch.delenv("MIN_GRAPH_SIZE")
    before = state()
    assert dtypes([fast(x), fast(x)]) == dtypes([f(x), f(x)]) and state() == before
    assert sot.stats().graphs == sot.stats().replayed == 1 and not sot.stats().breaks


# What has a kernel for bfloat16 on a CPU, under the names that eager mode and programs have for it.
LISTED = {"multiply", "elementwise_mul", "subtract", "elementwise_sub", "sum", "reduce_sum"}


def cast_by_the_list(x, y):
    with paddle.amp.auto_cast(custom_white_list=LISTED, level="O1", dtype="bfloat16"):
        z = x * y - y
        total = (z * z).sum(axis=0)
    return z, total, total.astype("float32") * x[0]


def cast_by_hand(x, y):
    z = x.astype("bfloat16") * y.astype("bfloat16") - y.astype("bfloat16")
    total = (z * z).sum(axis=0)
    return z, total, total.astype("float32") * x[0]


@pytest.mark.parametrize("grad", [False, True])
def test_numbers_are_those_of_casts_written_out(grad, casting):
    """Eager mode casts nothing on a CPU, so the expected results come from a function with explicit casts."""

    def run(fn):
        paddle.seed(3)
        x, y = paddle.randn([6, 5]), paddle.randn([6, 5])
        x.stop_gradient = y.stop_gradient = not grad
        results = fn(x, y)
        if grad:
            results[2].sum().backward()
        bits = [result.astype("float32").numpy().tobytes() for result in (*results, *([x.grad, y.grad] if grad else ()))]
        return dtypes(results), bits

    expected, fast = run(cast_by_hand), sot.symbolic_translate(cast_by_the_list)
    assert expected[0] == ["bfloat16", "bfloat16", "float32"]
    for _ in range(2):
        assert run(fast) == expected
    assert sot.stats().graphs == 1 and not sot.stats().replayed and not sot.stats().breaks and not sot.stats().fallbacks


def test_mixed_precision_outside_is_guarded(casting, monkeypatch):
    monkeypatch.setenv("MIN_GRAPH_SIZE", "0")
    fast = sot.symbolic_translate(product)
    x = paddle.rand([4, 4])
    for _ in range(2):
        assert dtypes([fast(x)]) == ["float32"]
        with paddle.amp.auto_cast(dtype="bfloat16"):
            assert dtypes([fast(x)]) == ["bfloat16"]
    assert sot.stats().translations == 2


@pytest.mark.skipif(not hasattr(AUTO_CAST, "is_autocast_enabled"), reason="this Paddle cannot be asked whether it casts")
def test_questions_are_answered_for_the_place_they_are_asked_at(casting):
    asks = AUTO_CAST.is_autocast_enabled

    def f(x):
        with paddle.amp.auto_cast(dtype="bfloat16"):
            inside = asks()
        return x + 1, inside, asks()

    assert sot.symbolic_translate(f)(paddle.ones([1]))[1:] == (True, False)
    assert not sot.stats().breaks


def test_the_warning_is_the_same():
    def f(x):
        with paddle.amp.auto_cast():
            return x * 2

    fast = sot.symbolic_translate(f)
    x = paddle.ones([1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for called in (f, fast, fast):
            with pytest.raises(UserWarning, match="makes no effect"):
                called(x)
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        fast(x)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        fast(x)
    assert len(seen) == 1


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_step_with_a_scaler(same):
    def train(wrap):
        paddle.seed(3)
        net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
        update = paddle.optimizer.AdamW(0.01, parameters=net.parameters())
        scaler = paddle.amp.GradScaler(init_loss_scaling=1024.0)

        def step(x, y):
            with paddle.amp.auto_cast(dtype="bfloat16"):
                loss = F.cross_entropy(net(x), y)
            scaler.scale(loss).backward()
            scaler.step(update)
            scaler.update()
            update.clear_grad()
            return loss

        step, losses = wrap(step), []
        for _ in range(5):
            losses.append(float(step(paddle.randn([4, 6]), paddle.randint(0, 3, [4]))))
        return losses, [p.numpy() for p in net.parameters()]

    expected = train(lambda step: step)
    same(train(sot.symbolic_translate), expected)
    stats = sot.stats()
    assert stats.graphs == 1 and sum(stats.breaks.values()) == 4, f"\n{stats}"
