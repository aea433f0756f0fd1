"""Frames that an exception has left have the function's own variables, as in eager mode."""

import os
import random
import traceback

import numpy as np
import paddle
import pytest

import sot


def boom(k):
    raise ValueError(k)


def native_call(x):
    a = x + 1
    b = [a, 2]
    boom(len(b))
    return a


def explicit(x):
    y = x * 2
    for i in range(3):
        y = y + i
    raise KeyError(i)


def in_callees(x):
    def inner(z, k=3):
        w = z * k
        raise RuntimeError("inner")

    y = x * 2
    return inner(y)


def outer(u, v):
    t = u + v
    return middle(t, v)


def middle(m, n):
    r = m * n
    d = {"r": r, "n": n}
    listed = list(d)
    raise LookupError(listed[0])


def nested(x):
    s = x.sum()
    return outer(s, 3)


def recursive(x, n=3):
    y = x + n
    if n == 0:
        boom(9)
    return recursive(y, n - 1)


def behind_breaks(x):
    y = x + 1
    print("", end="")
    z = y * 2
    print("", end="")
    items = [1, 2]
    return items[5]


def on_a_branch(x):
    y = x * 2
    if y.sum() > 0:
        z = y + 1
        return z.nothing
    return y


def of_an_operation(x):
    y = x + 1
    return y.reshape([5, 7])


def of_a_graph(x):
    index = paddle.to_tensor([0, 9])
    y = x * 2
    return paddle.index_select(y, index)


def deleted(x):
    y = x + 1
    z = y * 2
    del y
    return y + z


def argument_rebound(x, *args, **kwargs):
    first = x
    x = x + 1
    args = (*args, x)
    kwargs["first"] = first
    return int("q")


def argument_deleted(x, y=1):
    z = x + y
    del y
    boom(2)
    return z


def captured(x):
    n = 4

    def count():
        nonlocal n
        n = n + 1
        return y

    y = x * n
    y = count() * 2
    boom(n)


def generator(x):
    def doubled(k):
        a = k * 2
        yield a
        raise OSError(1)

    y = x + 1
    for v in doubled(y):
        u = v * 2
    return u


def written(x, box=[0]):
    box[0] = x + 1
    y = box[0] * 2
    box.remove(None)
    return y


def keyword(x):
    y = x + 1
    return boom(j=y)


def asserted(x):
    y, n = x * 2, 3
    assert n == 4, y.shape


