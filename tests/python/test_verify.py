"""Verify mode: wrong registrations are reported, sound programs are not, and nothing of the second run remains."""

import collections
import functools
import itertools
import random
import signal
import subprocess
import sys
import threading
import time
import types
import warnings

import numpy as np
import paddle
import pytest
from paddle import nn
from paddle.distributed.fleet.utils import recompute

import sot
from sot._verify import loaders

pytestmark = pytest.mark.divided


@pytest.fixture(autouse=True)
def verify():
    with sot.config.patch(verify=True):
        yield


def seen(verified=1, differences=0, not_verified=None):
    stats = sot.stats()
    assert stats.graphs, f"nothing was translated\n{stats}"
    counted = stats.verified, stats.differences, stats.not_verified
    assert counted == (verified, differences, not_verified or {}), f"\n{stats}"


def doubled(x):
    return x * 2


def tripled(x):
    return x * 3


def test_a_gradient_whose_way_leads_outside_of_the_call():
    """The copy of the second argument is not computed from the copy of the first."""

    @sot.symbolic_translate
    def f(x, y):
        return paddle.grad((x * y).sum(), x)[0]

    x = paddle.to_tensor([1.0, 2.0], stop_gradient=False)
    assert f(x, x * x).tolist() == [3.0, 12.0]
    seen(0, not_verified={"backward goes beyond the call": 1})
    assert f(x, paddle.ones([2])).tolist() == [1.0, 1.0]
    seen(1, not_verified={"backward goes beyond the call": 1})


def test_a_sparse_gradient_is_not_copied():
    embedding = nn.Embedding(6, 3, sparse=True)
    embedding(paddle.to_tensor([1, 5])).sum().backward()
    gradient = embedding.weight.grad
    assert gradient.is_selected_rows()
    fast = sot.symbolic_translate(lambda: embedding.weight * 2)
    assert fast().tolist() == (embedding.weight * 2).tolist()
    assert embedding.weight.grad is not None and embedding.weight.grad.numpy().tolist() == gradient.numpy().tolist()
    seen(0, not_verified={"a gradient that is not dense": 1})


RECENT = collections.deque(maxlen=2)


def test_a_deque_of_tensors_is_put_back():
    def forward(x):
        RECENT.append(x * 2)
        return x + len(RECENT)

    RECENT.extend([paddle.ones([2]), paddle.zeros([2])])
    before = RECENT[1]
    assert sot.symbolic_translate(forward)(paddle.ones([2])).tolist() == [3.0, 3.0]
    assert RECENT[0] is before and RECENT[1].tolist() == [2.0, 2.0]
    assert sot.stats().verified == 1 and not sot.stats().differences


@pytest.mark.differs
def test_a_wrong_substitute_is_told_of(verified):
    def forward(x):
        return doubled(x) + 1

    with sot.register.substitute(doubled, tripled):
        result = sot.symbolic_translate(forward)(paddle.ones([2]))
    assert result.tolist() == [4.0, 4.0]
    seen(1, 1)
    (text,) = verified
    assert "forward" in text and "result: result is float32[2] [4, 4]" in text and "float32[2] [3, 3]" in text
    assert "__mul__ ((var_0, 3), {})" in text and "guards:" in text and "line " in text
    assert f"registrations that took part:\n      sot.register.substitute({__name__}.doubled)\n" in text


@pytest.mark.differs
def test_an_impure_function_registered_as_pure_is_told_of():
    calls = []

    def tick():
        calls.append(1)
        return len(calls)

    with sot.register.pure(tick):
        fast = sot.symbolic_translate(lambda x: x + tick())
        fast(paddle.ones([2]))
        fast(paddle.ones([2]))
    assert sot.stats().differences == 1


@pytest.mark.differs
def test_gradients_are_compared():
    with sot.register.substitute(doubled, lambda x: x.detach() * 2):
        x = paddle.ones([2])
        x.stop_gradient = False
        sot.symbolic_translate(lambda x: doubled(x) + x)(x)
    assert sot.stats().differences == 1


@pytest.mark.differs
def test_a_difference_raises_if_asked_for():
    with sot.register.substitute(doubled, tripled), sot.config.patch(verify_raise=True):
        with pytest.raises(sot.VerifyError, match="differs"):
            sot.symbolic_translate(lambda x: doubled(x) + 1)(paddle.ones([2]))


