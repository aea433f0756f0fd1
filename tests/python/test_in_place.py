"""Operations in place: part of the graph if no other tensor can show the change, else a graph break.

In both cases all references to the tensor see the new numbers, and gradients are eager mode's.
"""

import functools
import inspect

import numpy as np
import paddle
import pytest
from paddle.nn import functional as F

import sot

pytestmark = pytest.mark.divided


def item(x, w):
    y = x * 2
    y[0] = 1.0
    return y


def item_with_gradient(x, w):
    y = x * 2
    y[0] = w[1]
    return y, y * w


def by_mask(x, w):
    y = x + 0
    y[x > 0.5] = 0.0
    z = x * w
    z[w > 0.5] = 7
    return y, z * x


def by_indices(x, w):
    y = x + w
    y[[0, 2]] = w[:2]
    y[:] = w[0]
    y[..., 2] = 1
    return y


def augmented_items(x, w):
    y = x.detach() * 1
    y[:, 0] += 1
    y[1] *= w[0].detach()
    return y


def seen_through_containers(x, w):
    y = x * 2
    d, l = {"a": y}, [y, (y,)]
    y.add_(w)
    return d, l, y, d["a"] is l[0]


class Box:
    pass


def seen_through_attributes(x, w):
    box = Box()
    box.t = x * 2
    box.t[1] = 0
    kept = box.t
    kept.add_(w)
    return box.t, kept


def seen_through_cells(x, w):
    y = x * 1

    def write():
        y[0] = w[0]
        return y

    return write(), y


def chained(x, w):
    y = x * 2
    a = b = x * 3
    a[0] = 0
    b[1] = 1
    return y.scale_(2.0).add_(w).clip_(0.0, 3.0), y, a is b, a


def functions(x, w):
    y = x - 0.5
    z = F.relu_(y)
    u = x * 2
    paddle.tanh_(u)
    return y * w, z is y, u


def filled(x, w):
    y = paddle.ones([3, 3])
    y.zero_()
    y[1, 1] = 2
    z = paddle.zeros([3])
    z.fill_(4.0)
    return y * x + z


def without_gradients(x, w):
    with paddle.no_grad():
        y = x * 2
        y.add_(w)
        y[0] = 0.0
    return y


def stopped(x, w):
    y = x * 2
    z = y * w
    y.stop_gradient = True
    return y, z, y * w


def in_a_loop(x, w):
    out = paddle.zeros([3, 3])
    for i in range(3):
        out[i] = x[i] * i
    return out


def equal_tensors(x, w):
    a, b = x * 2, x * 2
    c, d = paddle.zeros([3, 3]), paddle.zeros([3, 3])
    a[0] = 1
    b[0] = 1
    b[1] = w[0]
    c[0] = w[0]
    d[1] = w[0]
    return a, b, c, d


def other_types(x, w):
    y = x.astype("float64") * 1
    y[0] = 0.1
    y[1, 1] = True
    z = x > 0.5
    z[0] = True
    z[1] = 0
    i = x.astype("int32")
    i[0] = 2.7
    i.add_(paddle.ones([3, 3], "int32"))
    return y, z.astype("float32"), i.astype("float32")


def value_set(x, w):
    y = x.detach() * 2
    y.set_value(w.detach())
    return y + x


def view_of_what_is_gone(x, w):
    y = (x * 2).reshape([-1])
    y[0] = 5.0
    a, b = paddle.split(x * 2, [1, 2])
    a = a * 1
    a.add_(w[:1])
    return y, a, b


def a_view_lives(x, w):
    y = x * 2
    v = y[0]
    y.add_(w)
    return y, v


def a_view_is_written(x, w):
    y = x * 2
    v = y.reshape([9])
    v[0] = 1
    return y, v


def a_part_is_written(x, w):
    a, b = paddle.split(x * 2, [1, 2])
    a[0] = 0
    return a, b


def cast_to_the_same(x, w):
    y = x * 2
    z = y.astype("float32")
    z.add_(w)
    return y, z


IDLE = paddle.nn.Identity(), paddle.nn.Dropout(0.0)


def given_back_by_layers(x, w):
    y = x * 2
    z = IDLE[1](IDLE[0](y))
    z.add_(w)
    return y, z, z is y, IDLE[0](x) is x


