"""Programs with one graph break: places with a hole, and kinds of breaks that fill it.

A place is a function `f(x, wrong, out)` with tensor work on both sides of its hole. `HOLE` becomes the statements of a kind,
which read `y` and set `v`; `EXPR` becomes an expression of the same value. Both frameworks of the tests share them: a prelude
defines `listed`, `no_grad` and how a tensor is read as a whole, `READ`.
"""

import textwrap

PRELUDE = """\
import contextlib
import math

class Manager:
    def __init__(self, out):
        self.out = out

    def __enter__(self):
        self.out.append("enter")

    def __exit__(self, kind, error, traceback):
        self.out.append(kind and kind.__name__)

@contextlib.contextmanager
def managed(out):
    out.append("enter")
    try:
        yield
    finally:
        out.append("exit")

def kind(y):
    FUNCTION
    return v

"""

TOY = """\
import toy

class no_grad:
    def __enter__(self):
        self.before = toy.is_grad_enabled()
        toy.set_grad_enabled(False)

    def __exit__(self, *_):
        toy.set_grad_enabled(self.before)

def listed(y):
    return y.shape

def given(value, wrong=False):
    return lambda: (toy.full((1,), value), wrong, [])

# Two signs, an error behind the break, and a tensor of which no kind takes the value.
MAKERS = [given(3.0), given(-3.0), given(3.0, True), lambda: (toy.arange(2) * -1, False, [])]
"""

# Kind: statements, and the breaks of one run on a positive tensor.
KINDS = {
    "if": ("if y > 0:\n    v = y * 2\nelse:\n    v = y * 3", 1),
    # Once into the body and once out of it.
    "while": ("v = y\nwhile v > 5:\n    v = v - 4", 2),
    # `and` decides on the first operand, `not` on the second.
    "logic": ("v = not (y > 1 and y < 50)", 2),
    "conditional": ("v = 1 if y > 0 else 2", 1),
    # The second comparison is the value.
    "chain": ("v = 1 < y < 50", 1),
    "assert": ("assert y > 0, 'not positive'\nv = 1", 1),
    "range": ("v = len(range(int(y)))", 1),
    "print": ("v = print(y)", 1),
    "format": ("v = f'{y} and {y.ndim:>3}'", 1),
    "unpack": ("v, *_ = map(float, y)", 1),
    "whole": ("v = y.READ()", 1),
    "item": ("v = y.item()", 1),
    "float": ("v = float(y)", 1),
    "c_function": ("v = math.sqrt(y)", 1),
    "listed": ("v = listed(y)", 1),
}