class Layer(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.linear = paddle.nn.Linear(3, 3)

    def forward(self, x):
        h = self.linear(x)
        raise ValueError(h.shape)


def layer(x, model=Layer()):
    y = x + 1
    return model(y)


def finished(x):
    y = x + 1
    try:
        boom(1)
    finally:
        z = y * 2
    return z


def managed(x):
    y = x + 1
    with open("/dev/null") as file:
        z = y * 2
        boom(file.closed)
    return z


def raised_in_a_handler(x):
    y = x + 1
    try:
        boom(3)
    except ValueError:
        z = y + 1
        raise TypeError(1) from None
    return z


PROGRAMS = [
    native_call,
    explicit,
    in_callees,
    nested,
    recursive,
    behind_breaks,
    on_a_branch,
    of_an_operation,
    of_a_graph,
    deleted,
    argument_rebound,
    argument_deleted,
    captured,
    generator,
    written,
    keyword,
    asserted,
    layer,
]
# In these, the frame in the traceback shows variables as of the raise, without the values that a handler bound later.
WITHOUT_LATER_VALUES = [finished, managed, raised_in_a_handler]


def plain(value):
    if isinstance(value, paddle.Tensor):
        return np.asarray(value).tolist()
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value if isinstance(value, (int, str, float)) else type(value).__name__


def frames_left(program):
    """Return function, line and variables of each frame of this file that the program's exception has left."""
    with pytest.raises(Exception) as caught:
        program(paddle.to_tensor([1.0, -2.0, 3.0]))
    reported = "".join(traceback.TracebackException(*caught._excinfo, capture_locals=True).format())
    frames = []
    for frame, line in traceback.walk_tb(caught.value.__traceback__):
        if frame.f_code.co_filename == __file__ and frame.f_code.co_name != "frames_left":
            frames.append((frame.f_code.co_name, line, plain(dict(sorted(frame.f_locals.items())))))
    return frames, type(caught.value), "___" in reported


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_frames_have_the_variables_of_the_function(program):
    eager = frames_left(program)
    fast = sot.symbolic_translate(program)
    for _ in range(3):
        assert frames_left(fast) == eager
    stats = sot.stats()
    assert stats.graphs and stats.hits


@pytest.mark.parametrize("program", WITHOUT_LATER_VALUES, ids=lambda program: program.__name__)
def test_frames_have_no_other_variables(program):
    eager, kind, _ = frames_left(program)
    fast = sot.symbolic_translate(program)
    for _ in range(3):
        frames, found, foreign = frames_left(fast)
        assert found is kind and not foreign
        assert [frame[:2] for frame in frames] == [frame[:2] for frame in eager]
        assert all(variables.items() <= own.items() for (*_, variables), (*_, own) in zip(frames, eager))
    assert sot.stats().hits


RAISING = ["boom(n)", "raise KeyError(n)", "[][3]", "y.nothing", "int('q')", "assert n is None, n", "box.remove(boom)"]
PREPARED = [
    ["y = x + n"],
    ["y = x * 2", "x = y - 1", "n = n + 1"],
    ["first = x", "x = x + 1", "y = x * n"],
    ["y = x", "del x", "box.append(y)"],
    ["print('', end='')", "y = x * n", "n = box"],
    ["y = x + n", "print('', end='')", "x, y = y, x", "n = 7", "print('', end='')"],
    ["y = x + n", "if y.sum() > 0: x = y * 2", "box = [x, box]"],
    ["y = sum([x * k for k in range(3)])", "box = {'x': x}"],
]
PLACES = {
    "plain": ["{prepare}", "{boom}"],
    "loop": ["for k in range(3):", "    {prepare}", "    if k == 1:", "        {boom}"],
    "counted": ["k = 0", "while True:", "    {prepare}", "    k += 1", "    {boom}"],
    "callee": ["def inner(x, n, box):", "    {prepare}", "    {boom}", "z = x * 3", "return inner(z, n, box) + z"],
    "callees": [
        "def outer(x, n, m):",
        "    r = inner(x * m, n, [m])",
        "    return r",
        "def inner(x, n, box):",
        "    {prepare}",
        "    {boom}",
        "z = x * 3",
        "x = outer(z, n, m=4)",
    ],
    "cell": ["{prepare}", "def read(): return w", "w = y * 2", "{boom}"],
    "free": ["w = x * 2", "def inner(x, n, box):", "    {prepare}", "    v = w", "    {boom}", "inner(w, n, box)"],
    "with": ["{prepare}", "with Manager() as manager:", "    w = y * 2", "    {boom}"],
    "finally": ["{prepare}", "try:", "    {boom}", "finally:", "    box_left = 1"],
    "handler": ["{prepare}", "try:", "    boom(3)", "except ValueError as error:", "    {boom}"],
    "passed": ["{prepare}", "try:", "    boom(3)", "except ValueError:", "    w = y", "{boom}"],
    "again": ["{prepare}", "try:", "    {boom}", "except Exception as error:", "    raise"],
    "with_in_callee": [
        "def inner(x, n, box):",
        "    {prepare}",
        "    with Manager() as manager:",
        "        {boom}",
        "inner(x * 2, n, box)",
    ],
}
# Here the frame has the variables of the time of the raise, or none if the trace has caught the exception.
CATCHING = {"with", "finally", "again", "with_in_callee"}


class Manager:
    def __enter__(self):
        return self

    def __exit__(self, *raised):
        return False


def generated(place, prepare, raising):
    lines = ["def program(x, n=3, box=(), *more):", "    box = [*box]"]
    for line in PLACES[place]:
        indent, name = line[: len(line) - len(line.lstrip())], line.strip()
        parts = {"{prepare}": prepare, "{boom}": [raising]}.get(name, [name])
        lines += [f"    {indent}{part}" for part in parts]
    lines.append("    return x")
    source = "\n".join(lines) + "\n"
    namespace = dict(globals())
    exec(compile(source, __file__, "exec"), namespace)
    return namespace["program"], source


def some_of(place):
    """Return programs of a place: a sample, or all of them with `EVERY_PROGRAM=1`."""
    every = [(prepare, raising) for prepare in PREPARED for raising in RAISING]
    return every if os.environ.get("EVERY_PROGRAM") else random.Random(place).sample(every, 6)


@pytest.mark.parametrize("place", PLACES)
def test_frames_of_generated_programs(place):
    graphs = 0
    for prepare, raising in some_of(place):
        program, source = generated(place, prepare, raising)
        (eager, kind, _), fast = frames_left(program), sot.symbolic_translate(program)
        for _ in range(2):
            frames, found, foreign = frames_left(fast)
            assert (found, foreign) == (kind, False), source
            assert [frame[:2] for frame in frames] == [frame[:2] for frame in eager], source
            for (*_, variables), (*_, own) in zip(frames, eager):
                assert variables.items() <= own.items() if place in CATCHING else variables == own, source
        graphs += sot.stats().graphs
    assert graphs
