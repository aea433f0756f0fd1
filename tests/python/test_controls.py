"""`sot.set_stance`, `sot.config`, marks of sizes, `dynamic=`, and `sot.is_compiling`."""

import functools
import os
import subprocess
import sys
import threading
from pathlib import Path

import paddle
import pytest

import sot

pytestmark = pytest.mark.divided


def tensor(*shape):
    return paddle.ones(list(shape))


def where_it_runs(x):
    return x + 1 if sot.is_compiling() else x - 1


@pytest.mark.differs
def test_is_compiling_is_a_constant_of_the_trace():
    fast = sot.symbolic_translate(where_it_runs)
    x = tensor(3)
    assert where_it_runs(x).tolist() == [0, 0, 0]
    assert fast(x).tolist() == fast(x).tolist() == [2, 2, 2]
    seen = sot.stats()
    assert (seen.translations, seen.graphs, seen.hits, seen.breaks) == (1, 1, 1, {})
    assert sot.is_compiling() is False


def test_eager_runs_the_original():
    fast = sot.symbolic_translate(where_it_runs)
    x = tensor(3)
    fast(x)
    before = sot.stats()
    with sot.set_stance("eager"):
        assert fast(x).tolist() == [0, 0, 0]

    @sot.set_stance("eager")
    def decorated(x):
        return fast(x)

    assert decorated(x).tolist() == [0, 0, 0]
    stance = sot.set_stance("eager")
    assert fast(x).tolist() == [0, 0, 0]
    assert sot.stats() == before
    sot.set_stance("default")
    assert fast(x).tolist() == [2, 2, 2]
    assert sot.stats().hits == before.hits + 1
    assert repr(stance) == "<sot.set_stance('eager')>"


def test_stances_nest_and_come_back_after_an_exception():
    fast = sot.symbolic_translate(where_it_runs)
    x = tensor(3)
    eager = sot.set_stance("eager")
    with eager:
        with sot.set_stance("default"):
            assert fast(x).tolist() == [2, 2, 2]
            with eager:
                assert fast(x).tolist() == [0, 0, 0]
            assert fast(x).tolist() == [2, 2, 2]
        with pytest.raises(ZeroDivisionError):
            with sot.set_stance("default"):
                1 / 0
        assert fast(x).tolist() == [0, 0, 0]
    assert fast(x).tolist() == [2, 2, 2]

    @sot.set_stance("eager")
    def again(depth):
        return again(depth - 1) if depth else fast(x).tolist()

    assert again(3) == [0, 0, 0]
    assert fast(x).tolist() == [2, 2, 2]
    with pytest.raises(TypeError, match="generator"):

        @sot.set_stance("eager")
        def generator():
            yield

    assert fast(x).tolist() == [2, 2, 2]


@pytest.mark.differs
def test_a_stance_taken_within_translated_code_holds_there():
    inner = where_it_runs

    def outer(x):
        y = inner(x * 2)
        with sot.set_stance("eager"):
            z = inner(x * 3)
        return y, z, inner(x * 4)

    fast = sot.symbolic_translate(outer)
    for _ in range(3):
        y, _, last = fast(tensor(2))
        assert y.tolist() == [3, 3] and last.tolist()[0] in (3, 5)
    assert sot.stats().graphs >= 1
    assert sot.set_stance("default")._before == ["default"]


def test_eager_on_recompile_uses_what_is_there():
    fast = sot.symbolic_translate(where_it_runs, dynamic=False)
    fast(tensor(3))
    with sot.set_stance("eager_on_recompile"):
        assert fast(tensor(3)).tolist() == [2, 2, 2]
        assert fast(tensor(4)).tolist() == [0, 0, 0, 0]
        assert sot.stats().translations == 1
    assert fast(tensor(4)).tolist() == [2, 2, 2, 2]
    assert sot.stats().translations == 2