class Net(nn.Layer):
    """Writes to attributes, lists, globals and running statistics, and draws random numbers."""

    def __init__(self):
        super().__init__()
        self.first, self.norm, self.second = nn.Linear(4, 4), nn.BatchNorm1D(4), nn.Linear(4, 2)
        self.calls, self.means = 0, []
        self.state = paddle.zeros([4])

    def forward(self, x, noted=None):
        global last
        self.calls += 1
        last = self.calls
        h = nn.functional.dropout(self.norm(self.first(x)), 0.5)
        self.means.append(h.mean())
        self.state = self.state + h.sum(0).detach()
        if noted is not None:
            noted["h"] = h
        return self.second(h), {"calls": self.calls}


last = 0


def run(translate):
    global last
    last = 0
    paddle.seed(7)
    random.seed(7)
    net = Net()
    call = sot.symbolic_translate(net.forward) if translate else net.forward
    optimizer = paddle.optimizer.Adam(parameters=net.parameters())
    found = []
    for _ in range(3):
        noted = {}
        out, told = call(paddle.rand([3, 4]), noted)
        out.square().mean().backward()
        optimizer.step()
        optimizer.clear_grad()
        found += [out.numpy(), told, noted["h"].numpy(), len(net.means), last]
    state = {name: value.numpy() for name, value in net.state_dict().items()}
    return found, sorted(state), list(state.values()), net.state.numpy(), paddle.rand([2]).numpy()


def test_training_is_not_disturbed(same):
    with sot.config.patch(verify=False):
        expected = run(False)
    same(run(True), expected)
    assert not sot.stats().differences and sot.stats().verified == 3, f"\n{sot.stats()}"


def step(net, optimizer, x):
    loss = net(x)[0].square().mean()
    loss.backward()
    optimizer.step()
    optimizer.clear_grad()
    return loss


def test_a_whole_training_step():
    paddle.seed(3)
    net = Net()
    optimizer = paddle.optimizer.Adam(parameters=net.parameters())
    fast = sot.symbolic_translate(step)
    for _ in range(2):
        fast(net, optimizer, paddle.rand([3, 4]))
    assert (net.calls, len(net.means)) == (2, 2)
    assert not sot.stats().differences and sot.stats().verified == 2, f"\n{sot.stats()}"


def written(x, where, array, held):
    where.append(x * 2)
    array += 1
    held["n"] = held.get("n", 0) + 1
    if held["n"] == 3:
        raise ValueError("three")
    return x + held["n"]


def test_writes_and_exceptions():
    where, array, held = [], np.zeros(2), {}
    fast = sot.symbolic_translate(written)
    for _ in range(2):
        fast(paddle.ones([2]), where, array, held)
    with pytest.raises(ValueError, match="three"):
        fast(paddle.ones([2]), where, array, held)
    assert len(where) == 3 and array.tolist() == [3.0, 3.0] and held == {"n": 3}
    assert not sot.stats().differences and sot.stats().verified == 3, f"\n{sot.stats()}"


def test_what_cannot_be_taken_back_runs_once(tmp_path):
    path = tmp_path / "log"

    def logs(x):
        with open(path, "a") as file:
            file.write("line\n")
        return x + 1

    sot.symbolic_translate(logs)(paddle.ones([2]))
    assert path.read_text() == "line\n"
    assert list(sot.stats().not_verified) == [f"I/O: open({str(path)!r})"]


def test_a_debugger_is_come_to_once(monkeypatch):
    stops = []
    monkeypatch.setattr(sys, "breakpointhook", lambda: stops.append(1))

    def f(x):
        y = x + 1
        breakpoint()
        return y

    sot.symbolic_translate(f)(paddle.ones([1]))
    assert stops == [1] and list(sot.stats().not_verified) == ["I/O: builtins.breakpoint"]


def test_handlers_of_signals_are_taken_back():
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def f(x):
        found = signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        return x + 1, found

    try:
        assert sot.symbolic_translate(f)(paddle.ones([1]))[1]
    finally:
        signal.signal(signal.SIGTERM, before)
    seen()


def test_objects_that_cannot_be_copied_are_counted():
    numbers = iter([1.0, 2.0])
    fast = sot.symbolic_translate(lambda x, numbers: x + next(numbers))
    assert fast(paddle.ones([1]), numbers).tolist() == [2.0]
    assert list(sot.stats().not_verified) == ["an object cannot be copied: builtins.list_iterator"]