# Place: the function, and how often its hole runs.
PLACES = {
    "straight": ("""\
def f(x, wrong, out):
    y = x * 2
    HOLE
    return y + 1
""", 1),
    "if_body": ("""\
def f(x, wrong, out):
    y = x * 2
    if not out:
        HOLE
    elif wrong:
        y = y * 3
    return y + 1
""", 1),
    "elif_body": ("""\
def f(x, wrong, out):
    y = x * 2
    if out:
        y = y * 3
    elif y.ndim < 2:
        HOLE
    else:
        y = y * 4
    return y + 1
""", 1),
    "else_body": ("""\
def f(x, wrong, out):
    y = x * 2
    if out:
        y = y * 3
    else:
        HOLE
    return y + 1
""", 1),
    "for": ("""\
def f(x, wrong, out):
    for i in range(2):
        y = x * (i + 2)
        HOLE
        y = y + 1
    return y
""", 2),
    "while": ("""\
def f(x, wrong, out):
    n = 0
    while n < 2:
        n += 1
        y = x * (n + 1)
        HOLE
        y = y + 1
    return y
""", 2),
    "nested_loops": ("""\
def f(x, wrong, out):
    for i in range(2):
        for j in "ab":
            y = x * (i + 2)
            HOLE
            y = y + len(j)
    return y
""", 4),
    "for_else": ("""\
def f(x, wrong, out):
    for i in range(2):
        y = x * (i + 2)
    else:
        HOLE
        y = y + 1
    return y
""", 1),
    "loop_with_else": ("""\
def f(x, wrong, out):
    for i in range(2):
        y = x * (i + 2)
        HOLE
        y = y + 1
    else:
        y = y + 2
    return y
""", 2),
    "break": ("""\
def f(x, wrong, out):
    for i in range(3):
        y = x * (i + 2)
        HOLE
        y = y + 1
        if i == 1:
            break
    return y
""", 2),
    "continue": ("""\
def f(x, wrong, out):
    for i in range(3):
        y = x * (i + 2)
        if i == 1:
            continue
        HOLE
        y = y + 1
    return y
""", 2),
    "return": ("""\
def f(x, wrong, out):
    for i in range(3):
        y = x * (i + 2)
        HOLE
        y = y + 1
        if i == 1:
            return y
""", 2),
    "try_body": ("""\
def f(x, wrong, out):
    y = x * 2
    try:
        HOLE
    except (ValueError, AssertionError) as error:
        out.append(str(error))
    return y + 1
""", 1),
    "except_body": ("""\
def f(x, wrong, out):
    y = x * 2
    try:
        raise KeyError("key")
    except KeyError as error:
        HOLE
        y = y * 2
    return y + 1
""", 1),
    "try_else": ("""\
def f(x, wrong, out):
    try:
        y = x * 2
    except ValueError:
        y = x
    else:
        HOLE
    return y + 1
""", 1),
    "finally": ("""\
def f(x, wrong, out):
    try:
        y = x * 2
    finally:
        HOLE
        y = y * 2
    return y + 1
""", 1),
    "try_finally": ("""\
def f(x, wrong, out):
    y = x * 2
    try:
        HOLE
    finally:
        out.append(y * 2)
    return y + 1
""", 1),
    "with_manager": ("""\
def f(x, wrong, out):
    y = x * 2
    with Manager(out):
        HOLE
        y = y * 2
    return y + 1
""", 1),
    "with_contextmanager": ("""\
def f(x, wrong, out):
    y = x * 2
    with managed(out):
        HOLE
        y = y * 2
    return y + 1
""", 1),
    "with_no_grad": ("""\
def f(x, wrong, out):
    y = x * 2
    with no_grad():
        HOLE
        y = y * 2
    return y + 1
""", 1),
    "comprehension": ("""\
def f(x, wrong, out):
    out.append([EXPR for i in range(2) for y in [x * (i + 2)]])
    if wrong:
        raise ValueError("wrong")
    return x + 1
""", 2),
    "generator_consumer": ("""\
def numbers(x):
    for i in range(2):
        yield x * (i + 2)

def f(x, wrong, out):
    for y in numbers(x):
        HOLE
        y = y + 1
    return y
""", 2),
    "callee": ("""\
def inner(y, wrong, out):
    y = y + 1
    HOLE
    return y + 1

def outer(y, wrong, out):
    return inner(y - 1, wrong, out) * 2

def f(x, wrong, out):
    y = x * 2
    return outer(y, wrong, out) + x
""", 1),
    "closure": ("""\
def f(x, wrong, out):
    y = x * 2

    def add(n):
        nonlocal y
        y = y + n
        return y

    add(1)
    HOLE
    add(2)
    return y + 1
""", 1),
    # 3.13 names two variables in one instruction, if they are among the first sixteen.
    "many_variables": ("""\
def f(x, wrong, out):
    a, b, c, d, e, g, h, j, k, m, n, o, p, q, r, s = range(16)
    i = 10

    def outside():
        return i

    y = x * 2
    HOLE
    pairs = [(i + t, t * i) for i in (1, 2) for t in (1, 2) if i != t]
    return y + len(pairs) + outside()
""", 1),
    "half_evaluated": ("""\
def f(x, wrong, out):
    y = x * 2
    out.append([y * 3, len(out), EXPR, y * 4])
    if wrong:
        raise ValueError("wrong")
    return y + 1
""", 1),
    "super": ("""\
class Base:
    def run(self, x):
        return x * 2

class Derived(Base):
    def run(self, x, wrong, out):
        y = super().run(x)
        HOLE
        return super().run(y)

def f(x, wrong, out):
    return Derived().run(x, wrong, out) + 1
""", 1),
    "property": ("""\
class Box:
    def __init__(self, x, wrong, out):
        self.x, self.wrong, self.out = x, wrong, out

    @property
    def value(self):
        y, wrong, out = self.x * 2, self.wrong, self.out
        HOLE
        return y * 2

def f(x, wrong, out):
    return Box(x, wrong, out).value + 1
""", 1),
    "operator": ("""\
class Box:
    def __init__(self, x, wrong, out):
        self.x, self.wrong, self.out = x, wrong, out

    def __add__(self, other):
        y, wrong, out = self.x * other, self.wrong, self.out
        HOLE
        return y * 2

def f(x, wrong, out):
    return (Box(x, wrong, out) + 2) * 3
""", 1),
    "truth": ("""\
class Box:
    def __init__(self, x, wrong, out):
        self.x, self.wrong, self.out = x, wrong, out

    def __bool__(self):
        y, wrong, out = self.x * 2, self.wrong, self.out
        HOLE
        self.x = y * 2
        return True

def f(x, wrong, out):
    box = Box(x, wrong, out)
    y = x + 2 if box else x
    return box.x + y
""", 1),
    "length": ("""\
class Box:
    def __init__(self, x, wrong, out):
        self.x, self.wrong, self.out = x, wrong, out

    def __len__(self):
        y, wrong, out = self.x * 2, self.wrong, self.out
        HOLE
        self.x = y * 2
        return len(self.x.shape)

def f(x, wrong, out):
    box = Box(x, wrong, out)
    n = len(box)
    return box.x + n
""", 1),
    "contains": ("""\
class Box:
    def __init__(self, x, wrong, out):
        self.x, self.wrong, self.out = x, wrong, out

    def __contains__(self, item):
        y, wrong, out = self.x * 2, self.wrong, self.out
        HOLE
        self.x = y * 2
        return item

def f(x, wrong, out):
    box = Box(x, wrong, out)
    found = 3 in box
    return box.x + found
""", 1),
    "iter": ("""\
class Box:
    def __init__(self, x, wrong, out):
        self.x, self.wrong, self.out = x, wrong, out

    def __iter__(self):
        y, wrong, out = self.x * 2, self.wrong, self.out
        HOLE
        self.x = y * 2
        return self

    def __next__(self):
        raise StopIteration

def f(x, wrong, out):
    box = Box(x, wrong, out)
    for _ in box:
        pass
    return box.x + 1
""", 1),
    "item": ("""\
class Box:
    def __init__(self, x, wrong, out):
        self.x, self.wrong, self.out, self.left = x, wrong, out, 1

    def __iter__(self):
        return self

    def __next__(self):
        if not self.left:
            raise StopIteration
        self.left -= 1
        y, wrong, out = self.x * 2, self.wrong, self.out
        HOLE
        self.x = y * 2
        return y

def f(x, wrong, out):
    box = Box(x, wrong, out)
    for y in box:
        x = x + y
    return box.x + x
""", 1),
    "text": ("""\
class Box:
    def __init__(self, x, wrong, out):
        self.x, self.wrong, self.out = x, wrong, out

    def __str__(self):
        y, wrong, out = self.x * 2, self.wrong, self.out
        HOLE
        self.x = y * 2
        return 'text'

def f(x, wrong, out):
    box = Box(x, wrong, out)
    out.append(f'{box}')
    return box.x + 1
""", 1),
    "mapped": ("""\
def f(x, wrong, out):
    def change(y):
        HOLE
        return y * 2

    total = x + 1
    for y in map(change, [x * 2]):
        total = total + y
    return total
""", 1),
    "enter": ("""\
class Box:
    def __init__(self, x, wrong, out):
        self.x, self.wrong, self.out = x, wrong, out

    def __enter__(self):
        y, wrong, out = self.x * 2, self.wrong, self.out
        HOLE
        return y * 2

    def __exit__(self, kind, error, traceback):
        self.out.append("exit")

def f(x, wrong, out):
    with Box(x + 1, wrong, out) as y:
        y = y + 1
    return y * 2
""", 1),
    "exit": ("""\
class Box:
    def __init__(self, x, wrong, out):
        self.x, self.wrong, self.out = x, wrong, out

    def __enter__(self):
        return self.x

    def __exit__(self, kind, error, traceback):
        y, wrong, out = self.x * 2, self.wrong, self.out
        HOLE
        self.x = y * 2

def run(box):
    with box as y:
        return y + 1

def f(x, wrong, out):
    box = Box(x + 1, wrong, out)
    return run(box) + box.x
""", 1),
    "finally_of_return": ("""\
def f(x, wrong, out):
    y = x * 2
    try:
        return y + 1
    finally:
        HOLE
        out.append(y * 3)
""", 1),
    "return_in_finally": ("""\
def f(x, wrong, out):
    y = x * 2
    try:
        HOLE
        y = y + 1
    finally:
        return y * 2
""", 1),
    "generator": ("""\
def numbers(y, wrong, out):
    y = y + 1
    yield y
    HOLE
    yield y + 2

def f(x, wrong, out):
    y, z = numbers(x * 2, wrong, out)
    return y + z
""", 1),
    "recursion": ("""\
def inner(y, n, wrong, out):
    y = y + 1
    if n == 0:
        HOLE
        return y
    return inner(y, n - 1, wrong, out) * 2

def f(x, wrong, out):
    return inner(x * 2, 3, wrong, out) + 1
""", 1),
    "starred_call": ("""\
def inner(y, *rest, wrong, out, **names):
    y = y + len(rest)
    HOLE
    return y * 2

def f(x, wrong, out):
    y = x * 2
    return inner(*[y, 2], wrong=wrong, **{"out": out, "name": 3}) + 1
""", 1),
    "argument": ("""\
def inner(y, v, *rest, z):
    return y * 2 + z

def f(x, wrong, out):
    y = x * 2
    z = inner(y + 1, EXPR, *[1, 2], z=y * 3)
    if wrong:
        raise ValueError("wrong")
    return z + 1
""", 1),
    "default": ("""\
def f(x, wrong, out):
    y = x * 2

    def inner(n, v=EXPR):
        out.append(v)
        return n + 1

    z = inner(y) * 2
    if wrong:
        raise ValueError("wrong")
    return z + 1
""", 1),
    "decorator": ("""\
def f(x, wrong, out):
    y = x * 2

    def mark(v):
        out.append(v)
        return lambda function: function

    @mark(EXPR)
    def inner(n):
        return n + 1

    if wrong:
        raise ValueError("wrong")
    return inner(y) * 2
""", 1),
    "walrus": ("""\
def f(x, wrong, out):
    y = x * 2
    if (v := EXPR) is not out and (z := y + 1) is not None:
        out.append(v)
    if wrong:
        raise ValueError("wrong")
    return z + y
""", 1),
    "subscript": ("""\
def f(x, wrong, out):
    y = x * 2
    items = [x, x + 1, x + 2]
    items[len([EXPR])] += y
    del items[-1]
    if wrong:
        raise ValueError("wrong")
    return items[1] + 1
""", 1),
    "attributes": ("""\
class Box:
    def __setattr__(self, name, value):
        y, wrong, out = value
        HOLE
        self.__dict__[name] = y * 2

    def __getattr__(self, name):
        return len(name)

def f(x, wrong, out):
    box = Box()
    box.y = x * 2, wrong, out
    return box.y + box.name
""", 1),
    "items": ("""\
class Box:
    def __init__(self, x, wrong, out):
        self.x, self.wrong, self.out = x, wrong, out

    def __getitem__(self, key):
        y, wrong, out = self.x * 2, self.wrong, self.out
        HOLE
        return y * 2

    def __setitem__(self, key, value):
        self.x = value + 1

def f(x, wrong, out):
    box = Box(x, wrong, out)
    box[1] += x
    return box.x * 2
""", 1),
    "descriptor": ("""\
class Doubled:
    def __get__(self, box, kind):
        return box.kept + 1

    def __set__(self, box, value):
        y, wrong, out = value * 2, box.wrong, box.out
        HOLE
        box.kept = y * 2

class Box:
    value = Doubled()

def f(x, wrong, out):
    box = Box()
    box.wrong, box.out = wrong, out
    box.value = x + 1
    return box.value * 2
""", 1),
    "key": ("""\
def f(x, wrong, out):
    def key(n):
        y = x * n
        HOLE
        return n

    z = x + 1
    return z * max([3, 1], key=key)
""", 2),
    "comparison": ("""\
class Box:
    def __init__(self, x, wrong, out):
        self.x, self.wrong, self.out = x, wrong, out

    def __lt__(self, other):
        y, wrong, out = self.x * other, self.wrong, self.out
        HOLE
        self.x = y * 2
        return False

def f(x, wrong, out):
    box = Box(x, wrong, out)
    n = 3 if 1 < 2 < 3 and box < 2 else 4
    return box.x + n
""", 1),
    "loop_in_try_in_loop": ("""\
def f(x, wrong, out):
    y = x
    for i in range(1):
        try:
            for j in range(2):
                with Manager(out):
                    y = x * (j + 2)
                    HOLE
                    y = y + 1
        finally:
            out.append(y * 3)
    return y + 1
""", 2),
}

