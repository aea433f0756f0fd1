"""Programs of one graph: no call breaks it, and results and side effects are those of eager mode."""

import collections
import contextlib
import functools
import os
import sys
import types

import paddle
import pytest

import sot
from conftest import assert_same

X = paddle.to_tensor([1.0, 2.0, 3.0])


def run(function, arguments, state, calls):
    results = []
    for index in range(calls):
        result = function(*arguments(index))
        results.append((result, state()))
    return results


def compare(make, graphs=1, translations=1, breaks=0, calls=4):
    """`make()` returns a function, its arguments by the number of the call, and a reader of its side effects."""
    function, arguments, state = make()
    expected = run(function, arguments, state, calls)
    sot.reset()
    function, arguments, state = make()
    actual = run(sot.symbolic_translate(function), arguments, state, calls)
    stats = sot.stats()
    assert_same(actual, expected)
    seen = (stats.graphs, stats.translations, sum(stats.breaks.values()), sum(stats.fallbacks.values()))
    assert seen == (graphs, translations, breaks, 0), f"\n{stats}"
    assert stats.hits >= calls - translations, f"\n{stats}"


def nothing():
    return None


def given(*arguments):
    return lambda index: arguments


# Cached functions


@pytest.mark.alone("a cache in C keeps what the program's own run put into it")
def test_cached_function_given_a_tensor():
    def make():
        @functools.lru_cache(maxsize=None)
        def double(x):
            return x * 2

        def call(x):
            return double(x) + 1

        return call, given(X), lambda: tuple(double.cache_info())

    # The first call runs in CPython, where the cached function itself is translated.
    compare(make, graphs=2, translations=3)


def test_cached_function_gives_the_tensor_it_has():
    @functools.lru_cache(maxsize=None)
    def double(x):
        return x * 2

    def call(x):
        return double(x), x + 1

    fast = sot.symbolic_translate(call)
    first, second, third = fast(X)[0], fast(X)[0], fast(X)[0]
    assert first is second is third is double(X)
    # In the first call the caller, which runs in CPython, and the cached function; then the caller.
    assert sot.stats().translations == 3 and sot.stats().hits == 1 and not sot.stats().breaks


@pytest.mark.alone("the second of two runs finds what the cached function keeps")
def test_cached_function_given_a_gradient():
    weight = paddle.create_parameter([3], "float32")

    @functools.lru_cache(maxsize=None)
    def double(x):
        return x * 2

    def loss():
        return (double(weight) * 3).sum()

    sot.symbolic_translate(loss)().backward()
    assert weight.grad.tolist() == [6.0] * 3 and not sot.stats().breaks


def test_cached_function_given_other_tensors_settles():
    @functools.lru_cache(maxsize=4)
    def double(x):
        return x * 2

    fast = sot.symbolic_translate(lambda x: double(x) + 1)
    for index in range(12):
        assert fast(paddle.to_tensor([float(index)])).tolist() == [2.0 * index + 1]
    settled = sot.stats().translations
    assert settled <= 8
    fast(paddle.to_tensor([1.0]))
    assert sot.stats().translations == settled


@pytest.mark.alone("a cache in C keeps what the program's own run put into it")
def test_cached_function_that_drops_values():
    def make():
        @functools.lru_cache(maxsize=2)
        def double(n):
            return n * 2

        def call(x):
            return x * double(1) + double(2) + double(3)

        return call, given(X), lambda: tuple(double.cache_info())

    compare(make)


def test_cached_function_made_in_the_trace_drops_values():
    def make():
        calls = []

        def call(x):
            @functools.lru_cache(maxsize=2)
            def double(n):
                calls.append(n)
                return n * 2

            for n in (1, 2, 1, 3, 1, 2):
                x = x + double(n)
            return x, tuple(double.cache_info())

        return call, given(X), lambda: list(calls)

    compare(make)


# Objects


class Base:
    def scale(self, x):
        return x * 2


class Derived(Base):
    def scale(self, x):
        return by(super(), x) + 1


