"""Random programs of operations in place, views, aliases, random numbers and switches of a global state."""

import random

PRELUDE = '''\
import strided as s


class Box:
    def __init__(self, buffer):
        self.buffer = buffer
        self.last = None
        self.log = []
        self.generator = s.GENERATOR


PARAMETER = s.Parameter([0.5, -0.25, 1.0, 2.0], 0, (2, 2), (2, 1))
VIEW = PARAMETER[0]


def accumulate(target, change):
    target += change
    return target


def noisy(x):
    noise = s.rand([2])
    return x + noise


def touch(x):
    x.mul_(2.0)
    x += s.rand([2])
    return float(x.sum())


def fresh(seed):
    s.manual_seed(seed)
    s.set_scale(1.0)
    PARAMETER._storage[:] = [0.5, -0.25, 1.0, 2.0]


def apart():
    fresh(3)
    return s.tensor([[1.0, 2.0], [3.0, 4.0]]), s.tensor([[0.5, -1.0], [2.0, 1.5]]), Box(s.full((2, 2), 1.0))


def same():
    fresh(4)
    x = s.tensor([[1.0, 2.0], [3.0, 4.0]])
    return x, x, Box(s.full((2, 2), 1.0))


def turned():
    fresh(5)
    x = s.tensor([[1.0, -2.0], [3.0, 4.0]])
    return x, x.T, Box(x)


def overlapping():
    fresh(6)
    base = s.tensor([[1.0, 2.0], [3.0, 4.0], [-5.0, 6.0]])
    return base[:2], base[1:], Box(s.full((2, 2), 1.0))


def of_box():
    fresh(7)
    x = s.tensor([[1.0, 2.0], [3.0, 4.0]])
    return x, s.tensor([[1.0, 1.0], [1.0, 1.0]]), Box(x.alias())


def of_parameter():
    fresh(8)
    return PARAMETER.alias(), s.tensor([[1.0, 1.0], [1.0, 1.0]]), Box(PARAMETER.T)


'''

MAKERS = ["apart", "same", "turned", "overlapping", "of_box", "of_parameter"]


