//! Generators.

use sot_harness::property;

property! { [YIELD_VALUE RETURN_GENERATOR GEN_START RESUME POP_TOP] (Any, Any)
    "def inner(p):\n    yield p\n    yield b\nr = list(inner(a))"
    "def inner():\n    t = yield a\n    yield t\n    return b\ng = inner()\nr = next(g), g.send(b), list(g)"
    "def inner():\n    try:\n        yield a\n    except ValueError as e:\n        yield e.args\ng = inner()\nr = next(g), g.throw(ValueError(b))"
    "def inner():\n    try:\n        yield a\n    finally:\n        LOG.append('closed')\ng = inner()\nr = next(g), g.close()"
    "r = [i for i in (j for j in (a, b))]"
    "def inner():\n    return a\n    yield\nr = list(inner())"
    "r = sorted(counting()), sum(i for i in (1, 2)), list(counting(0))"
    "def inner():\n    yield a\n    fails(b)\nfor i in inner():\n    r = i"
    "g = counting(1)\nr = next(g), next(g, b), next(g)"
}
property! { [YIELD_FROM GET_YIELD_FROM_ITER SEND END_SEND CLEANUP_THROW JUMP_BACKWARD_NO_INTERRUPT] (Iterable, Any)
    "def inner():\n    r = yield from a\n    return r\nr = list(inner())"
    "def inner():\n    t = yield from counting()\n    yield t, b\nr = list(inner())"
    "def inner():\n    yield 1\n    yield from [2, b]\n    yield from (i for i in a)\nr = [i for i in inner()]"
    "def inner():\n    yield from counting()\ng = inner()\nr = next(g), g.send(b), g.close()"
    "def inner():\n    try:\n        yield from counting()\n    except ValueError:\n        yield b\ng = inner()\nr = next(g), g.throw(ValueError), list(g)"
    "def inner():\n    yield from b\nr = list(inner())"
    "def inner():\n    t = yield from a\n    yield t, b\nr = list(inner())"
    "def inner():\n    t = yield from Steps(2)\n    yield t, b\nr = list(inner())"
    "def inner():\n    t = yield from Steps(3, 'breaks')\n    yield t, b\nr = list(inner())"
    "def inner():\n    yield from N\nr = list(inner())"
    "def inner():\n    try:\n        yield from failing(b)\n    except Failure as e:\n        yield e.args\nr = list(inner())"
    "def inner():\n    yield from failing(b)\nfor i in inner():\n    r = i"
    "def inner():\n    yield from Steps(2, 'raises')\nfor i in inner():\n    r = i"
    "def inner():\n    yield from [1, 2]\ng = inner()\nr = next(g)\ntry:\n    r = g.send(b)\nexcept AttributeError as e:\n    r = r, e.args"
    "def caught():\n    try:\n        yield a\n    except ValueError:\n        raise KeyError(b)\ndef inner():\n    try:\n        yield from caught()\n    except KeyError as e:\n        yield e.args\ng = inner()\nr = next(g), g.throw(ValueError(1)), list(g)"
    "def inner():\n    try:\n        yield from b\n    except Exception as e:\n        yield e.args\nr = list(inner())"
    "def caught():\n    try:\n        yield a\n    except ValueError as e:\n        return b, e.args\ndef inner():\n    yield [(yield from caught())]\ng = inner()\nr = next(g), g.throw(ValueError(1)), list(g)"
}
