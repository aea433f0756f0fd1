"""`paddle.jit.to_static` with this tracer: the same results, and everything else of Paddle unchanged."""

import copy
import importlib.metadata
import operator
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import paddle
import pytest
from paddle import nn
from paddle.jit.dy2static.program_translator import SymbolicStaticFunction

import sot


@pytest.fixture
def installed():
    with sot.install():
        yield


@pytest.fixture
def ours(installed, same):
    """`ours(converted, expected, *args)` checks that sot translates the call, and that it returns `expected`."""

    def ours(converted, expected, *args, graphs=1, **kwargs):
        before = sot.stats()
        same(converted(*args, **kwargs), expected)
        first = sot.stats()
        assert first.graphs - before.graphs == graphs, f"\n{first}"
        assert not first.breaks and not first.fallbacks, f"\n{first}"
        same(converted(*args, **kwargs), expected)
        assert sot.stats().translations == first.translations and sot.stats().hits > first.hits, f"\n{sot.stats()}"

    return ours


def double(x, by=2.0):
    return x * by + 1.0


class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return nn.functional.relu(self.linear(x))


def test_functions_and_decorators(ours):
    x = paddle.ones([3])
    expected = double(x, 3.0)
    ours(paddle.jit.to_static(double), expected, x, 3.0)
    ours(paddle.jit.to_static(full_graph=False)(double), expected, x, by=3.0, graphs=0)
    ours(paddle.jit.to_static(lambda *parts: parts[0] + parts[1]), x * 2, x, x)


def test_options_are_taken(ours):
    x = paddle.ones([3])
    options = {"build_strategy": paddle.static.BuildStrategy(), "backend": None}
    ours(paddle.jit.to_static(double, **options), double(x), x)


def test_layers_and_methods(ours):
    x, net = paddle.rand([2, 4]), Net()
    expected = net(x)
    assert paddle.jit.to_static(net) is net
    ours(net, expected, x)
    other = Net()
    expected = other(x)
    ours(paddle.jit.to_static(other.forward), expected, x)


def test_leaf_layer(ours):
    x, linear = paddle.rand([2, 4]), nn.Linear(4, 4)
    expected = linear(x)
    ours(paddle.jit.to_static(linear), expected, x)
    outer = nn.Sequential(linear, nn.ReLU())
    expected = nn.functional.relu(expected)
    ours(sot.symbolic_translate(lambda x: outer(x)), expected, x)


class ManyMethods(nn.Layer):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    @paddle.jit.to_static
    def forward(self, x):
        return self.helper(x) + self.plain(x)

    @paddle.jit.to_static
    def helper(self, x):
        return self.linear(x) * 2

    def plain(self, x):
        return self.again(x) - 1

    @paddle.jit.to_static
    def again(self, x):
        return x * 3


def test_converted_methods_call_each_other(ours):
    x, net = paddle.rand([2, 4]), ManyMethods()
    expected = net.linear(x) * 2 + (x * 3 - 1)
    ours(net, expected, x)
    ours(net.helper, net.linear(x) * 2, x)


def test_a_converted_layer_in_another(ours):
    x, inner = paddle.rand([2, 4]), Net()
    outer = nn.Sequential(inner, nn.Linear(4, 4))
    expected = outer(x)
    paddle.jit.to_static(inner)
    ours(paddle.jit.to_static(outer), expected, x)


def test_a_converted_method_over_a_break(installed, same):
    class Breaks(nn.Layer):
        @paddle.jit.to_static
        def forward(self, x):
            return self.shift(x, float(x.sum())) * 2

        @paddle.jit.to_static
        def shift(self, x, by):
            return x + by

    x, net = paddle.ones([2]), Breaks()
    for _ in range(2):
        same(net(x), paddle.full([2], 6.0))
    stats = sot.stats()
    assert stats.graphs and not stats.fallbacks and any("float" in reason for reason in stats.breaks), f"\n{stats}"


def test_any_receiver_and_star_arguments(ours):
    class Unusual(nn.Layer):
        def forward(this, *parts, **named):
            return parts[0] * parts[1] + named["shift"]

    x, net = paddle.ones([2]), paddle.jit.to_static(Unusual())
    ours(net, paddle.full([2], 3.0), x, x * 2, shift=1.0)


def test_plain_class(ours):
    class Plain:
        factor = 3.0

        @paddle.jit.to_static
        def scaled(self, x):
            return x * self.factor

    x, plain = paddle.ones([2]), Plain()
    ours(plain.scaled, x * 3.0, x)


