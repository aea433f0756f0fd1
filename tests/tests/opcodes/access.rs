//! Names, attributes, constants, imports, and moves on the stack.

use sot_harness::properties::intersperse;
use sot_harness::property;

property! { [LOAD_FAST STORE_FAST LOAD_CONST RETURN_VALUE RETURN_CONST LOAD_FAST_LOAD_FAST STORE_FAST_LOAD_FAST
    STORE_FAST_STORE_FAST POP_TOP RESUME CACHE ROT_TWO SWAP BUILD_TUPLE] (Any, Any)
    "r = a"
    "t = a\nr = t, b, t"
    "t = a; r = t"
    "r, t = a, b\nr = t, r"
    "r, a = a, b"
    "(r, t), u = (a, b), a\nr = [u, t, r]"
    "r = 1.5, 'text', None, (1, (2, 3)), ..., b'b', 2**70, -0.0"
    "return a"
    "return None"
    "if a is None:\n    return 5\nreturn 'text'"
    "t, t = a, b\nr = t"
    "for t, t in [(a, b), (1, 2)]:\n    r = r, t"
    "a\nb\nplain(a)\nr = b"
    "def inner(p):\n    p\nr = inner(a)"
    "a, b, r = b, a, b"
    "a, r, b, c = b, a, x, a"
}
property! { [DELETE_FAST LOAD_FAST_CHECK LOAD_FAST] (Any)
    "t = a\ndel t\nr = 1"
    "t = a\ndel t\nr = t"
    "t = a\nif a is None:\n    del t\nr = t"
    "del a\na = 3"
    "del t\nt = 1"
    "for t in [a]:\n    pass\nr = t\ndel t, r\nr = 5"
}
property! { [LOAD_GLOBAL STORE_GLOBAL DELETE_GLOBAL] (Any)
    "global G\nG = a\nr = G"
    "global G\nG = a\ndel G\nG = 2\nr = [G]"
    "global G\ndel G"
    "r = missing"
    "r = SHARED, len, LOG\nSHARED.append(a)"
    "global G\nG = a\nG = G, G\nr = G[0]\ndel G\nr = G"
}
property! { [LOAD_DEREF STORE_DEREF LOAD_CLOSURE MAKE_CELL COPY_FREE_VARS DELETE_DEREF MAKE_FUNCTION BUILD_TUPLE] (Any, Any)
    "def inner():\n    return a, b\nr = inner()"
    "def inner():\n    nonlocal b\n    b = a\n    return b\nr = inner(), b"
    "t = a\ndef inner():\n    return t\nt = b\nr = inner(), inner"
    "t = a\ndef inner():\n    return t\ndel t\nr = inner()"
    "t = a\ndef inner():\n    nonlocal t\n    del t\ninner()\nr = t"
    "def inner(p):\n    def deep():\n        nonlocal p\n        p = [p, a]\n        return p\n    return deep\nr = inner(b)\nr = r(), r()"
    "r = [lambda: t for t in (a, b)]\nr = [call() for call in r]"
    "r = [i() for i in [lambda: a, lambda: b]]"
    "t = a\ndef inner():\n    nonlocal t\n    t = b\nr = READ()\nWRITE(a)\ninner()\nr = r, READ(), t"
    "t = a\ndef inner():\n    nonlocal t\n    del t\n    del t\ntry:\n    inner()\nexcept NameError as e:\n    r = e.args"
    "try:\n    t\nexcept NameError as e:\n    r = type(e), e.args\nt = a\ndef inner():\n    return t\nr = r, inner()"
}
property! { [LOAD_FAST_AND_CLEAR STORE_FAST] (Iterable)
    "t = 5\nr = [t for s in [1] for t in (t, 2)]"
    "t = 5\ndef inner():\n    return t\nr = [[lambda: t for t in a], inner(), t]\nt = 6\nr = r, [call() for call in r[0]], inner()"
    "t = 5\ndef inner():\n    return t\ntry:\n    r = [t for t in Steps(2, 'raises')]\nexcept Failure:\n    r = inner(), t"
    "t = 5\ndef inner():\n    return t\nr = [t for t in Steps(3, 'breaks')], inner(), t"
    "r = [t for t in a]"
    "t = 5\nr = [t for t in a], t"
    "r = {t: 1 for t in a if t}"
    "r = [[s, t] for s in a for t in (1, s)]"
}
property! { [LOAD_ATTR STORE_ATTR DELETE_ATTR] (Object, Any)
    "r = a.tag"
    "r = a.computed, a.shared"
    "r = a.method"
    "a.tag = b\nr = a.tag"
    "a.computed = b\nr = a.computed"
    "del a.tag\nr = a.tag"
    "del a.computed"
    "a.other = b\ndel a.other\nr = a.other"
    "r = a.missing_one, a._private"
    "r = a.__class__, a.__dict__"
    "a.shared.append(b)\nr = a.shared"
    "r = a.tag is a.tag, a.shared is a.shared"
    "a.tag += 'x'\nr = a.tag"
    "a.shape = b\nr = a.shape"
}
property! { [LOAD_METHOD CALL_METHOD LOAD_ATTR PUSH_NULL] (Object, Any)
    "r = a.method(b)"
    "r = a.method(b, key=b)"
    "r = a.of_class(b), a.static(b)"
    "r = a.tag.upper()"
    "r = a.shared.append(b)"
    "a.call = function\nr = a.call(b)"
    "r = [b].count(b), 'x'.join(['a', 'b']), {}.get(b, a)"
    "r = Lends('l', 'breaks').lent(b), Lends('l').lent(a, key=b)"
    "r = Attrs('o', 'breaks').missing_one.upper(), Attrs('o', 'breaks').computed.count(b)"
    "t = Attrs(plain, 'breaks')\nt.computed = function\nr = t.tag(b), t.missing_one.join('ab')"
}
// Before 3.11 what is loaded behind a break is called by its `__call__`, and what cannot be called has none: another
// error.
property! { [CALL PUSH_NULL] (Object, Any) "r = a.missing_one(b)" "r = a.tag(b)" }
property! { [LOAD_SUPER_ATTR LOAD_GLOBAL LOAD_DEREF] (Any)
    "r = Deep('d').method(a, key=a)"
    "class Local(Deep):\n    def method(self, p):\n        return super().shared, super().method(p)\nr = Local('l').method(a)"
    "class Local(Deep):\n    def method(self, p):\n        return super(Local, self).method(p), super().computed\nr = Local('l').method(a)"
    "class Local(Deep):\n    @classmethod\n    def of_class(cls, p):\n        return super().of_class(p)\nr = Local.of_class(a)"
    "class Local:\n    def method(self):\n        return super().method()\nr = Local().method()"
    "shadow('super', lambda *given: Attrs(given))\nclass Local(Deep):\n    def method(self, p):\n        return super().method(p), super(Local, self).method(p)\nr = Local('l').method(a), toy.ones([1]) + 1\nshadow('super')"
    "class Local(Deep):\n    def of(self):\n        return super().computed, super(Local, self).shared\nr = Local('l', 'breaks').of(), a"
    "class Local(Deep):\n    def of(self):\n        return super().missing_one\nr = Local('l').of()"
}
property! { [IMPORT_NAME IMPORT_FROM] (Any)
    "import math\nr = math.pi, a"
    "from math import pi, sqrt\nr = pi, sqrt"
    "import os.path as path\nr = path.sep"
    "import collections.abc\nr = collections.abc.Mapping"
    "from os import nothing"
    "from .math import pi\nr = pi"
    "try:\n    from . import math\nexcept ImportError as e:\n    r = e.args"
    "import no_such_module"
    "from collections import OrderedDict as D\nr = D([('k', a)])"
}
property! { [LOAD_BUILD_CLASS] (Any)
    "class Local:\n    value = 1\n    def method(self, p):\n        return p, self.value\nr = Local().method(a)"
    "class Local(Attrs):\n    pass\nr = Local(a).tag"
}
property! { [STORE_NAME LOAD_NAME DELETE_NAME SETUP_ANNOTATIONS] (Any, Any)
    "class Local:\n    value = N\n    other = value\n    del value\nr = Local.other, hasattr(Local, 'value'), a"
    "class Local:\n    value: int = N\n    other: str\n    value = value, value\nr = Local.value, Local.__annotations__, a"
    "class Local:\n    LOG.append(1)\n    value = [N for _ in range(2)]\n    if value:\n        other = sorted(locals())[-2:]\nr = Local.value, Local.other"
    "class Local(Attrs):\n    N = N\n    def of(self):\n        return self.N, a\nr = Local(b).of(), Local"
    "class Local:\n    value = no_such_name"
    "class Local:\n    del no_such_name"
    "class Local(metaclass=Prepared):\n    value: int = prepared\n    other: str\nr = Local.__annotations__, Local.value"
}
property! { [LOAD_CLASSDEREF LOAD_LOCALS LOAD_FROM_DICT_OR_DEREF LOAD_BUILD_CLASS] (Any, Any)
    "class Local:\n    value = a\n    def of(self):\n        return self.value, b\nr = Local().of()"
    "class Local:\n    a = a, 1\n    other = a\nr = Local.a, Local.other, a, (lambda: a)()"
    "t = a\nclass Local:\n    value = [t]\n    class Inner(Attrs):\n        value = t\nr = Local.value, Local.Inner(b).value, (lambda: t)(), Local"
    "prepared = a\nclass Local(metaclass=Prepared):\n    value = prepared\nr = Local.value, (lambda: prepared)()"
    "def inner():\n    class Local:\n        value = t\n    return Local\ntry:\n    r = inner()\nexcept NameError as e:\n    r = type(e), e.args\nt = a"
    "class Local:\n    try:\n        value = t\n    except NameError as e:\n        value = type(e), e.args\nr = Local.value\nt = a"
    "def inner():\n    del t\n    class Local:\n        value = t\n    t = 1\n    return Local\nt = inner()"
}
property! { [LOAD_FROM_DICT_OR_GLOBALS] (Any, Any)
    "class Local:\n    kind = int\n    def method[T](self, p: kind, q: N = b) -> T:\n        return p, q\nr = Local().method(a), Local.method.__annotations__['p'], Local.method.__annotations__['q']"
    "class Local:\n    def method[T](self, p: N) -> no_such_name:\n        return p\nr = Local().method(a), b"
    "class Local(metaclass=Prepared):\n    def method[T](self, p: prepared) -> T:\n        return p\nr = Local().method(a), Local.method.__annotations__['p'], b"
}
property! { [DUP_TOP ROT_TWO ROT_THREE COPY SWAP POP_TOP] (Any, Any)
    "r = t = a\nr = r is t"
    "r = 1 < (2 if a is b else 0) < 3"
    "r = (t := a), t"
    "a, b = b, a\nr = a"
    "a, b, t = t, a, b = 1, b, a\nr = t"
}
property! { [ROT_FOUR ROT_N ROT_THREE SWAP COPY] (Any)
    "try:\n    raise Failure(a)\nexcept Failure as e:\n    return e.args"
    "for i in [a]:\n    try:\n        return i, 1\n    finally:\n        LOG.append(1)"
    "with Manager(1):\n    for i in [a]:\n        return [i]"
    "match [1, 2, 3, a]:\n    case [p, q, s, t] if p:\n        r = p, q, s, t"
    "match {'k': a, 'l': 2, 'm': 3}:\n    case {'k': p, 'l': q, 'm': s, **others}:\n        r = p, q, s, others"
    "match Point(a, (2, 3, 4)):\n    case Point(p, (q, s, t)):\n        r = p, q, s, t"
}
property! { [NOP] (Any, Any)
    "if a is None:\n    pass\nelse:\n    pass\nr = a"
    "while True:\n    pass\n    break\nr = b"
    "try:\n    pass\nfinally:\n    r = a, b"
    "for i in (1, 2):\n    r = a, i"
    => intersperse
}
property! { [EXTENDED_ARG] (Any)
    "r = []\nr.append((a, N))  #x300"
    "for i in [1, 2]:\n    t = a, i, N  #x300\n    r = t"
    "if a is None:\n    r = 1, N  #x300\nelse:\n    r = a"
}