class Generator:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.made = 0

    def one(self, *choices):
        return self.random.choice(choices)

    def program(self):
        """The top-level statements of the function, and the makers of its arguments."""
        known = {"matrix": ["x", "y", "box.buffer", "PARAMETER"], "row": ["VIEW"], "number": []}
        statements = [self.statement(known, depth=0) for _ in range(self.random.randint(3, 9))]
        makers = ["apart", "apart"] + self.random.sample(MAKERS, 3) + ["apart"]
        given = [name for name in known["matrix"] + known["row"] if name[0] == "v"]
        return statements + [f"return [{', '.join(given)}], s.scale()"], makers

    def statement(self, known, depth):
        kind = self.random.choices(
            ["new", "in place", "item", "augmented", "keep", "state", "see", "branch", "try", "loop", "dead"],
            [30, 24, 8, 8, 8, 6, 6, 4 if depth < 2 else 0, 5 if depth < 2 else 0, 4 if depth < 2 else 0, 3],
        )[0]
        return getattr(self, kind.replace(" ", "_"))(known, depth)

    def matrix(self, known):
        return self.random.choice(known["matrix"])

    def row(self, known):
        if known["row"] and self.random.random() < 0.6:
            return self.random.choice(known["row"])
        return f"{self.matrix(known)}[{self.one(0, 1, -1)}]"

    def new(self, known, depth):
        self.made += 1
        name = f"v{self.made}"
        shape, text = self.value(known)
        known[shape] = known[shape] + [name]
        return f"{name} = {text}"

    def value(self, known):
        m, n, r = self.matrix(known), self.matrix(known), self.row(known)
        return self.one(
            ("matrix", f"{m} {self.one('+', '-', '*')} {n}"),
            ("matrix", f"{m} {self.one('+', '*')} {self.one('0.5', '-2.0', r)}"),
            ("matrix", f"{m}.T"),
            ("matrix", f"{m}.alias()"),
            ("matrix", f"{m}.clone()"),
            ("matrix", f"{m}.reshape(4).reshape(2, 2)"),
            ("matrix", f"{m}.relu()"),
            ("matrix", f"s.scaled({m})"),
            ("matrix", "s.rand([2, 2])"),
            ("matrix", f"s.stack([{r}, noisy({r})])"),
            ("matrix", f"accumulate({m}, {n})"),
            ("matrix", f"s.add({m}, {n}, inplace={self.one('True', 'False')})"),
            ("matrix", "s.full((2, 2), 0.0)"),
            ("row", f"{m}[{self.one('0', '1', '-1', ':, 0', ':, 1')}]"),
            ("row", f"{r} * 3.0"),
            ("row", f"noisy({r})"),
        )

    def in_place(self, known, depth):
        m, n, r = self.matrix(known), self.matrix(known), self.row(known)
        return self.one(
            f"{m}.{self.one('add_', 'sub_', 'mul_')}({self.one(n, r, '0.5', '-1.0')})",
            f"{m}.copy_({n})",
            f"{m}.{self.one('relu_', 'zero_', 'uniform_')}()",
            f"{m}.fill_({self.one('1.5', '-0.5')})",
            f"{r}.{self.one('add_', 'mul_', 'copy_')}({self.row(known)})",
        )

    def item(self, known, depth):
        return f"{self.matrix(known)}[{self.one('0', '1', ':, 1', ':')}] = {self.one(self.row(known), '2.5')}"

    def augmented(self, known, depth):
        names = [name for name in known["matrix"] if "." not in name and name != "PARAMETER"] + ["box.buffer"]
        return f"{self.random.choice(names)} {self.one('+=', '-=', '*=')} {self.one(self.matrix(known), self.row(known), '0.5')}"

    def keep(self, known, depth):
        m = self.matrix(known)
        return self.one(f"box.last = {m}", f"box.log.append({m})", f"box.log.append({self.row(known)})", f"box.buffer = {m}")

    def state(self, known, depth):
        return f"s.set_scale({self.one('2.0', '1.0', '-0.5')})"

    def see(self, known, depth):
        m, n = self.matrix(known), self.matrix(known)
        return self.one(
            f"print(float({m}.sum()))",
            f"box.log.append({self.row(known)}.tolist())",
            f"box.log.append(max([{m}.sum(), {n}.sum()]))",
            f"print(list(map(touch, [{m}, {n}])))",
            f"print(sorted([{m}, {n}, {self.matrix(known)}.alias()], key=touch)[0].tolist())",
        )

    def dead(self, known, depth):
        return self.one("s.rand([3])", f"{self.matrix(known)} * 2.0", f"s.rand([2]).add_({self.row(known)})")

    def branch(self, known, depth):
        return self.block(f"if {self.matrix(known)}.sum() > 1.0:", known, depth, "else:")

    def try_(self, known, depth):
        lines = ["try:", *self.body(known, depth, self.one(f"{self.matrix(known)}.sqrt_()", f"box.last = {self.matrix(known)}.sqrt()"))]
        return "\n".join([*lines, "except ValueError:", *self.body(known, depth)])

    def loop(self, known, depth):
        return self.block(f"for i in range({self.one(2, 3)}):", known, depth)

    def block(self, head, known, depth, other=None):
        lines = [head, *self.body(known, depth)]
        if other:
            lines += [other, *self.body(known, depth)]
        return "\n".join(lines)

    def body(self, known, depth, *last):
        own = {shape: list(names) for shape, names in known.items()}
        statements = [self.statement(own, depth + 1) for _ in range(self.random.randint(1, 2))] + list(last)
        return ["    " + line for statement in statements for line in statement.split("\n")]


setattr(Generator, "try", Generator.try_)


def program(seed):
    return Generator(seed).program()


def source(statements, makers):
    """The module of a program."""
    body = "\n".join("    " + line for statement in statements for line in statement.split("\n"))
    return f"{PRELUDE}def f(x, y, box):\n{body}\n\n\nmakers = [{', '.join(makers)}]\n"