def shaped_to_the_same(x, w):
    y = x * 2
    z = paddle.reshape(y.reshape(y.shape).to("cpu").to(y.dtype), shape=(3, 3))
    z.add_(w)
    return y, z, z is y, x.reshape([3, 3]) is x, x.reshape([-1, 3]) is x


def views_in_a_list(x, w):
    y = x * 1
    views = list(map(lambda i: y[i], range(3)))
    y[0] = 0
    return views, y


def keeps_its_gradient(x, w):
    y = x * 2
    with paddle.no_grad():
        y.add_(w)
    return y * w


def an_argument(x, w):
    y = x.detach()
    y.add_(paddle.ones([3, 3]))
    return y


def views_by_a_generator(x, w):
    y = x * 1

    def rows():
        row = y[0]
        yield 1
        yield row

    it = rows()
    next(it)
    y[0] = 3
    return next(it), y


def views_held_by_a_builtin(x, w):
    y = x * 1

    def step(row, i):
        if i == 2:
            y[0] = 9
        return y[0]

    return functools.reduce(step, [1, 2], None), y


def rows_written(x, w):
    y = x * 1
    for row in y:
        row.add_(w[0])
    return y


CAPTURED = [
    item, item_with_gradient, by_mask, by_indices, augmented_items, seen_through_containers, seen_through_attributes,
    seen_through_cells, chained, functions, filled, without_gradients, stopped, in_a_loop, equal_tensors, other_types, value_set,
    view_of_what_is_gone, cast_to_the_same, given_back_by_layers, shaped_to_the_same,
]
BROKEN = [
    a_view_lives, a_view_is_written, a_part_is_written, views_in_a_list,
    keeps_its_gradient, an_argument, views_by_a_generator, views_held_by_a_builtin, rows_written,
]


def tensors(value):
    if isinstance(value, (list, tuple)):
        return [t for item in value for t in tensors(item)]
    if isinstance(value, dict):
        return tensors(list(value.values()))
    return [value] if isinstance(value, paddle.Tensor) else []


def run(fn):
    paddle.seed(0)
    x, w = paddle.rand([3, 3]), paddle.rand([3, 3])
    x.stop_gradient = w.stop_gradient = False
    outputs = fn(x, w)
    found = [t for t in tensors(outputs) if not t.stop_gradient]
    if found:
        paddle.add_n([(t * t).sum().astype("float32") for t in found]).backward()
    return outputs, x.numpy(), [None if t.grad is None else t.grad.numpy() for t in (x, w)]


@pytest.mark.parametrize("size", ["0", "1000"], ids=["program", "replayed"])
@pytest.mark.parametrize("fn", CAPTURED + BROKEN, ids=lambda fn: fn.__name__)
def test_equals_eager(fn, size, same, monkeypatch):
    monkeypatch.setenv("MIN_GRAPH_SIZE", size)
    expected = run(fn)
    fast = sot.symbolic_translate(fn)
    same(run(fast), expected)
    stats = sot.stats()
    same(run(fast), expected)
    if fn in BROKEN:
        assert stats.breaks, f"\n{stats}"
    else:
        assert stats.graphs == 1 and not stats.breaks and not stats.fallbacks, f"\n{stats}"


def test_an_effect_before_the_write_sees_the_old_numbers(capsys):
    def f(x):
        y = x * 2
        print(y)
        y.add_(x)
        print("then")
        return y

    x = paddle.ones([1])
    f(x)
    expected = capsys.readouterr().out
    fast = sot.symbolic_translate(f)
    for _ in range(2):
        fast(x)
        assert capsys.readouterr().out == expected


def test_a_break_behind_the_write(same):
    def f(x):
        y = x * 2
        kept = [y]
        y[0] = 5.0
        y = y + float(y.sum())
        kept[0].add_(x)
        return kept, y

    x = paddle.ones([3])
    fast = sot.symbolic_translate(f)
    for _ in range(2):
        same(fast(x), f(x))
    assert sot.stats().graphs == 2 and len(sot.stats().breaks) == 1


def test_what_was_read_may_be_written_behind_it(same):
    """Eager mode refuses the backward pass, because the result that it reads was overwritten. A program has a copy."""

    def f(x):
        y = paddle.exp(x)
        z = y * 2
        y[0] = 0.0
        return z.sum() + y.sum()

    x = paddle.to_tensor([1.0, 2.0], stop_gradient=False)
    with pytest.raises(RuntimeError, match="inplace"):
        f(x).backward()
    x.clear_grad()
    sot.symbolic_translate(f)(x).backward()
    same(x.grad.numpy(), (paddle.exp(x) * paddle.to_tensor([2.0, 3.0])).numpy())