def test_iterators_of_c_code_are_no_objects_without_state():
    numbers = itertools.count()
    fast = sot.symbolic_translate(lambda x: x + next(numbers))
    assert [fast(paddle.ones([1])).tolist() for _ in range(3)] == [[1.0], [2.0], [3.0]]
    assert sot.stats().not_verified == {"an object cannot be copied: itertools.count": 3}


def test_what_differs_by_itself_is_no_difference():
    fast = sot.symbolic_translate(lambda x: (x + 1, time.perf_counter_ns()))
    fast(paddle.ones([1], "float64"))
    assert sot.stats().not_verified == {"two runs of the program itself differ": 1}


@pytest.mark.differs
@pytest.mark.parametrize(
    "translated, own, said",
    [
        (lambda a: [a, list(a)], lambda a: [a, a], ("an object of its own", "the object at 'result[0]'")),
        (lambda a: [a, a], lambda a: [a, list(a)], ("the object at 'result[0]'", "an object of its own")),
        (lambda a: [a, a[0]], lambda a: [a, a[0] + 0], ("the object at 'result[0][0]'", "an object of its own")),
        (lambda a: [a, 3], lambda a: [a, [3]], ("int 3", "list")),
        (lambda a: [a, a], lambda a: [a, None], ("the object at 'result[0]'", "NoneType None")),
    ],
)
def test_a_difference_in_identity_is_told_as_one(translated, own, said):
    def forward(x):
        a = [x + 1]
        return translated(a) if sot.is_compiling() else own(a)

    with sot.config.patch(verify_raise=True), pytest.raises(sot.VerifyError) as told:
        sot.symbolic_translate(forward)(paddle.ones([2]))
    assert "result[1] is {} translated, and {} in the program's own run".format(*said) in str(told.value)


@pytest.mark.differs
def test_a_difference_counts_hits_and_names_the_backend():
    def wrong(graph, example_inputs):
        return lambda *inputs: [output * 2 for output in graph.run(*inputs)]

    with sot.register.backend("wrong", wrong):
        fast = sot.symbolic_translate(lambda x: x + 1, backend="wrong")
        with sot.config.patch(verify=False):
            fast(paddle.ones([2]))
        with sot.config.patch(verify_raise=True), pytest.raises(sot.VerifyError) as told:
            fast(paddle.ones([2]))
    text = str(told.value)
    assert ", 1 hit\n" in text and "    guards:\n" in text and "      backend: <backend " in text


def test_counts_of_one_are_singular():
    one, two = sot.Stats(graph_errors=1, panics=1, verified=2, differences=1), sot.Stats(graph_errors=2, panics=2)
    why = "ran again in CPython (SOT_LOGS=breaks shows why)\n"
    assert f"1 run of a graph raised: the frame {why}1 panic: the frame was left to CPython" in str(one)
    assert "2 calls verified, 1 differs" in str(one)
    assert f"2 runs of graphs raised: the frames {why}" in str(two)
    assert "2 panics: the frames were left to CPython" in str(two)


SCRIPT = """
import paddle
import sot
from sot._verify import loaders

unused = [1, 2, 3]

def doubled(x):
    return x * 2

def tripled(x):
    y = x + 0
    return x * 3

sot.register.substitute(doubled, tripled)

def forward(x):
    for _ in range(1):
        x = x + 1
    return doubled(x)

def main():
    print("begins")
    for _ in range(2):
        forward(paddle.ones([2]))

main()
"""


