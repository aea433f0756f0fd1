"""Errors that an operation of a graph raises when it runs: they reach the same handlers as in eager mode."""

import linecache
import traceback

import numpy as np
import paddle
import pytest

import sot

GOOD, BAD = [1, 2], [1, 9]


def pick(x, index):
    return paddle.gather(x, index)


def assert_same_as_eager(fn, *indices, graphs=1):
    """Compare `fn(tensor, index, list)` in eager mode and translated: result or error, and the list."""
    translated = sot.symbolic_translate(fn)
    sot.reset()
    for index in indices:
        outcomes = []
        for run in (fn, translated):
            log = []
            try:
                result = run(paddle.arange(4).astype("float32"), paddle.to_tensor(index), log)
                outcomes.append((result.numpy().tolist(), log))
            except IndexError as error:
                lines = [
                    linecache.getline(entry.filename, entry.lineno).strip()
                    for entry in traceback.extract_tb(error.__traceback__)[1:]
                ]
                context = repr(error.__context__ is None)
                outcomes.append((str(error).splitlines()[-1], lines, context, log))
        assert outcomes[0] == outcomes[1]
    stats = sot.stats()
    assert (stats.graphs, stats.fallbacks) == (graphs, {})
    assert stats.graph_errors == sum(index is BAD for index in indices) * graphs
    return stats


def test_it_is_caught():
    def f(x, index, log):
        y = x * 2
        try:
            z = pick(y, index) + 1
            log.append("no error")
        except IndexError:
            log.append("caught")
            z = y - 1
        return z * 2

    stats = assert_same_as_eager(f, GOOD, BAD, GOOD, BAD)
    assert not stats.breaks


@pytest.mark.alone("the frames of verify mode are in the traceback")
def test_finally_runs_and_the_lines_are_the_operations():
    def f(x, index, log):
        y = x * 2
        try:
            log.append("try")
            z = pick(y, index) + 1
        finally:
            log.append("finally")
        return z * 2

    stats = assert_same_as_eager(f, GOOD, BAD)
    assert not stats.breaks


def test_a_manager_is_told():
    class Manager:
        def __init__(self, log):
            self.log = log

        def __enter__(self):
            self.log.append("enter")

        def __exit__(self, kind, value, trace):
            self.log.append(kind and kind.__name__)
            return True

    def f(x, index, log):
        y = x * 2
        with Manager(log):
            y = pick(y, index) + 1
        return y * 2

    assert_same_as_eager(f, GOOD, BAD)


def test_writes_before_it_were_made():
    total = paddle.zeros([4])

    def f(x, index, log):
        log.append(1)
        total.add_(x + 1)
        return pick(x * 2, index)

    translated = sot.symbolic_translate(f)
    x, log = paddle.ones([4]), []
    translated(x, paddle.to_tensor(GOOD), log)
    with pytest.raises(IndexError):
        translated(x, paddle.to_tensor(BAD), log)
    np.testing.assert_array_equal(total.numpy(), [4, 4, 4, 4])
    assert log == [1, 1]
    stats = sot.stats()
    assert (stats.graph_errors, stats.breaks, stats.fallbacks) == (1, {}, {})


def test_behind_a_break_in_a_loop():
    def f(x, index, log):
        y = x
        for n in range(3):
            log.append(float(y.sum()))
            try:
                y = y + pick(x * 2, index * n).sum()
            except IndexError:
                log.append(n)
        return y

    translated = sot.symbolic_translate(f)
    for index in (GOOD, BAD):
        outcomes = []
        for run in (f, translated):
            log = []
            outcomes.append((run(paddle.arange(4).astype("float32"), paddle.to_tensor(index), log).numpy().tolist(), log))
        assert outcomes[0] == outcomes[1]
    # Three errors in the frame's graph, and one in the graph of `pick`, when the frame runs in CPython.
    assert sot.stats().graph_errors == 4


def test_in_a_layer():
    class Net(paddle.nn.Layer):
        def __init__(self):
            super().__init__()
            self.table = paddle.nn.Embedding(4, 3)

        def forward(self, index):
            return self.table(index) * 2

    net = Net()
    with pytest.raises(ValueError) as expected:
        net(paddle.to_tensor(BAD))
    translated = sot.symbolic_translate(net)
    translated(paddle.to_tensor(GOOD))
    with pytest.raises(ValueError) as raised:
        translated(paddle.to_tensor(BAD))
    assert str(raised.value) == str(expected.value)
    stats = sot.stats()
    assert (stats.graphs, stats.graph_errors) == (1, 1)