def reshaped(x, w):
    y = x * 2
    z = y.unsqueeze_(0)
    kept = [y, y.shape]
    y.squeeze_(0)
    a, b, c = x + 1, x * w, x - 1
    a.reshape_([9]).scale_(2.0)
    b.flatten_()
    b.add_(w[0].tile([3]))
    c.transpose_([1, 0])
    return y, z is y, kept, a * 1, b, b * 2, c


def cast_to_another_type(x, w):
    y = (x * w).detach() * 4
    y.cast_("int32")
    y.add_(paddle.ones([3, 3], "int32"))
    return y, y.dtype == paddle.int32, y.astype("float32") * w


@pytest.mark.parametrize("size", ["0", "10000"], ids=["program", "calls"])
@pytest.mark.parametrize("fn", [reshaped, cast_to_another_type], ids=lambda fn: fn.__name__)
def test_what_becomes_another_tensor(fn, size, check, same, monkeypatch):
    monkeypatch.setenv("MIN_GRAPH_SIZE", size)
    x = paddle.rand([3, 3])
    gradients = []
    for run in (fn, check(fn, x, paddle.rand([3, 3]))):
        w = paddle.to_tensor(x.numpy() + 1, stop_gradient=False)
        sum(part.sum() for part in paddle.utils.flatten(list(run(x, w))) if hasattr(part, "sum") and part.dtype == paddle.float32).backward()
        gradients.append(w.grad.numpy())
    same(*gradients)


def test_what_has_an_alias_becomes_no_other_tensor(check):
    def f(x):
        y = x * 2
        rows = y[1:]
        y.reshape_([9])
        return y * 1, rows

    check(f, paddle.rand([3, 3]), graphs=2, breaks=1)


def drawn(x):
    a, b, c = paddle.empty([2, 3]), paddle.zeros([4]), x * 1
    a.uniform_(0.5, 2.0)
    b.exponential_(2.0)
    c.uniform_()
    return a, b, c * x


def drawn_by_others(x):
    a, b, c = paddle.empty([5]), paddle.zeros([4]), paddle.zeros([3])
    keep = paddle.empty([3, 1]).bernoulli_(0.5)
    return a.normal_(1.0, 2.0), b.log_normal_(), c.cauchy_(), x * keep


@pytest.mark.parametrize("size", ["0", "10000"], ids=["program", "calls"])
@pytest.mark.parametrize("fn", [drawn, drawn_by_others], ids=lambda fn: fn.__name__)
def test_random_numbers_are_eager_modes(fn, size, same, monkeypatch):
    if fn is drawn_by_others and paddle.__version__.startswith("3.0"):
        pytest.skip("these end the graph there")
    monkeypatch.setenv("MIN_GRAPH_SIZE", size)
    streams = []
    for run in (fn, sot.symbolic_translate(fn)):
        paddle.seed(3)
        streams.append([run(paddle.ones([3, 3])) for _ in range(3)] + [paddle.rand([2])])
    same(streams[1], streams[0])
    stats = sot.stats()
    assert (stats.graphs, stats.breaks, stats.fallbacks, stats.hits) == (1, {}, {}, 2)


ARGUMENTS = {
    "addmm_": [("w", "w")], "clip_": [(0.1, 0.9)], "clamp_": [(0.1, 0.9)], "copy_": [("w", False)], "cumprod_": [(0,)], "cumsum_": [(0,), (1,)],
    "fill_": [(2.0,), (0,)], "fill_diagonal_": [(3.0,)], "fill_diagonal_tensor_": [("row",)], "flatten_": [(0, 1)],
    "index_add_": [("ints", 0, "rows")], "index_fill_": [("ints", 0, 2.0)], "index_put_": [], "lerp_": [("w", 0.5)],
    "masked_fill_": [("mask", 2.0)], "masked_scatter_": [("mask", "w")], "pow_": [(2.0,), ("w",)], "put_along_axis_": [],
    "renorm_": [(2.0, 0, 1.0)], "reshape_": [([9],), ([3, 3],)], "scale_": [(2.0,), (2.0, 1.0)], "scatter_": [("ints", "rows")],
    "set_value": [("w",)], "squeeze_": [()], "transpose_": [([1, 0],)], "unsqueeze_": [(0,)], "where_": [],
}
LEFT_OUT = {"share_memory_", "reconstruct_from_", "set_", "grad_", "resize_", "baddbmm_", "baddbmm", "multigammaln_", "polygamma_"}


