"""Long loops that break: what goes round, what a round does with its number, and when it breaks; and loops as programs have them.

Each program may have ten translations, however long its loop is; those of `MORE` may have some more.
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



# Loops as programs have them: the lines of the function.
SHAPES = {
    "two_conditions": """
for i in range(n):
    y = y + 1
    if i % 7 == 3: toy.save(y)
    if i % 5 == 1: out.append(float(y))
""",
    "two_conditions_and_one": """
for i in range(n):
    y = y + 1
    if i % 7 == 3: y = y * 2
    if i % 5 == 1: y = y - 1
    toy.save(y)
""",
    "three_conditions": """
for i in range(n):
    y = y + 1
    if i % 7 == 3: toy.save(y)
    if i % 5 == 1: out.append(float(y))
    if i % 3 == 2: toy.save(y + 1)
""",
    "two_loops": """
for i in range(n):
    y = y + 1
    if i % 7 == 3: toy.save(y)
    if i % 5 == 1: out.append(float(y))
    if i % 3 == 2: toy.save(y + 1)
for i in range(n):
    y = y + 1
    if i % 7 == 3: toy.save(y)
    if i % 5 == 1: out.append(float(y))
""",
    "three_conditions_and_one": """
for i in range(n):
    y = y + 1
    if i % 7 == 3: y = y * 2
    if i % 5 == 1: y = y - 1
    if i % 3 == 0: y = y / 3
    toy.save(y)
""",
    "four_conditions_and_one": """
for i in range(n):
    y = y + 1
    if i % 7 == 3: y = y * 2
    if i % 5 == 1: y = y - 1
    if i % 3 == 0: y = y / 3
    if i % 2 == 0: y = y + 3
    toy.save(y)
""",
    "five_conditions_and_one": """
for i in range(n):
    y = y + 1
    if i % 7 == 3: y = y * 2
    if i % 5 == 1: y = y - 1
    if i % 3 == 0: y = y / 3
    if i % 2 == 0: y = y + 3
    if i % 11 == 0: y = y + 3
    toy.save(y)
""",
    "accumulate": """
import itertools
for i, s in zip(range(n), itertools.accumulate(itertools.repeat(2))):
    y = y + s % 5
    toy.save(y)
""",
    "elif": """
for i in range(n):
    if i % 4 == 0: y = y + 1
    elif i % 4 == 1: y = y * 1
    elif i % 4 == 2: y = y - 1
    else: y = y / 1
    toy.save(y)
""",
    "elif_breaks": """
for i in range(n):
    if i % 4 == 0: y = y + 1; toy.save(y)
    elif i % 4 == 1: y = y * 1
    elif i % 4 == 2: y = y - 1; out.append(float(y))
    else: y = y / 1
""",
    "early_stopping": """
best, bad = 1e9, 0
for i in range(n):
    y = y * 0.5 + i % 13
    loss = float(y)
    if loss < best:
        best, bad = loss, 0
    else:
        bad += 1
        if bad > 10 * n:
            break
""",
    "averages": """
total, most = 0.0, None
for i in range(n):
    y = y * 0.5 + i % 13
    loss = float(y)
    total += loss
    average = total / (i + 1)
    if most is None or loss > most:
        most = loss
    out.append(f'{i}: {average:.3f}')
y = y + total + most
""",
    "warm_up": """
for i in range(n):
    if i < 10:
        rate = 0.1 * (i + 1) / 10
    elif i < n // 2:
        rate = 0.1
    else:
        rate = 0.1 * (1 - i / n)
    y = y - rate * y
    if i % 10 == 0:
        toy.save(y)
    if (i + 1) % 100 == 0:
        out.append(rate)
""",
    "history": """
history = {'loss': [], 'rate': []}
rate = 0.5
for i in range(n):
    y = y * rate + 1
    history['loss'].append(float(y))
    history['rate'].append(rate)
    rate = max(rate * 0.999, 0.1)
out.append(history)
""",
    "window": """
window = collections.deque(maxlen=5)
for i in range(n):
    y = y + i % 3
    window.append(float(y))
    out.append(sum(window) / len(window))
""",
    "nested": """
