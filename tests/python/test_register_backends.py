"""Backends in Python, which make the callables of graphs: registered by name, or given as functions."""

import paddle
import pytest

import sot


class Recorder:
    """A backend that records its arguments, and runs graphs unchanged."""

    def __init__(self, times=1):
        self.graphs, self.examples, self.runs, self.times = [], [], 0, times

    def __call__(self, graph, example_inputs):
        self.graphs.append(graph)
        self.examples.append(example_inputs)

        def run(*inputs):
            self.runs += 1
            return [output * self.times for output in graph.run(*inputs)]

        return run


def function(x, y):
    return paddle.nn.functional.relu(x @ y) + 1


def test_a_backend_gets_the_graph_and_what_it_is_given():
    recorder, x = Recorder(), paddle.eye(2)
    fast = sot.symbolic_translate(function, backend=recorder)
    assert fast(x, x).tolist() == [[2.0, 1.0], [1.0, 2.0]]
    (graph,), ((example,),) = recorder.graphs, recorder.examples
    assert example is x
    assert [(one.kind, one.callee) for one in graph.statements] == [
        ("method", "__matmul__"),
        ("api", "paddle.nn.functional.activation.relu"),
        ("method", "__add__"),
    ]
    assert len(graph.inputs) == 1 and len(graph.outputs) == 1, "one tensor twice is one input"
    assert graph.statements[-1].outputs == graph.outputs
    assert str(graph).startswith("StatementIR: ") and isinstance(graph.program, paddle.static.Program)
    assert fast(x, x).tolist() == [[2.0, 1.0], [1.0, 2.0]]
    assert recorder.runs == 2 and len(recorder.graphs) == 1 and sot.stats().hits == 1


@pytest.mark.differs
def test_what_the_backend_gives_is_what_runs():
    x = paddle.eye(2)
    twice = sot.symbolic_translate(function, backend=Recorder(2))
    plain = sot.symbolic_translate(function)
    thrice = sot.symbolic_translate(backend=Recorder(3))(function)
    for _ in range(2):
        assert twice(x, x).tolist() == [[4.0, 2.0], [2.0, 4.0]]
        assert plain(x, x).tolist() == [[2.0, 1.0], [1.0, 2.0]]
        assert thrice(x, x).tolist() == [[6.0, 3.0], [3.0, 6.0]]
    assert (sot.stats().translations, sot.stats().hits) == (3, 3), "each backend has translations of its own"


def test_all_that_is_called_below_is_the_backends():
    recorder = Recorder()

    def inner(x):
        return x * 2

    def call(x):
        x = x + 1
        sot.psdb.breakgraph()
        return list(map(inner, [x]))[0] + 1

    fast = sot.symbolic_translate(call, backend=recorder)
    assert fast(paddle.ones([1])).tolist() == [5.0]
    assert len(recorder.graphs) == sot.stats().graphs == 2


@pytest.mark.alone("it counts runs of a graph")
def test_gradients_flow_through_what_a_backend_gives(same):
    linear = paddle.nn.Linear(3, 2)

    def run(fn):
        linear.clear_gradients()
        x = paddle.to_tensor([[1.0, -2.0, 3.0]], stop_gradient=False)
        fn(x).sum().backward()
        return x.grad.numpy(), linear.weight.grad.numpy()

    def forward(x):
        return paddle.nn.functional.relu(linear(x)) * 2

    recorder = Recorder()
    same(run(sot.symbolic_translate(forward, backend=recorder)), run(forward))
    assert recorder.runs == 1


def test_guards_name_the_backend():
    def own(graph, example_inputs):
        return graph.run

    fast = sot.symbolic_translate(lambda x: x.tanh() * 2, backend=own)
    (record,) = sot.explain(fast)(paddle.ones([2])).records
    assert [guard for guard in record.guards if guard.startswith("backend")] == [f"backend: <backend {own.__qualname__}>"]


def test_a_backend_of_a_layer():
    recorder, layer, x = Recorder(), paddle.nn.Linear(2, 2), paddle.ones([1, 2])
    expected = layer(x).tolist()
    assert sot.symbolic_translate(layer, backend=recorder)(x).tolist() == expected
    assert len(recorder.graphs) == 1


