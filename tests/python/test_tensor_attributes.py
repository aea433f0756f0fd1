"""Attributes that a program, or Paddle, has set on a tensor object."""

import paddle
import pytest

import sot


def assert_same(fn, *args):
    assert paddle.equal_all(sot.symbolic_translate(fn)(*args), fn(*args))


@pytest.fixture
def x():
    return paddle.arange(4).astype("float32")


def scaled(x):
    y = x * 2
    return y * getattr(x, "factor", 10) + 1


def test_read_and_guarded(x):
    assert_same(scaled, x)
    x.factor = 3
    assert_same(scaled, x)
    x.factor = 4
    assert_same(scaled, x)
    assert_same(scaled, x)
    del x.factor
    assert_same(scaled, x)
    stats = sot.stats()
    assert (stats.graphs, stats.translations, stats.breaks, stats.fallbacks) == (3, 3, {}, {})
    assert stats.hits == 2


def test_that_is_a_tensor(x):
    def f(x):
        return x * 2 + x.other

    x.other = paddle.ones([4])
    assert_same(f, x)
    x.other = paddle.ones([4]) * 5
    assert_same(f, x)
    stats = sot.stats()
    assert (stats.graphs, stats.hits, stats.breaks) == (1, 1, {})


def test_of_parameters():
    layer = paddle.nn.Linear(4, 4)
    layer.weight.is_distributed = False
    layer.weight.quantized = True

    def f(x):
        weight = layer.weight
        y = x @ weight
        if weight.is_distributed:
            y = y * 0
        if hasattr(weight, "quantized") and not hasattr(layer.bias, "quantized"):
            y = y + 1
        return y + len(weight.optimize_attr) if weight.trainable else y

    x = paddle.ones([2, 4])
    assert_same(f, x)
    assert_same(f, x)
    layer.weight.is_distributed = True
    assert_same(f, x)
    stats = sot.stats()
    assert (stats.graphs, stats.hits, stats.breaks, stats.fallbacks) == (2, 1, {}, {})


def test_missing(x):
    def f(x):
        y = x * 2
        return y + x.factor

    with pytest.raises(AttributeError, match="factor"):
        sot.symbolic_translate(f)(x)
    x.factor = 2
    assert_same(f, x)


def test_written_in_the_function(x):
    def f(x):
        y = x * 2
        y.factor = 3
        return scaled(y) + y.factor

    assert_same(f, x)
    assert not sot.stats().breaks


def test_written_to_results(x, check):
    """Also on results of a loop, in containers, that refer to each other, are written twice, or view a whole tensor."""

    class Tagged(paddle.nn.Layer):
        def forward(self, x):
            h = x[:]
            h.tag = "all of it"
            return h

    tagged = Tagged()

    def f(x):
        parts = []
        for index in range(3):
            part = x * index
            part.index, part.before = index, parts[-1:]
            parts.append(part)
        last = max(parts, key=lambda part: part.index)
        last.mean_of_it = last.mean()
        last.mean_of_it = last.mean_of_it + 1
        last.extra = {"x": x}
        last.index += 5
        del parts[0].index
        gone = x + 1
        gone.tag = "dead"
        h = tagged(x)
        return parts, hasattr(parts[0], "index"), hasattr(parts[1], "mean_of_it"), gone.tag, h, hasattr(x, "tag")

    check(f, x)
    parts, *_, h, _ = sot.symbolic_translate(f)(x)
    assert [vars(part).keys() for part in parts] == [{"before"}, {"index", "before"}, {"index", "before", "mean_of_it", "extra"}]
    last = parts[2]
    assert last.index == 7 and last.before[0] is parts[1] and last.extra["x"] is x and not hasattr(x, "tag")
    assert last.mean_of_it.item() == last.mean().item() + 1 and (h.tag, h is x) == ("all of it", False)


def test_written_before_a_break(x):
    def f(x):
        y = x * 2
        y.tag = 1
        if y.sum() > 0:
            y.tag += 1
        y.other = y.tag
        return y

    fast = sot.symbolic_translate(f)
    for _ in range(2):
        assert vars(fast(x)) == {"tag": 2, "other": 2}
    assert (sot.stats().graphs, sum(sot.stats().breaks.values())) == (1, 1)


