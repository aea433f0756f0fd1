"""Dataclasses and enums."""

import collections.abc
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


class Bits(enum.IntFlag):
    R = 1
    W = 2


class Auto(enum.Enum):
    A = enum.auto()
    B = enum.auto()


class Aliased(enum.Enum):
    ONE = 1
    UNO = 1
    TWO = 2


_combined = (Flags.A | Flags.B, Flags.A & Flags.B, ~(Flags.A | Flags.B) & Flags.C, Flags(3) ^ Flags.A, Bits.R | Bits.W)


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


def typing_subscripts_of_classes_with_metaclasses(x):
    def described(rows: typing.List[typing.Dict[str, typing.Any]]) -> typing.Optional[collections.abc.Sized]:
        return rows

    key, value = typing.get_args(typing.Dict[str, typing.Any])
    return x + 1, key is str, value is typing.Any, described.__annotations__, typing.List[Flags].__args__[0] is Flags


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


def class_statement_decorated(x):
    @dataclasses.dataclass
    class Local:
        a: int = 1
        b: int = 2

    return x + Local(5).a + Local().b, Local(1) == Local(1)


def class_statement_with_a_body(x):
    values = []

    class Local:
        total = 0
        for i in range(3):
            total += i
        names = [str(n) for n in range(2)]
        values.append(total)

        @property
        def double(self):
            return self.total * 2

        @staticmethod
        def three():
            return 3

        @classmethod
        def make(cls):
            return cls()

        class Inner:
            k = 7

    return x + Local().double, Local.three(), Local.make().total, Local.Inner.k, Local.names, values, Local.__name__


def class_statement_returned(x):
    class Local:
        k = 1

    return x + 1, Local.k, Local.__qualname__, Local.__module__ == __name__


def class_statement_with_a_metaclass(x):
    class Meta(type):
        def shout(cls):
            return cls.__name__.upper()

    class Local(metaclass=Meta):
        pass

    return x + 1, Local.shout()


def class_statement_of_an_enum(x):
    class Local(enum.Enum):
        A = 1
        B = 2

    return x + Local.A.value, Local.B.name, len(Local)


def class_statement_of_an_exception(x):
    class Failure(ValueError):
        code = 5

    try:
        raise Failure("no")
    except ValueError as e:
        return x + e.code, str(e)


def class_statement_of_a_named_tuple(x):
    class Local(typing.NamedTuple):
        a: int
        b: int = 4

    return x + Local(1).b, Local(2).a


def class_statement_with_an_attribute_of_the_frame(x):
    base, k = Config, 5

    class Local(base):
        limit = k

        def get(self, extra=k):
            return self.limit + extra + k

    return x + Local().get(), Local.limit


def dataclass_repr_nested(x):
    return x + 1, repr(Config(items=[Version(1)])), f"{Frozen(1)}"


def dataclass_as_dict_nested(x):
    c = Config(items=[Version(1), {"v": Version(2)}])
    return x + 1, dataclasses.asdict(c), dataclasses.astuple(c)


def dataclass_match_args(x):
    return x + 1, Frozen(3).b, Version(1) <= Version(1), Version(2) >= Version(1, 5), Frozen(1) == Frozen(1), Frozen(1) != Frozen(2)


def dataclass_frozen_refuses_deletion(x):
    f = Frozen(1)
    try:
        del f.a
    except AttributeError as e:
        return x + 1, str(e)


def dataclass_given_too_much(x):
    try:
        Frozen(1, 2, 3)
    except TypeError as e:
        return x + 1, str(e)[-40:]


def flag_operators(x):
    both = Flags.A | Flags.B
    return x + (~both & Flags.C).value, Flags(3) is both, (both ^ Flags.A) is Flags.B, Flags(0).value, not Flags(0)


def int_flags(x):
    class_ = Bits.R | Bits.W
    return x + class_, Bits.R in class_, class_ & 1, Bits(1) is Bits.R, int(Bits.W)


def enum_auto_values(x):
    return x + Auto.B.value, Auto.A.value, Auto("a" if False else 1).name


def enum_members_dict(x):
    return x + len(Color.__members__), list(Color.__members__), Color.RED.__class__ is Color, isinstance(Color.RED, Color)


def enum_missing(x):
    try:
        Color(9)
    except ValueError as e:
        return x + 1, str(e)


def enum_key_error(x):
    try:
        Color["NONE"]
    except KeyError as e:
        return x + 1, e.args


def enum_aliases(x):
    return x + 1, Aliased.ONE is Aliased.UNO, [m.name for m in Aliased], Aliased.UNO.name


def enum_in_a_branch(x):
    mode = Mode("train")
    if mode == Mode.TRAIN:
        x = x * 2
    elif mode is Mode.EVAL:
        x = x * 3
    return x + {Mode.TRAIN: 1, Mode.EVAL: 2}[mode]


def named_tuple_class(x):
    t = Typed(a=1)
    return x + t.a + t.b, t == (1, 7), Typed._fields, t._asdict(), Typed.__annotations__["a"] is int, Typed._field_defaults


def typed_dict_keys(x):
    s = Schema(a=1)
    return x + s["a"], type(s) is dict, list(Schema.__annotations__)


def typing_at_run_time_forms(x):
    v = typing.cast(typing.List[int], [1])
    w = typing.cast("str", "a")
    return x + v[0], w, typing.Union[int, None] == typing.Optional[int], typing.Tuple[int, ...], typing.Callable[[int], str] is not None


def typing_overloads(x):
    if typing.TYPE_CHECKING:
        return x
    return x + 1, Config.__annotations__["size"] is int


class Asked(type):
    """Says that 5 is an instance of its classes, beside those that are."""

    def __instancecheck__(cls, instance):
        return instance == 5 or super().__instancecheck__(instance)

    def __subclasscheck__(cls, other):
        return other is float or type.__subclasscheck__(cls, other)


class AskedHere(metaclass=Asked):
    pass


def hooks_that_ask_type(x):
    class Child(AskedHere):
        pass

    found = [isinstance(value, AskedHere) for value in (5, 4, AskedHere(), Child(), "")]
    return x + 1, found, [issubclass(ty, AskedHere) for ty in (float, int, Child, AskedHere)], Child.mro()[1:] == AskedHere.mro()


def labels_of_the_wrong_type(x):
    def f():
        pass

    said = []
    for name in ("__name__", "__qualname__", "__annotations__"):
        try:
            setattr(f, name, 1)
        except TypeError as e:
            said.append(str(e))
    return x + 1, said, f.__name__
