"""Graphs of the Paddle backend against eager mode, driven through the private builder object."""

import gc
import operator
import subprocess
import sys
import threading
import weakref
from pathlib import Path

import numpy as np
import paddle
import paddle.nn.functional as F
import pytest

from sot import _sot


pytestmark = pytest.mark.divided


def build(function, inputs, parameters=()):
    """The graph of `function(call, *values)`, where `call(callee, ...)` appends a statement."""
    builder = _sot._GraphBuilder()
    values = [builder.input(f"x{i}", tensor) for i, tensor in enumerate(inputs)]
    weights = [builder.parameter(tensor) for tensor in parameters]

    def call(callee, *args, **kwargs):
        kind = "method" if isinstance(callee, str) else "layer" if isinstance(callee, paddle.nn.Layer) else "api"
        result = builder.call(kind, callee, *args, **kwargs)
        assert paddle.in_dynamic_mode()
        return result

    outputs = function(call, *values, *weights)
    return builder.finish(values, list(outputs))


def random(*shape, grad=False):
    tensor = paddle.randn(shape)
    tensor.stop_gradient = not grad
    return tensor


class MLP(paddle.nn.Layer):
    def __init__(self, depth=10):
        super().__init__()
        self.layers = paddle.nn.LayerList([paddle.nn.Linear(8, 8) for _ in range(depth)])

    def forward(self, x):
        for layer in self.layers:
            x = F.relu(layer(x)) + x
        return x.mean()


def mlp_graph(model, x):
    def trace(call, value):
        for layer in model.layers:
            value = call(paddle.add, call(F.relu, call(layer, value)), value)
        return [call("mean", value)]

    return build(trace, [x])


def gradients(model):
    grads = [parameter.grad.numpy() for parameter in model.parameters()]
    model.clear_gradients()
    return grads


def assert_same(left, right):
    assert len(left) == len(right)
    for a, b in zip(left, right):
        np.testing.assert_array_equal(a, b)


def test_ten_layers_equal_eager_forward_and_backward():
    model, x = MLP(), random(4, 8, grad=True)
    graph = mlp_graph(model, x)
    for _ in range(3):
        eager = model(x)
        eager.backward()
        expected, expected_x = gradients(model), x.grad.numpy()
        x.clear_grad()
        (out,) = graph(x)
        assert not out.stop_gradient
        out.backward()
        assert_same([eager.numpy(), expected_x, *expected], [out.numpy(), x.grad.numpy(), *gradients(model)])
        x.clear_grad()


def test_parameters_as_values():
    linear, x = paddle.nn.Linear(3, 5), random(2, 3)
    graph = build(lambda call, v, w, b: [call(F.linear, v, w, b)], [x], [linear.weight, linear.bias])
    np.testing.assert_array_equal(graph(x)[0].numpy(), linear(x).numpy())


def values_in_lists():
    lists = [found for found in gc.get_objects() if isinstance(found, list)]
    return sum(isinstance(value, paddle.pir.Value) for found in lists for value in found)


def test_compiling_leaves_no_references_into_the_program():
    """Values of Paddle that outlive their program would be taken for others made at the same address."""
    linear, x = paddle.nn.Linear(3, 5), random(2, 3)
    gc.collect()
    gc.disable()
    try:
        before = values_in_lists()
        graph = build(lambda call, v: [call(linear, v)], [x])
        assert len(graph(x)) == 1
        del graph
        assert values_in_lists() == before and not gc.isenabled()
    finally:
        gc.enable()


def test_two_forwards_before_a_backward():
    model, x, y = MLP(), random(4, 8), random(4, 8)
    graph = mlp_graph(model, x)
    (model(x) + model(y)).backward()
    expected = gradients(model)
    (first,), (second,) = graph(x), graph(y)
    second.backward()
    first.backward()
    for a, b in zip(expected, gradients(model)):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)


def test_a_forward_without_backward_frees_its_scope():
    model, x = MLP(2), random(4, 8)
    graph = mlp_graph(model, x)
    for _ in range(20):
        (out,) = graph(x)
        del out
    (out,) = graph(x)
    out.backward()
    got = gradients(model)
    model(x).backward()
    assert_same(gradients(model), got)