def test_fail_on_recompile_names_the_guard_and_both_values():
    def scale(x, factor):
        return x * factor

    fast = sot.symbolic_translate(scale)
    fast(tensor(3), "a" and 2)
    with sot.set_stance("fail_on_recompile"):
        assert fast(tensor(3), 2).tolist() == [2, 2, 2]
        with pytest.raises(sot.RecompileError) as caught:
            fast(tensor(3), 5)
        with pytest.raises(sot.RecompileError) as other:
            fast(tensor(4), 2)
    text = str(caught.value)
    assert "scale" in text and "test_controls.py" in text and "['factor'] == 2; seen: 5" in text
    assert "[3]" in str(other.value) and "[4]" in str(other.value)
    assert issubclass(sot.RecompileError, RuntimeError)
    assert sot.stats().translations == 1
    with sot.set_stance("fail_on_recompile"), pytest.raises(sot.RecompileError, match="no translation yet"):
        sot.symbolic_translate(lambda x: x + 1)(tensor(3))


class Entered:
    """Counts how often it is entered and left."""

    def __init__(self):
        self.depth = 0

    def __enter__(self):
        self.depth += 1

    def __exit__(self, *error):
        self.depth -= 1


def caught_in_with(entered, seen, x):
    with entered:
        y = x * 2
        return y + float(y.numpy().sum())


def caught_in_finally(entered, seen, x):
    try:
        y = x * 2
        return y + float(y.numpy().sum())
    finally:
        seen.append("finally")


def caught_in_except(entered, seen, x):
    for i in range(2):
        try:
            y = x * 2
            x = y + float(y.numpy().sum())
        except sot.RecompileError as error:
            seen.append(type(error).__name__)
            raise
    return x


def caught_while_handling(entered, seen, x):
    try:
        raise KeyError(1)
    except KeyError:
        with entered:
            y = x * 2
            return y + float(y.numpy().sum())


def caught_in_a_helper(entered, seen, x):
    return caught_in_with(entered, seen, x) + 1


def caught_in_a_helper_and_around(entered, seen, x):
    with entered:
        return caught_in_a_helper(entered, seen, x)


CAUGHT = [
    caught_in_with,
    caught_in_finally,
    caught_in_except,
    caught_while_handling,
    caught_in_a_helper,
    caught_in_a_helper_and_around,
]


@pytest.mark.parametrize("function", CAUGHT)
def test_an_error_of_the_stance_behind_a_break_passes_the_handlers_of_the_program(function):
    entered, seen = Entered(), []
    fast, x = sot.symbolic_translate(function), paddle.ones([2])
    fast(entered, seen, x)
    del seen[:]
    with sot.set_stance("fail_on_recompile"), pytest.raises(sot.RecompileError) as caught:
        fast(entered, seen, x * 5)
    assert entered.depth == 0
    assert seen == {caught_in_finally: ["finally"], caught_in_except: ["RecompileError"]}.get(function, [])
    names = [entry.name for entry in caught.traceback]
    assert names[-1] == ("caught_in_with" if "helper" in function.__name__ else function.__name__)
    context = caught.value.__context__
    assert isinstance(context, KeyError) if function is caught_while_handling else context is None


@pytest.mark.differs
@pytest.mark.alone("the program's own run does not raise the error of a stance")
def test_an_error_of_the_stance_that_is_caught_behind_a_break():
    """The rest of the function runs in CPython."""

    def f(x):
        y = x * 2
        try:
            y = y + float(y.numpy().sum())
        except sot.RecompileError:
            return y - 1
        return y

    fast, x = sot.symbolic_translate(f), paddle.ones([2])
    fast(x)
    with sot.set_stance("fail_on_recompile"):
        assert fast(x * 5).tolist() == [9.0, 9.0]
    assert fast(x * 5).tolist() == [30.0, 30.0]


def test_fail_on_recompile_leaves_helpers_without_tensors_alone():
    def helper(text):
        return len(text)

    def use(x, text):
        sot.psdb.breakgraph()
        return x + helper(text)

    fast = sot.symbolic_translate(use)
    fast(tensor(2), "ab")
    fast(tensor(2), "ab")
    with sot.set_stance("fail_on_recompile"):
        assert fast(tensor(2), "ab").tolist() == [3, 3]
        assert helper("abc") == 3


@pytest.mark.differs
def test_eager_then_compile_learns_sizes_from_the_first_call():
    def fn(x):
        return where_it_runs(x) * 2

    fast = sot.symbolic_translate(fn)
    with sot.set_stance("eager_then_compile"):
        assert fast(tensor(4, 2)).tolist()[0] == [0, 0]
        assert sot.stats().translations == 0
        for rows in (5, 6, 7):
            assert fast(tensor(rows, 2)).tolist()[0] == [4, 4]
    seen = sot.stats()
    assert (seen.translations, seen.graphs, seen.hits) == (1, 1, 2)