for i in range(n // 10):
    for j in range(10):
        y = y + 1
        if j % 4 == 1: toy.save(y)
    if i % 3 == 0: out.append(float(y))
""",
    "nested_each": """
for i in range(n // 10):
    for j in range(10):
        y = y + j
        toy.save(y)
    toy.save(y * 2)
""",
    "nested_batches": """
for i, _ in enumerate([0] * (n // 10)):
    total = 0.0
    for j, z in enumerate(items[:10]):
        y = y * 0.5 + z
        total += float(y)
        if j % 5 == 0: out.append(f'{i} {j} {total / (j + 1)}')
    if total > 1e9: break
""",
    "continue": """
for i in range(n):
    if i % 11 == 5:
        continue
    y = y + 1
    if i % 3 == 0:
        toy.save(y)
        continue
    y = y * 1
    toy.save(y)
""",
    "while_tensor": """
i = 0
while float(y) < n:
    y = y + 1
    i += 1
    if i % 100 == 0: out.append(i)
""",
    "while_two": """
i, j = 0, n
while i < j:
    y = y + 1
    if i % 3 == 0: j -= 1
    toy.save(y)
    i += 1
""",
    "while_true": """
i = 0
while True:
    i += 1
    y = y + i % 2
    if i > n: break
    if i % 50 == 49: toy.save(y)
    if i % 20 == 19: out.append(float(y))
""",
    "divmod": """
for i in range(n):
    a, b = divmod(i, 7)
    y = y + a * 0.5 - b
    if b == 3: toy.save(y)
    if a % 2 == 1: out.append(float(y))
""",
    "try": """
for i in range(n):
    try:
        y = y + 1
        if i % 9 == 4: raise ValueError(i)
        toy.save(y)
    except ValueError as error:
        out.append(error.args[0])
        y = y * 1
    finally:
        y = y - 1
""",
    "raised_in_a_call": """
def step(y, i):
    z = y * 0.5 + i % 7
    if float(z) > 8: raise ValueError(i)
    return z
for i in range(n):
    try:
        y = step(y, i)
    except ValueError as error:
        out.append(error.args[0])
        y = y * 0.1
""",
    "in_a_call": """
def step(y, i):
    y = y + 1
    if i % 7 == 3: toy.save(y)
    if i % 5 == 1: out.append(float(y))
    return y * 1
for i in range(n):
    y = step(y, i)
""",
    "object": """
class State:
    def __init__(self): self.step, self.best = 0, -1.0
    def update(self, loss):
        self.step += 1
        if loss > self.best:
            self.best = loss
            return True
        return self.step % 10 == 0
state = State()
for i in range(n):
    y = y * 0.5 + i % 13
    if state.update(float(y)):
        out.append(state.step)
y = y + state.best
""",
    "minimum": """
best = 1e9
for i in range(n):
    y = y * 0.5 + i % 13
    best = min(best, float(y))
    if i % 10 == 9: toy.save(y)
y = y + best
""",
    "counter": """
counts = collections.Counter()
for i in range(n):
    y = y + 1
    counts[i % 3] += 1
    counts['all'] += 1
    toy.save(y)
out.append(sorted(counts.items(), key=str))
""",
    "chained": """
for i in range(n):
    if 3 < i % 10 < 7 and i % 2: y = y + 1
    y = y * 1
    if i % 6 == 0 or i % 10 == 3: toy.save(y)
""",
    "states": """
h, c = y, y
for i in range(n):
    h, c = c + 1, h * 0.5
    if i % 2: h, c = c, h
    if i % 9 == 8: out.append((float(h), i))
y = h + c
""",
    "last": """
for i in range(n):
    y = y + 1
    if i == 0: toy.save(y)
    if i == n - 1: out.append(float(y))
    if i % 100 == 50: toy.save(y)
""",
    "steps": """
step = 0
for epoch in range(n // 10):
    for i in items[:10]:
        y = y + i
        step += 1
        if step % 25 == 0: toy.save(y)
        if step % 40 == 0: out.append(float(y))
    out.append(epoch)
""",
    "milestones": """
rate = 1.0
for i in range(n):
    if i in (100, 200, 1000): rate *= 0.1
    y = y + rate
    toy.save(y)
""",
    "sums": """
a = b = 0.0
for i in range(n):
    y = y * 0.5 + i % 13
    v = float(y)
    if v > 10: a += v
    elif v > 5: b += v
    if a > 2 * b: b += 1
y = y + a - b
""",
    "powers": """
for i in range(n):
    y = y * 0.9 ** (i % 4)
    if i & 3 == 0: toy.save(y)
    if not i % 5: out.append(int(i ** 0.5))
""",
    "dict_of_lists": """
for i in range(n):
    y = y + 1
    seen.setdefault(i % 3, []).append(i)
    toy.save(y)
out.append(seen)
""",
    "set_of_seen": """
things = set()
for i in range(n):
    y = y + 1
    if i % 37 not in things:
        things.add(i % 37)
        toy.save(y)
    else:
        out.append(float(y))
""",
    "set_grows": """
things = set()
for i in range(n):
    y = y + 1
    things.add(i)
    toy.save(y)
out.append(len(things))
""",
    "stack": """
stack = [3]
while stack and len(out) < n:
    i = stack.pop()
    y = y + i
    out.append(float(y))
    stack.append(i % 5 + 1)
    if i % 2: stack.append(2)
""",
    "generator_of_its_own": """
def numbers():
    for i in range(n):
        yield i, i % 3
for i, j in numbers():
    y = y + j
    toy.save(y)
""",
    "generator_of_its_own_now_and_then": """
def numbers():
    for i in range(n):
        yield i, i % 3
for i, j in numbers():
    y = y + j
    if i % 7 == 3: toy.save(y)
    if i % 5 == 1: out.append(float(y))
""",
    "generator_of_tensors": """
def batches():
    for i in range(n):
        yield x * i
for z in batches():
    y = y + z
    toy.save(y)
""",
    "generator_that_breaks": """
def batches(x):
    for i in range(n):
        x = x + 1
        toy.save(x)
        yield x
for z in batches(x):
    y = y + z
""",
    "next": """
it = iter(items)
for i in range(n):
    y = y + next(it)
    toy.save(y)
""",
    "cycle": """
import itertools
it = itertools.cycle([1, 2, 3])
for i in range(n):
    y = y + next(it)
    toy.save(y)
""",
    "count": """
import itertools
for i in itertools.count():
    if i >= n: break
    y = y + i
    toy.save(y)
""",
    "islice": """
import itertools
for i in itertools.islice(items, n):
    y = y + i
    toy.save(y)
""",
    "reversed": """
for i in reversed(range(n)):
    y = y + i
    toy.save(y)
""",
    "zip_tensors": """
for z, i in zip([x] * n, items):
    y = y + z * i
    toy.save(y)
""",
    "reduce": """
import functools
def step(y, i):
    y = y * 0.5 + i
    toy.save(y)
    return y + 1
y = functools.reduce(step, items, y)
""",
    "sorted": """
def weight(i):
    return -float(y * i)
out.append(sorted(items, key=weight))
""",
    "maximum": """
def weight(i):
    return float(y * (i % 100))
y = y + max(items, key=weight)
""",
    "shape_grows": """
z = y
for i in range(n // 10):
    z = toy.concat([z, y])
    y = y + 1
    toy.save(z)
y = y + z.sum()
""",
    "shape_grows_in_a_while": """
z = y
while z.shape[0] < n // 10:
    z = toy.concat([z, y])
    out.append(int(z.sum()) % 5)
    y = y + out[-1]
""",
    "shape_of_a_number": """
for i in range(n):
    z = toy.full((i % 30 + 1,), 2.0) + y
    out.append(float(z.sum()))
    y = y + 1
""",
    "slices": """
z = toy.arange(40)
for i in range(n):
    y = y + z[: i % 40 + 1].sum()
    toy.save(y)
""",
    "tuple_grows": """
kept = ()
for i in range(n // 10):
    kept = kept + (y,)
    y = y * 0.5
    toy.save(y)
y = sum(kept)
""",
    "other_classes": """
kinds = [type(f'Kind{k}', (), {'size': k}) for k in range(30)]
for i in range(n):
    kind = kinds[i % 30]()
    y = y + kind.size
    toy.save(y)
""",
    "inner_loops_of_other_lengths": """
for i in range(n // 10):
    for j in range(i % 30):
        y = y + 1
    toy.save(y)
""",
    "maximum_of_some": """
def weight(z):
    return float((z * 2).sum())
for i in range(n):
    y = max([y * 0.5, x, x + i % 10], key=weight) + 1
""",
    "comprehension": """
losses = [float(y + i) for i in range(n)]
y = y + sum(losses)
""",
    "comprehension_if": """
losses = [float(y + i) for i in range(n) if i % 3]
y = y + sum(losses)
""",
    "dict_comprehension": """
losses = {i: float(y + i) for i in items}
y = y + losses[7]
""",
}


def source(head, use, broken, rounds):
    program = PRELUDE.replace("ROUNDS", str(rounds)).replace("HEAD", HEADS[head])
    return program.replace("USE", USES[use]).replace("BREAK", BREAKS[broken])

# Loops of those that have some more translations than ten, however long they are: how many, and why. Each place where a graph
# begins has two if it needs them.
MORE = {
    "two_loops": (18, "two loops, each with translations of its own"),
    "inner_loops_of_other_lengths": (11, "the range of the inner loop is assumed once"),
}


def shape(lines, rounds):
    program, body = PRELUDE.replace("ROUNDS", str(rounds)), lines.strip().replace("\n", "\n    ")
    return program.replace("HEAD\n        USE\n        BREAK", body)


def programs(rounds, bodies):
    """All of them, those with these bodies, too; those that break in each round have so many rounds, the others some of them."""
    return [
        (
            f"{head}-{use}-{broken}",
            source(head, use, broken, rounds if broken == "each" else rounds // 5),
            10,
            "",
        )
        for head in HEADS
        for use in USES
        for broken in BREAKS
    ] + [
        (name, shape(lines, rounds // 3), *MORE.get(name, (10, "")))
        for name, lines in {**SHAPES, **bodies}.items()
    ]