def by(parent, x):
    return parent.scale(x)


def test_super_object_as_an_argument():
    derived = Derived()
    compare(lambda: (derived.scale, given(X), nothing))
    compare(lambda: (by, given(super(Derived, derived), X), nothing))


def test_super_object_guards_its_receiver():
    class Other(Base):
        def scale(self, x):
            return x * 5

    class Last(Other):
        pass

    parents = [super(Derived, Derived()), super(Last, Last())]
    compare(lambda: (by, lambda index: (parents[index % 2], X), nothing), graphs=2, translations=2)


def test_slots_that_count():
    class Counter:
        __slots__ = ("count", "last")

    def make():
        counter = Counter()
        counter.count, counter.last = 0, X

        def call(x):
            counter.count += 1
            counter.last = counter.last + x
            return counter.last * 2

        return call, given(X), lambda: (counter.count, counter.last)

    # The first translation specialises on the number of its call. The second one leaves the number open.
    compare(make, graphs=2, translations=2)


def test_class_of_a_new_object_is_set():
    class Before:
        pass

    class After:
        def scale(self, x):
            return x * self.factor

    def call(x):
        item = Before()
        item.factor = 2
        item.__class__ = After
        return item.scale(x), type(item).__name__, isinstance(item, After)

    compare(lambda: (call, given(X), nothing))

    def give(x):
        item = Before()
        item.__class__ = After
        item.factor = 3
        return item, x + 1

    fast = sot.symbolic_translate(give)
    for _ in range(2):
        item, _ = fast(X)
        assert type(item) is After and vars(item) == {"factor": 3}


def test_class_that_does_not_fit_is_the_programs_error():
    class Before:
        pass

    class Slotted:
        __slots__ = ("value",)

    def call(x):
        item = Before()
        try:
            item.__class__ = Slotted
        except TypeError as error:
            return x * 2, str(error)
        return x, ""

    compare(lambda: (call, given(X), nothing))


# The interpreter


@pytest.mark.alone("it counts translations")
def test_environment_is_set():
    name = "SOT_TEST_VARIABLE"

    def make():
        os.environ.pop(name, None)

        def call(x):
            os.environ[name] = "3"
            y = x * float(os.environ[name])
            os.environ.setdefault(name + "_2", "b")
            del os.environ[name + "_2"]
            return y + (name in os.environ)

        return call, given(X), lambda: (os.popen("echo $" + name).read(), os.environ.pop(name, None))

    compare(make)


def test_environment_refuses_what_the_system_does():
    def call(x):
        try:
            os.environ["SOT=TEST"] = "1"
        except (ValueError, OSError):
            return x * 2
        return x

    assert_same(sot.symbolic_translate(call)(X), call(X))


def test_modules_that_are_only_in_sys_modules(monkeypatch):
    alone, package, inner = (types.ModuleType(name) for name in ("sot_alone", "sot_package", "sot_package.inner"))
    package.__path__ = []
    alone.factor, inner.factor = 3, 4
    for module in (alone, package, inner):
        monkeypatch.setitem(sys.modules, module.__name__, module)

    def call(x):
        import sot_alone
        import sot_package.inner as other
        from sot_package import inner
        from sot_package.inner import factor

        return x * sot_alone.factor + factor + inner.factor + other.factor

    compare(lambda: (call, given(X), nothing))
    fast = sot.symbolic_translate(call)
    fast(X)
    replaced = types.ModuleType("sot_package.inner")
    replaced.factor = 7
    monkeypatch.setitem(sys.modules, "sot_package.inner", replaced)
    assert_same(fast(X), call(X))


# Iterators and context managers


@pytest.mark.parametrize("kind", [list, tuple])
def test_reversed_iterator_across_a_break(kind):
    def make():
        def call(x):
            backwards = reversed(kind([x, x * 2, x * 3]))
            first = next(backwards)
            sot.psdb.breakgraph()
            return [first - item for item in backwards]

        return call, given(X), nothing

    compare(make, graphs=2, translations=2, breaks=1)