@pytest.mark.differs
def test_what_a_first_call_calls_belongs_to_it():
    def helper(x):
        return where_it_runs(x)

    def fn(x):
        sot.psdb.breakgraph()
        return helper(x) + helper(x)

    fast = sot.symbolic_translate(fn)
    with sot.set_stance("eager_then_compile"):
        assert fast(tensor(2)).tolist() == [0, 0]
        assert sot.stats().translations == 0
        assert fast(tensor(2)).tolist() == [4, 4]


def test_a_mistyped_stance_is_named():
    with pytest.raises(ValueError, match="did you mean 'eager_on_recompile'"):
        sot.set_stance("eager_on_recompiles")
    with sot.set_stance("force_eager"):  # torch's name
        assert repr(sot.set_stance("force_eager")) == "<sot.set_stance('eager')>"
        assert sot.symbolic_translate(where_it_runs)(tensor(1)).tolist() == [0]
        sot.set_stance("default")
    with pytest.raises(ValueError, match="there are 'default'"):
        sot.set_stance("xyzzy")


def test_a_stance_is_of_all_threads():
    fast = sot.symbolic_translate(where_it_runs)
    found = []
    with sot.set_stance("eager"):
        thread = threading.Thread(target=lambda: found.append(fast(tensor(1)).tolist()))
        thread.start()
        thread.join()
    assert found == [[0]]


# Marks of sizes.


def double(x):
    return x * 2 + 1


def test_a_marked_size_is_open_from_the_first_translation():
    fast = sot.symbolic_translate(double)
    x = tensor(4, 3)
    sot.mark_dynamic(x, -2)
    for t in (x, tensor(5, 3), tensor(9, 3)):
        assert fast(t).shape == t.shape
    assert (sot.stats().translations, sot.stats().hits) == (1, 2)


def test_several_dimensions_are_marked_at_once():
    fast = sot.symbolic_translate(double)
    x = tensor(4, 3)
    sot.mark_dynamic(x, [0, -1])
    for shape in [(4, 3), (5, 6), (9, 2)]:
        assert fast(x if shape == (4, 3) else tensor(*shape)).shape == list(shape)
    assert (sot.stats().translations, sot.stats().hits) == (1, 2)
    sot.reset()
    for rows in (2, 3, 4):
        x = tensor(rows, 3)
        sot.mark_static(x, (0, 1))
        fast(x)
    assert sot.stats().translations == 3
    with pytest.raises(TypeError, match="a list of them, not 'rows'"):
        sot.mark_dynamic(x, ["rows"])


def test_a_size_beyond_a_range_is_translated_for_anew():
    fast = sot.symbolic_translate(double)
    x = tensor(4, 3)
    sot.mark_dynamic(x, 0, min=2, max=8)
    for rows in (4, 2, 8):
        t = x if rows == 4 else tensor(rows, 3)
        assert fast(t).shape == [rows, 3]
    assert sot.stats().translations == 1
    for rows in (9, 20):
        assert fast(tensor(rows, 3)).shape == [rows, 3]
    assert sot.stats().translations == 2
    assert "2 <= shape[0] <= 8" in "".join(guard for record in explained(x) for guard in record.guards)


def explained(x):
    return sot.explain(double)(x).records


def test_a_static_size_is_never_left_open():
    fast = sot.symbolic_translate(double)
    for rows in (2, 3, 4, 5):
        x = tensor(rows, 3)
        sot.mark_static(x, 0)
        assert fast(x).shape == [rows, 3]
    assert sot.stats().translations == 4
    sot.reset()
    for rows in (2, 3, 4, 5):
        x = tensor(rows, 3)
        sot.mark_static(x)
        fast(x)
    assert sot.stats().translations == 4


