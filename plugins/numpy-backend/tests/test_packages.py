"""The package itself: pickles, the command, plug-ins, and that no other framework is imported."""

import copy
import os
import pickle
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import sot_numpy


def run(program, **variables):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        env={**os.environ, "PYTHONWARNINGS": "ignore", **variables},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")[:-1]


def double(x):
    return x * 2


def test_pickles_name_the_package():
    fast = sot_numpy.symbolic_translate(double)
    text = pickle.dumps(fast, 0)
    assert b"csot\n" not in text and b"sot_numpy" in text
    for again in (pickle.loads(text), copy.deepcopy(fast)):
        assert again(np.ones(1)).tolist() == [2.0] and type(again).__module__ == "sot_numpy"
    error = pickle.loads(pickle.dumps(sot_numpy.GraphBreakError("text")))
    assert type(error) is sot_numpy.GraphBreakError


def test_nothing_else_is_imported():
    said = run("""
        import sys, sot_numpy
        print(sorted(name for name in ("sot", "paddle", "torch") if name in sys.modules))
    """)
    assert said == ["[]"]


def test_the_extension_is_part_of_a_package(tmp_path):
    os.symlink(sot_numpy._sot.__file__, tmp_path / os.path.basename(sot_numpy._sot.__file__))
    said = run("""
        try:
            import _sot
        except ImportError as error:
            print(error)
    """, PYTHONPATH=f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    assert said == ["_sot is part of a package, and is imported as a module of its own: import the package"]


def test_plug_ins_are_of_a_group_of_its_own(tmp_path):
    info = tmp_path / "a_pack-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: a-pack\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[sot_numpy.plugins]\na = a_pack:register\n[sot.plugins]\nb = a_pack:wrong\n")
    (tmp_path / "a_pack.py").write_text("import sot_numpy\ndef register(): print('registered')\n")
    said = run("import sot_numpy", PYTHONPATH=f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    assert said == ["registered"]


def test_messages_name_the_package():
    with pytest.raises(AttributeError, match=r"^sot_numpy\.config has no 'no_such_setting'"):
        sot_numpy.config.no_such_setting = 1
    with pytest.raises(ValueError, match="sot_numpy already knows"):
        sot_numpy.register.pure(len)
    with pytest.raises(TypeError, match=r"^sot_numpy\.break_on\(\) takes"):
        sot_numpy.break_on()
    with sot_numpy.register.constant_result(double) as registration:
        assert repr(registration).startswith("<sot_numpy.register.constant_result(")


def test_loggers_are_of_the_package(caplog):
    with caplog.at_level("INFO", "sot_numpy"):
        sot_numpy.symbolic_translate(lambda x: x + 1)(np.ones(2))
    assert "sot_numpy.graphs" in {record.name for record in caplog.records}
    assert not [record for record in caplog.records if record.name.startswith("sot.")]


sot = pytest.importorskip("sot", reason="needs the package with Paddle, too")
paddle = pytest.importorskip("paddle")


@pytest.fixture
def fresh():
    sot.reset()
    sot_numpy.reset()
    sot_numpy.symbolic_translate(double)(np.ones(3))
    sot_numpy.reset()


def counts():
    return [(stats.translations, stats.hits, stats.graphs) for stats in (sot.stats(), sot_numpy.stats())]


def test_each_has_its_own_functions(fresh):
    of_paddle, of_numpy = sot.symbolic_translate(double), sot_numpy.symbolic_translate(double)
    for _ in range(3):
        assert of_paddle(paddle.ones([2])).tolist() == [2.0, 2.0]
        assert of_numpy(np.ones(2)).tolist() == [2.0, 2.0]
    # A single code object with translations of each tracer.
    assert counts() == [(1, 2, 1), (1, 2, 1)]
    assert type(of_paddle) is not type(of_numpy)


@sot_numpy.symbolic_translate
def squared(x):
    return x * x + 1


@sot.symbolic_translate
def through_numpy(x):
    y = x + 1
    z = squared(y.numpy())
    return paddle.to_tensor(z) * 2


def test_one_below_the_other(fresh):
    for number in (1.0, 2.0, 3.0):
        x = paddle.full([2], number)
        assert through_numpy(x).tolist() == [2 * ((number + 1) ** 2 + 1)] * 2
    # Two graphs of Paddle's, around the part without a graph: `Tensor.numpy` and the call. One graph of NumPy's.
    assert counts() == [(3, 6, 2), (1, 2, 1)]


@sot.symbolic_translate
def innermost(x):
    return paddle.exp(x) * 2


@sot_numpy.symbolic_translate
def middle(x, depth):
    y = x + 1
    z = innermost(paddle.to_tensor(y)).numpy() if depth == 0 else outermost(paddle.to_tensor(y), depth - 1).numpy()
    return z * 2 + y


@sot.symbolic_translate
def outermost(x, depth):
    y = x * 2
    z = middle(y.numpy(), depth)
    return paddle.to_tensor(z) + y


def plain(x, depth):
    y = x * 2
    z = y + 1
    inner = np.exp(z) * 2 if depth == 0 else plain(z, depth - 1)
    return inner * 2 + z + y


def left_alone(x):
    return x + 1


@pytest.mark.parametrize("depth", [0, 3])
def test_sections_within_one_another(fresh, depth):
    for number in (0.1, 0.2, 0.3):
        found = outermost(paddle.full([2], number, "float64"), depth)
        np.testing.assert_allclose(found.numpy(), plain(np.full(2, number), depth))
        # Frames of neither tracer, when all sections are closed: the hooks must not hand such a frame to each other
        # for ever.
        assert left_alone(1) == 2
    before = counts()
    assert before[0][2] >= 3 and before[1][2] >= 2 and before[0][1] and before[1][1]
    # Whichever tracer is called next gets the frames.
    squared(np.ones(2))
    innermost(paddle.ones([2]))
    squared(np.ones(2))
    after = counts()
    assert sum(after[1][:2]) == sum(before[1][:2]) + 2


def test_threads(fresh):
    import threading

    wrong = []

    def paddles():
        for number in range(50):
            if through_numpy(paddle.full([2], float(number))).tolist() != [2 * ((number + 1.0) ** 2 + 1)] * 2:
                wrong.append(number)

    def numpys():
        for number in range(200):
            if squared(np.full(2, float(number))).tolist() != [number**2 + 1.0] * 2:
                wrong.append(number)

    threads = [threading.Thread(target=target) for target in (paddles, numpys, paddles, numpys)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and counts()[0][1] and counts()[1][1]


def test_registrations_of_one_are_not_the_others(fresh):
    def number(x):
        return len(x.shape) + eval("1")

    def function(x):
        return x * number(x)

    with sot.disable(), sot_numpy.register.disable(number):
        assert sot_numpy.symbolic_translate(function)(np.ones(2)).tolist() == [2.0, 2.0]
    assert sot_numpy.stats().reasons == {"break-listed": 1} and not sot.stats().reasons


def test_importing_paddles_does_not_import_numpys():
    said = run("import sys, sot; print('sot_numpy' in sys.modules)")
    assert said == ["False"]


def test_messages_are_written_once():
    program = """
        import sys
        import numpy as np, paddle, sot, sot_numpy
        def breaks(x):
            y = x + 1
            sot_numpy.psdb.breakgraph()
            return y
        sot_numpy.symbolic_translate(breaks)(np.ones(2))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        env={**os.environ, "PYTHONWARNINGS": "ignore", "SOT_LOGS": "breaks"},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0 and done.stderr.count("psdb.breakgraph() is called") == 1, done.stderr