@pytest.mark.parametrize("least", ["0", "10000"], ids=["program", "calls"])
def test_undoing_a_write_does_not_count_as_one(least, monkeypatch):
    """A tensor that was saved for a backward pass before the call can still be read by that pass."""
    monkeypatch.setenv("MIN_GRAPH_SIZE", least)

    def refused(x, at):
        x.clip_(x, 2.0)
        return paddle.gather(x, at)

    def written(x, at):
        x.add_(x)
        return paddle.gather(x, at)

    for fn in (refused, written):
        seen = []
        for run in (fn, sot.symbolic_translate(fn)):
            x, w = paddle.to_tensor([3.0, 1.0]), paddle.to_tensor([1.0], stop_gradient=False)
            early = (w * x).sum()
            with pytest.raises((ValueError, IndexError)) as raised:
                run(x, paddle.to_tensor([7]))
            before = x.tolist()
            try:
                early.backward()
            except RuntimeError as error:
                seen.append((type(raised.value), before, type(error)))
            else:
                seen.append((type(raised.value), before, x.inplace_version, w.grad.tolist()))
        assert seen[0] == seen[1]
    assert sot.stats().graphs


def test_a_refused_statement_leaves_nothing_in_the_program(monkeypatch):
    """Of `stack` the list of its operands was left there, and became the result of a program without results."""
    monkeypatch.setenv("MIN_GRAPH_SIZE", "0")

    def stacked(x):
        try:
            return paddle.stack([x, x[0]])
        except ValueError:
            return x[:1]

    def joined(x):
        try:
            return paddle.concat([x, x[0]])
        except ValueError:
            return x.T

    for fn in (stacked, joined):
        for rows in (3, 3, 2):
            x = paddle.ones([rows, 4])
            assert sot.symbolic_translate(fn)(x).tolist() == fn(x).tolist()
    stats = sot.stats()
    assert stats.graphs and not stats.graph_errors and not stats.fallbacks


def test_nothing_is_left_open_when_graphs_raise_where_programs_do_not(monkeypatch):
    """The program succeeds in its second run, so the translations are dropped after two such calls."""
    monkeypatch.setenv("SOT_ALLOW_DYNAMIC_SHAPE", "1")

    def wrong(graph, example_inputs):
        def run(*inputs):
            if inputs[0].shape[0] > 4:
                raise ValueError("this backend takes few rows")
            return graph.run(*inputs)

        return run

    with sot.register.backend("few_rows", wrong):
        fn = sot.symbolic_translate(lambda x: x * 2, backend="few_rows")
        for rows in (2, 3, 4, 5, 6):
            assert fn(paddle.ones([rows, 2])).tolist() == [[2.0, 2.0]] * rows
        stats = sot.stats()
        assert stats.graph_errors == 2 and not stats.breaks
        for rows in (2, 3, 4):
            assert fn(paddle.ones([rows, 2])).tolist() == [[2.0, 2.0]] * rows
        after = sot.stats()
    assert after.graph_errors == 2 and after.translations == stats.translations + 3


def test_statements_are_built_without_call_stacks(monkeypatch):
    """Paddle asks for Python's call stack with each operation that it appends to a program: half of the time of it."""
    asked = []
    whole = traceback.extract_stack

    def extract_stack(f=None, limit=None):
        asked.append(f)
        return whole(f, limit)

    layer = paddle.nn.Linear(3, 3)

    def f(x):
        return paddle.nn.functional.relu(layer(x) * 2) + x.matmul(x).sum()

    with paddle.no_grad(), monkeypatch.context() as patch:
        patch.setattr(traceback, "extract_stack", extract_stack)
        sot.reset()
        x = paddle.ones([3, 3])
        np.testing.assert_array_equal(sot.symbolic_translate(f)(x).numpy(), f(x).numpy())
        assert (sot.stats().graphs, sot.stats().breaks, sot.stats().fallbacks) == (1, {}, {})
        assert asked == []
        assert traceback.extract_stack is extract_stack


def test_code_of_the_program_gets_its_call_stack_while_a_statement_is_built(capsys):
    def noting(x):
        print(traceback.extract_stack()[-1].name)
        return paddle.nn.functional.relu(x) * 2

    def f(x):
        return noting(x) + 1

    sot.reset()
    with sot.register.graph_node(noting):
        result = sot.symbolic_translate(f)(paddle.ones([3]))
    np.testing.assert_array_equal(result.numpy(), np.full([3], 3.0, "float32"))
    assert (sot.stats().graphs, sot.stats().breaks, sot.stats().fallbacks) == (1, {}, {})
    assert set(capsys.readouterr().out.split()) == {"noting"}