def test_the_later_mark_counts():
    fast = sot.symbolic_translate(double)
    x = tensor(4, 3)
    sot.mark_static(x)
    sot.mark_dynamic(x, 0)
    fast(x)
    fast(tensor(6, 3))
    assert sot.stats().translations == 1
    sot.reset()
    sot.mark_static(x, 0)
    fast(x)
    with sot.set_stance("fail_on_recompile"), pytest.raises(sot.RecompileError):
        fast(tensor(6, 3))


@pytest.mark.parametrize(
    "mark, error, text",
    [
        (lambda x: sot.mark_dynamic(x, 2), IndexError, "no dimension 2"),
        (lambda x: sot.mark_static(x, -3), IndexError, "no dimension -3"),
        (lambda x: sot.mark_dynamic(x, True), TypeError, "dim is an int"),
        (lambda x: sot.mark_dynamic([1], 0), TypeError, "takes a paddle.Tensor, not list"),
        (lambda x: sot.mark_static(3), TypeError, "takes a paddle.Tensor, not int"),
        (lambda x: sot.mark_dynamic(x, 0, min=5), ValueError, "size of dimension 0 is 4, which is less than min=5"),
        (lambda x: sot.mark_dynamic(x, 0, max=3), ValueError, "size of dimension 0 is 4, which is greater than max=3"),
        (lambda x: sot.mark_dynamic(x, 0, min=5, max=3), ValueError, "min=5 is greater than max=3"),
        (lambda x: sot.mark_dynamic(x, 0, max=3.5), TypeError, "max is an int or None"),
        (lambda x: sot.mark_dynamic(paddle.nn.Linear(2, 2).weight, 0), ValueError, "parameter"),
    ],
)
def test_wrong_marks_are_errors(mark, error, text):
    with pytest.raises(error, match=text):
        mark(tensor(4, 3))


# dynamic=


def test_dynamic_leaves_sizes_open_from_the_first_call_or_never():
    fast = sot.symbolic_translate(double, dynamic=True)
    for rows, columns in ((4, 3), (5, 7), (9, 2)):
        assert fast(tensor(rows, columns)).shape == [rows, columns]
    assert (sot.stats().translations, sot.stats().hits) == (1, 2)

    def other(x):
        return x * 2 + 1

    sot.reset()
    never = sot.symbolic_translate(dynamic=False)(other)
    for rows in (4, 5, 6, 7):
        assert never(tensor(rows, 3)).shape == [rows, 3]
    assert sot.stats().translations == 4


def test_a_size_that_matters_keeps_the_batch_open():
    layer = paddle.nn.Linear(6, 2)

    def fn(x):
        return layer(x).reshape([-1, 2]).sum(axis=1)

    fast = sot.symbolic_translate(fn, dynamic=True)
    for rows in (4, 5, 9):
        x = paddle.rand([rows, 6])
        assert paddle.allclose(fast(x), fn(x))
    assert sot.stats().translations == 1


def test_dynamic_holds_behind_a_break():
    def fn(x):
        y = x * 2
        sot.psdb.breakgraph()
        return y + 1

    fast = sot.symbolic_translate(fn, dynamic=True)
    for rows in (4, 5, 9):
        assert fast(tensor(rows, 2)).shape == [rows, 2]
    assert sot.stats().translations == 2


def test_dynamic_of_a_layer():
    class Model(paddle.nn.Layer):
        def __init__(self):
            super().__init__()
            self.conv = paddle.nn.Conv2D(3, 4, 3, padding=1)

        def forward(self, x):
            return paddle.nn.functional.relu(self.conv(x)).mean(axis=[2, 3])

    model = Model()
    model.eval()
    shapes = [[2, 3, 8, 8], [3, 3, 8, 8], [4, 3, 8, 8]]
    inputs = [paddle.rand(shape) for shape in shapes]
    expected = [model(x) for x in inputs]
    fast = sot.symbolic_translate(model, dynamic=True)
    for x, right in zip(inputs, expected):
        assert paddle.allclose(fast(x), right, atol=1e-6)
    assert sot.stats().translations == 1


# sot.config


@pytest.fixture
def environment(monkeypatch):
    for name in [name for name in os.environ if name.startswith("SOT_")] + ["MIN_GRAPH_SIZE"]:
        monkeypatch.delenv(name)
    return monkeypatch