def test_no_grad_and_grad_graphs():
    linear, x = paddle.nn.Linear(3, 3), random(2, 3)
    with paddle.no_grad():
        without = build(lambda call, v: [call(linear, v)], [x])
        assert without(x)[0].stop_gradient
    with_grad = build(lambda call, v: [call(linear, v)], [x])
    assert not with_grad(x)[0].stop_gradient
    assert_same([without(x)[0].numpy()], [with_grad(x)[0].numpy()])


def test_a_no_grad_region_inside_a_graph():
    linear, x = paddle.nn.Linear(3, 3), random(2, 3)

    def trace(call, v):
        with paddle.no_grad():
            target = call(linear, v)
        return [target, call(F.mse_loss, call(linear, call("scale", v, 2.0)), target)]

    target, loss = build(trace, [x])(x)
    assert target.stop_gradient and not loss.stop_gradient
    loss.backward()
    got = gradients(linear)
    with paddle.no_grad():
        target = linear(x)
    F.mse_loss(linear(x.scale(2.0)), target).backward()
    assert_same(gradients(linear), got)


def test_nothing_needs_grad():
    x = random(2, 3)
    (out,) = build(lambda call, v: [call(F.relu, v)], [x])(x)
    assert out.stop_gradient


@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("used", [True, False])
def test_batch_norm_updates_its_buffers(grad, used):
    x = random(4, 3, 5, 5)
    bn, reference = paddle.nn.BatchNorm2D(3), paddle.nn.BatchNorm2D(3)
    with paddle.set_grad_enabled(grad):
        graph = build(lambda call, v: [call(bn, v) if (call(bn, v), used)[1] else call(F.relu, v)], [x])
        for _ in range(3):
            (out,) = graph(x)
            expected = reference(x)
            if used:
                expected = reference(x)
            if used and grad:
                out.sum().backward()
            if used:
                np.testing.assert_allclose(out.numpy(), expected.numpy(), rtol=1e-6, atol=1e-6)
    assert_same([bn._mean.numpy(), bn._variance.numpy()], [reference._mean.numpy(), reference._variance.numpy()])


def test_a_graph_run_for_its_effects():
    x = random(4, 3, 5, 5)
    bn, reference = paddle.nn.BatchNorm2D(3), paddle.nn.BatchNorm2D(3)
    graph = build(lambda call, v: [call(bn, v), []][1], [x])
    assert len(graph(x)) == 0
    reference(x)
    assert_same([bn._mean.numpy()], [reference._mean.numpy()])


def test_dropout_uses_the_stream_of_eager():
    x = random(16, 16)

    def trace(call, v):
        call(F.dropout, v, 0.5)  # a dead one still draws
        return [call(F.dropout, v, 0.5), call(paddle.rand, [3])]

    graph = build(trace, [x])
    paddle.seed(11)
    F.dropout(x, 0.5)
    expected = [F.dropout(x, 0.5).numpy(), paddle.rand([3]).numpy(), paddle.rand([2]).numpy()]
    paddle.seed(11)
    got = [out.numpy() for out in graph(x)] + [paddle.rand([2]).numpy()]
    assert_same(expected, got)


def test_outputs_that_are_inputs_or_parameters_or_twice():
    linear, x = paddle.nn.Linear(3, 3), random(2, 3)

    def trace(call, v, w):
        y = call(F.linear, v, w)
        return [y, v, w, y]

    first, second, third, fourth = build(trace, [x], [linear.weight])(x)
    assert second is x and third is linear.weight and first is fourth
    (only,) = build(lambda call, v: [v], [x])(x)
    assert only is x
    assert len(build(lambda call, v: [], [x])(x)) == 0


def test_unused_inputs_and_parameters():
    linear, x, y = paddle.nn.Linear(3, 3), random(2, 3), random(2, 3)

    def trace(call, v, unused, w, b):
        call(paddle.add, v, b)
        return [call(F.linear, v, w)]

    (out,) = build(trace, [x, y], [linear.weight, linear.bias])(x, y)
    out.sum().backward()
    assert linear.bias.grad is None or not linear.bias.grad.numpy().any()
    np.testing.assert_array_equal(out.numpy(), F.linear(x, linear.weight).numpy())


def test_no_inputs():
    (out,) = build(lambda call: [call(paddle.ones, [2, 2])], [])()
    assert out.numpy().sum() == 4


