"""Registrations at run time of modules that are followed or not, and functions and blocks that run untranslated."""

import builtins
import colorsys
import functools
import importlib.machinery
import math
import sys
import textwrap
import threading
import types

import paddle
import pytest

import sot


def breaks():
    return sum(sot.stats().breaks.values())


def seen():
    stats = sot.stats()
    return stats.graphs, sum(stats.breaks.values()), sum(stats.fallbacks.values())


SOURCE = """
class Scale:
    def __init__(self, by):
        self.by = by

    def __call__(self, x):
        return x * self.by

def double(x):
    return x * 2

def outer(x, inner):
    return inner(x + 1) * 2
"""


@pytest.fixture
def helpers(monkeypatch):
    """A library with one submodule."""

    def module(name):
        made = types.ModuleType(name)
        exec(compile(SOURCE, f"{name}.py", "exec"), made.__dict__)
        monkeypatch.setitem(sys.modules, name, made)
        return made

    package = module("helpers_of_a_test")
    package.inner = module("helpers_of_a_test.inner")
    package.like = module("helpers_of_a_testing")
    return package


def test_a_skipped_module_runs_for_real(helpers):
    x = paddle.ones([1])
    uses = sot.symbolic_translate(lambda x: helpers.double(x + 1) * 3)
    other = sot.symbolic_translate(lambda x: helpers.like.double(x + 1) * 3)
    for fast in (uses, other):
        assert fast(x).tolist() == [12.0]
    assert seen() == (2, 0, 0)
    skipped = sot.register.skip(helpers)
    assert uses(x).tolist() == [12.0]
    assert seen() == (4, 1, 0) and sot.stats().reasons == {"break-listed": 1}
    assert any("is of a module that sot.register.skip was given" in reason for reason in sot.stats().breaks)
    before = sot.stats()
    assert uses(x).tolist() == [12.0] and other(x).tolist() == [12.0]
    assert sot.stats().translations == before.translations, "the module's own frame is not translated, and stays so"
    assert sot.stats().misses == before.misses
    skipped.undo()
    assert uses(x).tolist() == [12.0] and breaks() == 1


@pytest.mark.parametrize("call", ["inner.double(x)", "Scale(2)(x)", "scale(x)", "inner.outer(x, lambda x: x - 1)"])
def test_all_in_a_skipped_module_is_skipped(helpers, call):
    names = {"inner": helpers.inner, "Scale": helpers.Scale, "scale": helpers.Scale(2)}
    exec(f"def function(x):\n    x = x + 1\n    x = {call}\n    return x * 3", names)
    function, x = names["function"], paddle.ones([1])
    with sot.register.skip("helpers_of_a_test"):
        assert sot.symbolic_translate(function)(x).tolist() == function(x).tolist()
        assert set(sot.stats().reasons) == {"break-listed"}
    sot.reset()
    assert sot.symbolic_translate(function)(x).tolist() == function(x).tolist() and breaks() == 0


def test_what_a_skipped_module_calls_is_translated(helpers):
    def inner(x):
        return x * 5 + 1

    with sot.register.skip(helpers):
        fast = sot.symbolic_translate(lambda x: helpers.outer(x, inner) + 1)
        assert fast(paddle.ones([1])).tolist() == [23.0]
        assert seen() == (2, 1, 0), "one graph behind the call, one of the function that is called back"


def test_asked_for_functions_of_a_skipped_module_are_translated(helpers):
    with sot.register.skip(helpers):
        assert sot.symbolic_translate(helpers.double)(paddle.ones([1])).tolist() == [2.0]
        assert seen() == (1, 0, 0)


WHOLE = "update counts with numpy"


def test_a_module_of_paddle_can_be_followed():
    metric = paddle.metric.metrics

    def call(x):
        counter.reset()
        return counter.update(x > 0.5) + x.sum()

    counter, x = metric.Accuracy(), paddle.to_tensor([[0.0], [1.0]])
    fast = sot.symbolic_translate(call)
    expected = call(x).tolist()
    assert fast(x).tolist() == expected and any(WHOLE in reason for reason in sot.stats().breaks)
    with sot.register.trace(metric):
        sot.reset()
        assert fast(x).tolist() == expected
        assert not any(WHOLE in reason for reason in sot.stats().breaks), sot.stats()
        assert any("metrics.py" in reason and "update" in reason for reason in sot.stats().breaks), "the break is in the function now"
    assert fast(x).tolist() == expected
    assert any(WHOLE in reason for reason in sot.stats().breaks)