def test_the_minimiser_writes_a_script_that_shows_it(tmp_path):
    script, minimal = tmp_path / "wrong.py", tmp_path / "minimal.py"
    script.write_text(SCRIPT)
    command = [sys.executable, "-m", "sot", "minimise", "-o", str(minimal), str(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    text = minimal.read_text()
    assert "substitute(doubled, tripled)" in text and "unused" not in text and "range(" not in text and "print" not in text
    shown = subprocess.run([sys.executable, str(minimal)], capture_output=True, text=True, timeout=100)
    assert "forward" in shown.stderr and "differs" in shown.stderr, shown.stderr


@pytest.mark.parametrize("size, programs", [(None, [False, True, True, True, True]), ("0", [True] * 5)])
def test_graphs_become_programs_as_they_do_without_it(size, programs, monkeypatch):
    """Backward passes that verify mode runs do not count as passes of the program."""
    monkeypatch.delenv("MIN_GRAPH_SIZE")
    if size is not None:
        monkeypatch.setenv("MIN_GRAPH_SIZE", size)
    net = nn.Sequential(*[part for _ in range(8) for part in (nn.Linear(4, 4), nn.Tanh())])
    fast, found = sot.symbolic_translate(lambda x: net(x).sum()), []
    for _ in programs:
        loss = fast(paddle.ones([3, 4]))
        found.append(loss.grad_fn.name() in ("Dy2StGradNode", "GradNodeBase"))
        loss.backward()
    assert found == programs
    assert (sot.stats().translations, sot.stats().hits) == (1, len(programs) - 1)
    seen(len(programs))


def test_writes_to_a_module_that_is_given_are_taken_back():
    module = types.ModuleType("counts_calls")
    module.count = 0

    def f(x, module):
        module.count += 1
        module.last = module.count
        return x * module.count

    assert [sot.symbolic_translate(f)(paddle.ones([1]), module).tolist() for _ in range(3)] == [[1.0], [2.0], [3.0]]
    assert (module.count, module.last) == (3, 3)
    seen(3)


def test_what_stands_in_two_places_is_one_object_in_both_runs():
    layer = nn.Linear(2, 2)
    layer.states = (paddle.ones([2]),)

    def f(states):
        return states[0] * 2 if states is layer.states else states[0] * 3

    assert sot.symbolic_translate(f)(layer.states).tolist() == [2.0, 2.0]
    seen()


def test_tensors_as_keys():
    rates = {paddle.ones([1]): 2.0, paddle.ones([1]): 3.0}

    def f(x):
        return x * sum(rates[key] for key in rates), [rates.get(key) for key in [first, x]]

    first, *others = rates
    assert sot.symbolic_translate(f)(paddle.ones([1]))[1] == [2.0, None]
    assert list(rates)[0] is first and list(rates.values()) == [2.0, 3.0]
    seen()


def test_tensors_of_classes_of_the_program_are_not_copied():
    class Own(paddle.Tensor):
        def __bool__(self):
            return False

    fast = sot.symbolic_translate(lambda x, flag: x + 1 if flag else x - 1)
    assert fast(paddle.ones([1]), Own(paddle.ones([1]))).tolist() == [0.0]
    (reason,) = sot.stats().not_verified
    assert reason.startswith("an object cannot be copied: ") and reason.endswith("Own")


def test_recomputed_parts_write_no_gradients(same):
    """The backward pass of a recomputed part is a separate pass, which always writes gradients of parameters."""

    def run(wrap):
        paddle.seed(1)
        net = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
        x = paddle.ones([2, 4])
        x.stop_gradient = False
        wrap(lambda x: recompute(net, x * 2).sum())(x).backward()
        return [parameter.grad.numpy() for parameter in net.parameters()]

    expected = run(lambda fn: fn)
    same(run(sot.symbolic_translate), expected)
    seen()


def test_parameters_that_operations_write_have_copies_of_their_class():
    layer = nn.Linear(1, 1)
    scale = layer.scale = layer.create_parameter([1])
    scale.stop_gradient = True

    def f(x):
        y = x * layer.scale
        paddle._C_ops.assign_out_(x * 2, scale)
        return y

    x = paddle.ones([1])
    x.stop_gradient = False
    fast = sot.symbolic_translate(f)
    fast(x), fast(x)
    assert scale.tolist() == [2.0] and not scale.is_leaf
    assert not sot.stats().differences and sot.stats().verified, f"\n{sot.stats()}"


def test_a_warning_is_seen_once():
    def f(x):
        warnings.warn("once a call")
        return x * 2

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        sot.symbolic_translate(f)(paddle.ones([1]))
    assert [str(one.message) for one in told] == ["once a call"]
    seen()


def test_copies_lie_in_memory_as_the_program_s_tensors_do():
    fast = sot.symbolic_translate(lambda x: (x.is_contiguous(), x * 2))
    assert [fast(x)[0] for x in (paddle.ones([2, 3]), paddle.ones([2, 3]).t())] == [True, False]
    seen(2)


def test_gradients_that_a_call_clears():
    layer = nn.Linear(2, 2)

    def f(x):
        doubled = layer.weight.grad * 2
        layer.weight.clear_grad()
        return doubled, x + 1

    layer(paddle.ones([1, 2])).sum().backward()
    flag = (layer.weight.grad * 2).stop_gradient
    doubled, _ = sot.symbolic_translate(f)(paddle.ones([1]))
    assert doubled.tolist() == [[2.0, 2.0], [2.0, 2.0]] and doubled.stop_gradient == flag
    seen()


@pytest.mark.parametrize("module, verified", [("tqdm._monitor", 1), ("ipykernel.iostream", 1), ("visualdl.writer", 1), ("train", 0)])
@pytest.mark.parametrize("by", ["class", "target"])
def test_threads_of_notebooks_progress_bars_and_writers_do_not_count(module, verified, by):
    end = threading.Event()

    def wait(*_):
        end.wait(60)

    wait.__module__ = module
    thread = threading.Thread(target=wait) if by == "target" else type("Monitor", (threading.Thread,), {"run": wait})()
    thread.start()
    try:
        assert sot.symbolic_translate(doubled)(paddle.ones([2])).tolist() == [2, 2]
    finally:
        end.set()
        thread.join()
    assert sot.stats().verified == verified
    assert sot.stats().not_verified == ({} if verified else {"other threads run": 1})


class Numbers(paddle.io.Dataset):
    """Draws random numbers, counts and prints while batches are fetched."""

    def __init__(self, length=12):
        self.length, self.fetched = length, 0

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        self.fetched += 1
        time.sleep(0.001)
        return np.random.rand(4).astype("float32"), index


def epoch(wrap, workers=0):
    """Train for one epoch, in calls that reach the dataset. Return all state that the epoch changes."""
    paddle.seed(5)
    np.random.seed(5)
    net, dataset = nn.Linear(4, 2), Numbers()
    optimizer = paddle.optimizer.SGD(0.1, parameters=net.parameters())

    class Trainer:
        def __init__(self):
            self.loader = paddle.io.DataLoader(dataset, batch_size=2, shuffle=True, num_workers=workers)

        def loss(self, x):
            return net(x).square().mean() * len(self.loader.dataset)

    trainer, losses = Trainer(), []
    call = wrap(trainer.loss)
    for x, _ in trainer.loader:
        loss = call(x)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        losses.append(loss.item())
    return losses, net.weight.numpy(), dataset.fetched, np.random.rand(2)


@pytest.mark.parametrize("workers", [0, 1])
def test_calls_are_compared_while_a_data_loader_fetches(workers, same):
    with sot.config.patch(verify=False):
        expected = epoch(lambda fn: fn, workers)
    same(epoch(sot.symbolic_translate, workers), expected)
    seen(6)


def test_what_reads_from_a_data_loader_runs_once():
    loader = paddle.io.DataLoader(Numbers(), batch_size=2, num_workers=0)
    batches = functools.lru_cache(None)(lambda: iter(loader))  # Verify mode does not see what the cache holds.
    batches()
    fast = sot.symbolic_translate(lambda x: x * next(batches())[0].mean())
    with sot.disable():
        next(batches())
    assert fast(paddle.ones([1])).shape == [1]
    assert sot.stats().not_verified == {"I/O: a DataLoader is read": 1}
    assert len(list(batches())) == 4, "its thread goes on"


def test_a_data_loader_that_waits_for_the_program_is_not_waited_for_twice(monkeypatch):
    monkeypatch.setattr(loaders, "_PATIENCE", 0.05)
    go_on, is_fetching = threading.Event(), threading.Event()

    class Waiting(Numbers):
        def __getitem__(self, index):
            is_fetching.set()
            go_on.wait(60)
            return super().__getitem__(index)

    batches = iter(paddle.io.DataLoader(Waiting(), batch_size=2, num_workers=0))
    assert is_fetching.wait(60), "its thread has begun"
    fast = sot.symbolic_translate(doubled)
    for _ in range(2):
        assert fast(paddle.ones([2])).tolist() == [2, 2]
    go_on.set()
    assert len(list(batches)) == 6
    assert sot.stats().not_verified == {"other threads run": 2}


def test_a_data_loader_that_is_shut_down_while_it_waits_comes_to_an_end():
    over, entered = threading.Event(), []
    assert loaders.gate.hold()
    try:
        thread = threading.Thread(target=lambda: entered.append(loaders.gate.enter(over)))
        thread.start()
        over.set()
        thread.join(60)
    finally:
        loaders.gate.release()
    assert entered == [False]
