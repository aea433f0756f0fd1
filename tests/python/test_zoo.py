"""The models of `zoo`, in eval mode and in training: equal to eager mode, and as many subgraphs as `docs/models.md` says."""

import dataclasses

import numpy as np
import paddle
import pytest

import zoo
from zoo.check import check
from zoo.page import known_rows, row

pytestmark = pytest.mark.divided


def same(actual, expected, rtol, atol, where="result"):
    assert type(actual) is type(expected), f"{where}: {type(actual)} is not {type(expected)}"
    if isinstance(expected, paddle.Tensor):
        for name in ("shape", "dtype", "stop_gradient"):
            got, wanted = getattr(actual, name), getattr(expected, name)
            assert got == wanted, f"{where}.{name}: {got} is not {wanted}"
        np.testing.assert_allclose(actual.numpy(), expected.numpy(), rtol=rtol, atol=atol, err_msg=where)
    elif isinstance(expected, np.ndarray):
        np.testing.assert_allclose(actual, expected, rtol=rtol, atol=atol, err_msg=where)
    elif dataclasses.is_dataclass(expected):
        for name in vars(expected):
            same(getattr(actual, name), getattr(expected, name), rtol, atol, f"{where}.{name}")
        assert list(vars(actual)) == list(vars(expected)), where
        if isinstance(expected, dict):
            assert list(actual) == list(expected)
            same(list(actual.values()), list(expected.values()), rtol, atol, where)
    elif isinstance(expected, dict):
        assert list(actual) == list(expected), f"{where}: keys or their order differ"
        for key in expected:
            same(actual[key], expected[key], rtol, atol, f"{where}[{key!r}]")
    elif isinstance(expected, (list, tuple)):
        assert len(actual) == len(expected), f"{where}: lengths differ"
        for index, pair in enumerate(zip(actual, expected)):
            same(*pair, rtol, atol, f"{where}[{index}]")
    else:
        assert actual == expected, f"{where}: {actual!r} is not {expected!r}"


def make(name):
    """Return a function that makes the named task, with the same weights each time."""

    def make():
        paddle.seed(3)
        return zoo.TASKS[name]()

    return make


# These models have layers that set their data format at the first call.
FINDS_OUT = pytest.mark.alone("both translated runs begin with what a layer has not yet found out")
NAMES = [
    pytest.param(name, marks=FINDS_OUT) if name in ("others.BYOL", "unet.Segmentation") else name for name in zoo.load()
]


@pytest.mark.parametrize("name", NAMES)
def test_model(name):
    task = zoo.TASKS[name]
    old = paddle.__version__.startswith("3.0")
    if old and name == "others.PPO":
        pytest.skip("Categorical.log_prob of Paddle 3.0 expands its argument to another shape")
    measured = check(make(name), same)
    for mode, graphs, breaks in (
        (measured.predict, task.eval_graphs, task.eval_breaks),
        (measured.train, task.train_graphs, task.train_breaks),
    ):
        assert mode.breaks == sorted(breaks) and mode.graphs == graphs and not mode.fallbacks
    assert row(task, measured) in known_rows()


def test_the_page_has_no_other_models():
    assert len(known_rows()) == len(zoo.TASKS)
