"""Fixtures of the tests with real Paddle: a clean tracer for each test, and comparison with eager mode."""

import argparse
import gc
import logging
import os
import pathlib
import threading
import zlib

# Read when the tracer translates: one operation is enough for a program. With 1000 instead, most graphs are replayed.
os.environ.setdefault("MIN_GRAPH_SIZE", "0")

import numpy as np
import paddle
import pytest

import sot


VERIFY_MODE = os.environ.get("SOT_VERIFY", "0") not in ("", "0")


def has_avx512():
    """Tell whether the processor has AVX-512. Some of Paddle's kernels end the process without it, in eager mode, too."""
    return "avx512bw" in pathlib.Path("/proc/cpuinfo").read_text()


@pytest.fixture(autouse=True)
def sot_reset(monkeypatch):
    """Start each test without translations, with counters at zero, fallbacks allowed and a fixed random seed."""
    monkeypatch.setenv("STRICT_MODE", "0")
    paddle.seed(2024)
    sot.reset()
    details = sot._sot.report_details(False)
    sot._sot.report_details(details)
    yield
    sot._sot.report_details(details)
    sot.reset()


def wait_for_threads():
    """Wait until the threads of earlier tests have ended: a call is not verified while another thread runs."""
    for thread in threading.enumerate():
        if thread is not threading.current_thread():
            thread.join(30)


@pytest.fixture
def no_other_threads():
    """Start the test, which verifies calls itself, when the threads of earlier tests have ended."""
    wait_for_threads()


@pytest.fixture(autouse=True)
def verified(request):
    """In verify mode (`SOT_VERIFY=1`), fail a test in which a call differs from the program's own run."""
    if VERIFY_MODE:
        wait_for_threads()
    told = []
    handler = logging.Handler()
    handler.emit = lambda record: told.append(record.getMessage())
    logging.getLogger("sot.verify").addHandler(handler)
    yield told
    logging.getLogger("sot.verify").removeHandler(handler)
    if told and not request.node.get_closest_marker("differs"):
        pytest.fail("\n".join(told))


def pytest_collection_finish():
    """Exclude imported objects from garbage collection, so that tests that collect do not visit all of Paddle."""
    gc.collect()
    gc.freeze()


def pytest_addoption(parser):
    parser.addoption(
        "--part", metavar="K/N", type=part, help="of the tests marked `divided`, run only the K-th of N parts"
    )


def part(text):
    """Read the value of `--part`."""
    number, _, parts = text.partition("/")
    if not (number.isdigit() and parts.isdigit() and 1 <= int(number) <= int(parts)):
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form K/N with K from 1 to N, such as 1/3")
    return int(number), int(parts)


# Files whose tests take seconds each: every process takes one test at a time, not the file.
LONG = ("test_api_table.py", "test_backward_matrix.py", "test_command_line.py", "test_signals.py", "test_zoo.py")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Give each process a whole file, as `--dist loadfile` does, except for files of long tests."""
    from xdist.scheduler import LoadFileScheduling

    class FilesAndLongTests(LoadFileScheduling):
        def _split_scope(self, nodeid):
            file = super()._split_scope(nodeid)
            return nodeid if file.endswith(LONG) else file

    return FilesAndLongTests(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_collection_modifyitems(config, items):
    leave_out_other_parts(config, items)
    mark_tests_that_are_alone(items)


def leave_out_other_parts(config, items):
    if config.getoption("--part") is None:
        return
    number, parts = config.getoption("--part")

    def is_in_part(item):
        return item.get_closest_marker("divided") is None or zlib.crc32(item.name.encode()) % parts == number - 1

    config.hook.pytest_deselected(items=[item for item in items if not is_in_part(item)])
    items[:] = filter(is_in_part, items)


def mark_tests_that_are_alone(items):
    """In verify mode, let tests marked `alone` fail, but not by a difference that verify mode finds."""
    if not VERIFY_MODE:
        return
    for item in items:
        for marker in item.iter_markers("alone"):
            reason = f"not beside a run of the program itself: {marker.args[0]}"
            if marker.kwargs.get("runs", True):
                # The failure that `verified` raises is no `Exception`.
                item.add_marker(pytest.mark.xfail(reason=reason, raises=Exception, strict=False))
            else:
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture
def same():
    """`same(actual, expected)` asserts equal structure, types and values."""
    return assert_same


@pytest.fixture
def check():
    """`check(fn, *args, graphs=1, breaks=0, fallbacks=0, **kwargs)` compares `fn` translated with `fn` in eager mode.

    Asserts the numbers of subgraphs, breaks and fallbacks of the first call, and that the second is a hit without a new
    translation. Returns the translated function. A call must not change `fn` or its arguments.
    """
    return check_against_eager


def check_against_eager(fn, *args, graphs=1, breaks=0, fallbacks=0, **kwargs):
    expected = fn(*args, **kwargs)
    before = sot.stats()
    fast = sot.symbolic_translate(fn)
    assert_same(fast(*args, **kwargs), expected)
    first = sot.stats()
    seen = {
        "graphs": first.graphs - before.graphs,
        "breaks": total(first.breaks) - total(before.breaks),
        "fallbacks": total(first.fallbacks) - total(before.fallbacks),
    }
    assert seen == {"graphs": graphs, "breaks": breaks, "fallbacks": fallbacks}, f"\n{first}"

    assert_same(fast(*args, **kwargs), expected)
    second = sot.stats()
    assert second.graph_errors == before.graph_errors, f"a graph raised, and the frame ran again in CPython\n{second}"
    assert second.translations == first.translations, f"the second call translated again\n{second}"
    assert second.misses == first.misses, f"the second call missed\n{second}"
    if graphs:
        assert second.hits > first.hits, f"the second call was no hit\n{second}"
    return fast


def total(counts):
    return sum(counts.values())


def assert_same(actual, expected, where="result"):
    """Assert equal types and structure; tensors: equal shape, dtype, stop_gradient, and values (rtol 1e-5)."""
    assert type(actual) is type(expected), f"{where}: {type(actual)} is not {type(expected)}"
    if isinstance(expected, paddle.Tensor):
        assert_same_tensor(actual, expected, where)
    elif isinstance(expected, dict):
        assert list(actual) == list(expected), f"{where}: keys or their order differ"
        for key in expected:
            assert_same(actual[key], expected[key], f"{where}[{key!r}]")
    elif isinstance(expected, (list, tuple)):
        assert len(actual) == len(expected), f"{where}: lengths differ"
        for index, pair in enumerate(zip(actual, expected)):
            assert_same(*pair, where=f"{where}[{index}]")
    elif isinstance(expected, (float, complex, np.ndarray)):
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6, err_msg=where)
    else:
        assert actual == expected, f"{where}: {actual!r} is not {expected!r}"


def assert_same_tensor(actual, expected, where):
    for name in ("shape", "dtype", "stop_gradient"):
        got, wanted = getattr(actual, name), getattr(expected, name)
        assert got == wanted, f"{where}.{name}: {got} is not {wanted}"
    np.testing.assert_allclose(actual.numpy(), expected.numpy(), rtol=1e-5, atol=1e-6, err_msg=where)