def test_a_view_as_input():
    x = random(3, 4)
    graph = build(lambda call, v: [call(paddle.scale, v, 2.0)], [x.t()])
    np.testing.assert_array_equal(graph(x.t())[0].numpy(), x.t().numpy() * 2)


def test_an_error_leaves_eager_mode_on():
    builder = _sot._GraphBuilder()
    value = builder.input("x", random(2, 3))
    with pytest.raises(ZeroDivisionError):
        builder.call("api", lambda value: value / (1 // 0), value)
    assert paddle.in_dynamic_mode() and (random(2) + 1).shape == [2]
    with pytest.raises(NotImplementedError):
        builder.call("api", paddle.add, value, value, out=random(2, 3))
    assert builder.value_meta(builder.call("api", paddle.add, value, value))


@pytest.mark.parametrize("operation", ["add", "sub", "mul", "truediv", "pow", "floordiv", "lt", "eq"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_numbers_are_not_rounded(operation, dtype):
    function = getattr(operator, operation)
    x = (paddle.rand([5, 7]) * 9 + 1).astype(dtype)
    for number in [0.1, 3, 7, 1 / 3, -1.5, 2]:
        for left, right in [(x, number), (number, x)]:
            expected = function(left, right)
            swap = lambda value: (value, right) if left is x else (left, value)
            (out,) = build(lambda call, v: [call(function, *swap(v))], [x])(x)
            assert out.dtype == expected.dtype
            np.testing.assert_array_equal(out.numpy(), expected.numpy())


def test_calls_that_would_round_are_refused():
    builder = _sot._GraphBuilder()
    value = builder.input("x", paddle.arange(3))
    with pytest.raises(NotImplementedError, match="would round"):
        builder.call("api", paddle.scale, value, 2, 0.1)
    builder.call("api", paddle.scale, value, 2, 3)


def test_flags_follow_eager_where_an_operation_has_no_gradient():
    x = random(3, 4, grad=True)
    functions = [paddle.argmax, paddle.isnan, paddle.ones_like, paddle.nonzero, lambda x: F.one_hot(x.argmax(1), 4)]
    functions += [lambda x: paddle.topk(x, 2), lambda x: x.argmax(1).astype("float32") * 2, F.relu, lambda x: x.detach()]
    for function in functions:
        builder = _sot._GraphBuilder()
        eager, traced = function(x), builder.call("api", function, builder.input("x", x))
        if not isinstance(eager, (list, tuple)):
            eager, traced = [eager], [traced]
        assert [t.stop_gradient for t in eager] == [v.stop_gradient for v in traced]


def test_wrong_number_of_inputs():
    x = random(2)
    graph = build(lambda call, v: [call(F.relu, v)], [x])
    with pytest.raises(TypeError, match="takes 1 tensors"):
        graph(x, x)


def test_metas():
    builder = _sot._GraphBuilder()
    value = builder.input("x", random(2, 3, grad=True))
    assert builder.value_meta(value) == "shape: [2, 3], dtype: float32, stop_gradient: False"
    dynamic = builder.call("api", paddle.nonzero, value)
    assert builder.value_meta(dynamic) == "shape: [-1, 2], dtype: int64, stop_gradient: True"
    assert builder.value_meta(random(2)) is None and builder.value_meta(3) is None


def test_names_of_user_layers_are_not_used_up():
    before = paddle.nn.Linear(2, 2).weight.name
    build(lambda call, v: [call(F.relu, call(paddle.add, v, v))], [random(2)])
    after = paddle.nn.Linear(2, 2).weight.name
    number = lambda name: int(name.split("_")[1].split(".")[0])
    assert number(after) == number(before) + 1


@pytest.mark.parametrize("train", [True, False])
def test_six_threads(train):
    # Parameters are frozen: accumulating into one gradient from several threads is a race in eager mode too.
    model = MLP(3)
    for parameter in model.parameters():
        parameter.stop_gradient = True
    xs = [random(4, 8, grad=train) for _ in range(6)]
    graph = mlp_graph(model, xs[0])

    def once(function, x):
        out = function(x)
        if not train:
            return out.numpy()
        out.backward()
        grad = x.grad.numpy()
        x.clear_grad()
        return grad

    expected = [once(model, x) for x in xs]
    failures = []

    def work(x, expected):
        try:
            for _ in range(200):
                np.testing.assert_array_equal(once(lambda x: graph(x)[0], x), expected)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=pair) for pair in zip(xs, expected)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def resident():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * 4096


def growth(train):
    """Return how many objects, and how much memory, 20,000 calls of a graph leave behind."""
    model, x = MLP(2), random(4, 8)
    with paddle.set_grad_enabled(train):
        graph = mlp_graph(model, x)

        def run(times):
            for _ in range(times):
                (out,) = graph(x)
                if train:
                    out.backward()
                    model.clear_gradients()

        run(2000)
        gc.collect()
        objects, memory = len(gc.get_objects()), resident()
        run(20000)
        gc.collect()
        return len(gc.get_objects()) - objects, resident() - memory


@pytest.mark.parametrize("train", [True, False])
def test_many_calls_do_not_grow(train):
    # In a process of its own: as long as a run with late hooks is alive, passes ask Paddle for nodes, which it never frees.
    program = f"import test_paddle_graphs as tests; print(*tests.growth({train}))"
    run = [sys.executable, "-c", program]
    done = subprocess.run(run, cwd=Path(__file__).parent, stdout=subprocess.PIPE, universal_newlines=True, check=True)
    objects, memory = map(int, done.stdout.split()[-2:])
    assert objects < 50 and memory < 4 << 20


def test_parameters_die_with_the_model():
    model, x = MLP(), random(4, 8, grad=True)
    graph = mlp_graph(model, x)
    (out,) = graph(x)
    out.backward()
    held = [weakref.ref(model), weakref.ref(x), *map(weakref.ref, model.parameters())]
    y = random(4, 8, grad=True)
    del model, out, x
    gc.collect()
    assert [ref() for ref in held if ref() is not None] == []
    with pytest.raises(ReferenceError):
        graph(y)


def test_an_abandoned_builder_holds_nothing():
    linear = paddle.nn.Linear(2, 2)
    builder = _sot._GraphBuilder()
    builder.call("layer", linear, builder.input("x", random(1, 2)))
    held = weakref.ref(linear.weight)
    del builder, linear
    gc.collect()
    assert held() is None


def test_tensor_test():
    x = random(2, 3)
    test = _sot._backend_tensor_test(x)
    assert test.check(x) and test.check(random(2, 3))
    assert not test.check(random(3, 2)) and not test.check(random(2, 3, 1)) and not test.check(random(2, 3, grad=True))
    assert not test.check(random(2, 3).astype("float64")) and not test.check(3) and not test.check(None)
    assert not test.check(paddle.create_parameter([2, 3], "float32"))
    assert "float32" in test.describe() and "[2, 3]" in test.describe()


META_CHANGES = {
    "stop_gradient": lambda tensor: setattr(tensor, "stop_gradient", not tensor.stop_gradient),
    "shape": lambda tensor: tensor.reshape_([3, 2]),
    "rank": lambda tensor: tensor.unsqueeze_(0),
    "dtype": lambda tensor: tensor.cast_("float64"),
}


@pytest.mark.parametrize("change", META_CHANGES.values(), ids=META_CHANGES)
@pytest.mark.parametrize("grad", [False, True])
def test_memory_tells_what_a_tensor_test_asks_for(change, grad):
    x = random(2, 3)
    x.stop_gradient = not grad
    test = _sot._backend_tensor_test(x)
    note = test.note(x)
    assert note.holds()
    x.set_value(random(2, 3))
    x.name = "other"
    assert test.check(x) and note.holds()
    with paddle.no_grad():
        change(x)
    assert not test.check(x) and not note.holds()


def test_memory_of_a_parameter_outlives_a_step():
    linear = paddle.nn.Linear(3, 2)
    optimizer = paddle.optimizer.Adam(parameters=linear.parameters())
    notes = [_sot._backend_tensor_test(tensor).note(tensor) for tensor in linear.parameters()]
    for _ in range(2):
        linear(random(1, 3)).sum().backward()
        optimizer.step()
        optimizer.clear_grad()
    assert all(note.holds() for note in notes)


def test_grad_mode_is_read_as_paddle_tells_it():
    test = _sot._backend_state_test()
    for _ in range(2):
        assert test.check(None)
        with paddle.no_grad():
            assert not test.check(None)
            with paddle.enable_grad():
                assert test.check(None)


def test_state_test():
    test = _sot._backend_state_test()
    assert test.check(None)
    with paddle.no_grad():
        assert not test.check(None)
    paddle.set_default_dtype("float64")
    assert not test.check(None)
    paddle.set_default_dtype("float32")
    paddle.enable_static()
    assert not test.check(None)
    paddle.disable_static()
    tracer = paddle.base.framework._dygraph_tracer()
    tracer._amp_dtype = "bfloat16"
    assert not test.check(None)
    other = _sot._backend_state_test()
    assert other.check(None)
    tracer._amp_dtype = "float32"
    assert test.check(None) and not other.check(None)


def test_call_policy():
    policy = _sot._backend_call_policy
    api = [paddle.add, paddle.abs, paddle.matmul, paddle.concat, F.relu, F.linear, F.batch_norm, paddle.linalg.norm]
    api += [paddle.fft.fft, paddle.signal.stft, paddle.zeros, paddle.rand, paddle._C_ops.add, paddle.arange, paddle.einsum]
    api += [paddle.to_tensor]
    assert {f.__name__: policy(f) for f in api if policy(f) != "api"} == {}
    constant = [paddle.in_dynamic_mode, paddle.is_grad_enabled, paddle.get_default_dtype, paddle.is_compiled_with_cuda]
    assert {f.__name__: policy(f) for f in constant if policy(f) != "constant"} == {}
    linear = paddle.nn.Linear(1, 1)
    follow = [build, linear, linear.forward, paddle.nn.Linear.forward, len, print, MLP.forward, paddle.vision.models.resnet18]
    assert [f for f in follow if policy(f) != "follow"] == []
    breaks = [paddle.tolist, paddle.seed, paddle.save, paddle.set_device, paddle.grad, paddle.where_]
    breaks += [paddle.nn.Linear, paddle.Tensor, paddle.Tensor.numpy, paddle.autograd.backward, paddle.enable_static]
    assert policy(paddle.tanh_) == policy(F.relu_) == "in-place"
    assert {f.__name__: policy(f) for f in breaks if not policy(f).startswith("paddle:")} == {}


def test_tensor_attributes():
    builder = _sot._GraphBuilder()
    eager = random(2, 3)
    value = builder.input("x", eager)
    for name in ["shape", "ndim", "dtype", "stop_gradient", "place", "size"]:
        kind, known = builder.attribute(value, name)
        assert kind == "known" and type(known) is type(getattr(eager, name)) and str(known) == str(getattr(eager, name))
    assert builder.attribute(value, "T")[0] == "operation"
    for name in ["sum", "astype", "reshape", "__add__", "__getitem__", "matmul", "detach", "dim", "unsqueeze"]:
        assert builder.attribute(value, name)[0] == "method", name
    for name in ["numpy", "item", "sinc_", "grad", "is_leaf", "backward", "_copy_to", "register_hook"]:
        assert builder.attribute(value, name)[0] == "break", name
    follows = "break" if paddle.__version__.startswith("3.0") else "follow"
    assert builder.attribute(value, "normal_")[0] == builder.attribute(value, "cpu")[0] == follows
    for name in ["add_", "__setitem__", "zero_", "set_value", "copy_", "uniform_"]:
        assert builder.attribute(value, name)[0] == "inplace", name
    assert builder.attribute(value, "no_such_thing")[0] == "missing"
    dynamic = builder.call("api", paddle.nonzero, value)
    assert builder.attribute(dynamic, "shape")[0] == "break" and builder.attribute(dynamic, "ndim") == ("known", 2)


def test_leaf_layers():
    leaf = _sot._backend_leaf_layer
    assert set(leaf(paddle.nn.Linear(2, 2))) >= {"weight", "bias"}
    assert set(leaf(paddle.nn.BatchNorm2D(2))) >= {"weight", "bias", "_mean", "_variance", "training", "_momentum"}
    assert leaf(paddle.nn.ReLU()) is not None and leaf(paddle.nn.Dropout(0.5)) is not None
    assert leaf(MLP(1)) is None and leaf(paddle.nn.Sequential(paddle.nn.ReLU())) is None and leaf(3) is None
    hooked = paddle.nn.Linear(2, 2)
    hooked.register_forward_post_hook(lambda *_: None)
    assert leaf(hooked) is None
    patched = paddle.nn.Linear(2, 2)
    patched.forward = lambda x: x
    assert leaf(patched) is None