# Places that are cut in another number of graphs than 1 + runs * breaks: by kind, `*` for all that are not named; and why.
SHARED = "rounds share a graph"
OTHER_NUMBERS = {
    # `v - 4` and its comparison are the same graph in both rounds.
    "while": ({"while": 4}, SHARED),
    "for": ({"while": 4}, SHARED),
    "nested_loops": ({"logic": 7, "while": 7}, SHARED),
    "loop_with_else": ({"while": 4}, SHARED),
    "break": ({"while": 4}, SHARED),
    "return": ({"while": 4}, SHARED),
    "comprehension": ({"while": 4, "logic": 4}, SHARED),
    "key": ({"while": 4}, SHARED),
    "loop_in_try_in_loop": ({"while": 4}, SHARED),
    # Twice into the body.
    "recursion": ({"while": 4}, "the loop goes round twice"),
    "generator": ({"while": 2, "logic": 2}, "behind the first break the generator is CPython's"),
    # The kinds with tensor work of their own between the `raise` and the break.
    "except_body": (
        {"if": 3, "while": 4, "logic": 4, "conditional": 3, "chain": 3, "assert": 3, "unpack": 3},
        "a handler is gone on with in the frame of its exception, so the program is cut at the `raise` too",
    ),
    "generator_consumer": (
        {"*": 3, "if": 4, "conditional": 4, "chain": 4, "assert": 4, "unpack": 4, "while": 4, "logic": 6},
        "behind the first break the generator is CPython's: its operations are eager, and each round is cut at the loop's head",
    ),
    "with_contextmanager": (
        {"*": 3, "while": 4, "logic": 4},
        "behind a break the manager's generator is CPython's, so the program is cut at the end of the `with` too",
    ),
}