def test_an_attribute_is_its_variable(environment):
    assert (sot.config.min_graph_size, sot.config.log_level, sot.config.export) == (None, 0, None)
    assert (sot.config.allow_dynamic_shape, sot.config.guard_memory) == (None, True)
    environment.setenv("MIN_GRAPH_SIZE", " 12 ")
    environment.setenv("SOT_ALLOW_DYNAMIC_SHAPE", "Off")
    assert (sot.config.min_graph_size, sot.config.allow_dynamic_shape) == (12, False)
    sot.config.min_graph_size = 3
    sot.config.allow_dynamic_shape = None
    assert os.environ["MIN_GRAPH_SIZE"] == "3" and "SOT_ALLOW_DYNAMIC_SHAPE" not in os.environ
    assert "min_graph_size = 3  # MIN_GRAPH_SIZE" in repr(sot.config)


def test_patch_is_a_context_and_a_decorator(environment):
    fast = sot.symbolic_translate(double)
    with sot.config.patch(min_graph_size=1000) as config:
        assert config is sot.config and config.min_graph_size == 1000
        fast(tensor(3))
        assert sot.stats().replayed == 1
        with sot.config.patch(min_graph_size=0, program_size=7):
            assert (sot.config.min_graph_size, sot.config.program_size) == (0, 7)
        assert (sot.config.min_graph_size, sot.config.program_size) == (1000, None)
    assert sot.config.min_graph_size is None
    sot.reset()

    @sot.config.patch(min_graph_size=0)
    def first():
        fast(tensor(3))
        return sot.config.min_graph_size

    assert first() == first() == 0
    assert (sot.stats().graphs, sot.stats().replayed) == (1, 0)
    with pytest.raises(KeyError):
        with sot.config.patch(export="x"):
            raise KeyError
    assert sot.config.export is None


@pytest.mark.parametrize(
    "change, error, text",
    [
        (lambda c: setattr(c, "min_grap_size", 3), AttributeError, "did you mean 'min_graph_size'"),
        (lambda c: c.log_lvel, AttributeError, "did you mean 'log_level'"),
        (lambda c: c.patch(MIN_GRAPH_SIZE=3), AttributeError, "did you mean 'min_graph_size'"),
        (lambda c: c.patch(xyzzy=3), AttributeError, "there are 'log_level'"),
        (lambda c: setattr(c, "min_graph_size", -1), ValueError, "from 0 on"),
        (lambda c: setattr(c, "min_graph_size", "3"), TypeError, "a number from 0 on"),
        (lambda c: setattr(c, "min_graph_size", True), TypeError, "a number from 0 on"),
        (lambda c: setattr(c, "min_graph_size", 2.5), ValueError, "no whole number"),
        (lambda c: setattr(c, "progress", -1), ValueError, "no number of seconds"),
        (lambda c: setattr(c, "allow_dynamic_shape", 1), TypeError, "True, False or None"),
        (lambda c: setattr(c, "specialized_dim_numbers", "10"), ValueError, "did you mean '0'"),
        (lambda c: setattr(c, "logs", "brakes"), ValueError, "did you mean 'breaks'"),
        (lambda c: setattr(c, "install", True), AttributeError, "sot.install"),
        (lambda c: c.patch(install=True), AttributeError, "sot.install"),
        (lambda c: delattr(c, "log_level"), AttributeError, "log_level = None deletes the environment variable SOT_"),
        (lambda c: delattr(c, "install"), AttributeError, "sot.install"),
        (lambda c: delattr(c, "log_lvel"), AttributeError, "did you mean 'log_level'"),
        (lambda c: setattr(c, "min_graph_size", Path("3")), TypeError, "a number from 0 on"),
    ],
)
def test_wrong_names_and_values_are_errors(environment, change, error, text):
    before = dict(os.environ)
    with pytest.raises(error, match=text):
        change(sot.config)
    assert dict(os.environ) == before


def test_a_folder_may_be_a_path(environment, tmp_path):
    sot.config.export = tmp_path
    assert sot.config.export == os.environ["SOT_EXPORT"] == str(tmp_path)
    with sot.config.patch(export=tmp_path / "inner"):
        assert sot.config.export == str(tmp_path / "inner")
    sot.config.export = None
    assert "SOT_EXPORT" not in os.environ


def imported(program="import sot", **variables):
    environment = {**os.environ, **variables}
    return subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=100
    ).stderr


