"""Arguments that Paddle's static mode ignores, and results that it describes wrongly: the call runs in eager mode, unless
the description can be corrected.
"""

import inspect

import paddle
import pytest

import sot
from conftest import has_avx512

MAKERS = {
    "arange": lambda **more: paddle.arange(3.0, **more),
    "eye": lambda **more: paddle.eye(2, **more),
    "full_like": lambda **more: paddle.full_like(paddle.zeros([2]), 1.0, **more),
    "linspace": lambda **more: paddle.linspace(0, 1, 3, **more),
    "ones": lambda **more: paddle.ones([2], **more),
    "ones_like": lambda **more: paddle.ones_like(paddle.zeros([2]), **more),
    "rand": lambda **more: paddle.rand([2], **more),
    "uniform": lambda **more: paddle.uniform([2], **more),
    "zeros_like": lambda **more: paddle.zeros_like(paddle.ones([2]), **more),
}


def takes(name, argument):
    return argument in inspect.signature(getattr(paddle, name)).parameters


@pytest.mark.parametrize("name", MAKERS)
def test_a_new_tensor_collects_its_gradient(name):
    if not takes(name, "requires_grad"):
        pytest.skip(f"paddle.{name} of Paddle {paddle.__version__} has no requires_grad")

    def forward(x):
        w = MAKERS[name](requires_grad=True)
        return w, (w.sum() * x).sum()

    fast = sot.symbolic_translate(forward)
    x = paddle.ones([2])
    for _ in range(2):
        w, loss = fast(x)
        loss.backward()
        assert not w.stop_gradient and w.grad.tolist() == (paddle.ones_like(w) * 2).tolist()
    assert any("argument `requires_grad` makes" in reason for reason in sot.stats().breaks), sot.stats()


@pytest.mark.parametrize("name", ["arange", "ones", "zeros_like"])
def test_memory_is_not_pinned_without_a_device(name):
    if not takes(name, "pin_memory") or paddle.is_compiled_with_cuda():
        pytest.skip(f"Paddle {paddle.__version__} pins memory, or has no pin_memory")

    def forward(x):
        return x + MAKERS[name](pin_memory=True).sum()

    for function in (forward, sot.symbolic_translate(forward)):
        with pytest.raises(RuntimeError, match="[Pp]in"):
            function(paddle.ones([2]))
    assert any("argument `pin_memory` asks" in reason for reason in sot.stats().breaks), sot.stats()


@pytest.mark.parametrize("function", [paddle.unique, paddle.unique_consecutive])
def test_indices_of_unique_are_integers(function, same):
    def forward(x):
        values, inverse, counts = function(x, return_inverse=True, return_counts=True)
        return values, inverse, counts, [inverse.dtype, counts.dtype], inverse + 1

    fast, x = sot.symbolic_translate(forward), paddle.to_tensor([[1.0, 2.0], [2.0, 0.5]])
    with sot.config.patch(min_graph_size=0):
        for _ in range(2):
            same(fast(x), forward(x))
    assert not sot.stats().breaks and not sot.stats().fallbacks


@pytest.mark.parametrize("window", [None, "ones", "ramp"])
@pytest.mark.parametrize("options", [{}, {"win_length": 4, "hop_length": 4, "center": False}, {"length": 30}])
@pytest.mark.parametrize("as_method", [False, True])
def test_windows_that_an_inverse_transform_does_not_take(window, options, as_method):
    """Eager mode raises where a sum of windows is zero. Static mode ignores that."""

    def f(x, window):
        if as_method:
            return (x * 2).istft(16, window=window, **options) + 1
        return paddle.signal.istft(x * 2, 16, window=window, **options) + 1

    def outcome(fn):
        try:
            return fn(x, given).numpy().tobytes()
        except ValueError as error:
            return str(error)

    size = options.get("win_length", 16)
    given = {None: None, "ones": paddle.ones([size]), "ramp": paddle.arange(1.0, size + 1) / size}[window]
    paddle.seed(3)
    x = paddle.signal.stft(paddle.rand([1, 64]), 16)
    fast, expected = sot.symbolic_translate(f), outcome(f)
    assert [outcome(fast) for _ in range(3)] == [expected] * 3
    assert isinstance(expected, str) == (not options.get("center", True))
    if not isinstance(expected, str):
        (reason,) = sot.stats().breaks
        assert "Tensor.item" in reason and sot.stats().graphs == 2


def test_a_result_that_is_not_initialized():
    function = getattr(paddle.incubate.nn.functional, "fused_rms_norm", None)
    if function is None:
        pytest.skip(f"Paddle {paddle.__version__} has no fused_rms_norm")
    if not has_avx512():
        pytest.skip("without AVX-512 fused_rms_norm ends the process in eager mode")

    def forward(x, weight):
        normed, residual = function(x + 1, norm_weight=weight, norm_bias=None, epsilon=1e-6, begin_norm_axis=1)
        return normed * 2, residual

    fast, x, weight = sot.symbolic_translate(forward), paddle.ones([2, 4]), paddle.ones([4])
    for _ in range(2):
        normed, residual = fast(x, weight)
        assert not residual._is_initialized() and normed.tolist() == forward(x, weight)[0].tolist()
    (reason,) = sot.stats().breaks
    assert "a tensor that is not initialized" in reason and not sot.stats().fallbacks