def in_place_methods():
    names = [name for name in dir(paddle.Tensor) if name.endswith("_") and not name.startswith("_")]
    return [name for name in names if callable(getattr(paddle.Tensor, name)) and name not in LEFT_OUT] + ["set_value"]


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool"])
def test_every_method(dtype, same):
    """Every method that writes in place gives the results of eager mode, or breaks the graph."""
    captured = set()

    def tensor(shape=(3, 3)):
        paddle.seed(1)
        return (paddle.rand(shape) * 4).astype(dtype)

    for name in in_place_methods():
        for kinds in ARGUMENTS.get(name, [(), ("w",)]):
            made = {"w": tensor(), "rows": tensor([2, 3]), "row": tensor([3]), "mask": paddle.eye(3) > 0, "ints": paddle.to_tensor([0, 2])}
            args = [made.get(kind, kind) if isinstance(kind, str) else kind for kind in kinds]

            def f(x):
                y = x.clone()
                result = getattr(y, name)(*args)
                return y, result is y

            if name in ("gcd_", "lcm_") and dtype == "float32":
                continue  # Eager mode computes something, a program of `gcd` itself fails.
            paddle.seed(5)
            try:
                expected = f(tensor())
            except Exception:
                continue
            sot.reset()
            paddle.seed(5)
            try:
                actual = sot.symbolic_translate(f)(tensor())
                same(actual, expected)
            except Exception as error:
                raise AssertionError(f"{name}{kinds}: {str(error)[-300:]}") from None
            if not sot.stats().breaks and not sot.stats().fallbacks:
                captured.add(name)
    print(dtype, len(captured), sorted(set(in_place_methods()) - captured))
    assert len(captured) > {"float32": 50, "int64": 15, "bool": 3}[dtype], sorted(captured)


def assigned(x, u):
    paddle.assign(x + 1, u)
    return u * 2


def assigned_twice_without_gradients(x, u):
    with paddle.no_grad():
        paddle.assign(x @ u, u)
        paddle.assign(x @ u, u)
        v = u.clone()
    return paddle.dot(v, x @ u)


def bits(x, u):
    mask = x.astype("int32")
    written = paddle.zeros_like(mask)
    paddle.bitwise_or(mask, mask, written)
    return written * 2


@pytest.mark.parametrize("fn", [assigned, assigned_twice_without_gradients, bits], ids=lambda fn: fn.__name__)
def test_a_tensor_to_write_to_is_an_argument_by_position(fn, same):
    def run(called):
        x = paddle.eye(3) * 2
        x.stop_gradient = fn is bits
        u = paddle.to_tensor([1.0, 2.0, 3.0]) if fn is not assigned else paddle.zeros([3, 3])
        results = []
        for _ in range(3):
            result = called(x, u)
            if not result.stop_gradient:
                result.sum().backward()
            results.append((result.numpy(), u.numpy(), x.grad.numpy() if x.grad is not None else None))
            u = u.detach()
            x.clear_gradient()
        return results

    same(run(sot.symbolic_translate(fn)), run(fn))
    assert bool(sot.stats().breaks) == (fn is not assigned_twice_without_gradients) and not sot.stats().fallbacks


@pytest.fixture
def both_ways(monkeypatch):
    """Run a test with graphs as programs, and with replayed graphs."""

    def each(call):
        for size in ("0", "1000"):
            monkeypatch.setenv("MIN_GRAPH_SIZE", size)
            sot.reset()
            call()
    return each


def incremented(x, w):
    y = x.sum().reshape([1]) * 1
    z = y + 0
    paddle.increment(z, 2.7)
    count = paddle.zeros([1], "int64") + 1
    return z * w, y, paddle.increment(count, 2.7) is count, count


def incremented_part(x, w):
    y = x.flatten() * 1
    paddle.increment(y[:1])
    return y * 2