def test_not_to_static(ours):
    @paddle.jit.not_to_static
    def kept(x):
        return x - 1

    x = paddle.ones([2])
    ours(paddle.jit.to_static(lambda x: kept(x * 3) * 2), paddle.full([2], 4.0), x)


def test_unified(ours):
    marker = pytest.importorskip("paddle.jit.marker", reason="this Paddle has no paddle.jit.marker")
    unified = marker.unified(lambda x: x + 1)
    x = paddle.ones([2])
    ours(paddle.jit.to_static(lambda x: unified(x) * 2), x * 4, x)


def test_training_equals_eager(installed, same):
    def train(net):
        optimizer = paddle.optimizer.SGD(0.1, parameters=net.parameters())
        for _ in range(3):
            loss = net(paddle.ones([2, 4])).sum()
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
        return loss, [parameter.numpy() for parameter in net.parameters()]

    eager = Net()
    converted = copy.deepcopy(eager)
    expected = train(eager)
    same(train(paddle.jit.to_static(converted)), expected)
    assert sot.stats().graphs


def test_full_graph_stays_paddles(installed, same):
    x = paddle.ones([3])
    whole = paddle.jit.to_static(double, full_graph=True)
    same(whole(x), double(x))
    assert whole.concrete_program is not None and sot.stats() == sot.Stats(seconds=sot.stats().seconds)


def test_full_graph_inside_a_trace(installed, same):
    whole = paddle.jit.to_static(double, full_graph=True)
    fast = paddle.jit.to_static(lambda x: whole(x * 2) + 1)
    x = paddle.ones([3])
    for _ in range(2):
        same(fast(x), double(x * 2) + 1)
    assert sot.stats().graphs == 2


def test_enable_to_static_and_rollback(installed, same):
    x, net = paddle.rand([2, 4]), Net()
    expected = net(x)
    paddle.jit.to_static(net)
    paddle.jit.enable_to_static(False)
    try:
        same(net(x), expected)
    finally:
        paddle.jit.enable_to_static(True)
    assert not sot.stats().translations
    net.forward.rollback()
    same(net(x), expected)
    assert not sot.stats().translations


def test_save_uses_the_specs_of_the_last_call(installed, same, tmp_path):
    x, net = paddle.rand([2, 4]), Net()
    net.eval()
    expected = net(x)
    paddle.jit.to_static(net)
    net(paddle.rand([5, 4]))
    net(x)
    assert tuple(net.forward.last_call_input_spec[0].shape) == (2, 4)
    paddle.jit.save(net, str(tmp_path / "net"))
    loaded = paddle.jit.load(str(tmp_path / "net"))(x)
    same(loaded.numpy(), expected.numpy())
    paddle.jit.save(net, str(tmp_path / "free"), input_spec=[paddle.static.InputSpec([None, 4])])
    assert paddle.jit.load(str(tmp_path / "free"))(paddle.rand([7, 4])).shape == [7, 4]


def test_forward_of_a_base_class(installed, same):
    class Base(nn.Layer):
        @paddle.jit.to_static
        def forward(self, x):
            return x * 2

    class Derived(Base):
        @paddle.jit.to_static
        def forward(self, x):
            return super().forward(x) + 1

    x, derived = paddle.ones([2]), Derived()
    for _ in range(2):
        same(derived(x), paddle.full([2], 3.0))
        same(Base()(x), paddle.full([2], 2.0))
    assert sot.stats().graphs


def test_copies_of_a_converted_layer(installed, same):
    x, net = paddle.rand([2, 4]), paddle.jit.to_static(Net())
    expected = net(x)
    copied = copy.deepcopy(net)
    same(copied(x), expected)
    for parameter in copied.parameters():
        parameter.set_value(parameter * 2)
    assert not paddle.allclose(copied(x), expected).item()
    same(net(x), expected)
    copied.set_state_dict(net.state_dict())
    same(copied(x), expected)


def test_static_and_class_methods(ours):
    class Tools:
        factor = 3.0

        @staticmethod
        @paddle.jit.to_static
        def twice(x):
            return x * 2

        @classmethod
        @paddle.jit.to_static
        def scaled(cls, x):
            return x * cls.factor

    x = paddle.ones([2])
    ours(Tools.twice, x * 2, x)
    ours(Tools.scaled, x * 3, x)


