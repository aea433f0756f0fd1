//! Jumps and loops.

use sot_harness::property;

property! { [
    POP_JUMP_IF_FALSE POP_JUMP_IF_TRUE POP_JUMP_FORWARD_IF_FALSE POP_JUMP_FORWARD_IF_TRUE JUMP_IF_FALSE_OR_POP
    JUMP_IF_TRUE_OR_POP JUMP_FORWARD TO_BOOL COPY
] (Any, Any)
    "if a:\n    r = 1\nelse:\n    r = 2\nr = r, b"
    "if not a:\n    r = 1"
    "r = a and b"
    "r = a or b"
    "r = 1 if a else b"
    "r = a and b or a"
    "if a or b:\n    r = 1"
    "if a and not b:\n    r = 1\nelif b:\n    r = 2\nelse:\n    r = 3\nr = [r]"
    "assert a, b"
    "r = [i for i in (a, b) if i]"
}
property! { [
    POP_JUMP_IF_FALSE POP_JUMP_IF_TRUE POP_JUMP_FORWARD_IF_FALSE POP_JUMP_FORWARD_IF_TRUE JUMP_IF_FALSE_OR_POP
    JUMP_IF_TRUE_OR_POP TO_BOOL
] (Truth, Any)
    "if a:\n    r = 1\nelse:\n    r = 2\nr = r, b"
    "if not a:\n    r = b"
    "r = a and b"
    "r = a or b"
    "r = a and b or a"
    "if Truth('t', 'raises'):\n    r = a"
    "if not Sized('s', 'raises'):\n    r = a"
    "r = Truth('t', 'raises') and a"
    "r = Truth('t', 'raises') or a"
    "if Truth('t', 'breaks'):\n    r = a"
    "if not Sized('s', 'breaks'):\n    r = a"
    "r = Truth('t', 'breaks') and a"
    "r = Truth('t', 'breaks') or a"
}
property! { [POP_JUMP_BACKWARD_IF_FALSE POP_JUMP_BACKWARD_IF_TRUE] (Truth, Truth)
    "t = [a, 0, b, 0, 0, 1]\nwhile t.pop():\n    r = len(t)"
    "t = [a, 1, b, 1, 1, 0]\nwhile not t.pop():\n    r = len(t)"
    "t = [Truth('t', 'raises'), 1]\nwhile t.pop():\n    r = len(t)"
    "t = [Truth('t', 'raises'), 0]\nwhile not t.pop():\n    r = len(t)"
}
property! { [POP_JUMP_IF_NONE POP_JUMP_IF_NOT_NONE POP_JUMP_FORWARD_IF_NONE POP_JUMP_FORWARD_IF_NOT_NONE] (Any, Any)
    "if a is None:\n    r = 1"
    "if a is not None:\n    r = b"
    "r = 1 if a is None else b"
    "r = [i for i in (a, None, b) if i is not None]"
    "r = 1 if x is None else 2 if [] is None else 3 if b is not None else 4"
}
property! { [
    POP_JUMP_BACKWARD_IF_FALSE POP_JUMP_BACKWARD_IF_TRUE POP_JUMP_BACKWARD_IF_NONE POP_JUMP_BACKWARD_IF_NOT_NONE
    JUMP_BACKWARD JUMP_ABSOLUTE POP_JUMP_IF_TRUE POP_JUMP_IF_FALSE
] (Any, Any)
    "t = [a, b, 0]\nwhile t:\n    r = t.pop()"
    "t = [a, None]\nwhile not t.pop():\n    r = len(t)\nr = t"
    "t = [None, a, b]\nwhile t.pop() is not None:\n    r = len(t)"
    "t = [a, None, None]\nwhile t.pop() is None:\n    r = len(t)"
    "i = 0\nwhile True:\n    i += 1\n    if i > 3:\n        break\n    if a:\n        continue\n    r = i"
    "for i in [a, b]:\n    if not i:\n        continue\n    r = i"
    "i = 3\nwhile i:\n    i -= 1\nelse:\n    r = a"
}