@pytest.mark.parametrize("fn, breaks", [(incremented, 0), (incremented_part, 1)], ids=lambda it: getattr(it, "__name__", ""))
def test_increment(fn, breaks, both_ways, same):
    def compare():
        fast = sot.symbolic_translate(fn)
        for _ in range(2):
            same(run(fast), run(fn))
        assert sum(sot.stats().breaks.values()) == breaks and not sot.stats().fallbacks, sot.stats()

    both_ways(compare)


def asks_for(function, argument):
    return argument in inspect.signature(inspect.unwrap(function)).parameters


@pytest.mark.skipif(not asks_for(F.silu, "inplace"), reason="this release has no such argument")
@pytest.mark.parametrize("breaks", [0, 1], ids=["computed", "given"])
@pytest.mark.parametrize(
    "make",
    [
        lambda: lambda x: F.silu(x, inplace=True),
        lambda: lambda x: F.silu(x, True),
        lambda: lambda x: F.dropout(x, 0.5, inplace=True),
        lambda: lambda x: F.dropout(x, 0.5, None, False, True),
        lambda: lambda x: paddle.nn.SiLU(inplace=True)(x),
        lambda: paddle.nn.SiLU(inplace=True),
        lambda: paddle.nn.Dropout(0.5, inplace=True),
    ],
)
def test_functions_and_layers_that_are_asked_to(make, breaks, both_ways, same):
    """These change their argument, and gradients flow through the change."""
    change = make()

    def fn(x, w):
        x = x if breaks else x * 2
        before = x * 3
        y = change(x)
        return before + x + y, y is x, F.relu(x) * w

    def one(x, w):
        return fn(x * 1, w)

    def compare():
        fast = sot.symbolic_translate(fn)
        for _ in range(2):
            same(run(lambda x, w: fast(x * 1, w)), run(one))
        assert sum(sot.stats().breaks.values()) == breaks and not sot.stats().fallbacks, sot.stats()

    both_ways(compare)


@pytest.mark.skipif(not asks_for(F.embedding, "max_norm"), reason="this release has no such argument")
def test_an_embedding_that_shortens_its_rows(same):
    at = paddle.to_tensor([0, 2, 2])
    layer, start = paddle.nn.Embedding(4, 3, max_norm=1.0), paddle.randn([4, 3]) * 3

    def train(call):
        layer.weight.set_value(start)
        found = []
        for _ in range(2):
            with paddle.no_grad():
                found.append(call(at).numpy())
        return found, layer.weight.numpy()

    def fn(at):
        return layer(at) * 2

    same(train(sot.symbolic_translate(fn)), train(fn))
    assert sot.stats().breaks and not sot.stats().fallbacks


MASKED = {
    "first": lambda y, mask, row: y.__setitem__((mask,), 5.0),
    "behind a dimension": lambda y, mask, row: y.__setitem__((slice(None), mask), 5.0),
    "behind a dimension, a tensor": lambda y, mask, row: y.__setitem__((slice(None), mask), paddle.ones([1])),
    "last": lambda y, mask, row: y.__setitem__((..., row), 5.0),
    "as a list": lambda y, mask, row: y.__setitem__((slice(None), slice(None), [True, False, False, True]), 5.0),
}


@pytest.mark.parametrize("write", MASKED.values(), ids=MASKED)
def test_masks_among_indices(write, check):
    """If a mask follows other indices, eager and static mode write to different places, not always the right ones."""

    def fn(x):
        y = x * 1
        write(y, y[0] > 7.0, y[0, 0] > 1.5)
        return y

    breaks = 0 if write is MASKED["first"] else 1
    check(fn, paddle.arange(64, dtype="float32").reshape([4, 4, 4]), breaks=breaks)


MASK_SHAPES = [(2,), (3,), (1,), (2, 3), (2, 2), (3, 2), (1, 3), (2, 1), (2, 3, 1)]
INDICES = {
    "alone": lambda mask: mask,
    "in a tuple": lambda mask: (mask,),
    "behind a dimension": lambda mask: (slice(None), mask),
    "before a number": lambda mask: (mask, 0),
    "before dots": lambda mask: (mask, ...),
}


