"""The loggers `sot.graphs`, `sot.breaks`, `sot.recompiles`, `sot.guards` and `sot.code`."""

import logging
import os
import subprocess
import sys
import textwrap

import paddle
import pytest

import sot

pytestmark = pytest.mark.divided


@pytest.fixture
def heard(caplog):
    """`heard(*channels)` switches these loggers on. `caplog.text` then has their messages."""
    yield lambda *channels: [caplog.set_level(logging.INFO, f"sot.{channel}") for channel in channels]


def breaking(x, factor):
    y = x * factor
    sot.psdb.breakgraph()
    return y + 1


def test_each_channel_says_its_own(heard, caplog):
    heard("graphs", "breaks", "recompiles", "guards", "code")
    fast = sot.symbolic_translate(breaking)
    fast(paddle.ones([2]), 2)
    said = {record.name: record for record in caplog.records}
    assert set(said) == {"sot.graphs", "sot.breaks", "sot.guards", "sot.code"}
    assert "breaking" in said["sot.breaks"].message and "test_logs.py" in said["sot.breaks"].message
    assert all(record.levelno == logging.INFO for record in caplog.records)
    before = len(caplog.records)
    fast(paddle.ones([2]), 2)
    assert len(caplog.records) == before, "a hit says nothing"


def test_recompiles_say_which_guard_failed_with_both_values(heard, caplog):
    heard("recompiles")
    fast = sot.symbolic_translate(breaking)
    fast(paddle.ones([2]), 2)
    fast(paddle.ones([2]), 5)
    assert [record.name for record in caplog.records] == ["sot.recompiles"]
    assert "guard failed: frame.f_locals['factor'] == 2; seen: 5" in caplog.text and "breaking" in caplog.text
    caplog.clear()
    fast(paddle.ones([2], dtype="float64"), 2)
    assert "float32" in caplog.text and "seen: Tensor" not in caplog.text and "float64" in caplog.text


def test_what_has_no_tensor_work_is_no_break(heard, caplog):
    heard("breaks")

    def fn(x):
        y = x * 2
        sot.psdb.breakgraph()
        return y

    sot.symbolic_translate(fn)(paddle.ones([2]))
    assert "[BreakGraph]" in caplog.text and "[Fallback]" not in caplog.text


def test_a_guard_that_fails_in_several_translations_is_said_once(heard, caplog):
    def fn(x, n, m):
        return x * n + m

    fast = sot.symbolic_translate(fn)
    fast(paddle.ones([2]), 2, 1)
    fast(paddle.ones([2]), 2, 3)
    heard("recompiles")
    fast(paddle.ones([2], dtype="float64"), 2, 1)
    assert caplog.text.count("guard failed") == 1 and "(in 2 translations)" in caplog.text


def test_nobody_listens_by_default(caplog):
    # As `logging.basicConfig(level=logging.INFO)` does.
    caplog.set_level(logging.INFO)
    sot.symbolic_translate(breaking)(paddle.ones([2]), 2)
    assert not caplog.records


def test_a_handler_may_call_translated_code_and_raise(heard, caplog):
    heard("breaks")
    fast = sot.symbolic_translate(breaking)
    inner = sot.symbolic_translate(lambda x: x * 3)
    results = []

    class Handler(logging.Handler):
        def emit(self, record):
            results.append(inner(paddle.ones([1])).item())
            raise KeyError("the handler's own")

    handler = Handler()
    logger = logging.getLogger("sot.breaks")
    logger.addHandler(handler)
    unraisable = []
    before, sys.unraisablehook = sys.unraisablehook, unraisable.append
    try:
        assert fast(paddle.ones([2]), 2).tolist() == [3, 3]
    finally:
        sys.unraisablehook = before
        logger.removeHandler(handler)
    assert results == [3.0] and sot.stats().graphs == 3
    assert [type(hook.exc_value) for hook in unraisable] == [KeyError]


PROGRAM = textwrap.dedent("""
    import logging, paddle, sot
    {set_up}
    def fn(x, n):
        y = x * n
        sot.psdb.breakgraph()
        return y + 1
    fast = sot.symbolic_translate(fn)
    fast(paddle.ones([2]), 2)
    fast(paddle.ones([2]), 5)
""")


@pytest.fixture
def run(tmp_path):
    def run(set_up="", **variables):
        program = tmp_path / "program.py"
        program.write_text(PROGRAM.format(set_up=set_up))
        environment = {**os.environ, **variables}
        done = subprocess.run([sys.executable, str(program)], env=environment, capture_output=True, text=True, timeout=100)
        assert done.returncode == 0, done.stderr
        return done.stderr

    return run


def test_the_environment_chooses(run):
    stderr = run(SOT_LOGS="breaks, recompiles")
    assert "[BreakGraph]: fn" in stderr and "['n'] == 2; seen: 5" in stderr and "[Guard]" not in stderr
    assert stderr.count("['n'] == 2; seen: 5") == 1
    assert "SIR_" in run(SOT_LOGS="all")
    # As torch calls them.
    stderr = run(SOT_LOGS="graph_breaks,bytecode")
    assert "[BreakGraph]: fn" in stderr and "NewCode" in stderr and "[Guard]" not in stderr


def test_the_program_chooses(run):
    stderr = run('logging.getLogger("sot.breaks").setLevel(logging.INFO)')
    assert "[BreakGraph]: fn" in stderr and "[Recompile]" not in stderr
    own = 'logging.basicConfig(format="OWN %(message)s", force=True); sot.config.logs = "recompiles"'
    stderr = run(own)
    assert "OWN [Recompile]: fn" in stderr and stderr.count("[Recompile]") == 1
    assert "[BreakGraph]" not in run()


def test_a_mistyped_channel_is_named(run):
    stderr = run(SOT_LOGS="brakes")
    assert stderr.count("SOT_LOGS: there is no log 'brakes'; did you mean 'breaks'?") == 1


def test_the_level_is_looked_at_anew(run):
    stderr = run("sot.config.log_level = 1")
    assert "[BreakGraph]: fn" in stderr and "[Guard]" not in stderr
