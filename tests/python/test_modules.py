"""Attributes of a module are the globals of its functions: one value, whichever way it is written."""

import sys
import types
import typing

import paddle
import pytest

import sot

TEXT = """
FLAG = 1.0

def read(x):
    return x + FLAG

def call(x):
    return helper(x)

def helper(x):
    return x - 1

def write(value):
    global FLAG
    FLAG = value
"""


@pytest.fixture
def module(monkeypatch):
    made = types.ModuleType("sot_tests_module")
    exec(compile(TEXT, "/sot_tests_module.py", "exec"), made.__dict__)
    monkeypatch.setitem(sys.modules, made.__name__, made)
    return made


def written_and_put_back(module, x):
    before = module.FLAG
    module.FLAG = 5.0
    y = module.read(x)
    module.FLAG = before
    return y, module.read(x)


def written_by_its_function(module, x):
    module.write(7.0)
    y = x * module.FLAG
    module.write(1.0)
    return y


def replaced_function(module, x):
    before = module.helper
    module.helper = lambda x: x * 10
    y = module.call(x)
    module.helper = before
    return y, module.call(x)


def left_written(module, x):
    module.FLAG = module.FLAG + 1
    module.new = 3.0
    return module.read(x) * module.new * module.read.__globals__["new"]


def deleted(module, x):
    module.new = 3.0
    y = x * module.new
    del module.new
    try:
        del module.new
    except AttributeError:
        y = y + 1
    return y, hasattr(module, "new")


def over_a_break(module, x):
    module.FLAG = 9.0
    y = module.read(x)
    if y.sum() > 0:
        y = y + module.FLAG
    module.FLAG = 1.0
    return y + module.FLAG


CASES = [written_and_put_back, written_by_its_function, replaced_function, left_written, deleted, over_a_break]


@pytest.mark.parametrize("fn", CASES, ids=lambda fn: fn.__name__)
def test_writes_to_modules(fn, module, same):
    x = paddle.to_tensor([1.0, 2.0])

    def run(call):
        vars(module).update(FLAG=1.0)
        vars(module).pop("new", None)
        found = [call(module, x) for _ in range(3)]
        return found, module.FLAG, getattr(module, "new", None)

    expected = run(fn)
    same(run(sot.symbolic_translate(fn)), expected)
    stats = sot.stats()
    assert stats.graphs and not stats.fallbacks and sum(stats.breaks.values()) == (fn is over_a_break), f"\n{stats}"


def test_distributions_of_numbers(check, same):
    """Distributions whose parameters are not known floats are made in eager mode."""

    def fn(x):
        prior, given = paddle.distribution.Normal(0.0, 1.0), paddle.distribution.Normal(x, x.exp())
        divergence = paddle.distribution.kl_divergence(given, prior)
        return divergence, prior.log_prob(x), prior.scale, prior.entropy(), prior.mean

    def of_rows(x):
        rows = paddle.distribution.Normal([0.0, 0.5, 1.0], [1.0, 2.0, 0.1])
        return rows.log_prob(x), rows.mean, paddle.distribution.Uniform([0.0, 1.0, 2.0], [2.0, 3.0, 4.0]).low + x

    x = paddle.rand([2, 3])
    x.stop_gradient = False
    check(fn, x)
    check(lambda x: paddle.distribution.Uniform(0.0, 2.0).log_prob(x) + 1, x)
    fast = sot.symbolic_translate(of_rows)
    for _ in range(2):
        same(fast(x), of_rows(x))


def test_finders_of_the_program_see_an_import_where_it_is():
    """Between what the function does before the import and what it does behind it."""

    class Finder:
        seen = []

        def find_spec(self, name, path=None, target=None):
            if name == "colorsys":
                self.seen.append(name)

    def load(x):
        before = "colorsys" in Finder.seen
        import colorsys

        return x + 1, before, len(Finder.seen), colorsys.rgb_to_hsv(1, 0, 0)

    def results(fn):
        sys.modules.pop("colorsys", None)
        Finder.seen.clear()
        sys.meta_path.insert(0, Finder())
        try:
            return [fn(paddle.ones([2]))[1:] for _ in range(3)]
        finally:
            del sys.meta_path[0]

    assert results(sot.symbolic_translate(load)) == results(load)
    stats = sot.stats()
    assert stats.translations and stats.hits and not stats.breaks and not stats.fallbacks, stats


def test_finders_of_packages_only_look_for_files():
    """As those of setuptools, which every program has: such an import is translated at the first call."""
    assert any(type(finder).__module__.startswith("_pytest") for finder in sys.meta_path)

    def load(x):
        import colorsys

        return x + 1, colorsys.rgb_to_hsv(1, 0, 0)

    sys.modules.pop("colorsys", None)
    fast = sot.symbolic_translate(load)
    for _ in range(2):
        assert fast(paddle.ones([2]))[1] == load(paddle.ones([2]))[1]
    stats = sot.stats()
    assert (stats.translations, stats.graphs, stats.hits) == (1, 1, 1), stats
    assert not stats.breaks and not stats.fallbacks, stats


def test_none_in_sys_modules_makes_the_import_raise():
    """Even if the module is used only behind a graph break."""

    def load(x):
        import of_this_test

        sot.psdb.breakgraph()
        return x + of_this_test.number

    def outcomes(fn):
        module = types.ModuleType("of_this_test")
        module.number = 1
        outcomes = []
        for entry in (module, module, None, module, None):
            sys.modules["of_this_test"] = entry
            try:
                outcomes.append(fn(paddle.ones([2])).tolist())
            except ImportError as error:
                outcomes.append(str(error))
            finally:
                del sys.modules["of_this_test"]
        return outcomes

    assert outcomes(sot.symbolic_translate(load)) == outcomes(load)
    assert sot.stats().hits and sot.stats().breaks, sot.stats()


def test_arguments_that_die_without_clearing_their_weak_references():
    if not hasattr(typing, "ParamSpec"):
        pytest.skip("this CPython has no ParamSpec")
    parameters = typing.ParamSpec("parameters")

    def origin(x, hint):
        return x * 2, hint.__origin__.__name__

    fast = sot.symbolic_translate(origin)
    for _ in range(40):
        assert fast(paddle.ones([1]), parameters.args)[1] == "parameters"
        [[] for _ in range(50)]
    assert sot.stats().translations