# Places that are left to CPython, by the start of the fallback's reason.
FALLBACKS = {}


def indented(lines, indent):
    return textwrap.indent(lines, indent)[len(indent):]


def source(place, kind, prelude=TOY, read="tolist"):
    statements = KINDS[kind][0].replace("READ", read)
    hole = statements + "\nout.append(v)\nif wrong:\n    raise ValueError('wrong')"
    alone = statements.startswith("v = ") and "\n" not in statements
    expression = statements[len("v = "):] if alone else "kind(y)"
    lines = [PRELUDE.replace("FUNCTION", indented(statements, "    ")), prelude]
    for line in PLACES[place][0].splitlines():
        indent = line[: len(line) - len(line.lstrip())]
        lines.append(line.replace("HOLE", indented(hole, indent)).replace("EXPR", expression))
    return "\n".join(lines) + "\n"


def graphs(place, kind):
    """The number of graphs of the first call, and why it is not the usual one."""
    numbers, reason = OTHER_NUMBERS.get(place, ({}, ""))
    number = numbers.get(kind, numbers.get("*"))
    return (1 + PLACES[place][1] * KINDS[kind][1], "") if number is None else (number, reason)


def programs():
    return [(place, kind, source(place, kind), *graphs(place, kind), FALLBACKS.get(place)) for place in PLACES for kind in KINDS]
