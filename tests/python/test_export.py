"""`SOT_EXPORT`: each graph becomes a file that runs on its own."""

import importlib.util
import pathlib
import warnings

import numpy as np
import paddle
import pytest
from paddle.nn import functional as F

import sot


@pytest.fixture
def exported(monkeypatch, tmp_path):
    """Call a function translated. Return its results and the exported files."""

    def run(fn, *args):
        monkeypatch.setenv("SOT_EXPORT", str(tmp_path / "graphs"))
        results = sot.symbolic_translate(fn)(*args)
        monkeypatch.delenv("SOT_EXPORT")
        return results, sorted((tmp_path / "graphs").glob("SIR_*.py"))

    return run


def load(path: pathlib.Path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run_test(module):
    case = module.TestLayer("test_static")
    case.debug()


def test_a_layer(exported):
    net = paddle.nn.Sequential(paddle.nn.Linear(2, 3), paddle.nn.LayerNorm(3), paddle.nn.GELU(), paddle.nn.Linear(3, 1))
    x = paddle.rand([4, 2])
    expected, (result, [path]) = net(x), exported(lambda x: net(x), x)
    np.testing.assert_allclose(result.numpy(), expected.numpy(), rtol=1e-6)
    module = load(path)
    case = module.LayerCase()
    assert [list(parameter.shape) for parameter in case.parameters()] == [list(parameter.shape) for parameter in net.parameters()]
    for mine, theirs in zip(case.parameters(), net.parameters()):
        mine.set_value(theirs)
    np.testing.assert_allclose(case(x)[0].numpy(), expected.numpy(), rtol=1e-6)
    assert [list(tensor.shape) for tensor in module.create_inputs()] == [[4, 2]]
    run_test(module)


def statements(x, index):
    low, high = paddle.split(x, 2, axis=-1)
    y = paddle.concat([low, high], -1)
    y[:, 0] = 1.5
    y = F.relu(y.astype(paddle.float64) * float("inf")).clip(max=2.0)
    y.add_(y)
    top, _ = paddle.topk(y[index], 1)
    return top.T, paddle.full([5], float("nan")), paddle.linalg.qr(y[:, :3] + y[:1, 1:])[1], y.sum(axis=[0, 1])


def test_kinds_of_statements(exported):
    x, index = paddle.rand([2, 4]), paddle.to_tensor([0, 1])
    expected, (results, [path]) = statements(x.clone(), index), exported(statements, x, index)
    again = {str(tensor.shape): tensor.numpy() for tensor in load(path).LayerCase()(x, index)}
    for got, right in zip(results, expected):
        np.testing.assert_array_equal(got.numpy(), right.numpy())
        np.testing.assert_array_equal(again[str(right.shape)], right.numpy())


def test_gradients_in_the_graph(exported):
    def f(x):
        x.stop_gradient = False
        (g,) = paddle.grad((x * x).exp().sum(), x)
        return g * 2

    expected, (result, [path]) = f(paddle.ones([3])), exported(f, paddle.ones([3]))
    np.testing.assert_allclose(result.numpy(), expected.numpy(), rtol=1e-6)
    np.testing.assert_allclose(load(path).LayerCase()(paddle.ones([3]))[0].numpy(), expected.numpy(), rtol=1e-6)


def test_each_graph_is_a_file(exported):
    def broken(x):
        y = x * 2
        if y.sum() > 0:
            return y + 1
        return y - 1

    _, paths = exported(broken, paddle.ones([3]))
    assert len(paths) == 2
    for path in paths:
        run_test(load(path))


def test_what_cannot_be_written_is_said_and_harms_nothing(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SOT_EXPORT", str(tmp_path / "file"))
    with pytest.warns(RuntimeWarning, match="SIR_.* is not exported"):
        assert sot.symbolic_translate(lambda x: x + 1)(paddle.ones([2])).tolist() == [2.0, 2.0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # Raised where nobody can catch it.
        assert sot.symbolic_translate(lambda x: x + 1)(paddle.ones([2])).tolist() == [2.0, 2.0]
    assert not sot.stats().fallbacks
