"""Long loops that break: what goes round, what a round does with its number, and when it breaks.

Each program is made of one of each, and may have ten translations, however long its loop is.
"""

PRELUDE = """\
import collections
import toy

class Count:
    def __init__(self, n):
        self.i, self.n = -1, n

    def __iter__(self):
        return self

    def __next__(self):
        self.i += 1
        if self.i >= self.n:
            raise StopIteration
        return self.i

class Record:
    steps = 0

def given(n):
    numbers = range(n)
    return lambda: (
        toy.full((1,), 1.0), n, list(numbers), {i: i for i in numbers},
        collections.OrderedDict((i, i) for i in numbers), set(numbers), [], {}, Record(),
    )

MAKERS = [given(ROUNDS)]

def f(x, n, items, table, ordered, things, out, seen, record):
    y = x * 2
    HEAD
        USE
        BREAK
    return y * 2
"""

HEADS = {
    "range": "for i in range(n):",
    "list": "for i in items:",
    "enumerate": "for i, z in enumerate([1.5] * n):",
    "tensors": "for i, z in enumerate([x] * n):",
    "zip": "for i, z in zip(range(n), [2] * n):",
    "dict": "for i in table:",
    "dict_items": "for i, z in table.items():",
    "ordered": "for i, z in ordered.items():",
    "set": "for i in things:",
    "generator": "for i in (j for j in range(n)):",
    "iterator": "for i in Count(n):",
    "while": "i = -1\n    while i < n - 1:\n        i += 1",
}

USES = {
    "none": "y = y + 1",
    "number": "y = y + i * 2",
    "power": "y = y + 0.5**i",
    "text": "out.append(f'step {i}'); y = y + 1",
    "collected": "out.append(y); y = out[-1] + len(out) % 2",
    "half": "y = y + (2 if i > n // 2 else 3)",
    "attribute": "record.steps += 1; y = y + record.steps % 3",
    "key": "seen[i] = y; y = y * 1",
}

BREAKS = {
    "each": "toy.save(y)",
    "seventh": "if i % 7 == 3: toy.save(y)",
    "now_and_then": "if i * i % 23 == 2: out.append(float(y))",
}

# Programs that have more translations than ten, or a fallback: heads, uses, breaks, how many, and why.
OTHERS = []


def source(head, use, broken, rounds):
    program = PRELUDE.replace("ROUNDS", str(rounds)).replace("HEAD", HEADS[head])
    return program.replace("USE", USES[use]).replace("BREAK", BREAKS[broken])


def allowed(head, use, broken):
    for heads, uses, breaks, most, why in OTHERS:
        if head in heads and use in uses and broken in breaks:
            return most, why
    return 10, ""


def programs(rounds):
    """All of them; those that break in each round have so many rounds, the others some of them."""
    return [
        (
            f"{head}-{use}-{broken}",
            source(head, use, broken, rounds if broken == "each" else rounds // 5),
            *allowed(head, use, broken),
        )
        for head in HEADS
        for use in USES
        for broken in BREAKS
    ]