def test_a_statement_is_followed_down_to_what_it_calls():
    def call(x):
        return paddle.nn.functional.normalize(x, axis=0) * 2

    x = paddle.ones([2])
    whole = "functional.norm.normalize ("
    assert whole in str(sot.explain(call)(x))
    with sot.register.trace(paddle.nn.functional):
        assert whole not in str(sot.explain(call)(x))
        assert sot.symbolic_translate(call)(x).tolist() == call(x).tolist()
        assert breaks() == 0
    assert whole in str(sot.explain(call)(x))


def test_the_functions_of_the_interpreter_can_be_skipped():
    def call(x):
        return x * 2 + sys.getrecursionlimit()

    fast = sot.symbolic_translate(call)
    with sot.register.skip(sys):
        assert fast(paddle.ones([1])).item() == call(paddle.ones([1])).item()
        assert sot.stats().reasons == {"break-listed": 1}


def test_the_innermost_module_counts(helpers):
    with sot.register.skip(helpers), sot.register.trace(helpers.inner):
        fast = sot.symbolic_translate(lambda x: helpers.inner.double(x) + 1)
        assert fast(paddle.ones([1])).tolist() == [3.0] and seen() == (1, 0, 0)


def borrowing():
    """Return a module whose only functions belong to another module."""
    made = types.ModuleType("borrowing")
    made.wrap = textwrap.wrap
    return made


def test_a_module_that_is_being_imported_may_still_get_functions():
    made = types.ModuleType("begun")
    made.__spec__ = importlib.machinery.ModuleSpec("begun", None)
    for register in (sot.register.skip, sot.register.trace):
        with pytest.raises(ValueError):
            register(made)
    made.__spec__._initializing = True
    for register in (sot.register.skip, sot.register.trace):
        register(made).undo()


def test_what_wraps_a_function_is_of_its_module(helpers):
    double = functools.lru_cache(maxsize=None)(helpers.double)
    fast = sot.symbolic_translate(lambda x: double(x + 1) * 3)
    with sot.register.skip(helpers):
        assert fast(paddle.ones([1])).tolist() == [12.0]
        assert sot.stats().reasons == {"break-listed": 1}


@pytest.mark.parametrize(
    "register, error, words",
    [
        (lambda: sot.register.skip(3), TypeError, "3 is not a module"),
        (lambda: sot.register.skip("no.such.module"), ValueError, "no module named 'no.such.module'"),
        (lambda: sot.register.trace(len), TypeError, "not a module"),
        (lambda: sot.register.trace(math), ValueError, r"trace\(math\): it has no Python functions"),
        (lambda: sot.register.trace(paddle._C_ops), ValueError, "C functions cannot be followed"),
        (lambda: sot.register.skip(builtins), ValueError, r"skip\(builtins\): its functions and classes are part of the language"),
        (lambda: sot.register.trace("builtins"), ValueError, "use sot.break_on"),
        (lambda: sot.register.skip(sot), ValueError, r"skip\(sot\): it is part of sot itself"),
        (lambda: sot.register.trace(sot.register), ValueError, r"trace\(sot.register\): it is part of sot itself"),
        (lambda: sot.register.skip(borrowing()), ValueError, "belongs to this module by its __module__; its contents belong to textwrap"),
        (lambda: sot.register.disable(len), TypeError, "takes Python functions"),
        (lambda: sot.disable(paddle.nn.Linear(2, 2)), TypeError, "takes Python functions"),
        (lambda: sot.disable(recursive=False).__enter__(), TypeError, "recursive=False is for functions"),
    ],
)
def test_what_cannot_be_registered_says_why(register, error, words):
    with pytest.raises(error, match=words):
        register()


def test_a_module_has_one_meaning(helpers):
    with sot.register.skip(helpers):
        with pytest.raises(ValueError, match="registered already, as skip"):
            sot.register.trace(helpers)


def inner(x):
    return x * 3


def make_left_alone():
    def left_alone(x):
        return inner(x + 1) - 1

    return left_alone


@pytest.mark.parametrize("recursive, graphs", [(True, 2), (False, 3)])
def test_a_disabled_function_runs_for_real(recursive, graphs):
    left_alone, x = make_left_alone(), paddle.ones([1])

    def call(x):
        return left_alone(x * 2) * 2

    fast = sot.symbolic_translate(call)
    assert fast(x).tolist() == [16.0] and seen() == (1, 0, 0)
    disabled = sot.register.disable(left_alone, recursive=recursive)
    assert fast(x).tolist() == [16.0]
    assert seen() == (1 + graphs, 1, 0)
    assert any("is left to CPython by sot.disable" in reason for reason in sot.stats().breaks)
    before = sot.stats()
    assert fast(x).tolist() == [16.0]
    assert (sot.stats().translations, sot.stats().misses) == (before.translations, before.misses)
    disabled.undo()
    assert fast(x).tolist() == [16.0] and breaks() == 1