def test_reversed_iterator_of_a_list_that_shrinks():
    items = [1.0, 2.0, 3.0]

    def step(backwards, x):
        return x * next(backwards, 9.0)

    fast = sot.symbolic_translate(step)
    for change in (lambda: None, items.pop, items.clear):
        ours, own = reversed(items), reversed(items)
        change()
        for _ in range(3):
            assert_same(fast(ours, X), step(own, X))
    assert not sot.stats().breaks


def test_throw_into_a_context_manager():
    def make():
        log = []

        @contextlib.contextmanager
        def managed(factor):
            try:
                yield factor
            except ValueError as error:
                log.append(str(error))
            finally:
                log.append("left")

        def call(x):
            with managed(2) as factor:
                x = x * factor
                raise ValueError("thrown")
            manager = managed(3)
            x = x * manager.__enter__()
            suppressed = manager.__exit__(ValueError, ValueError("given"), None)
            third = managed(4)
            third.__enter__()
            try:
                third.gen.throw(ValueError("direct"))
            except StopIteration:
                x = x + 1
            return x, suppressed

        return call, given(X), lambda: list(log)

    compare(make)


# Calls of Paddle's


def test_operators_held_as_unbound_methods():
    tensor = paddle.Tensor
    names = ["__add__", "__radd__", "__mul__", "__rsub__", "__pow__", "__eq__", "__lt__", "__truediv__", "__matmul__"]
    operators = [getattr(tensor, name) for name in names]

    def call(x):
        results = [operator(x, x) for operator in operators]
        results += list(map(tensor.__neg__, [x, x * 2]))
        return results + [functools.reduce(tensor.__add__, results[:3]), tensor.__getitem__(x, 0)]

    compare(lambda: (call, given(X), nothing))


def test_unbound_item_assignment():
    def call(x):
        y = x + 1
        paddle.Tensor.__setitem__(y, 0, 5.0)
        return y

    compare(lambda: (call, given(X), nothing))


def test_unbound_operator_on_something_else(same):
    def call(x):
        try:
            return paddle.Tensor.__add__(2, x)
        except TypeError:
            return x * 3

    same(sot.symbolic_translate(call)(X), call(X))


WAVE = paddle.sin(paddle.arange(2048, dtype="float32") * 0.3).reshape([1, -1])


def spectrum(x):
    window = paddle.audio.functional.get_window("hann", 256, dtype="float32")
    return paddle.signal.stft(x, n_fft=256, window=window, center=False).abs()


def method_spectrum(x):
    window = paddle.audio.functional.get_window("hann", 256, dtype="float32")
    return x.stft(256, window=window).abs() * 2


@pytest.mark.parametrize("function", [spectrum, method_spectrum])
def test_functions_that_static_mode_refuses_are_followed(function):
    compare(lambda: (function, given(WAVE), nothing))


@pytest.mark.parametrize("name", ["Spectrogram", "MelSpectrogram", "LogMelSpectrogram", "MFCC"])
def test_audio_features(name):
    options = {} if name == "Spectrogram" else {"sr": 8000, "n_mels": 16}
    if name == "MFCC":
        options["n_mfcc"] = 8
    feature = getattr(paddle.audio.features, name)(n_fft=256, **options)
    compare(lambda: (feature, given(WAVE), nothing))


def test_refused_call_that_cannot_be_followed_is_one_break():
    def call(x, flag):
        y = x + 1
        return paddle.nn.functional.dropout(y, p=flag.astype("float32").sum() * 0) * 2

    zero = paddle.zeros([1])
    fast = sot.symbolic_translate(call)
    for _ in range(2):
        assert_same(fast(X, zero), call(X, zero))


def test_refused_call_raises_what_eager_mode_raises():
    def call(x, y):
        return paddle.matmul(x, y)

    pair = paddle.ones([2, 3]), paddle.ones([2, 3])
    with pytest.raises(ValueError) as expected:
        call(*pair)
    fast = sot.symbolic_translate(call)
    for _ in range(2):
        with pytest.raises(type(expected.value)):
            fast(*pair)