def test_a_backend_has_a_name():
    recorder, x = Recorder(), paddle.eye(2)
    with sot.register.backend("recorder", recorder):
        fast = sot.symbolic_translate(function, backend="recorder")
        with pytest.raises(ValueError, match="registered already"):
            sot.register.backend("recorder", Recorder())
    fast(x, x)
    assert recorder.runs == 1, "a function keeps the backend that it was made with"
    with pytest.raises(ValueError, match="no backend named 'recorder'; registered: none"):
        sot.symbolic_translate(function, backend="recorder")
    sot.register.backend("recorder", Recorder()).undo()


@pytest.mark.parametrize(
    "register, error, words",
    [
        (lambda: sot.register.backend("mine", 3), TypeError, "3 is not callable"),
        (lambda: sot.register.backend(Recorder(), "mine"), TypeError, "name is a text that is not empty"),
        (lambda: sot.register.backend("CINN", Recorder()), ValueError, "is Paddle's"),
        (lambda: sot.register.backend("mine", lambda graph: None), TypeError, r"called with a graph .* takes \(graph\)"),
        (lambda: sot.symbolic_translate(function, backend=lambda: None), TypeError, r"called with a graph .* takes \(\)"),
        (lambda: sot.symbolic_translate(function, backend=3), TypeError, "neither a name nor a function"),
        (lambda: sot.symbolic_translate(function, backend="no such"), ValueError, "no backend named 'no such'"),
    ],
)
def test_what_cannot_be_a_backend_says_why(register, error, words):
    with pytest.raises(error, match=words):
        register()


def test_paddles_own_words_are_taken():
    assert sot.symbolic_translate(function, backend="CINN")(paddle.eye(2), paddle.eye(2)).shape == [2, 2]


def test_a_backend_that_fails_is_left_out():
    def fails(graph, example_inputs):
        raise NotImplementedError("no such operation")

    def gives_nothing(graph, example_inputs):
        return None

    x = paddle.eye(2)
    for backend, words in [(fails, "NotImplementedError: no such operation"), (gives_nothing, "gave None")]:
        fast = sot.symbolic_translate(function, backend=backend)
        with pytest.warns(RuntimeWarning, match=f"{backend.__name__}> of graph SIR_.* made no callable.*{words}"):
            assert fast(x, x).tolist() == [[2.0, 1.0], [1.0, 2.0]]
        assert fast(x, x).tolist() == [[2.0, 1.0], [1.0, 2.0]]


def test_what_a_backend_gives_may_fail_when_it_runs():
    def backend(graph, example_inputs):
        return lambda *inputs: []

    x = paddle.eye(2)
    with pytest.warns(RuntimeWarning, match="gives 0 results, and the graph has 1"):
        assert sot.symbolic_translate(function, backend=backend)(x, x).tolist() == [[2.0, 1.0], [1.0, 2.0]]
    assert sot.stats().graph_errors == 1


@pytest.mark.parametrize(
    "wrong, words",
    [
        (lambda x: "text", "something else than a tensor as result 0"),
        (lambda x: x.numpy(), "something else than a tensor as result 0"),
        (lambda x: x.reshape([4]), r"a tensor of shape: \[4\].* said to be of shape: \[2, 2\]"),
        (lambda x: x.astype("int64"), "dtype: int64.* said to be of .*dtype: float32"),
    ],
)
def test_what_a_backend_gives_is_what_the_graph_has(wrong, words):
    x = paddle.eye(2)
    fast = sot.symbolic_translate(function, backend=lambda graph, example_inputs: lambda *inputs: [wrong(inputs[0])])
    for _ in range(2):
        with pytest.warns(RuntimeWarning, match=f"what it made gives {words}|what it made gives a tensor of .*{words}"):
            assert fast(x, x).tolist() == [[2.0, 1.0], [1.0, 2.0]]
    assert sot.stats().graph_errors == 2


def test_a_graph_that_changes_its_input_stays_paddles():
    recorder = Recorder()

    def call(x):
        x.add_(paddle.ones([1]))
        return x * 2

    x = paddle.ones([1])
    assert sot.symbolic_translate(call, backend=recorder)(x).tolist() == [4.0] and x.tolist() == [2.0]
    assert recorder.graphs == [] and sot.stats().graphs == 1


