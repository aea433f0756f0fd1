"""Dataclasses and enums."""

import dataclasses
import enum
import typing


@dataclasses.dataclass
class Config:
    size: int = 3
    name: str = "n"
    items: list = dataclasses.field(default_factory=list)

    def doubled(self):
        return self.size * 2


@dataclasses.dataclass
class Derived(Config):
    extra: float = 0.5

    def __post_init__(self):
        self.size += 1


@dataclasses.dataclass(frozen=True)
class Frozen:
    a: int
    b: int = 2


@dataclasses.dataclass(order=True)
class Version:
    major: int
    minor: int = 0


@dataclasses.dataclass
class Output:
    logits: object
    loss: typing.Optional[object] = None

    def __getitem__(self, i):
        return (self.logits, self.loss)[i]


class Color(enum.Enum):
    RED = 1
    BLUE = 2

    @property
    def nice(self):
        return self.name.lower()

    def next(self):
        return Color.BLUE if self is Color.RED else Color.RED


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 5


class Mode(str, enum.Enum):
    TRAIN = "train"
    EVAL = "eval"


class Flags(enum.Flag):
    A = 1
    B = 2
    C = 4


class Typed(typing.NamedTuple):
    a: int
    b: int = 7


class Schema(typing.TypedDict):
    a: int


def dataclass_made(x):
    c = Config(size=4)
    return x + c.doubled(), c.name, c.items


def dataclass_returned(x):
    return Output(x + 1), Config()


def dataclass_equality(x):
    return x + 1, Config() == Config(), Config(1) == Config(2), Config() != 3


def dataclass_repr(x):
    return x + 1, repr(Config()), str(Version(1))


def dataclass_replace(x):
    c = dataclasses.replace(Frozen(1), b=5)
    return x + c.b, c.a


def dataclass_fields(x):
    return x + 1, [f.name for f in dataclasses.fields(Config)], dataclasses.is_dataclass(Config)


def dataclass_as_dict(x):
    return x + 1, dataclasses.asdict(Version(1, 2)), dataclasses.astuple(Version(3))


def dataclass_frozen(x):
    f = Frozen(1)
    try:
        f.a = 3
    except dataclasses.FrozenInstanceError:
        return x + f.a


def dataclass_frozen_hash(x):
    return x + {Frozen(1): 4}[Frozen(1)]


def dataclass_order(x):
    return x + 1, Version(1) < Version(1, 1), sorted([Version(2), Version(1)])[0].major, max(Version(1), Version(3)).major


def dataclass_inherited(x):
    d = Derived(extra=2.0)
    return x + d.size + d.extra, d.doubled()


def dataclass_of_tensors(x):
    o = Output(logits=x, loss=x * 2)
    o.loss = o.loss + 1
    return o[1] + o.logits


def dataclass_mutable_default(x):
    a, b = Config(), Config()
    a.items.append(1)
    return x + len(a.items), b.items


def enum_members(x):
    return x + Color.RED.value, Color.RED.name, Color.RED is Color.RED, Color.RED == Color.BLUE, Color.RED.nice


def enum_lookup(x):
    return x + Color(2).value, Color["RED"].name, Color(1) is Color.RED


def enum_methods(x):
    return x + Color.RED.next().value


def enum_iteration(x):
    return x + len(Color), [c.name for c in Color], list(Level), Color.RED in Color


def enum_as_a_key(x):
    table = {Color.RED: 1, Color.BLUE: 2}
    return x + table[Color.BLUE]


def enum_comparison(x):
    return x + (2 if Color.RED == Color.RED else 3), Color.RED in (Color.BLUE, Color.RED), Color.BLUE not in [Color.RED]


def enum_text(x):
    return x + 1, str(Color.RED), repr(Color.BLUE), f"{Color.RED.name}"


def int_enum(x):
    return x + Level.HIGH, Level.LOW < Level.HIGH, Level.HIGH == 5, Level(1) is Level.LOW, Level.HIGH + 1


def str_enum(x):
    return x + 1, Mode.TRAIN == "train", Mode("eval") is Mode.EVAL, Mode.TRAIN.value.upper()


def flag_enum(x):
    both = Flags.A | Flags.B
    return x + both.value, Flags.A in both, Flags.C in both, both & Flags.A is Flags.A, bool(Flags.A & Flags.B)


def typed_namedtuple(x):
    t = Typed(1)
    return x + t.b, t, t._replace(a=4).a


def typed_dict(x):
    s = Schema(a=1)
    return x + s["a"]


def typing_subscripts(x):
    a = typing.Optional[int]
    return x + 1, typing.get_origin(typing.List[int]) is list, typing.get_args(typing.Dict[str, int])[0] is str


def class_statement(x):
    class Local:
        k = 3

        def __init__(self, v):
            self.v = v

        def total(self):
            return self.v + self.k

    return x + Local(2).total()


def class_statement_with_a_base(x):
    class Local(Config):
        def doubled(self):
            return super().doubled() + 1

    return x + Local(5).doubled()


def class_statement_with_a_closure(x):
    k = 4

    class Local:
        def get(self):
            return k

    return x + Local().get()
