//! Exceptions and context managers.

use sot_harness::property;

property! { [RAISE_VARARGS] (Exception, Exception)
    "raise a"
    "raise a from b"
    "raise"
    "try:\n    raise a\nexcept LookupError:\n    raise"
    "try:\n    raise a\nexcept Exception as e:\n    raise ValueError(1) from e"
    "try:\n    raise a\nexcept Exception:\n    raise b"
    "try:\n    raise a\nexcept Exception as e:\n    r = e, e.args, e.__cause__, e.__context__"
    "try:\n    raise ValueError(1) from a\nexcept Exception as e:\n    r = type(e), e.args, e.__cause__, e.__suppress_context__"
    "try:\n    raise ValueError(1) from KeyError\nexcept Exception as e:\n    r = type(e.__cause__), e.__suppress_context__, e.__context__"
    "try:\n    try:\n        raise a\n    except Exception:\n        raise\nexcept Exception as e:\n    r = type(e), e.args, e.__context__"
    "try:\n    try:\n        raise a\n    except Exception:\n        raise b from None\nexcept Exception as e:\n    r = e.args, e.__cause__, type(e.__context__), e.__suppress_context__"
    "try:\n    raise a\nexcept Exception:\n    try:\n        raise b\n    except Exception:\n        pass\n    raise"
}
property! { [
    PUSH_EXC_INFO CHECK_EXC_MATCH JUMP_IF_NOT_EXC_MATCH POP_EXCEPT RERAISE END_FINALLY SETUP_FINALLY POP_BLOCK COMPARE_OP COPY
    JUMP_FORWARD
] (Exception, Exception)
    "try:\n    raise a\nexcept ValueError:\n    r = 1\nexcept (KeyError, Failure) as e:\n    r = e"
    "try:\n    raise a\nexcept b:\n    r = 2\nelse:\n    r = 3"
    "try:\n    r = 1\nexcept b:\n    r = 2\nelse:\n    r = 3\nfinally:\n    r = r, 4"
    "try:\n    raise a\nfinally:\n    LOG.append('finally')"
    "try:\n    try:\n        raise a\n    except ValueError as e:\n        raise KeyError(1)\nexcept KeyError as e:\n    r = e.__context__"
    "try:\n    fails(a)\nexcept Failure as e:\n    r = e.args"
    "for i in (1, 2):\n    try:\n        raise a\n    except Exception:\n        continue\n    finally:\n        LOG.append(i)"
    "try:\n    try:\n        raise a\n    finally:\n        raise b\nexcept Exception as e:\n    r = e.__context__"
    "try:\n    [][1]\nexcept LookupError as e:\n    r = str(e)"
}
property! { [PUSH_EXC_INFO POP_EXCEPT RERAISE END_FINALLY] (Exception, Exception)
    "try:\n    raise a\nexcept Exception:\n    try:\n        raise b\n    except Exception:\n        r = sys.exc_info()[1].args\n    r = r, sys.exc_info()[1].args\nr = r, sys.exc_info()"
    "try:\n    try:\n        raise a\n    finally:\n        try:\n            raise b\n        except Exception:\n            r = sys.exc_info()[1].args\n        r = r, sys.exc_info()[1].args\nexcept Exception as e:\n    r = r, e.args, e.__context__"
}
property! { [CHECK_EXC_MATCH JUMP_IF_NOT_EXC_MATCH COMPARE_OP] (Any, Exception)
    "try:\n    try:\n        raise ValueError(1)\n    except a:\n        r = 1\nexcept Exception as e:\n    r = e.args, type(e.__context__)"
    "try:\n    fails(1)\nexcept (b, a) as e:\n    r = e.args"
}
property! { [BEGIN_FINALLY CALL_FINALLY POP_FINALLY END_FINALLY SETUP_FINALLY ROT_FOUR] (Any)
    "for i in (1, 2):\n    try:\n        break\n    finally:\n        LOG.append(a)\nr = i"
    "try:\n    return a\nfinally:\n    LOG.append(a)"
    "for i in (1, 2):\n    try:\n        r = a.tag\n    finally:\n        continue"
    "for i in (1, 2):\n    try:\n        fails()\n    finally:\n        break"
    "try:\n    try:\n        return 1\n    finally:\n        LOG.append(1)\nfinally:\n    return a"
    "try:\n    r = a\nfinally:\n    r = r, 1"
}
property! { [LOAD_ASSERTION_ERROR] (Any, Any)
    "global AssertionError\nAssertionError = Failure\nassert not N, a"
    "try:\n    assert not N, a\nexcept AssertionError as e:\n    r = e.args"
    "assert a"
    "assert a, b"
    "assert not a, 'text'"
    "assert 1 < 2, a"
    "assert a is None"
}
property! { [
    SETUP_WITH WITH_CLEANUP_START WITH_CLEANUP_FINISH BEFORE_WITH WITH_EXCEPT_START POP_BLOCK RERAISE PUSH_EXC_INFO
] (Manager, Exception)
    "with a as t:\n    r = t"
    "with a:\n    raise b"
    "with a:\n    fails(1)\nr = 5"
    "with a, Manager(2, 'itself') as t:\n    raise b"
    "try:\n    with a:\n        raise b\nexcept Exception as e:\n    r = type(e), e.__context__"
    "for i in (1, 2):\n    with a:\n        continue"
    "with a as t:\n    return t"
    "with Leaves(1):\n    raise ValueError(a)\nr = 1"
    "with Leaves(1) as r:\n    pass"
    "with Enters(1):\n    r = 1"
    "with Manager(1, 'breaks') as t:\n    r = t\n    raise b"
    "try:\n    with Manager(1, 'declines'):\n        raise b\nexcept Exception as e:\n    r = e.args, type(e.__context__)"
    "with Manager(1, 'itself'):\n    with Manager(2, 'breaks'):\n        raise b"
}
property! { [CHECK_EG_MATCH PREP_RERAISE_STAR CALL_INTRINSIC_2] (Exception, Exception)
    "try:\n    try:\n        raise ValueError(1)\n    except* KeyError:\n        r = 1\nexcept Exception as e:\n    r = type(e), e.args"
    "try:\n    try:\n        raise ExceptionGroup('g', [ValueError(1), KeyError(2), Failure(3)])\n    except* ValueError:\n        raise LookupError(4)\n    except* KeyError:\n        raise ArithmeticError(5)\nexcept Exception as e:\n    r = [(type(p), p.args, type(p.__context__)) for p in e.exceptions]"
    "try:\n    raise ExceptionGroup('g', [ValueError(1)])\nexcept* ValueError:\n    r = sys.exc_info()[1].exceptions\nexcept* KeyError as e:\n    r = r, e"
    "try:\n    try:\n        raise ExceptionGroup('g', [ValueError(1), KeyError(2)])\n    except* ValueError:\n        raise\n    except* KeyError:\n        raise\nexcept Exception as e:\n    r = e.exceptions"
    "try:\n    try:\n        raise ExceptionGroup('g', [ValueError(1), a])\n    except* KeyError as e:\n        r = e.exceptions\n        raise b\nexcept Exception as e:\n    r = r, e, e.__context__"
    "try:\n    raise ExceptionGroup('g', [ValueError(1)])\nexcept* N:\n    r = 1"
}
property! { [CHECK_EG_MATCH PREP_RERAISE_STAR] (Exception, Exception)
    "try:\n    raise ExceptionGroup('g', [ValueError(1), KeyError(2)])\nexcept* ValueError as e:\n    r = e.exceptions\nexcept* KeyError:\n    LOG.append(1)"
    "try:\n    raise a\nexcept* (ValueError, Failure) as e:\n    r = e.exceptions"
    "try:\n    raise ExceptionGroup('g', [ValueError(1), TypeError(2)])\nexcept* b:\n    r = 1"
    "try:\n    r = 5\nexcept* ValueError:\n    r = 6"
    "try:\n    raise ExceptionGroup('g', [ValueError(1)])\nexcept* ValueError:\n    raise a"
}