def test_a_backend_is_not_translated_itself():
    def backend(graph, example_inputs):
        def run(*inputs):
            assert not sot.psdb.in_sot()
            return [helper(output) for output in graph.run(*inputs)]

        return run

    def helper(x):
        return x * 1

    x = paddle.eye(2)
    fast = sot.symbolic_translate(function, backend=backend)
    fast(x, x), fast(x, x)
    assert sot.stats().translations == 1


def test_a_callable_that_raises_is_reported_once():
    def backend(graph, example_inputs):
        def run(*inputs):
            raise NotImplementedError("no such operation")

        return run

    x = paddle.eye(2)
    fast = sot.symbolic_translate(function, backend=backend)
    words = r"backend> of graph SIR_\w+: what it made raises NotImplementedError: no such operation .*\.py:\d+\)"
    with pytest.warns(RuntimeWarning, match=words) as warned:
        for _ in range(3):
            assert fast(x, x).tolist() == [[2.0, 1.0], [1.0, 2.0]]
    assert len([one for one in warned if one.category is RuntimeWarning]) == 1
    assert sot.stats().graph_errors == 3 and sot.stats().translations == 1


def test_an_error_of_the_graph_is_not_the_backends(recwarn):
    table = paddle.arange(12, dtype="float32").reshape([4, 3])

    def look_up(table, index):
        return paddle.nn.functional.embedding(index, table) + 1

    fast = sot.symbolic_translate(look_up, backend=Recorder())
    fast(table, paddle.to_tensor([1]))
    with pytest.raises(Exception) as raised:
        fast(table, paddle.to_tensor([99]))
    with pytest.raises(type(raised.value)):
        look_up(table, paddle.to_tensor([99]))
    assert sot.stats().graph_errors == 1
    assert not [one for one in recwarn if "what it made" in str(one.message)]


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_where_warnings_are_errors_a_backend_is_reported_as_unraisable(monkeypatch):
    def backend(graph, example_inputs):
        return lambda *inputs: []

    unraisable = []
    monkeypatch.setattr("sys.unraisablehook", lambda about: unraisable.append(str(about.exc_value)))
    x = paddle.eye(2)
    fast = sot.symbolic_translate(function, backend=backend)
    assert fast(x, x).tolist() == [[2.0, 1.0], [1.0, 2.0]]
    assert len(unraisable) == 1 and "gives 0 results, and the graph has 1" in unraisable[0]


@pytest.mark.alone("it counts runs of a graph")
@pytest.mark.parametrize("cut", ["detach", "no_grad"])
def test_results_without_the_gradients_of_the_graph_run_in_cpython(cut):
    def backend(graph, example_inputs):
        def run(*inputs):
            if cut == "detach":
                return [output.detach() for output in graph.run(*inputs)]
            with paddle.no_grad():
                return [output * 1 for output in graph.run(*inputs)]

        return run

    fast = sot.symbolic_translate(function, backend=backend)
    words = "said to be of .*stop_gradient: False"
    for _ in range(2):
        x = paddle.to_tensor([[1.0, 0.0], [0.0, 1.0]], stop_gradient=False)
        with pytest.warns(RuntimeWarning, match=f"gives a tensor of .*stop_gradient: True as result 0, .*{words}"):
            result = fast(x, x)
        result.sum().backward()
        assert x.grad is not None and x.grad.sum().item() == 4.0
    assert sot.stats().graph_errors == 2
    plain = paddle.eye(2)
    assert fast(plain, plain).tolist() == [[2.0, 1.0], [1.0, 2.0]] and sot.stats().graph_errors == 2


def test_results_without_gradients_are_right_where_the_graph_has_none(same):
    def call(x):
        y = x * 2
        with paddle.no_grad():
            z = y * 3
        return y.detach() + 1, z, y.argmax(), y > 1, y

    def run(fn):
        x = paddle.to_tensor([1.0, 2.0], stop_gradient=False)
        found = fn(x)
        found[-1].sum().backward()
        return found, x.grad.numpy()

    fast = sot.symbolic_translate(call, backend=lambda graph, example_inputs: lambda *inputs: list(graph.run(*inputs)))
    same(run(fast), run(call))
    with paddle.no_grad():
        same(fast(paddle.ones([2])), call(paddle.ones([2])))
    assert sot.stats().graph_errors == 0
