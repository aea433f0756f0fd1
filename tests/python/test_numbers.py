"""Python numbers that differ at each call: a few translations, then one that serves all of them."""

import numpy
import paddle
import pytest

import sot

pytestmark = pytest.mark.divided


def calls_agree(fn, arguments):
    fast = sot.symbolic_translate(fn)
    for given in arguments:
        got, expected = fast(*given), fn(*given)
        pairs = zip(got, expected) if isinstance(expected, tuple) else [(got, expected)]
        for got, expected in pairs:
            assert got.dtype == expected.dtype and got.numpy().tobytes() == expected.numpy().tobytes()


def test_a_float_argument():
    x = paddle.randn([3])

    def step(x, lr):
        y = x * 2
        return (y * lr + 1) * lr

    calls_agree(step, [(x, 0.1 / (n + 1)) for n in range(20)])
    counted = sot.stats()
    assert (counted.translations, counted.graphs) == (2, 2) and not counted.breaks and not counted.fallbacks


SPECIAL = [0.1, 3.7, -2.5, 0.0, -0.0, 1e300, 1e-320, 1.0, -1e-30, 123456.789, float("inf")]

OPERATORS = {
    "sum": lambda x, n: (x + n, n + x),
    "difference": lambda x, n: (x - n, n - x),
    "product": lambda x, n: (x * n, n * x),
    "quotient": lambda x, n: (x / n, n / x),
    "computed": lambda x, n: (x * (1 - n), x / (n * n + 1.0), x + -n, x * abs(n)),
}


def test_the_sign_of_a_nan():
    def negated(x, n):
        return x * 2, -n, [-(n + 1)], n * -1

    fast = sot.symbolic_translate(negated)
    x = paddle.ones([1])
    for n in (1.0, float("nan"), -float("nan"), 0.0, -0.0, float("nan")):
        (_, *got), (_, *expected) = fast(x, n), negated(x, n)
        got[1], expected[1] = got[1][0], expected[1][0]
        assert numpy.array(got).tobytes() == numpy.array(expected).tobytes()


@pytest.mark.parametrize("name", OPERATORS)
def test_the_sign_of_a_nan_in_the_graph(monkeypatch, name):
    monkeypatch.setenv("MIN_GRAPH_SIZE", "0")
    nan = float("nan")
    negative = numpy.copysign(nan, -1.0).item()
    x = paddle.to_tensor([3.0, -17.0, float("inf"), -float("inf"), negative, nan])
    sot.reset()
    calls_agree(OPERATORS[name], [(x, n) for n in (0.3, 0.7, 0.1, nan, negative, float("inf"), -float("inf"), 0.5)])
    assert sot.stats().graphs and not sot.stats().fallbacks


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "complex64"])
@pytest.mark.parametrize("name", OPERATORS)
def test_operators_with_a_float_that_differs(name, dtype):
    x = paddle.to_tensor([[1.5, -2.25, 0.0], [3e4, 1e-3, 7.0]]).cast(dtype)
    fn = OPERATORS[name]
    fast = sot.symbolic_translate(fn)

    def outcome(call, n):
        try:
            return call(x, n)
        except RuntimeError:
            return ()  # Some kernels do not exist.

    for n in SPECIAL:
        for got, expected in zip(outcome(fast, n), outcome(fn, n)):
            assert got.dtype == expected.dtype and got.shape == expected.shape
            numpy.testing.assert_array_equal(got.numpy(), expected.numpy())
    counted = sot.stats()
    if dtype in ("float32", "float64"):
        assert counted.translations <= 4 and not counted.breaks
    # If a number cannot stay open, the function is left to CPython after some translations.
    assert all("too-many-translations" in reason for reason in counted.fallbacks)


