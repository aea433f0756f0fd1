//! `match`.

use crate::property::property;

property! { [MATCH_SEQUENCE GET_LEN UNPACK_SEQUENCE UNPACK_EX] (Iterable)
    "match a:\n    case [p, q]:\n        r = p, q\n    case [p, *q]:\n        r = p, q\n    case _:\n        r = 0"
    "match a:\n    case (1, _) | [_, 2]:\n        r = 1\n    case []:\n        r = 2"
    "match [a, a]:\n    case [[p, *_], [*_, q]]:\n        r = p, q"
}
property! { [MATCH_MAPPING MATCH_KEYS COPY_DICT_WITHOUT_KEYS] (Mapping, Any)
    "match a:\n    case {'q': p}:\n        r = p\n    case {}:\n        r = 1"
    "match a:\n    case {'p': p, **others}:\n        r = p, others\n    case {'q': 1 | 2, **others}:\n        r = others"
    "match {'k': b, 'l': 1}:\n    case {'k': None}:\n        r = 1\n    case {'k': p, **others}:\n        r = p, others"
    "match b:\n    case {'k': p}:\n        r = p\n    case _:\n        r = 2"
}
property! { [MATCH_CLASS] (Object, Any)
    "match a:\n    case Attrs(tag=p):\n        r = p\n    case Point(p, y=q):\n        r = p, q\n    case Slots(other=p):\n        r = p"
    "match Point(a, b):\n    case Point(x=int() as p):\n        r = p\n    case Point(p, q):\n        r = p, q"
    "match b:\n    case int(p) | str(p):\n        r = p\n    case float() | None:\n        r = 1\n    case list([p, *_]):\n        r = p"
    "match Point(1, 2):\n    case Point(1, 2, 3):\n        r = 1"
    "match b:\n    case Op(tag='a'):\n        r = 3\n    case object():\n        r = 4"
}