def test_of_a_tensor_changed_in_place(x):
    def f(x):
        x.add_(paddle.ones([4]))
        return x * x.factor

    x.factor = 2
    expected = (x + 1) * 2
    assert paddle.equal_all(sot.symbolic_translate(f)(x), expected)
    stats = sot.stats()
    assert (stats.graphs, stats.fallbacks) == (2, {})
    assert any("changed in place" in reason for reason in stats.breaks)


def test_written_to_a_tensor_from_outside(x):
    def f(x):
        y = x * 2
        x.count = getattr(x, "count", 0) + 1
        x.made = y
        return y + x.count, x.made is y

    left = []
    for run in (f, sot.symbolic_translate(f)):
        x = paddle.ones([4])
        left.append([(str(run(x)), x.count, x.made.tolist()) for _ in range(3)])
    assert left[0] == left[1]
    assert not sot.stats().breaks and not sot.stats().fallbacks


def test_of_results(check):
    """Attributes that Paddle and its autograd keep with a tensor are known for results, too."""
    p = paddle.create_parameter([4], "float32")
    old = paddle.__version__.startswith("3.0")

    def f(x):
        y = x * p
        asked = [y.grad is None, y.is_leaf, p.is_leaf, x.is_leaf, y.__class__ is paddle.Tensor]
        if not old:
            asked += [y.cpu() is y, x.cpu() is x, y.detach().cpu().stop_gradient]
        asked += [y.place.is_cpu_place(), x.place.is_gpu_place(), y.element_size()]
        asked += [getattr(y, "itemsize", None), getattr(y, "is_cuda", None), y.get_device() if hasattr(y, "get_device") else None]
        return y, asked

    check(f, paddle.ones([4]))


def test_whether_gradients_flow(check, same):
    def f(x):
        y = x * 2
        x.stop_gradient = x.stop_gradient
        y.stop_gradient = True
        if hasattr(y, "requires_grad_"):
            y.requires_grad_(False)
        return y, x.stop_gradient

    check(f, paddle.ones([4]))
    net = paddle.nn.Linear(4, 4)

    def frozen(x, on):
        for p in net.parameters():
            p.trainable = on
        return x * 2, [p.trainable for p in net.parameters()], net.weight.stop_gradient

    for on in (True, False, False, True):
        sot.reset()
        same(sot.symbolic_translate(frozen)(paddle.ones([4]), on), frozen(paddle.ones([4]), on))
        assert (sot.stats().graphs, sot.stats().breaks) == (1, {})


def test_that_gradients_flow_matters_from_there_on():
    """`stop_gradient` is set between operations: on a network's parameters, and on a tensor to differentiate by."""
    judge, forge = paddle.nn.Linear(4, 1), paddle.nn.Linear(4, 4)

    def step(x):
        for p in judge.parameters():
            p.stop_gradient = True
        forged = judge(forge(x)).mean()
        for p in judge.parameters():
            p.stop_gradient = False
        return forged, judge(forge(x).detach()).mean() - judge(x).mean()

    def by_input(x):
        y = x * 3
        x.stop_gradient = False
        return (x * x).sum() + y.sum()

    left = []
    for one, other in ((step, by_input), (sot.symbolic_translate(step), sot.symbolic_translate(by_input))):
        for _ in range(3):
            x = paddle.arange(8, dtype="float32").reshape([2, 4])
            forged, judged = one(x)
            forged.backward()
            left.append((forged.item(), judge.weight.grad is None or judge.weight.grad.tolist(), forge.weight.grad.tolist()))
            judged.backward()
            other(x).backward()
            left.append((judged.item(), judge.weight.grad.tolist(), x.grad.tolist()))
            judge.clear_gradients()
            forge.clear_gradients()
        for p in judge.parameters():
            p.clear_gradient(False)
    assert left[:6] == left[6:]
    stats = sot.stats()
    assert not stats.breaks and not stats.fallbacks and stats.hits


def test_in_the_place_of_a_method(x):
    def f(x):
        return x * 2 + x.scale

    x.scale = 3
    assert_same(f, x)
    assert not sot.stats().breaks


def test_whether_data_types_are_one_object(x):
    """Paddle 3.0 makes a new object at each read."""

    def f(x):
        y = x * 2
        return y, x.dtype is paddle.float32, x.dtype is x.dtype, y.dtype is not x.dtype, y.dtype is paddle.float64

    expected, fast = f(x)[1:], sot.symbolic_translate(f)
    assert [fast(x)[1:] for _ in range(2)] == [expected, expected]
    assert sot.stats().graphs == (1 if paddle.float32 is x.dtype else 0)


