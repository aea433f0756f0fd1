//! `match`.

use sot_harness::property;

property! { [MATCH_SEQUENCE GET_LEN UNPACK_SEQUENCE UNPACK_EX] (Iterable)
    "match a:\n    case [p, q]:\n        r = p, q\n    case [p, *q]:\n        r = p, q\n    case _:\n        r = 0"
    "match a:\n    case (1, _) | [_, 2]:\n        r = 1\n    case []:\n        r = 2"
    "match 'ab', b'ab', Box([1, 2]), {1: 2}, range(2), a:\n    case [[*_], *_] | [_, [*_], *_] | [_, _, [*_], *_] | [_, _, _, [*_], *_]:\n        r = 1\n    case [_, _, _, _, [p, q], _]:\n        r = p, q"
    "match [a, a]:\n    case [[p, *_], [*_, q]]:\n        r = p, q"
}
property! { [MATCH_MAPPING MATCH_KEYS COPY_DICT_WITHOUT_KEYS] (Mapping, Any)
    "match a:\n    case {'q': p}:\n        r = p\n    case {}:\n        r = 1"
    "match a:\n    case {'p': p, **others}:\n        r = p, others\n    case {'q': 1 | 2, **others}:\n        r = others"
    "match {'k': b, 'l': 1}:\n    case {'k': None}:\n        r = 1\n    case {'k': p, **others}:\n        r = p, others"
    "match b:\n    case {'k': p}:\n        r = p\n    case _:\n        r = 2"
    "match {'k': b, 'l': a}:\n    case {'k': p, 'l': q}:\n        r = p, q"
    "match Mapped({'k': b, 'l': a}):\n    case {'k': p, 'n': _}:\n        r = p\n    case {'l': q, **others}:\n        r = q, others"
    "match Keys({'k': b}), Mapped({}):\n    case {}, _:\n        r = 1\n    case _, {}:\n        r = 2"
    "match {1: b, 2: b}:\n    case {Names.one: p, Names.same: q}:\n        r = p, q"
}
property! { [MATCH_CLASS] (Object, Any)
    "match a:\n    case Attrs(tag=p):\n        r = p\n    case Point(p, y=q):\n        r = p, q\n    case Slots(other=p):\n        r = p"
    "match Point(a, b):\n    case Point(x=int() as p):\n        r = p\n    case Point(p, q):\n        r = p, q"
    "match b:\n    case int(p) | str(p):\n        r = p\n    case float() | None:\n        r = 1\n    case list([p, *_]):\n        r = p"
    "match a:\n    case N():\n        r = b"
    "match Point(a, b):\n    case Point(p, x=q):\n        r = p, q"
    "match Attrs('o', 'raises'):\n    case Attrs(computed=p):\n        r = p"
    "match Attrs('o', 'breaks'):\n    case Attrs(computed=p, missing_one=q):\n        r = p, q"
    "match Attrs('o', 'declines'):\n    case Attrs(missing_one=p):\n        r = p\n    case Attrs(tag=p):\n        r = p, 1"
    "match 5, 'x', [b]:\n    case int(p), str(q), list([t]):\n        r = p, q, t"
    "match Unnamed():\n    case Unnamed(p):\n        r = p"
    "match Point(1, 2):\n    case Point(1, 2, 3):\n        r = 1"
    "match b:\n    case Op(tag='a'):\n        r = 3\n    case object():\n        r = 4"
}