def test_generators_and_coroutines_run_in_cpython(installed, same):
    @paddle.jit.to_static
    def parts(x):
        for factor in range(3):
            yield x * factor

    @paddle.jit.to_static
    async def later(x):
        return x * 2

    x = paddle.ones([2])
    same(list(parts(x)), [x * 0, x, x * 2])
    with pytest.raises(StopIteration) as stopped:
        later(x).send(None)
    same(stopped.value.value, x * 2)


def test_high_level_api(installed, same):
    class Batches(paddle.io.Dataset):
        def __getitem__(self, index):
            return paddle.full([4], index / 8).numpy(), paddle.to_tensor([index % 4]).numpy()

        def __len__(self):
            return 8

    def run(net):
        spec = [paddle.static.InputSpec([None, 4], "float32", "x")]
        model = paddle.Model(net, spec, [paddle.static.InputSpec([None, 1], "int64", "label")])
        model.prepare(paddle.optimizer.Adam(0.01, parameters=model.parameters()), nn.CrossEntropyLoss())
        model.fit(Batches(), batch_size=3, epochs=2, verbose=0, shuffle=False)
        return model.evaluate(Batches(), batch_size=3, verbose=0), model.predict(Batches(), batch_size=4, verbose=0)

    eager = Net()
    converted = paddle.jit.to_static(copy.deepcopy(eager))
    same(run(converted), run(eager))
    assert sot.stats().graphs


def test_functions_converted_before(same):
    x = paddle.ones([3])
    converted = paddle.jit.to_static(double)
    with sot.install():
        same(converted(x), double(x))
        assert sot.stats().graphs == 1


def test_uninstall_restores_paddle():
    own = dict(vars(SymbolicStaticFunction))
    converted = paddle.jit.to_static(double)
    sot.install()
    sot.install()
    converted(paddle.ones([3]))
    sot.uninstall()
    sot.uninstall()
    assert dict(vars(SymbolicStaticFunction)) == own
    before = sot.stats()
    converted(paddle.ones([4]))
    assert sot.stats() == before


def test_installations_nest():
    with sot.install():
        with sot.install():
            pass
        paddle.jit.to_static(double)(paddle.ones([3]))
        assert sot.stats().graphs == 1
    sot.reset()
    paddle.jit.to_static(double)(paddle.ones([3]))
    assert not sot.stats().graphs


def test_uninstall_does_not_undo_what_others_did(monkeypatch):
    sot.install()
    with monkeypatch.context() as patched:
        patched.setattr(SymbolicStaticFunction, "_perform_call", lambda self: None)
        with pytest.raises(RuntimeError, match="something else has replaced"):
            sot.uninstall()
    sot.uninstall()


def test_what_cannot_be_translated_is_said(installed):
    with pytest.raises(TypeError, match="implemented in C"):
        paddle.jit.to_static(operator.neg)(paddle.ones([2]))


def test_environment_variable():
    program = textwrap.dedent(
        """
        import paddle, sot
        net = paddle.jit.to_static(paddle.nn.Linear(2, 2))
        net(paddle.ones([1, 2]))
        print(sot.stats().graphs)
        """
    )
    for value, graphs in (("1", "1"), ("0", "0")):
        environment = {**os.environ, "SOT_INSTALL": value}
        done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
        assert done.stdout.split() == [graphs], done.stderr


WHEEL = Path(__file__).parent.parent.parent / "sot-paddle" / "wheel" / "purelib"


@pytest.mark.parametrize("value, graphs", [("1", "1"), ("0", "none")])
def test_environment_variable_in_programs_that_do_not_know_sot(value, graphs):
    program = textwrap.dedent(
        f"""
        import sys, site
        site.addsitedir({str(WHEEL)!r})  # as if it were site-packages
        import paddle.nn
        net = paddle.jit.to_static(paddle.nn.Linear(2, 2))
        net(paddle.ones([1, 2]))
        print(sys.modules["sot"].stats().graphs if "sot" in sys.modules else "none")
        """
    )
    environment = {**os.environ, "SOT_INSTALL": value}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert done.stdout.split() == [graphs], done.stderr


def test_the_wheel_brings_what_reads_the_environment_variable():
    try:
        files = importlib.metadata.files("sot-paddle")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("sot was not installed from a wheel")
    names = {str(file) for file in files}
    assert {path.name for path in WHEEL.iterdir() if path.is_file()} <= names
