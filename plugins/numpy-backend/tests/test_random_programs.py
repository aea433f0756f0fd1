"""Random programs with views, writes and branches, compared with NumPy: results, arguments, identity, shared memory."""

import itertools
import os
import random

import numpy as np
import pytest
import sot_numpy

NAMES = ["a", "b", "c", "d"]

# Statements on arrays of one shape; the numbers stay small.
STATEMENTS = [
    "{v} = ({w} + {u}) % 7",
    "{v} = {w} * 2 - {u}",
    "{v} = {w} % 5 + 1.5",
    "{v} = np.maximum({w}, {u})",
    "{v} = np.where({w} > {u}, {w}, {u})",
    "{v} = np.add({w}, 1.0) % 9",
    "{v} = {w}.T",
    "{v} = {w}[::-1]",
    "{v} = {w}[:, [2, 0, 1]]",
    "{v} = {w}.reshape(3, 3)",
    "{v} = {w}.copy()",
    "{v} = {w}.view()",
    "{v} = {w}",
    "{v} = np.asarray({w})",
    "{v} = np.stack(list({w}))",
    "{v} = helper({w}, {u})",
    "{v} = {w} @ {u} % 11",
    "{v} = {w}.sum(axis=0) % 3 + {u}",
    "{v} = abs({w}) % 4",
    "{v} = np.zeros({w}.shape) + len({u})",
    "{v} += {w} % 3",
    "{v} -= np.float64(2)",
    "{v} *= 0.5",
    "{v}[0] = {w}[1]",
    "{v}[1:, 0] += 1",
    "{v}[{v} > 3] = 1",
    "{v}.fill(2)",
    "{v}.sort(axis=0)",
    "np.add({w}, {u}, out={v})",
    "np.subtract({w}, {u}, {v})",
    "np.clip({w}, 0, 5, {v})",
    "np.add.at({v}, [0, 0], 1)",
    "np.copyto({v}, {w})",
    "{v} = np.add.reduce({w}, axis=0) % 3 + {u}",
    "items.append({v})",
    "items[0] = {v} + 1",
    "{v} = items[-1]",
    "write({v}, {w})",
    "if {v}.sum() > {w}.sum(): {u} = {v} + 1",
    "for row in range(2): {v} = {v} + {w}[row] % 2",
    "{v}, {w} = {w}, {v}",
    "note({v})",
]

FRAME = """
def helper(x, y):
    z = x * y % 5
    return z.T

def write(x, y):
    x[2] = y[0]

def note(x):
    noted.append(float(x.sum()))

def program({given}):
    c, d, items = a + b, b, [a]
{body}
    return a, b, c, d, items
"""


def made(seed):
    choose = random.Random(seed)
    lines = []
    for _ in range(choose.randint(3, 12)):
        v, w, u = (choose.choice(NAMES) for _ in range(3))
        lines.append("    " + choose.choice(STATEMENTS).format(v=v, w=w, u=u))
    return FRAME.format(given="a, b", body="\n".join(lines))


def arguments(seed):
    numbers = np.random.RandomState(seed)
    a = numbers.uniform(-3, 3, (3, 3))
    return a, (a.T if seed % 5 == 0 else a if seed % 7 == 0 else numbers.uniform(-3, 3, (3, 3)))


def flat(result):
    *arrays, items = result
    return arrays + items


def told(call, given):
    try:
        result = flat(call(*given))
    except Exception as error:
        return type(error), str(error), [x.tolist() for x in given]
    everything = [*given, *result]
    pairs = list(itertools.combinations(everything, 2))
    return (
        [(type(x), str(x.dtype), x.shape, x.strides, x.flags.writeable) for x in everything],
        [x.tolist() for x in everything],
        [x is y for x, y in pairs],
        [np.shares_memory(x, y) for x, y in pairs],
    )


def look(seed):
    source = made(seed)
    plain, traced = ({"np": np, "noted": []} for _ in range(2))
    for namespace in (plain, traced):
        exec(compile(source, f"<program {seed}>", "exec"), namespace)
    fast = sot_numpy.symbolic_translate(traced["program"])
    for call in range(3):
        expected = told(plain["program"], arguments(seed + 1000 * call))
        assert told(fast, arguments(seed + 1000 * call)) == expected, source
        assert traced["noted"] == plain["noted"], source


FIRST = int(os.environ.get("SOT_PROGRAMS_FROM", "0"))
COUNT = int(os.environ.get("SOT_PROGRAMS", "150"))


@pytest.mark.filterwarnings("ignore")
def test_programs_give_what_numpy_gives():
    sot_numpy.reset()
    for seed in range(FIRST, FIRST + COUNT):
        look(seed)
    stats = sot_numpy.stats()
    # Each program is called three times; most calls were translated and hit.
    assert stats.graphs > COUNT and stats.hits > COUNT and sum(stats.breaks.values()) > COUNT / 2
