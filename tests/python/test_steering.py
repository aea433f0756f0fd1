"""The user's controls of translation: the break list, Paddle's own lists, `sot.psdb`."""

import importlib
import math

import numpy as np
import paddle
import pytest

import sot
from sot import psdb


def helper(x):
    return x * 2 + 1


def uses_helper(x):
    y = x + 1
    y = helper(y)
    return y * 3


def uses_relu(x):
    return paddle.nn.functional.relu(x * 2) + 1


def ids():
    return sot.stats().reasons


def test_a_listed_function_breaks_and_runs_as_it_is(check):
    with sot.break_on(helper):
        check(uses_helper, paddle.ones([2]), graphs=2, breaks=1)
        assert ids() == {"break-listed": 1}
        assert any("test_steering.helper is on the break list" in reason for reason in sot.stats().breaks)
    sot.reset()
    check(uses_helper, paddle.ones([2]), graphs=1)


def test_the_list_takes_effect_on_what_is_translated_already():
    fast = sot.symbolic_translate(uses_relu)
    x = paddle.to_tensor([-1.0, 2.0])
    assert fast(x).tolist() == [1.0, 5.0] and sot.stats().graphs == 1
    listed = sot.break_on(paddle.nn.functional.relu)
    assert fast(x).tolist() == [1.0, 5.0]
    assert sot.stats().graphs == 3 and ids() == {"break-listed": 1}
    listed.undo()
    listed.undo()
    assert fast(x).tolist() == [1.0, 5.0]
    assert sot.stats().graphs == 4 and ids() == {"break-listed": 1}


def test_listing_twice_needs_two_undos(check):
    with sot.break_on(helper), sot.break_on(helper):
        pass
    check(uses_helper, paddle.ones([2]), graphs=1)
    with sot.break_on(helper):
        with sot.break_on(helper):
            pass
        check(uses_helper, paddle.ones([2]), graphs=2, breaks=1)


@pytest.mark.parametrize(
    "api, call",
    [
        (math.sqrt, lambda x: x * math.sqrt(4.0)),
        (paddle.Tensor.exp, lambda x: (x + 1).exp() * 2),
        (str.upper, lambda x: x + len(str.upper("ab"))),
        (paddle.nn.Linear, None),
    ],
)
def test_what_can_be_listed(api, call, check):
    layer = paddle.nn.Linear(2, 2)

    def through_layer(x):
        return layer(x + 1) * 2

    with sot.break_on(api):
        fast = sot.symbolic_translate(call or through_layer)
        x = paddle.ones([1, 2])
        np.testing.assert_allclose(fast(x).numpy(), (call or through_layer)(x).numpy(), rtol=1e-6)
        assert ids() == {"break-listed": 1}, sot.stats()


class Model:
    def step(self, x):
        return x + 1

    def run(self, x):
        return self.step(x * 2) * 3


def test_a_method_stands_for_its_function(check):
    model = Model()
    with sot.break_on(model.step):
        check(model.run, paddle.ones([2]), graphs=2, breaks=1)


@pytest.mark.parametrize(
    "apis, words",
    [
        ((), "at least one API"),
        ((3,), "not callable"),
        (("paddle.add",), "not callable"),
        (([].append,), r"list\.append"),
    ],
)
def test_bad_input_is_refused(apis, words):
    with pytest.raises(TypeError, match=words):
        sot.break_on(*apis)


def test_break_on_is_no_decorator():
    with pytest.raises(TypeError, match="no decorator"):

        @sot.break_on(helper)
        def function(x):
            return x

    assert sot.symbolic_translate(uses_helper)(paddle.ones([1])).tolist() == [15.0]
    assert sot.stats().graphs == 1


def test_not_to_static_is_followed(check):
    shift, calls = [0.0], []

    @paddle.jit.not_to_static
    def keep(x):
        calls.append(1)
        return x * 2 + shift[0]

    def call(x):
        return keep(x + 1) * 3

    x = paddle.ones([2])
    fast = check(call, x)
    shift[0] = 1.0
    assert fast(x).tolist() == [15.0, 15.0]
    assert calls == [1] * 4, "the body's side effects happen at each call"
    assert sot.stats().translations == 2, "what the body reads is guarded"


def test_not_to_static_on_a_method_of_a_layer(check):
    class Net(paddle.nn.Layer):
        def __init__(self):
            super().__init__()
            self.linear = paddle.nn.Linear(3, 3)

        @paddle.jit.not_to_static
        def inner(self, x):
            return self.linear(x)

        def forward(self, x):
            return self.inner(x + 1) * 3

    check(Net().forward, paddle.ones([2, 3]))


@pytest.mark.skipif(not hasattr(paddle.jit, "marker"), reason="this Paddle has no paddle.jit.marker")
def test_paddles_break_lists(check):
    @paddle.jit.marker.force_dynamic
    def forced(x):
        return x * 2

    def call(x):
        return forced(x + 1) * 3

    check(call, paddle.ones([2]), graphs=2, breaks=1)
    assert ids() == {"break-listed": 1}
    assert "force_dynamic" in str(sot.stats())

    @paddle.jit.marker.force_dynamic
    class Forced(paddle.nn.Layer):
        def forward(self, x):
            return x * 2

    layer = Forced()

    def through_layer(x):
        return layer(x + 1) * 3

    sot.reset()
    x = paddle.ones([2])
    assert sot.symbolic_translate(through_layer)(x).tolist() == [12.0, 12.0]
    assert ids() == {"break-listed": 1}