def test_refused_call_leaves_no_random_numbers_behind(monkeypatch):
    def noisy(x):
        y = paddle.nn.functional.dropout(x, 0.5)
        # A program's values have no length.
        return y * len(x) + paddle.rand([3])

    monkeypatch.setattr(noisy, "__module__", "paddle.tensor.math")

    def call(x):
        return noisy(x) + paddle.rand([3])

    def seeded(function):
        paddle.seed(7)
        return [function(X) for _ in range(3)]

    assert_same(seeded(sot.symbolic_translate(call)), seeded(call))
    assert sot.stats().graphs == 1 and not sot.stats().breaks


# Paddle's marks


def test_paddles_own_checks_are_obeyed():
    psdb = pytest.importorskip("paddle.jit.sot.psdb")

    @psdb.check_no_breakgraph
    def breaks(x):
        y = x + 1
        sot.psdb.breakgraph()
        return y * 2

    @psdb.check_no_breakgraph
    def branches(x):
        return x + 1 if x.sum() > 0 else x - 1

    @psdb.check_no_fallback
    def falls_back(x):
        sot.psdb.fallback()
        return x * 2

    with sot.install():
        with pytest.raises(sot.GraphBreakError, match="breaks"):
            paddle.jit.to_static(breaks)(X)
        with pytest.raises(sot.GraphBreakError, match="falls_back"):
            paddle.jit.to_static(falls_back)(X)
        assert paddle.jit.to_static(branches)(X).tolist() == [2.0, 3.0, 4.0]


