"""The modules that importing and using sot imports."""

import os
import subprocess
import sys
import textwrap

import pytest


def run(program):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_paddles_own_tracer_is_not_imported():
    program = """
        import sys, paddle
        before = set(sys.modules)
        import sot
        layer = paddle.nn.Sequential(paddle.nn.Linear(2, 2), paddle.nn.BatchNorm1D(2))
        def fn(x):
            class Local:
                items = [float(v) for v in layer(x).sum(0)]
            return layer(x).sum(), Local
        sot.symbolic_translate(fn)(paddle.ones([3, 2]))[0].backward()
        stats = sot.stats()
        print(*sorted({name for name in set(sys.modules) - before if name.startswith(("paddle.jit.sot", "unittest"))}))
        print(stats.graphs > 0 and sum(stats.breaks.values()) > 0)
    """
    assert run(program) == ["True"]


@pytest.mark.alone("the modules of verify mode are imported")
def test_what_is_not_used_is_not_imported():
    """Verify mode is imported when it is switched on. Metadata of packages without plug-ins are not read."""
    program = """
        import sys, paddle
        from importlib import metadata
        metadata.Distribution.metadata = property(lambda self: sys.exit("metadata is read"))
        import sot
        print(*sorted(name for name in sys.modules if name.startswith("sot._verify")))
    """
    assert run(program) == ["sot._verify_error"]


def test_paddles_psdb_is_understood_when_it_is_imported_later():
    program = """
        import paddle, sot
        def fn(x):
            from paddle.jit.sot import psdb
            y = x + 1
            psdb.breakgraph()
            return y * 2, psdb.in_sot()
        fast = sot.symbolic_translate(fn)
        fast(paddle.ones([1]))
        before = sot.stats()
        import paddle.jit.sot.psdb
        def gn(x):
            y = x + 1
            paddle.jit.sot.psdb.breakgraph()
            return y * 2, paddle.jit.sot.psdb.in_sot()
        print(sot.symbolic_translate(gn)(paddle.ones([1]))[1])
        print(sot.stats().graphs - before.graphs)
        print(*{reason for reason in sot.stats().reasons})
    """
    said = run(program)
    assert said[:2] == ["True", "2"] and "requested" in said


def test_what_a_program_puts_in_its_place_is_its_own():
    program = """
        import paddle, sot
        import paddle.jit.sot.psdb as psdb
        psdb.in_sot = lambda: "mine"
        def fn(x):
            return x + 1, psdb.in_sot()
        print(sot.symbolic_translate(fn)(paddle.ones([1]))[1], sot.stats().graphs)
    """
    assert run(program) == ["mine", "1"]
