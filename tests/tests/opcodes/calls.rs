//! Calls, and making functions.

use sot_harness::property;

property! { [CALL_FUNCTION CALL PRECALL PUSH_NULL] (Callable, Any, Any)
    "r = a()"
    "r = a(b)"
    "r = a(b, c)"
    "r = a(b, c, b, c)"
    "r = a(a(b))"
    "r = [a(i) for i in (b, c)]"
    "r = list(i for i in (b, c))"
    "r = Calls('c', 'breaks')(b, c)"
}
property! { [CALL_FUNCTION_KW KW_NAMES CALL_KW] (Callable, Any, Any)
    "r = a(b, key=c)"
    "r = a(key=b)"
    "r = a(b, q=c, key=b)"
    "r = a(p=b, q=c, other=a)"
    "r = a(b, b, key=c, key2=b)"
    "r = function(b, key=c), function(b)"
    "r = function(q=b, p=c, other=a, key=1), plain(c)"
}
property! { [CALL_FUNCTION_EX DICT_MERGE LIST_TO_TUPLE BUILD_TUPLE_UNPACK_WITH_CALL BUILD_MAP_UNPACK_WITH_CALL LIST_EXTEND
    CALL_INTRINSIC_1] (Callable, Iterable, Mapping)
    "r = a(*b)"
    "r = a(**c)"
    "r = a(*b, **c)"
    "r = a(1, *b, key=2)"
    "r = a(*b, *b)"
    "r = a(1, *b, 2, **c)"
    "r = a(q=1, **c)"
    "r = a(**c, **{'z': 1})"
    "r = a(1, q=2, **c, key=3)"
    "for t in (plain, strict, len, Attrs('m').method, a):\n    try:\n        t(q=1, **{'q': 2})\n    except TypeError as e:\n        r = r, e.args"
    "try:\n    r = plain(**c, **{'q': 1})\nexcept TypeError as e:\n    r = e.args"
    "r = a(*N)"
    "r = a(**N)"
}
property! { [CALL_FUNCTION_EX DICT_MERGE BUILD_MAP_UNPACK_WITH_CALL] (Function)
    "try:\n    r = a(p=1, **{'p': 2})\nexcept TypeError as e:\n    r = e.args"
    "try:\n    r = a(p=1, **{'q': 2}, **{'q': 2})\nexcept TypeError as e:\n    r = e.args"
    "try:\n    r = a(1, p=1, *(2,), **{'p': 2})\nexcept TypeError as e:\n    r = e.args"
}
property! { [CALL_FUNCTION CALL CALL_FUNCTION_KW CALL_KW] (Any)
    "try:\n    r = (lambda p, *, q: p)(a, r=1)\nexcept TypeError as e:\n    r = e.args"
    "def inner(p, /, q):\n    pass\ntry:\n    r = inner(a)\nexcept TypeError as e:\n    r = e.args\nr = r, inner(q=a, p=1)"
}
property! { [MAKE_FUNCTION LOAD_CLOSURE] (Any, Any)
    "r = lambda: a"
    "def r(p, q=a, *args, key=b, **others):\n    return p, q, args, key, others"
    "def inner(p=a, *, key=b):\n    return p, key\nr = inner(), inner(1), inner(key=2), inner"
    "def inner(p: a, q: b = 1) -> a:\n    return p\nr = inner(2), inner.__annotations__, inner.__defaults__"
    "def inner():\n    'its text'\nr = inner.__doc__, inner.__name__, inner.__qualname__, inner()"
    "r = (lambda p, q=b: (p, q))(a)"
}
property! { [CALL_INTRINSIC_2 CALL_INTRINSIC_1] (Any)
    "def inner[T](p: T) -> T:\n    return p\nr = inner(a), inner.__type_params__[0].__name__"
    "def inner[T: int, *S](p):\n    return p\nr = inner(a)"
    "type Alias = int\nr = Alias.__name__, a"
    "def inner[T: (int, str)](p):\n    return p\nr = inner(a)"
    "def inner[T: int](p):\n    return p\nr = inner.__type_params__[0].__bound__, a"
    "def inner[T: (int, str)](p):\n    return p\nr = inner.__type_params__[0].__constraints__, a"
    "def inner():\n    yield a\n    raise StopIteration(a)\nr = list(inner())"
    "def inner():\n    yield a\n    raise Stop(a)\ntry:\n    r = list(inner())\nexcept RuntimeError as e:\n    r = e.args, type(e.__cause__)"
    "def inner():\n    yield a\n    raise Failure(a)\ntry:\n    r = list(inner())\nexcept Failure as e:\n    r = e.args, e.__cause__"
}
property! { [CALL_INTRINSIC_2] (Exception)
    "try:\n    raise ExceptionGroup('g', [ValueError(1), KeyError(2)])\nexcept* ValueError as e:\n    r = e.exceptions"
    "try:\n    raise a\nexcept* Exception as e:\n    r = type(e)"
}
property! { [FORMAT_VALUE FORMAT_SIMPLE FORMAT_WITH_SPEC CONVERT_VALUE BUILD_STRING] (Text)
    "t = 'é'\nr = f'{t!a} {t!r} {t!s} {a!a}'"
    "r = f'{Text(1, \"breaks\")}', f'{Text(2, \"breaks\")!s:>{N}}', f'{a}'"
    "r = f'{Text(1, \"breaks\"):>{a}}'"
}
property! { [FORMAT_VALUE FORMAT_SIMPLE FORMAT_WITH_SPEC CONVERT_VALUE BUILD_STRING] (Text, Any)
    "r = f'{a}'"
    "r = f'{a!r} and {a!s}'"
    "r = f'{a:>5}'"
    "r = f'{a!r:>{12}}|'"
    "r = f'{a} {b!a}'"
    "r = f'x{a}y{1.5:.2f}'"
    "r = f'{a:{b}}'"
    "r = f'{a=}'"
}