@pytest.mark.parametrize("shape", MASK_SHAPES, ids=str)
@pytest.mark.parametrize("index", INDICES.values(), ids=INDICES)
def test_masks_of_any_shape(index, shape):
    """A mask that does not fit is refused, by reads and writes, as in eager mode."""

    def write(x, mask):
        y = x * 1
        y[index(mask)] = 7.0
        return y

    def read(x, mask):
        return x[index(mask)]

    def outcome(fn):
        x = paddle.arange(6, dtype="float32").reshape([2, 3])
        mask = paddle.arange(int(np.prod(shape))).reshape(shape) % 2 == 0
        try:
            return fn(x, mask).tolist()
        except (IndexError, ValueError) as error:
            return type(error).__name__

    for fn in [write, read]:
        expected = outcome(fn)
        fast = sot.symbolic_translate(fn)
        assert [outcome(fast), outcome(fast)] == [expected, expected], fn.__name__
        assert sot.stats().translations and not sot.stats().fallbacks


@pytest.mark.parametrize("weight", [0.5, "tensor"])
def test_lerp_of_a_tensor_without_dimensions(weight, same, monkeypatch):
    """Eager mode gives the tensor a dimension if the weight is a number."""
    monkeypatch.setenv("MIN_GRAPH_SIZE", "0")

    def fn(x):
        y = x.sum()
        y.lerp_(x.max(), x.min() if weight == "tensor" else weight)
        return y, y.shape

    fast, x = sot.symbolic_translate(fn), paddle.to_tensor([0.25, 2.0])
    for _ in range(3):
        same(fast(x), fn(x))
    assert sot.stats().graphs and not sot.stats().fallbacks


@pytest.mark.parametrize("number", [1, 0.5, True])
def test_numbers_that_equal_in_place_refuses(number, check):
    def fn(x):
        y = x > 0
        try:
            y.equal_(number)
        except AttributeError:
            return y, "refused"
        return y, "done"

    check(fn, paddle.to_tensor([1.0, -1.0]), breaks=1)


@pytest.mark.parametrize("index", [[1, 1], [0, 1], [2, 2, 2]], ids=str)
@pytest.mark.parametrize("adds", [False, True], ids=["sets", "adds"])
def test_gradients_of_numbers_written_to_positions_that_occur_twice(index, adds):
    def f(x, u, v):
        h = x.exp().tanh().sin().cos()
        if adds:
            h[v] += u * 2
        else:
            h[v] = u * 2
        return (h * paddle.to_tensor([1.0, 2.0, 3.0])).exp().sum()

    fast = sot.symbolic_translate(f)
    for _ in range(3):
        gradients = []
        for call in (f, fast):
            x = paddle.to_tensor([0.1, 0.2, 0.3], stop_gradient=False)
            u = paddle.to_tensor([0.5, 0.6, 0.7][: len(index)], stop_gradient=False)
            call(x, u, paddle.to_tensor(index)).backward()
            gradients.append((x.grad.tolist(), u.grad.tolist()))
        for expected, got in zip(*gradients):
            assert np.allclose(expected, got)


@pytest.mark.parametrize("value", ["parameter", "part of it", "computed"])
def test_values_with_gradients_are_written_where_none_is_recorded(value):
    parameter = paddle.create_parameter([2, 2], "float32")

    def f(x):
        if value == "computed":
            given = (parameter * 2)[0]
        with paddle.no_grad():
            y = x * 2 + 1
            y[0] = given if value == "computed" else parameter[0] if value == "part of it" else parameter
        return y * 1, y

    shape = [2, 2, 2] if value == "parameter" else [2, 2]
    expected = f(paddle.ones(shape))
    fast = sot.symbolic_translate(f)
    for _ in range(3):
        found = fast(paddle.ones(shape))
        assert [y.tolist() for y in found] == [y.tolist() for y in expected]
        assert [y.stop_gradient for y in found] == [y.stop_gradient for y in expected]
    assert sot.stats().graphs


