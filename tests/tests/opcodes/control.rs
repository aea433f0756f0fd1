//! Jumps and loops.

use crate::property::property;

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
property! { [POP_JUMP_IF_NONE POP_JUMP_IF_NOT_NONE POP_JUMP_FORWARD_IF_NONE POP_JUMP_FORWARD_IF_NOT_NONE] (Any, Any)
    "if a is None:\n    r = 1"
    "if a is not None:\n    r = b"
    "r = 1 if a is None else b"
    "r = [i for i in (a, None, b) if i is not None]"
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