def test_breakgraph(check):
    def cut(x):
        y = x + 1
        psdb.breakgraph()
        return y * 2

    check(cut, paddle.ones([2]), graphs=2, breaks=1)
    assert ids() == {"requested": 1}


def test_fallback_leaves_the_frame_and_translates_what_it_calls(check):
    def plain(x):
        psdb.fallback()
        return helper(x)

    check(plain, paddle.ones([2]), graphs=1, fallbacks=1)
    assert ids() == {"requested": 1}


def test_a_recursive_fallback_leaves_what_the_frame_calls_too(check):
    def plain(x):
        psdb.fallback(recursive=True)
        return helper(x)

    check(plain, paddle.ones([2]), graphs=0, fallbacks=1)
    assert sot.stats().translations == 1


def test_fallback_in_a_called_function_is_that_functions_own(check):
    def inner(x):
        psdb.fallback()
        return x * 2

    def outer(x):
        return inner(x + 1) * 3

    check(outer, paddle.ones([2]), graphs=2, breaks=1, fallbacks=1)


def test_a_recursive_fallback_in_a_called_function_leaves_that_function_only(check):
    def inner(x):
        psdb.fallback(recursive=True)
        return helper(x)

    def outer(x):
        return inner(x + 1) * 3

    check(outer, paddle.ones([2]), graphs=2, breaks=1, fallbacks=1)


@pytest.mark.differs
def test_in_sot():
    importlib.import_module("paddle.jit.sot.psdb")

    def where(x):
        return x + 1, psdb.in_sot(), paddle.jit.sot.psdb.in_sot()

    assert where(paddle.ones([1]))[1:] == (False, False)
    assert sot.symbolic_translate(where)(paddle.ones([1]))[1:] == (True, True)
    assert sot.stats().graphs == 1 and not sot.stats().breaks


def test_assert_true_is_guarded(check):
    def positive(x, n):
        psdb.assert_true(n > 0)
        return x * n

    fast = check(positive, paddle.ones([2]), 3)
    with pytest.raises(AssertionError):
        fast(paddle.ones([2]), -1)


def test_print_prints_tensors_without_a_break(capsys):
    def show(x):
        y = x + 1
        psdb.print("y is", y, sep=": ")
        return y * 2

    fast = sot.symbolic_translate(show)
    assert fast(paddle.ones([1])).tolist() == [4.0]
    assert sot.stats().graphs == 1 and not sot.stats().breaks
    out = capsys.readouterr().out
    assert out.startswith("[SOT]: y is: Tensor(shape=[1]") and "[2.]" in out
    show(paddle.ones([1]))
    assert capsys.readouterr().out.startswith("[Dygraph]: y is")


def test_breakpoint_stops_in_the_programs_own_frame(monkeypatch):
    import sys

    seen = []

    def hook():
        frame = sys._getframe(2)
        seen.append((frame.f_code.co_name, dict(frame.f_locals)["n"], helper(paddle.ones([1])).item()))

    monkeypatch.setattr(sys, "breakpointhook", hook)

    def stop(x, n):
        y = helper(x)
        psdb.breakpoint()
        return y * n

    fast = sot.symbolic_translate(stop)
    assert fast(paddle.ones([1]), 5).tolist() == [15.0]
    assert seen == [("stop", 5, 3.0)]
    assert ids() == {"requested": 1} and sot.stats().graphs == 1


def test_check_no_breakgraph():
    @psdb.check_no_breakgraph
    def whole(x):
        return x * 2 if x.sum() > 0 else x

    with pytest.raises(sot.GraphBreakError, match=r"whole cannot stay in one graph: \[DDCF data-dependent-control-flow\]"):
        sot.symbolic_translate(whole)(paddle.ones([2]))

    def outer(x):
        return whole(x + 1)

    with pytest.raises(sot.GraphBreakError, match="whole cannot stay"):
        sot.symbolic_translate(outer)(paddle.ones([2]))
    assert outer(paddle.ones([1])).tolist() == [4.0]


def test_check_no_fallback():
    @psdb.check_no_fallback
    def kept(x):
        psdb.fallback()
        return x

    with pytest.raises(sot.GraphBreakError, match=r"kept cannot stay in one graph: \[CDBL requested\]"):
        sot.symbolic_translate(kept)(paddle.ones([2]))

    @psdb.check_no_fallback
    def broken(x):
        psdb.breakgraph()
        return x + 1

    assert sot.symbolic_translate(broken)(paddle.ones([1])).tolist() == [2.0]


@pytest.mark.parametrize("check_it", [psdb.check_no_breakgraph, psdb.check_no_fallback])
@pytest.mark.parametrize("what", [3, len, int])
def test_checks_refuse_what_has_no_code(check_it, what):
    with pytest.raises(TypeError, match="takes a Python function or method"):
        check_it(what)


def test_paddles_own_psdb_means_the_same(check):
    theirs = importlib.import_module("paddle.jit.sot.psdb")

    def cut(x):
        y = x + 1
        theirs.assert_true(x.ndim == 1)
        theirs.breakgraph()
        return y * 2

    check(cut, paddle.ones([2]), graphs=2, breaks=1)
    assert ids() == {"requested": 1}