DIAGONALS = {
    "of a number": lambda y: y.fill_diagonal_(0.0),
    "of an integer": lambda y: y.fill_diagonal_(value=2, offset=1),
    "below": lambda y: y.fill_diagonal_(-1.5, -1),
    "wrapped": lambda y: y.fill_diagonal_(3.0, 0, True),
    "wrapped and below": lambda y: y.fill_diagonal_(3.0, offset=-1, wrap=True),
}
DIAGONAL_TENSORS = {
    "first axes": ((4, 4), (4,), {}),
    "above": ((4, 4), (3,), {"offset": 1}),
    "below": ((5, 3), (3,), {"offset": -1}),
    "of three axes": ((2, 4, 3), (4, 2), {"dim1": 0, "dim2": 2}),
    "negative axes": ((2, 4, 4), (2, 4), {"dim1": -2, "dim2": -1}),
}


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32", "bool"])
@pytest.mark.parametrize("shape", [[4, 4], [1, 1], [2, 5], [7, 3], [3, 3, 3]])
@pytest.mark.parametrize("fill", DIAGONALS.values(), ids=DIAGONALS)
def test_diagonals_are_filled(fill, shape, dtype, same):
    """The operation is no method of a program's values."""

    def f(x):
        y = x.clone()
        result = fill(y)
        return y, result is y, x

    x = (paddle.rand(shape) * 4).astype(dtype)
    same(sot.symbolic_translate(f)(x), f(x))
    assert not sot.stats().breaks and sot.stats().graphs == 1


@pytest.mark.parametrize("shape, size, where", DIAGONAL_TENSORS.values(), ids=DIAGONAL_TENSORS)
@pytest.mark.parametrize("method", ["fill_diagonal_tensor", "fill_diagonal_tensor_"])
def test_diagonals_are_filled_with_tensors(method, shape, size, where, same):
    def run(fn):
        x, w = paddle.to_tensor(numbers, stop_gradient=False), paddle.to_tensor(row, stop_gradient=False)
        y, result = fn(x, w)
        (result * paddle.arange(1.0, result.numel() + 1).reshape(result.shape)).sum().backward()
        return y, result, x.grad, w.grad

    def f(x, w):
        y = x * 2
        result = getattr(y, method)(w * 3, **where)
        return y, result * y

    numbers, row = np.random.rand(*shape).astype("float32"), np.random.rand(*size).astype("float32")
    same(run(sot.symbolic_translate(f)), run(f))
    assert not sot.stats().breaks and sot.stats().graphs == 1


@pytest.mark.parametrize("shape", [[4, 4], [7, 3], [3, 3, 3]])
@pytest.mark.parametrize("arguments", [(0.0,), (1.5, 1), (1.5, -1, True)])
def test_gradients_beside_a_filled_diagonal(arguments, shape, same):
    def run(fn):
        x = paddle.to_tensor(numbers, stop_gradient=False)
        y = fn(x)
        (y * y).sum().backward()
        return y, x.grad

    def f(x):
        y = x * 2
        y.fill_diagonal_(*arguments)
        return y * 3

    numbers = np.random.rand(*shape).astype("float32")
    same(run(sot.symbolic_translate(f)), run(f))
    assert not sot.stats().breaks and sot.stats().graphs == 1


@pytest.mark.parametrize("fill", [lambda y: y.fill_diagonal_(), lambda y: y.fill_diagonal_(1.0, 0, False, None, 1)])
def test_calls_of_fill_diagonal_that_are_errors(fill):
    def f(x):
        y = x * 2
        try:
            fill(y)
        except TypeError:
            return y
        return y - 1

    x = paddle.rand([3, 3])
    assert sot.symbolic_translate(f)(x).tolist() == f(x).tolist()


def test_arguments_by_keyword():
    def function(x):
        count = paddle.zeros([1])
        paddle.increment(x=count)
        return F.relu_(x=x * count - 0.5) + count

    x = paddle.rand([3])
    assert sot.symbolic_translate(function)(x).tolist() == function(x).tolist()
    assert (sot.stats().graphs, dict(sot.stats().breaks)) == (1, {})


def test_names_of_parameters_after_a_write():
    layer = paddle.nn.Linear(2, 2)
    momenta = {parameter.name: paddle.ones_like(parameter) for parameter in layer.parameters()}

    @paddle.no_grad()
    def step():
        for parameter in layer.parameters():
            parameter.scale_(0.5)
            parameter.add_(momenta[parameter.name])

    translated = sot.symbolic_translate(step)
    for _ in range(3):
        before = [parameter.numpy() for parameter in layer.parameters()]
        translated()
        for old, parameter in zip(before, layer.parameters()):
            assert parameter.tolist() == (old * 0.5 + 1).tolist()
    assert dict(sot.stats().breaks) == {}