FUNCTIONS = {
    "less": lambda x, n: (x < n, x <= n, n < x),
    "greater": lambda x, n: (x > n, x >= n, n >= x),
    "equal": lambda x, n: (x == n, x != n, n == x),
    "where": lambda x, n: (paddle.where(x < n, x, x * 2),),
    "remainder": lambda x, n: (x % n,),
    "quotient": lambda x, n: (x // n,),
    "full": lambda x, n: (paddle.full([2, 2], n), paddle.full([2], n, x.dtype), paddle.full(shape=[3], fill_value=n)),
    "full_of_named_types": lambda x, n: tuple(paddle.full([2], n, dtype=name) for name in ("float64", "int64", "bool")),
    "full_like": lambda x, n: (paddle.full_like(x, n), paddle.full_like(x, fill_value=n, dtype="float64")),
    "lerp": lambda x, n: (paddle.lerp(x, x + 1, n), x.lerp(x * 3, weight=n)),
    "scale": lambda x, n: (x.scale(n), paddle.scale(x, n, 0.5), paddle.scale(x, scale=n, bias=2.0, bias_after_scale=False)),
    "clip": lambda x, n: (x.clip(-n, n), paddle.clip(x, n, 4e3), paddle.clip(x, max=n), paddle.clip(x, min=0.1, max=n)),
    "chosen": lambda x, n: (paddle.where(x > 0, x, n), paddle.where(x.astype("bool"), n, x)),
    "chosen_of_two": lambda x, n: (paddle.where(x > 0, n, n * 2),),
    "masked_fill": lambda x, n: (x.masked_fill(x > 0, n), paddle.masked_fill(x, x > 0, value=n)),
    "masked_fill_": lambda x, n: (x.clone().masked_fill_(x > 0, n),),
    "items": lambda x, n: (with_items(x, 0, n), with_items(x, (0, slice(2)), n)),
    "items_by_mask": lambda x, n: (with_items(x, x > 0, n), with_items(x, ..., n)),
    "scale_": lambda x, n: (x.clone().scale_(n), x.clone().scale_(n, 0.5)),
    "clip_": lambda x, n: (x.clone().clip_(-n, n),),
    "to_tensor": lambda x, n: (paddle.to_tensor(n) + x.sum(), paddle.to_tensor([n]), paddle.to_tensor([n, 1, 0.1, -n])),
    "to_tensor_of_named_types": lambda x, n: (
        paddle.to_tensor(n, dtype="float64"),
        paddle.to_tensor([n, n * 3], "float32"),
        paddle.to_tensor((n, x.shape[0] if x.shape else 2)),
    ),
}


def with_items(x, index, number):
    """Returns a copy that has the number at the index."""
    y = x.clone()
    y[index] = number
    return y


@pytest.mark.parametrize("shape", [[2, 4], []], ids=["two_dimensions", "none"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "int64", "bool", "complex64"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_with_a_float_that_differs(name, dtype, shape):
    is_first = paddle.__version__.startswith("3.0")
    if name == "items_by_mask" and is_first and (not shape or dtype == "float16"):
        pytest.skip("Paddle 3.0 ends the process for a mask without dimensions, and lacks a kernel for float16")
    x = paddle.to_tensor([[1.5, -2.25, 0.0, -0.0], [3e4, 1e-3, float("nan"), float("-inf")]], dtype="float64")
    x = (x if dtype.startswith(("float", "complex")) else paddle.nan_to_num(x, neginf=7.0)).cast(dtype)
    x = x if shape else x[0, 0].reshape([])
    fn = FUNCTIONS[name]
    fast = sot.symbolic_translate(fn)

    def outcome(call, n):
        try:
            return call(x, n)
        except (RuntimeError, ValueError, TypeError, OverflowError, IndexError) as error:
            return type(error)  # Some kernels do not exist, some numbers are refused.

    for n in [*SPECIAL, float("nan"), 1.5, 0.001, 7.0, -7.3]:
        got, expected = outcome(fast, n), outcome(fn, n)
        if isinstance(expected, type) or isinstance(got, type):
            assert got is expected
            continue
        for one, other in zip(got, expected):
            assert (one.dtype, one.shape) == (other.dtype, other.shape)
            assert one.numpy().tobytes() == other.numpy().tobytes(), (n, one, other)
    counted = sot.stats()
    everywhere = ("less", "greater", "equal", "where", "full", "full_of_named_types", "scale", "lerp", "chosen")
    everywhere += ("masked_fill", "masked_fill_", "scale_", "to_tensor", "to_tensor_of_named_types")
    if dtype == "float32" and name in everywhere and (shape or not is_first):
        assert counted.translations <= 4 and not counted.breaks, counted
    # If a number cannot stay open, the function is left to CPython after some translations. Paddle 3.0 has no program
    # for masks of float16.
    without = ("too-many-translations", "where_ changes a tensor") if is_first else ("too-many-translations",)
    assert all(any(text in reason for text in without) for reason in counted.fallbacks)


def test_gradients_through_functions_with_a_float_that_differs():
    def loss(x, n):
        kept = paddle.where(x < n, x, x * n)
        return (paddle.lerp(kept, x.scale(n), n) * paddle.full_like(x, n)).clip(-n, n).sum()

    def gradient(call, n):
        x = paddle.to_tensor([[1.5, -2.25, 0.3], [0.7, 1e-3, 5.0]], stop_gradient=False)
        call(x, n).backward()
        return x.grad.numpy().tobytes()

    fast = sot.symbolic_translate(loss)
    for n in (0.1, 0.7, 0.3, 1.7, 2.9, 0.01, 12.5):
        assert gradient(fast, n) == gradient(loss, n)
    counted = sot.stats()
    assert counted.translations <= 3 and not counted.breaks and not counted.fallbacks


def test_mixed_samples_are_trained_on(monkeypatch, same):
    """Training with a factor that is drawn for each step, and with numbers computed from it."""
    monkeypatch.delenv("MIN_GRAPH_SIZE")
    net = paddle.nn.Sequential(*[part for _ in range(4) for part in (paddle.nn.Linear(4, 4), paddle.nn.Tanh())])

    def loss(x, y, share):
        return (net(x * share + y * (1 - share)) * share).square().mean()

    def step(call, x, share):
        net.clear_gradients()
        x.stop_gradient = False
        call(x, x.flip(0), share).backward()
        gradients = [parameter.grad.numpy() for parameter in net.parameters()] + [x.grad.numpy()]
        x.clear_gradient()
        return gradients

    fast = sot.symbolic_translate(loss)
    for n in range(12):
        x, share = paddle.randn([3, 4]), 0.9 / (n + 1)
        same(step(fast, x, share), step(loss, x, share))
    counted = sot.stats()
    assert counted.translations <= 4 and counted.replayed == 0 and not counted.breaks
    result = fast(x, x, 0.5)
    assert result.grad_fn.name() in ("Dy2StGradNode", "GradNodeBase")
    # Paddle never frees the Python object of the node, so the pass would be waited for.
    result.backward()


def test_a_float_behind_a_break():
    def step(x, n):
        scale = float(x.sum()) * n
        return x * scale + (1 - scale)

    x = paddle.to_tensor([1.0, 2.5])
    calls_agree(step, [(x + k, 0.3 * k) for k in range(12)])
    counted = sot.stats()
    assert counted.translations <= 8 and not counted.fallbacks


# The first value of a number is specialised on. None of these is a size that has a meaning of its own.
INTEGERS_BEHIND_A_BREAK = (5, 4, 0, 1, -1, -2, 7, 2**31 - 2, -(2**31) + 1, 0, 3)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
@pytest.mark.parametrize("name", ["+", "-", "*", "==", "!=", "<", "<=", ">", ">="])
def test_an_integer_behind_a_break(name, dtype):
    """One translation serves all integers that are operands of operators without special numbers."""
    operator_of = eval(f"lambda x, n: x {name} n")
    reflected = eval(f"lambda x, n: n {name} x")

    def step(x, n):
        float(x.sum())
        return operator_of(x, n), reflected(x, n + 1)

    x = paddle.to_tensor([1, 2, 5], dtype)
    sot.reset()
    calls_agree(step, [(x, n) for n in INTEGERS_BEHIND_A_BREAK])
    counted = sot.stats()
    assert counted.graphs and not counted.fallbacks
    if dtype == "int32":
        assert counted.translations <= 6, "an operator with an integer of 64 bits is not that of eager mode"
        return
    assert counted.translations == 3, "up to the break, the first integer, and all others"
    assert len(counted.breaks) == 1, counted.breaks


# Paddle 3.0 divides by multiplying with the reciprocal, which a program does not compute of an integer.
OLD = paddle.__version__.startswith("3.0")

QUOTIENTS = {
    "/": lambda x, n: x / n,
    "//": lambda x, n: x // n,
    "%": lambda x, n: x % n,
    "reflected /": lambda x, n: n / x,
    "**": lambda x, n: x**n,
}


@pytest.mark.parametrize("shape", [[2], []])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
@pytest.mark.parametrize("name", QUOTIENTS)
def test_a_divisor_behind_a_break(name, dtype, shape):
    """Zero and one are special as divisors and exponents."""
    operator_of = QUOTIENTS[name]

    def step(x, n):
        float(x.sum())
        return operator_of(x, n)

    x = paddle.full(shape, 7.3).cast(dtype)
    sot.reset()
    calls_agree(step, [(x, n) for n in (2, 3, 7, 5, 6, 1, 2**31 - 1, 4, 1, 2)])
    counted = sot.stats()
    assert counted.graphs and not counted.fallbacks
    if dtype.startswith("float") and name != "**" and (shape or name != "//") and not (name == "/" and OLD):
        assert counted.translations <= 5, "up to it, the first integer, all others, and two around a break at one"


def test_a_mean_that_is_updated_at_each_step():
    """The integer counts the steps, in an attribute that is read behind a break."""

    class Averaged:
        def __init__(self):
            self.steps, self.mean = 0, paddle.zeros([3])

        def update(self, value):
            loss = float(value.sum())
            self.mean = self.mean + (value - self.mean) / (self.steps + 1)
            self.steps += 1
            return loss, self.mean

    expected, translated = Averaged(), Averaged()
    fast = sot.symbolic_translate(translated.update)
    sot.reset()
    for n in range(12):
        value = paddle.to_tensor([1.0, 2.0, 3.0 * n])
        (loss, mean), (right_loss, right_mean) = fast(value), expected.update(value)
        assert loss == right_loss and mean.tolist() == right_mean.tolist()
    counted = sot.stats()
    assert counted.graphs and counted.translations <= (6 if OLD else 4) and not counted.fallbacks
    assert OLD or not any("changing-number" in reason for reason in counted.breaks), counted.breaks


def test_a_float_may_become_something_else():
    def step(x, n):
        return x * n + x / n

    x = paddle.to_tensor([1.0, 2.5])
    calls_agree(step, [(x, n) for n in (0.1, 0.2, 0.3, 4, 5, 0.6, True, numpy.float64(0.7), 0.8, paddle.to_tensor(0.9))])
    assert not sot.stats().fallbacks


def test_floats_stay_closed_where_sizes_do(monkeypatch):
    monkeypatch.setenv("SOT_ALLOW_DYNAMIC_SHAPE", "0")
    x = paddle.to_tensor([1.0, 2.5])
    calls_agree(lambda x, n: x * n, [(x, n / 7) for n in range(12)])
    assert any("changing-number" in reason for reason in sot.stats().breaks)


def test_an_attribute_and_a_closure_variable():
    class Schedule:
        rate = 1.0

    schedule, x, scale = Schedule(), paddle.randn([3]), 1.0

    def step(x):
        return x * schedule.rate + x * scale

    fast = sot.symbolic_translate(step)
    for n in range(20):
        schedule.rate, scale = 0.5 / (n + 1), 1.0 + n / 7
        assert fast(x).numpy().tobytes() == step(x).numpy().tobytes()
    assert sot.stats().translations <= 30


def test_a_counter_that_decides_a_branch():
    x = paddle.randn([3])

    def step(x, n):
        return x + 1 if n % 10 == 0 else x - 1

    calls_agree(step, [(x, n) for n in range(60)])
    assert sot.stats().translations <= 40


def test_a_number_read_from_a_tensor():
    def step(x):
        loss = float((x * x).sum())
        return x * loss

    calls_agree(step, [(paddle.full([2], float(n)),) for n in range(1, 30)])
    assert sot.stats().translations <= 12 and not sot.stats().fallbacks


def test_what_was_a_number_may_be_anything_later():
    def step(x, y):
        return x * y

    x = paddle.randn([3])
    calls_agree(step, [(x, 2.0), (x, paddle.randn([3])), (x, 3.0), (x, 4.0), (x, paddle.randn([3])), (x, 5), (x, True)])
    assert not sot.stats().fallbacks


@pytest.mark.parametrize(
    "make",
    [
        lambda n: paddle.to_tensor(n),
        lambda n: paddle.to_tensor([n, 0.1]),
        lambda n: paddle.to_tensor([[1, 2], [3, n]]),
        lambda n: paddle.to_tensor([0.1, n], dtype="float64"),
        lambda n: paddle.to_tensor((True, n > 1)),
        lambda n: paddle.to_tensor(0.1 * n, dtype=paddle.float32),
        lambda n: paddle.to_tensor(list(range(n))) if n else paddle.to_tensor([]),
    ],
)
def test_tensors_of_known_data_are_constants(same, make):
    def f(x, n):
        made = make(n)
        return x.sum() * made, made

    fast = sot.symbolic_translate(f)
    x = paddle.ones([2, 2])
    for n in (1, 2, 2):
        same(fast(x, n), f(x, n))
        fast(x, n)[1].zero_()
        same(fast(x, n), f(x, n))
    assert sot.stats().graphs == 2 and not sot.stats().breaks, f"\n{sot.stats()}"


@pytest.mark.parametrize(
    "data, make",
    [
        (numpy.ones(200), lambda d: paddle.to_tensor(d, stop_gradient=False)),
        (0.5, lambda d: paddle.to_tensor(d, dtype="float16")),
        (paddle.ones([2]), lambda d: paddle.to_tensor(d)),
    ],
)
def test_tensors_of_other_data_break_the_graph(same, data, make):
    def f(x, data):
        return x * 2, make(data)

    fast = sot.symbolic_translate(f)
    same(fast(paddle.ones([2]), data), f(paddle.ones([2]), data))
    if isinstance(data, numpy.ndarray):
        data += 1
        same(fast(paddle.ones([2]), data), f(paddle.ones([2]), data))
    assert sot.stats().graphs and sot.stats().breaks


CONSTANTS = {
    "to_tensor": lambda x: paddle.to_tensor(0.1).astype("float64") + x,
    "promoted": lambda x: paddle.to_tensor(0.1) * x,
    "list": lambda x: x + x * paddle.to_tensor([0.1, 0.7]).astype("float64"),
    "full": lambda x: paddle.full([1], 0.1).astype("float64") + x,
    "full of no dimension": lambda x: paddle.full([], 0.1).astype("float64") * 3.0 + x,
    "beside a number that is rounded": lambda x: paddle.full([], 0.1).astype("float64") * 16777217.5 + x,
    "twice": lambda x: paddle.to_tensor(0.1).astype("float64").astype("float32").astype("float64").exp() + x,
}


@pytest.mark.parametrize("name", CONSTANTS)
def test_a_constant_of_float32_that_becomes_float64(name):
    """The constant is a tensor of the program. It has the rounded number, which no cast makes exact again."""
    fn = CONSTANTS[name]
    sot.reset()
    fast = sot.symbolic_translate(fn)
    for x in (paddle.to_tensor(1.5, dtype="float64"), paddle.to_tensor([1.5, 2.0], dtype="float64")):
        got, expected = fast(x), fn(x)
        assert got.dtype == expected.dtype and got.numpy().tobytes() == expected.numpy().tobytes()
    assert sot.stats().graphs >= 1 and not sot.stats().breaks and not sot.stats().fallbacks


@pytest.mark.parametrize("bound", [2**63, 10**20, -(2**64)])
@pytest.mark.parametrize("name", ["start", "stop", "step"])
def test_slices_with_integers_beyond_64_bits(name, bound):
    """Paddle ends the process if such a slice is put into a program."""

    def part(x, bound):
        parts = {"start": None, "stop": None, "step": None, name: bound}
        return (x * 2)[parts["start"] : parts["stop"] : parts["step"]]

    def outcome(fn, *given):
        try:
            return fn(*given).numpy().tobytes()
        except Exception as error:
            return type(error)

    x = paddle.ones([4])
    fast = sot.symbolic_translate(part)
    for given in (1, bound, bound, 2):
        assert outcome(fast, x, given) == outcome(part, x, given)
    assert sot.stats().graphs


def test_a_slice_with_a_step_that_differs(same):
    def part(x, step):
        return x[::step] * 2, x[1::step, :2]

    x = paddle.rand([9, 3])
    fast = sot.symbolic_translate(part)
    for step in (1, 2, 3, 2, 4, 1, 5):
        same(fast(x, step), part(x, step))
    stats = sot.stats()
    assert (stats.breaks, stats.graphs) == ({}, 5)
