//! Displays, unpacking and comprehensions.

use sot_harness::property;

property! { [BUILD_TUPLE BUILD_LIST BUILD_SET BUILD_MAP BUILD_CONST_KEY_MAP] (Key, Any, Any)
    "r = (a, b, c)"
    "r = [a, b, a]"
    "r = [[], [b], [b, [c]]]"
    "r = {a, 1, 2}"
    "r = {a: b, 'k': c}"
    "r = {'p': b, 'q': c, 'p2': a}"
    "r = {a: b, a: c}"
    "r = {}, [], ()"
    "r = {b: 1}"
    "r = {b, c}"
}
property! { [LIST_APPEND SET_ADD MAP_ADD LIST_EXTEND SET_UPDATE DICT_UPDATE] (Iterable, Any)
    "r = [(i, b) for i in a]"
    "r = {i for i in a}"
    "r = {i: b for i in a}"
    "r = {b: i for i in a}"
    "r = [i for i in a if i if b]"
    "r = [(i, j) for i in a for j in [1, b]]"
    "r = {i: {j for j in (1, 2)} for i in a}"
}
property! { [LIST_EXTEND SET_UPDATE BUILD_LIST_UNPACK BUILD_SET_UNPACK BUILD_TUPLE_UNPACK LIST_TO_TUPLE CALL_INTRINSIC_1]
    (Iterable, Any)
    "r = [*a]"
    "r = [b, *a, b]"
    "r = (*a, b)"
    "r = {*a}"
    "r = {1, *a, *a}"
    "r = *a, *a"
    "r = [1, 2, 3, 4, b]"
    "r = [*b]"
    "r = [b, *N]"
    "r = (*Steps(2, 'breaks'), *Steps(2, 'raises'))"
    "r = {*Steps(2), *Steps(3, 'breaks'), []}"
}
property! { [DICT_UPDATE BUILD_MAP_UNPACK] (Mapping, Any)
    "r = {**a}"
    "r = {'k': b, **a}"
    "r = {**a, 'k': b}"
    "r = {**a, **{1: b}, **a}"
    "r = {**b}"
    "r = {'k': b, **N}"
    "r = {**Keys({'q': 1}, 'breaks'), **a}"
    "r = {**Mapped({'q': 1}), **a}"
}
property! { [UNPACK_SEQUENCE] (Iterable, Any)
    "p, q = a\nr = q, p"
    "[p] = a\nr = p"
    "p, q, s = a\nr = p"
    "(p, q), s = a, b\nr = p"
    "for p, q in [a, a]:\n    r = p"
    "() = a"
    "p, q = b"
    "p, q = Steps(2, 'breaks')\nr = q, p"
    "p, q = Steps(3, 'raises')"
    "p, q = N"
}
property! { [UNPACK_EX] (Iterable, Any)
    "p, *q = a\nr = p, q"
    "*q, p = a\nr = p, q"
    "p, *q, s = a\nr = q"
    "*r, = a"
    "p, *q = b\nr = q"
    "p, *q, r = Steps(4, 'breaks')\nr = q, r"
    "p, *q = N"
    "p, *q, s = [1]"
}
property! { [GET_ITER FOR_ITER END_FOR] (Iterable, Any)
    "r = []\nfor i in a:\n    r.append(i)"
    "for i in a:\n    r = i\nelse:\n    r = r, b"
    "for i in a:\n    if i:\n        break\nelse:\n    r = b"
    "r = [i for i in a]"
    "for i in b:\n    r = i"
    "r = [(i, j) for i in (1, 2) for j in a]"
    "for i in Steps(3):\n    LOG.append(i)\nr = a"
    "for i in Steps(2, 'raises'):\n    r = i"
    "for i in Steps(3, 'breaks'):\n    r = i, b\nelse:\n    r = r, a"
    "r = []\nfor i in [1, 2, 3]:\n    for j in Steps(i, 'breaks'):\n        r.append((i, j))"
    "for i in N:\n    r = i"
    "for i in a:\n    continue\nr = list(a)"
    "try:\n    for i in b:\n        r = i\nexcept Exception as e:\n    r = type(e), e.args"
}