def test_a_mistyped_variable_is_named_once():
    stderr = imported(SOT_LOG_LEVL="1", SOT_MIN_GRAPH_SIZE="3", SOT_WITH_CONTROL_FLOW="1", SOT_UNRELATED="1", STRICT_MODE="perhaps")
    assert stderr.count("SOT_LOG_LEVL: there is no such variable; did you mean SOT_LOG_LEVEL?") == 1
    assert stderr.count("SOT_MIN_GRAPH_SIZE: there is no such variable; did you mean MIN_GRAPH_SIZE?") == 1
    assert stderr.count("STRICT_MODE: 'perhaps' is neither true") == 1
    assert "CONTROL_FLOW" not in stderr and "UNRELATED" not in stderr


def test_a_wrong_log_level_is_told_of_once_and_what_has_no_default_is_ignored():
    program = "import sot, paddle; sot.symbolic_translate(lambda x: x + 1)(paddle.ones([1]))"
    stderr = imported(program, SOT_LOG_LEVEL="x", MIN_GRAPH_SIZE="-1", SOT_LOGS="brakes")
    assert stderr.count("SOT_LOG_LEVEL") == 1
    assert "SOT_LOG_LEVEL: 'x' is no whole number from 0 on; the default is used: 0" in stderr
    assert "MIN_GRAPH_SIZE: '-1' is no whole number from 0 on; the variable is ignored" in stderr
    assert "did you mean 'breaks'?; the variable is ignored" in stderr
    assert "start to translate" in imported(program, SOT_LOG_LEVEL="1000")


def identity(x):
    return x


class Decorated:
    pass


@pytest.mark.parametrize(
    "wrong, error, said",
    [
        ("sot.symbolic_translate(identity, dynamic='yes')", TypeError, "sot.symbolic_translate(): dynamic is True, False or None, not 'yes'"),
        ("sot.symbolic_translate(dynamic=2)", TypeError, "sot.symbolic_translate(): dynamic is True, False or None, not 2"),
        ("sot.symbolic_translate(identity, fullgraph=None)", TypeError, "sot.symbolic_translate(): fullgraph is True or False, not None"),
        ("sot.symbolic_translate(identity, backend=3)", TypeError, "sot.symbolic_translate(): backend=3 is neither a name nor a function"),
        ("sot.symbolic_translate(identity, backend='no')", ValueError, "sot.symbolic_translate(): no backend named 'no'; registered: none"),
        ("sot.symbolic_translate(identity, backend=identity)", TypeError, "sot.symbolic_translate(): a backend is called with a graph"),
        ("sot.mark_dynamic(3, 0)", TypeError, "sot.mark_dynamic() takes a paddle.Tensor, not int: t is 3"),
        ("sot.mark_dynamic(paddle.ones([2, 2]), 'x')", TypeError, "sot.mark_dynamic(): dim is an int or a list of them, not 'x'"),
        ("sot.mark_dynamic(paddle.ones([2, 2]), 2)", IndexError, "sot.mark_dynamic(): a tensor with 2 dimensions has no dimension 2; they are -2 to 1"),
        ("sot.set_stance('nope')", ValueError, "sot.set_stance(): there is no stance 'nope'; there are 'default',"),
        ("sot.set_stance(['default'])", TypeError, "sot.set_stance(): stance is one of 'default', 'eager', 'eager_on_recompile', 'fail_on_recompile', 'eager_then_compile', not ['default']"),
        ("sot.config.nope", AttributeError, "sot.config has no 'nope'; there are 'log_level',"),
        ("sot.config.patch(min_graph_size='a')", ValueError, "sot.config.min_graph_size = 'a': 'a' is no whole number from 0 on"),
        ("sot.break_on(3)", TypeError, "sot.break_on() takes callables; 3 is not callable"),
        ("sot.disable(identity, recursive='no')", TypeError, "sot.disable(): recursive is True or False, not 'no'"),
        ("sot.disable(3)", TypeError, "sot.disable() takes callables; 3 is not callable"),
        ("sot.explain(3)", TypeError, "sot.explain(): fn is a function or another callable, not 3"),
        ("sot.report(3)", TypeError, "sot: the path of a report is a str or an os.PathLike, not 3"),
        ("sot.report('x.txt')", ValueError, "sot: the path of a report ends in .html, .json or .trace.json; 'x.txt' does not"),
        ("sot.register.pure(3)", TypeError, "sot.register.pure() takes callables; 3 is not callable"),
        ("sot.register.skip(None)", TypeError, "sot.register.skip() takes a module or the name of one; None is not a module"),
        ("sot.register.skip('nope')", ValueError, "sot.register.skip(): no module named 'nope' is imported"),
        ("sot.register.value_type(3)", TypeError, "sot.register.value_type() takes a class, not 3"),
        ("sot.register.disable(identity, recursive=0)", TypeError, "sot.register.disable(): recursive is True or False, not 0"),
        ("sot.register.backend(3, identity)", TypeError, "sot.register.backend(): name is a text that is not empty, not 3"),
        ("sot.register.backend('x', identity)", TypeError, "sot.register.backend('x'): a backend is called with a graph"),
        ("sot.register.substitute(identity, 3)", TypeError, "sot.register.substitute(): only a Python function can be followed, not 3"),
        ("sot.psdb.check_no_fallback(None)", TypeError, "sot.psdb.check_no_fallback() takes a Python function or method, not None"),
        ("sot.on_progress(3)", TypeError, "sot.on_progress() takes a callable, not int"),
        ("sot.on_progress(lambda: 1)", TypeError, "sot.on_progress(): the callback is called with one argument, and <"),
        ("sot.on_progress(lambda a, b: 1)", TypeError, "takes (a, b)"),
        ("sot.set_stance('eager')(3)", TypeError, "sot.set_stance() decorates functions and methods; 3 is neither"),
        ("sot.set_stance('eager')(Decorated)", TypeError, "is a class: decorate its methods"),
        ("sot.set_stance('eager')(paddle.nn.ReLU())", TypeError, "is another callable: call it in a `with` block"),
        ("sot.set_stance('eager')(staticmethod(identity))", TypeError, "is a staticmethod: put @staticmethod above"),
    ],
)
def test_a_wrong_argument_is_named_with_its_value_and_what_is_allowed(wrong, error, said):
    with pytest.raises(error) as raised:
        eval(wrong)
    assert said in str(raised.value)
    assert sot.set_stance("default")._before == ["default"], "an error leaves no stance behind"