@pytest.mark.parametrize("min_size", [0, 100])
def test_a_gradient_is_written_after_it_was_cleared(min_size):
    def train(wrap):
        paddle.seed(1)
        parameter, seen = paddle.create_parameter([2], "float32"), []

        @paddle.no_grad()
        def step():
            parameter.set_value(parameter * 0.5)
            parameter.clear_gradient()
            parameter.clear_gradient()
            parameter.grad.add_(paddle.ones([2]))

        call = wrap(step)
        for _ in range(3):
            (parameter * 2).sum().backward()
            seen.append(parameter.grad.tolist())
            call()
            seen += [parameter.grad.tolist(), parameter.tolist()]
        return seen

    with sot.config.patch(min_graph_size=min_size):
        assert train(sot.symbolic_translate) == train(lambda step: step)
    assert (sot.stats().graphs, dict(sot.stats().breaks), sot.stats().hits) == (1, {}, 2)


def add_first(y):
    return y.add_(y[0])


def multiply_by_first(y):
    y.multiply_(y[0])
    return y


def add_a_row_that_is_named(y):
    row = y[1]
    y.add_(row)
    return y, row


def subtract_transposed(y):
    y.subtract_(y.t())
    return y


def add_reshaped(y):
    y.add_(y.reshape([-1])[:2])
    return y


def shift(y):
    y[1:] = y[:-1]
    return y


def add_itself(y):
    y.add_(y)
    return y


@pytest.mark.parametrize("outside", [False, True])
@pytest.mark.parametrize(
    "fn",
    [add_first, multiply_by_first, add_a_row_that_is_named, subtract_transposed, add_reshaped, shift, add_itself],
    ids=lambda fn: fn.__name__,
)
def test_an_operand_that_is_a_part_of_the_tensor(fn, outside, same):
    """Paddle's kernels may read what they have already written."""

    def made(x):
        return fn(x * 1)

    def run(call):
        x = paddle.to_tensor([[2.0, 3.0], [5.0, 7.0]])
        return call(x), x

    called = fn if outside else made
    fast = sot.symbolic_translate(called)
    for _ in range(3):
        same(run(fast), run(called))
    stats = sot.stats()
    assert stats.translations and not stats.graph_errors
    if fn in (shift, add_itself):
        assert not stats.breaks and stats.graphs


class Holder(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.register_buffer("buffer", paddle.ones([3, 4]))
        self.plain = paddle.ones([3, 4])
        self.queue = [paddle.ones([3, 4])]


HELD = Holder()
PLACES = {
    "buffer": lambda: HELD.buffer,
    "attribute": lambda: HELD.plain,
    "item": lambda: HELD.queue[0],
    "part": lambda: HELD._buffers["buffer"],
}
FIRST = {
    "operator": lambda base, x: base.add_(x),
    "row": lambda base, x: base.__setitem__(0, x[0]),
    "mask": lambda base, x: base.__setitem__(base >= 0, 2.0),
    "filled": lambda base, x: base.fill_(3.0),
    "assigned": lambda base, x: paddle.assign(x * 2, base),
    "nothing": lambda base, x: base,
}
VIEWS = {
    "row": lambda base: base[0],
    "rows": lambda base: base[:2],
    "transposed": lambda base: base.t(),
    "reshaped": lambda base: base.reshape([12]),
    "detached": lambda base: base.detach(),
}
SECOND = {
    "scaled": lambda view: view.scale_(0.5),
    "filled": lambda view: view.fill_(9.0),
    "item": lambda view: view.__setitem__(0, 7.0),
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("first", FIRST)
@pytest.mark.parametrize("place", PLACES)
def test_views_of_a_tensor_from_outside_that_was_written_to(place, first, view, same):
    """A write through a view is one to its base, also where only an object from outside holds the base."""
    where, before, taken = PLACES[place], FIRST[first], VIEWS[view]

    def write(second):
        def fn(x):
            before(where(), x)
            part = taken(where())
            second(part)
            return x + 1, where() * 1

        return fn

    def run(call, times):
        start = paddle.arange(12, dtype="float32").reshape([3, 4])
        for place in PLACES.values():
            place().set_value(start)
        return [(call(paddle.ones([3, 4]) * (i + 1)), where().clone()) for i in range(times)]

    for second in SECOND.values():
        fn = write(second)
        same(run(sot.symbolic_translate(fn), 2), run(fn, 2))
    stats = sot.stats()
    assert stats.graphs and not stats.graph_errors and not stats.fallbacks
