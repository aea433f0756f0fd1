"""The package's interface: the environments in which it refuses to start, and the text of its reports."""

import builtins
import sys

import pytest

import sot
from sot import _report, _requirements


@pytest.mark.parametrize(
    "implementation, version, named",
    [("cpython", (3, 7), "CPython 3.8 to 3.13"), ("cpython", (3, 14), "3.14"), ("pypy", (3, 10), "pypy")],
)
def test_other_interpreters_are_refused(implementation, version, named):
    with pytest.raises(ImportError, match=named):
        _requirements.check_interpreter(implementation, version)


def test_supported_interpreters_are_accepted():
    for minor in range(8, 14):
        _requirements.check_interpreter("cpython", (3, minor))


def test_without_paddle_the_remedy_is_named(monkeypatch):
    real_import = builtins.__import__

    def no_paddle(name, *args, **kwargs):
        if name == "paddle":
            raise ModuleNotFoundError("No module named 'paddle'", name="paddle")
        return real_import(name, *args, **kwargs)

    monkeypatch.delitem(sys.modules, "paddle")
    monkeypatch.setattr(builtins, "__import__", no_paddle)
    with pytest.raises(ImportError, match="pip install paddlepaddle"):
        _requirements.check_paddle()


def test_an_old_paddle_is_refused(monkeypatch):
    monkeypatch.setattr("paddle.__version__", "2.6.2")
    with pytest.raises(ImportError, match="found 2.6.2: pip install --upgrade"):
        _requirements.check_paddle()


@pytest.mark.parametrize("version, old", [("2.6.2", True), ("3.0.0", False), ("3.0.0rc1", False), ("0.0.0", False)])
def test_versions_of_paddle_are_compared(version, old):
    assert _requirements.is_too_old(version) is old


def test_every_public_name_exists():
    assert all(hasattr(sot, name) for name in sot.__all__)


def test_stats_print_reasons_often_first():
    shown = str(sot.Stats(translations=2, breaks={"print (a.py:3)": 1, "item (a.py:9)": 4}, seconds={"guards": 0.002}))
    assert shown.splitlines() == [
        "2 translations, 0 hits, 0 misses, 0 graphs, 0 replayed",
        "5 breaks:",
        "  4 × item (a.py:9)",
        "  1 × print (a.py:3)",
        "no fallbacks",
        "time: guards 2.0 ms",
    ]


def test_an_explanation_counts_and_prints_its_records():
    translated = _report.Record._from(
        {
            "name": "f",
            "filename": "a.py",
            "line": 1,
            "outcome": "translated",
            "sir": "SIR_0:\n  relu",
            "statements": 1,
            "guards": ["x.shape == [2]"],
            "reason": None,
            "reason_line": None,
        }
    )
    left = _report.Record("g", "a.py", 7, "fallback", reason="yield is not supported", reason_line=8)
    explanation = _report.Explanation(result=None, records=(translated, left))
    assert (explanation.subgraphs, explanation.statements, explanation.guards) == (1, 1, 1)
    assert explanation.fallbacks == (left,) and explanation.breaks == ()
    assert str(explanation).splitlines() == [
        "1 subgraph, 1 statement, 1 guard, 0 breaks, 1 fallback",
        "",
        "f (a.py:1): translated",
        "  1 statement:",
        "    SIR_0:",
        "      relu",
        "  1 guard:",
        "    x.shape == [2]",
        "",
        "g (a.py:7): fallback",
        "  left to CPython at line 8: yield is not supported",
    ]