@pytest.mark.skipif(not hasattr(paddle.jit, "ignore_module"), reason="this Paddle has no paddle.jit.ignore_module")
def test_ignored_modules_are_followed_and_not_translated_by_themselves(tmp_path, monkeypatch):
    from paddle.jit.dy2static import convert_call_func

    path = tmp_path / "sot_ignored.py"
    path.write_text("def double(x):\n    return x * 2\n\ndef quadruple(x):\n    return double(double(x))\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import sot_ignored

    monkeypatch.setattr(convert_call_func, "BUILTIN_LIKELY_MODULES", list(convert_call_func.BUILTIN_LIKELY_MODULES))
    paddle.jit.ignore_module([sot_ignored])
    compare(lambda: (lambda x: sot_ignored.double(x) + 1, given(X), nothing))

    sot.reset()
    with sot.break_on(sot_ignored.quadruple):
        assert sot.symbolic_translate(lambda x: sot_ignored.quadruple(x + 1) * 3)(X).tolist() == [24.0, 36.0, 48.0]
    assert sot.stats().translations == 2, "only the frame around the break, in two pieces"


def marked(name):
    marker = pytest.importorskip("paddle.jit.marker", reason="this Paddle has no paddle.jit.marker")
    if not hasattr(marker, name):
        pytest.skip(f"this Paddle has no paddle.jit.marker.{name}")
    return getattr(marker, name)


def choose(x):
    if x.sum() > 0:
        y = x + 1
    else:
        y = x - 1
    return y * 2


def shrink(x):
    while x.sum() > 1:
        x = x * 0.5
    return paddle.nn.functional.relu(x)


SHIFT = 1.0


def shifted(x):
    if x.sum() > 0:
        return x + SHIFT
    return x - SHIFT


def chosen_by_cond(x):
    return paddle.static.nn.cond(x.sum() > 0, lambda: x + 1, lambda: x - 1)


@pytest.mark.parametrize("function", [choose, shrink])
def test_captured_control_flow(function):
    own = types.FunctionType(function.__code__, function.__globals__, function.__name__)
    own.__module__ = function.__module__
    captured = marked("capture_control_flow")(own)
    # Both branches are in one translation, with the operations before and behind them.
    compare(lambda: (lambda x: captured(x * 2) + 3, lambda index: (X if index % 2 else -X,), nothing))


def doubled_until(x, end):
    i = paddle.zeros([], "int64")
    s = x
    while i < end:
        s = (s + 1) * 2
        i = i + 1
    return s


def best_path(weights, end):
    token = paddle.zeros([2], "int64")
    i = paddle.zeros([], "int64")
    score = paddle.zeros([2])
    while i < end:
        logits = weights[token]
        token = logits.argmax(-1)
        score = score + logits.max(-1)
        i = i + 1
    return token, score


@pytest.mark.parametrize("function", [doubled_until, best_path])
def test_captured_loop_runs_as_a_program_however_small_its_graph_is(function):
    # In dynamic mode the function that AST mode makes would write to the tensors that the loop begins with.
    captured = marked("capture_control_flow")(function)
    try:
        whole = sot.symbolic_translate(lambda x, end: captured(x, end))
        x = paddle.arange(9, dtype="float32").reshape([3, 3])
        for end in (3, 0, 2, 3):
            end = paddle.to_tensor(end)
            assert_same(whole(x, end), function(x, end))
            assert_same(x, paddle.arange(9, dtype="float32").reshape([3, 3]))
        stats = sot.stats()
        assert (stats.graphs, stats.breaks, stats.graph_errors) == (1, {}, 0), stats
    finally:
        del function.___jit_transform_options___


def test_captured_control_flow_breaks_for_gradients():
    captured = marked("capture_control_flow")(choose)
    try:

        def gradient(function):
            grads = []
            for sign in (1.0, -1.0, 1.0):
                x = paddle.to_tensor([sign, sign], stop_gradient=False)
                function(x).sum().backward()
                grads.append(x.grad.tolist())
            return grads

        whole = lambda x: captured(x * 3) * x  # noqa: E731
        expected = gradient(whole)
        assert_same(gradient(sot.symbolic_translate(whole)), expected)
        assert sot.stats().breaks, "gradients do not flow through a branch of a program"
    finally:
        del choose.___jit_transform_options___


def test_captured_control_flow_that_reads_globals_is_followed(monkeypatch):
    captured = marked("capture_control_flow")(shifted)
    try:
        fast = sot.symbolic_translate(lambda x: captured(x) * 2)
        for shift in (1.0, 2.0):
            monkeypatch.setitem(shifted.__globals__, "SHIFT", shift)
            for x in (X, -X):
                assert_same(fast(x), captured(x) * 2)
        assert sot.stats().breaks
    finally:
        del shifted.___jit_transform_options___


def marks_a_lambda(x):
    double = paddle.jit.not_to_static(lambda value: value * 2)
    return double(x) + 1


def marks_a_function(x):
    @paddle.jit.not_to_static
    def triple(value):
        return value * 3

    return triple(x) + triple(x * 2)


@pytest.mark.parametrize("function", [marks_a_lambda, marks_a_function])
def test_a_function_may_be_marked_where_it_is_made(function):
    compare(lambda: (function, lambda index: (X * (index + 1),), nothing))


def test_unified_function_is_followed_with_guards():
    unified = marked("unified")
    factors = [2.0]

    def scale(x):
        factors.append(factors[-1])
        return x * factors[0]

    scale = unified(scale)
    fast = sot.symbolic_translate(lambda x: scale(x) + 1)
    assert fast(X).tolist() == [3.0, 5.0, 7.0]
    factors[0] = 3.0
    assert fast(X).tolist() == [4.0, 7.0, 10.0] and len(factors) == 3


def test_comparison_with_none():
    """Eager mode answers without a look at the numbers; Paddle 3.0 raises."""

    def call(x, other=None):
        try:
            equal, unequal = (x + 1) == other, x != other
        except TypeError:
            return x
        return x * 2 if unequal and equal is False else x

    fast = sot.symbolic_translate(call)
    for _ in range(3):
        assert_same(fast(X), call(X))
    is_answered = call(X).tolist() != X.tolist()
    assert not is_answered or (sot.stats().graphs == 1 and not sot.stats().breaks)


def test_meshes_and_shards_are_made_at_each_call():
    """Both can be changed, so each call has its own."""

    def mesh(x):
        mesh = paddle.distributed.ProcessMesh([0], dim_names=["x"])
        return x * len(mesh.dim_names) + mesh.get_dim_size("x"), mesh

    def shard(x):
        return x + 1, paddle.distributed.Shard(1)

    for function in (mesh, shard):
        fast = sot.symbolic_translate(function)
        results, (expected, like) = [fast(X) for _ in range(3)], function(X)
        for tensor, made in results:
            assert_same(tensor, expected)
            assert type(made) is type(like) and made == like
        assert len({id(made) for _, made in results}) == 3
        if hasattr(like, "dim_names"):
            results[0][1].dim_names.append("y")
            assert fast(X)[1].dim_names == ["x"]
        assert sot.stats().translations == 1 and sot.stats().graphs == 1, sot.stats().breaks
        sot.reset()


def test_placements_are_values():
    placement = paddle.distributed.Replicate, paddle.distributed.Partial

    def make():
        def call(x):
            made = [kind() for kind in placement]
            return x * len(made), made

        return call, given(X), nothing

    compare(make)


def test_deformable_convolution():
    conv = paddle.vision.ops.DeformConv2D(3, 4, 3, padding=1)

    def function(x):
        offset, mask = paddle.split(x.mean() + paddle.zeros([2, 27, 8, 8]), [18, 9], axis=1)
        return conv(x, offset, mask=mask) * 2

    x = paddle.ones([2, 3, 8, 8])
    assert sot.symbolic_translate(function)(x).numpy().tobytes() == function(x).numpy().tobytes()
    assert (sot.stats().graphs, dict(sot.stats().breaks)) == (1, {})


def test_is_tensor_of_a_container():
    class Output(collections.OrderedDict):
        pass

    def function(x):
        out = Output(a=x + 1)
        if paddle.is_tensor(out) or not paddle.is_tensor(out["a"]):
            return out
        return out["a"] * 2

    x = paddle.ones([2])
    assert sot.symbolic_translate(function)(x).tolist() == function(x).tolist()
    assert (sot.stats().graphs, dict(sot.stats().breaks)) == (1, {})


@pytest.mark.parametrize("options", [{}, {"dtype": "float64"}, {"dtype": "int64"}, {"stop_gradient": False}], ids=str)
@pytest.mark.parametrize("given", ["float32", "float64", "int32", "int64", "bool"])
def test_tensors_are_copied_to_one(given, options):
    """`to_tensor` of a list of tensors gives a tensor without a gradient, whose element type Paddle chooses."""

    def function(x, weight):
        losses = [(x * weight).sum(), x.mean()]
        copied = paddle.to_tensor([loss.astype(given) for loss in losses], **options)
        return losses[0] + copied.astype("float32").sum(), copied

    found = []
    for run in (function, sot.symbolic_translate(function)):
        for at in range(2):
            x, weight = paddle.arange(3, dtype="float32") + at, paddle.full([3], 2.0)
            weight.stop_gradient = False
            loss, copied = run(x, weight)
            loss.backward()
            found.append((loss.item(), copied.tolist(), copied.dtype, copied.stop_gradient, weight.grad.tolist()))
    assert found[:2] == found[2:]
    collects = options.get("stop_gradient") is False
    assert (sot.stats().graphs, sum(sot.stats().breaks.values())) == ((2, 1) if collects else (1, 0))


def test_tensors_of_several_shapes_are_not_copied():
    def function(x, y):
        try:
            return paddle.to_tensor([x, y])
        except ValueError:
            return x * 2

    expected = function(paddle.ones([2]), paddle.ones([3])).tolist()
    fast = sot.symbolic_translate(function)
    for _ in range(2):
        assert fast(paddle.ones([2]), paddle.ones([3])).tolist() == expected
    assert sum(sot.stats().breaks.values()) == 1