def test_data_types_that_are_given_back_are_paddles_objects(x, same):
    def f(x):
        y = x.astype("int64")
        return [x.dtype, y.dtype, (x > 0).dtype, {y.dtype: y.dtype}], y

    def names(found):
        *types, by_type = found
        return [dtype is getattr(paddle, str(dtype).split(".")[-1]) for dtype in [*types, *by_type, *by_type.values()]]

    expected, fast = f(x), sot.symbolic_translate(f)
    for _ in range(2):
        types, y = fast(x)
        same(y, expected[1])
        assert names(types) == names(expected[0])
    assert sot.stats().graphs


def test_a_name_is_given(same):
    def fn(x):
        y = x * 2
        y.name = "doubled"
        x.name = "given"
        return y, y.name, (y + 1).sum(), x.name

    def named(x):
        y, *rest = fn(x)
        return y, y.name, x.name, rest

    fast = sot.symbolic_translate(fn)
    for _ in range(2):
        x, other = paddle.ones([2, 3]), paddle.ones([2, 3])
        expected, (y, *rest) = named(other), fast(x)
        same((y, y.name, x.name, rest), expected)
    assert sot.stats().graphs == 1 and not sot.stats().breaks


def test_the_numbers_of_a_text(check):
    def fn(x):
        mask = paddle.full([2, 3], "-inf")
        return paddle.where(x > 1, x, mask), paddle.full([2], "nan", "float64"), paddle.full([1], "1.5", dtype="float32")

    check(fn, paddle.arange(6, dtype="float32").reshape([2, 3]))


def test_copies_without_grad_mode_have_no_gradient(check):
    """Static mode marks copies as if grad mode were on."""
    p = paddle.create_parameter([2], "float32", default_initializer=paddle.nn.initializer.Constant(2.0))

    def f(x):
        y = x * p
        with paddle.no_grad():
            inside = [y.clone(), paddle.assign(y), p.clone(), y + 1, y.astype("float32")]
            with paddle.enable_grad():
                within = [y.clone(), p.clone()]
            known = [copy.stop_gradient for copy in (*inside, *within)]
        return inside, within, known, y.clone(), inside[0] * p

    check(f, paddle.ones([2]))


def test_properties_of_a_parameter_that_was_changed_in_place():
    """As in an optimizer of the program's own, whose `clear_gradients` asks which parameters are trained."""
    linear = paddle.nn.Linear(2, 2)

    def fn(x):
        with paddle.no_grad():
            linear.weight.scale_(0.5)
        trained = [parameter.trainable for parameter in linear.parameters()]
        return (linear(x) if trained[0] else x) + len(trained)

    def outcome(run):
        with paddle.no_grad():
            linear.weight.fill_(1.0)
        return [run(paddle.ones([1, 2])).tolist() for _ in range(3)]

    linear.bias.stop_gradient = True
    assert outcome(sot.symbolic_translate(fn)) == outcome(fn)
    stats = sot.stats()
    assert stats.graphs and not stats.breaks and not stats.fallbacks, stats


def test_writes_that_raise_are_caught_where_they_are():
    def of_a_result(x):
        caught = []
        try:
            x.grad = None
        except Exception as error:
            caught.append(type(error))
        return x * 2, caught

    def of_a_leaf(x):
        caught = []
        try:
            x.grad = None
        except ValueError as error:
            caught.append(type(error))
        return x * 2, caught

    def without_setter(x):
        y = x * 2
        try:
            y.T = 3
        except Exception as error:
            return y, [type(error), str(error)]

    for fn in (of_a_result, of_a_leaf, without_setter):
        seen = []
        for run in (fn, sot.symbolic_translate(fn)):
            x = paddle.to_tensor([1.0], stop_gradient=False)
            result, caught = run(x * 2 if fn is of_a_result else x)
            seen.append((result.tolist(), caught))
        assert seen[0] == seen[1]


STRIDE = "stride" if hasattr(paddle.Tensor, "stride") else "get_strides"


def test_strides_of_an_argument(same):
    def fn(x):
        y = x * 2
        return getattr(x, STRIDE)(), x.strides, getattr(x.contiguous(), STRIDE)(), y + 1

    fast = sot.symbolic_translate(fn)
    # `contiguous` lays out its argument anew.
    for made in (lambda: paddle.ones([2, 3]).t(), lambda: paddle.ones([3, 2]), lambda: paddle.ones([4, 3])[::2].t()):
        same(fast(made()), fn(made()))
    assert sot.stats().graphs