def test_what_takes_one_argument_may_show_progress():
    for callback in (print, lambda progress, *more: None, lambda progress, more=3: None, [].append):
        sot.on_progress(callback).undo()


@pytest.mark.parametrize(
    "decorated",
    [sot.symbolic_translate, functools.partial, functools.lru_cache(None), lambda function: function],
)
def test_a_stance_decorates_functions_however_they_were_made(decorated):
    with sot.set_stance("default"):
        assert sot.set_stance("eager")(decorated(where_it_runs))(tensor(3)).tolist() == [0, 0, 0]


def test_a_stance_decorates_several_functions_and_blocks():
    stance = sot.set_stance("eager")
    first, second = stance(stance_now), stance(stance_now)
    assert (first(), second(), stance_now()) == ("eager", "eager", "default")
    with stance:
        third = stance(stance_now)
        assert stance_now() == "eager"
    assert (third(), stance_now()) == ("eager", "default")


def stance_now():
    now = sot._sot._take_stance("default")
    sot._sot._take_stance(now)
    return now


class Unshowable:
    def __repr__(self):
        raise RuntimeError("no text")

    __str__ = __repr__


@pytest.mark.parametrize(
    "call",
    [
        lambda it: sot.symbolic_translate(identity, dynamic=it),
        lambda it: sot.symbolic_translate(identity, backend=it),
        lambda it: sot.set_stance(it),
        lambda it: sot.explain(it),
        lambda it: sot.report(it),
        lambda it: sot.disable(it),
        lambda it: sot.disable(identity, recursive=it),
        lambda it: sot.register.substitute(identity, it),
        lambda it: sot.register.skip(it),
        lambda it: sot.register.backend(it, identity),
    ],
)
def test_a_wrong_argument_without_a_text_is_named_by_its_type(call):
    with pytest.raises(TypeError, match="Unshowable"):
        call(Unshowable())