def test_disable_is_a_decorator():
    @sot.disable
    def one(x):
        return x + 1

    @sot.disable(recursive=False)
    def two(x):
        return x + 2

    @sot.disable()
    def three(x):
        return x + 3

    fast = sot.symbolic_translate(lambda x: three(two(one(x))) * 2)
    assert fast(paddle.ones([1])).tolist() == [14.0]
    assert sot.stats().reasons == {"break-listed": 3} and seen() == (1, 3, 0)
    assert one.__name__ == "one"


def test_a_disabled_function_is_not_translated_though_asked_for():
    left_alone, x = make_left_alone(), paddle.ones([1])
    fast = sot.symbolic_translate(left_alone)
    with sot.register.disable(left_alone):
        assert fast(x).tolist() == [5.0] and sot.symbolic_translate(left_alone)(x).tolist() == [5.0]
        assert sot.stats().translations == 0
    assert fast(x).tolist() == [5.0] and seen() == (1, 0, 0)


def test_a_disabled_method(check):
    class Net(paddle.nn.Layer):
        def __init__(self):
            super().__init__()
            self.linear = paddle.nn.Linear(2, 2)

        @sot.disable
        def scaled(self, x):
            return self.linear(x) * 2

        def forward(self, x):
            return self.scaled(x + 1) + 1

    check(Net(), paddle.ones([1, 2]), graphs=2, breaks=1)


def test_nothing_is_translated_in_a_disabled_block():
    x = paddle.ones([1])
    fast = sot.symbolic_translate(inner)
    with sot.disable():
        assert fast(x).tolist() == [3.0]
        with sot.disable():
            assert fast(x).tolist() == [3.0]
        assert fast(x).tolist() == [3.0]
        assert sot.stats().translations == 0
        elsewhere = threading.Thread(target=fast, args=(x,))
        elsewhere.start()
        elsewhere.join()
        assert sot.stats().translations == 1, "other threads go on"
    assert fast(x).tolist() == [3.0] and sot.stats().hits == 1


def test_a_disabled_block_that_threads_share_has_a_state_for_each():
    x, shared = paddle.ones([1]), sot.disable()
    fast = sot.symbolic_translate(inner)
    entered, leave = threading.Event(), threading.Event()

    def elsewhere():
        with sot.disable():
            with shared:
                entered.set()
                leave.wait(10)
            fast(x)

    thread = threading.Thread(target=elsewhere)
    with shared:
        thread.start()
        entered.wait(10)
    fast(x)
    assert sot.stats().translations == 1, "this thread's block has ended"
    leave.set()
    thread.join()
    assert sot.stats().translations == 1 and sot.stats().hits == 0, "the other thread's outer block had not"


def test_a_disabled_block_ends_in_its_thread():
    block, raised = sot.disable(), []

    def leave():
        try:
            block.__exit__(None, None, None)
        except RuntimeError as error:
            raised.append(str(error))

    with block:
        thread = threading.Thread(target=leave)
        thread.start()
        thread.join()
    assert len(raised) == 1 and "ends in the thread it began in" in raised[0]
    sot.symbolic_translate(inner)(paddle.ones([1]))
    assert sot.stats().translations == 1


def test_a_disabled_block_ends_with_an_exception():
    fast = sot.symbolic_translate(inner)
    with pytest.raises(ZeroDivisionError):
        with sot.disable():
            1 / 0
    fast(paddle.ones([1]))
    assert sot.stats().translations == 1


def test_a_disabled_block_in_a_translated_function():
    def call(x):
        x = x + 1
        with sot.disable():
            x = inner(x)
        x = inner(x)
        return later(x)

    def later(x):
        return x * 2

    x = paddle.ones([1])
    fast = sot.symbolic_translate(call)
    assert fast(x).tolist() == [36.0] and fast(x).tolist() == [36.0]
    text = " ".join(str(key) for key in sot.stats().breaks)
    assert "inner" not in text
    assert sot.symbolic_translate(later)(x).tolist() == [2.0], "the tracer is back"
    assert sot.stats().graphs >= 2


def test_a_module_that_is_registered_already_is_named():
    with sot.register.skip(colorsys), pytest.raises(ValueError, match=r"the module colorsys is registered already, as skip, at .*:\d+"):
        sot.register.trace(colorsys)
