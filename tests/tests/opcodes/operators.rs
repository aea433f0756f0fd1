//! Operators, comparisons, subscription and truth.

use sot_harness::property;

property! { [
    BINARY_ADD BINARY_SUBTRACT BINARY_TRUE_DIVIDE BINARY_FLOOR_DIVIDE BINARY_MODULO BINARY_MATRIX_MULTIPLY BINARY_AND BINARY_OR
    BINARY_XOR BINARY_RSHIFT INPLACE_ADD INPLACE_SUBTRACT INPLACE_TRUE_DIVIDE INPLACE_FLOOR_DIVIDE INPLACE_MODULO
    INPLACE_MATRIX_MULTIPLY INPLACE_AND INPLACE_OR INPLACE_XOR INPLACE_RSHIFT BINARY_OP
] (Number, Number)
    "r = a + b"
    "r = a - b"
    "r = a / b"
    "r = a // b"
    "r = a % b"
    "r = a @ b"
    "r = a & b"
    "r = a | b"
    "r = a ^ b"
    "r = a >> b"
    "r = a\nr += b"
    "r = a\nr -= b"
    "r = a\nr /= b"
    "r = a\nr //= b"
    "r = a\nr %= b"
    "r = a\nr @= b"
    "r = a\nr &= b"
    "r = a\nr |= b"
    "r = a\nr ^= b"
    "r = a\nr >>= b"
}
property! { [BINARY_ADD INPLACE_ADD BINARY_OR INPLACE_OR BINARY_OP] (Container, Container)
    "r = a + b"
    "r = a\nr += b"
    "r = a | b"
    "r = a\nr |= b"
}
property! { [BINARY_MULTIPLY BINARY_POWER BINARY_LSHIFT INPLACE_MULTIPLY INPLACE_POWER INPLACE_LSHIFT BINARY_OP] (Small, Small)
    "r = a * b"
    "r = a ** b"
    "r = a << b"
    "r = a\nr *= b"
    "r = a\nr **= b"
    "r = a\nr <<= b"
}
property! { [UNARY_NEGATIVE UNARY_POSITIVE UNARY_INVERT CALL_INTRINSIC_1] (Number)
    "r = -a"
    "r = +a"
    "r = ~a"
}
property! { [BINARY_ADD BINARY_SUBTRACT BINARY_TRUE_DIVIDE BINARY_FLOOR_DIVIDE BINARY_MODULO BINARY_MATRIX_MULTIPLY BINARY_AND
    BINARY_OR BINARY_XOR BINARY_MULTIPLY BINARY_POWER BINARY_LSHIFT BINARY_RSHIFT BINARY_OP] (Number, Any)
    "r = InPlace('n') + b"
    "r = InPlace('n') - b"
    "r = InPlace('n') / b"
    "r = InPlace('n') // b"
    "r = InPlace('n') % b"
    "r = InPlace('n') @ b"
    "r = InPlace('n') & b"
    "r = InPlace('n') | b"
    "r = InPlace('n') ^ b"
    "r = InPlace('n') * b"
    "r = InPlace('n') ** b"
    "r = InPlace('n') << b"
    "r = InPlace('n') >> b"
}
property! { [INPLACE_ADD INPLACE_SUBTRACT INPLACE_TRUE_DIVIDE INPLACE_FLOOR_DIVIDE INPLACE_MODULO INPLACE_MATRIX_MULTIPLY
    INPLACE_AND INPLACE_OR INPLACE_XOR INPLACE_MULTIPLY INPLACE_POWER INPLACE_LSHIFT INPLACE_RSHIFT BINARY_OP] (Number, Any)
    "r = InPlace('n')\nr += b"
    "r = InPlace('n')\nr -= b"
    "r = InPlace('n')\nr /= b"
    "r = InPlace('n')\nr //= b"
    "r = InPlace('n')\nr %= b"
    "r = InPlace('n')\nr @= b"
    "r = InPlace('n')\nr &= b"
    "r = InPlace('n')\nr |= b"
    "r = InPlace('n')\nr ^= b"
    "r = InPlace('n')\nr *= b"
    "r = InPlace('n')\nr **= b"
    "r = InPlace('n')\nr <<= b"
    "r = InPlace('n')\nr >>= b"
}
property! { [UNARY_NOT TO_BOOL] (Truth) "r = not a" "r = [not a]\nr = r, not r" "r = not Truth('t', 'raises'), a" "r = not Sized('s', 'breaks')" }
property! { [UNARY_NOT TO_BOOL] (Any) "r = not a" "r = not a, not not a" "r = a and not a" }

property! { [COMPARE_OP] (Number, Number)
    "r = a == b"
    "r = a != b"
    "r = a < b"
    "r = a <= b"
    "r = a > b"
    "r = a >= b"
    "r = a < b < a"
    "if a == b:\n    r = 1\nelse:\n    r = 2"
}
property! { [COMPARE_OP] (Truth, Truth)
    "r = a == a, a != a, a < a, a <= a, a > a, a >= a"
    "r = [a == b, a != b, a < b, a <= b, a > b, a >= b]"
    "if a == b:\n    r = 1\nelse:\n    r = 2\nr = 3 if N == 5 else 4, r"
    "if a != b:\n    r = 1\nelse:\n    r = 2\nr = 3 if N != 5 else 4, r"
    "if a < b:\n    r = 1\nelse:\n    r = 2\nr = 3 if N < 5 else 4, r"
    "if a <= b:\n    r = 1\nelse:\n    r = 2\nr = 3 if N <= 5 else 4, r"
    "if a > b:\n    r = 1\nelse:\n    r = 2\nr = 3 if N > 5 else 4, r"
    "if a >= b:\n    r = 1\nelse:\n    r = 2\nr = 3 if N >= 5 else 4, r"
    "r = 5 > N, N > 4, 4 >= N, N >= 4"
    "if Judged('j', 'raises') < b:\n    r = a"
    "if Judged('j', 'breaks') < b:\n    r = a"
    "r = a\nif N < 'text':\n    r = b"
    "if x > 0:\n    r = a\nelse:\n    r = b"
}
property! { [COMPARE_OP] (Any, Any) "r = a == b" "r = a != b" "r = a < b" "r = [a, b] == [b, a]" }
property! { [COMPARE_OP IS_OP CONTAINS_OP] (Any, Any)
    "r = a is b"
    "r = a is not b"
    "r = a is a, type(a) is type(b)"
    "r = (a, 1)[0] is a"
}
property! { [COMPARE_OP CONTAINS_OP] (Any, Container) "r = a in b" "r = a not in b" "r = a in (1, b)" }
property! { [COMPARE_OP CONTAINS_OP] (Any)
    "r = a not in Box([a], 'breaks'), a in Box([], 'breaks')"
    "r = a in Box([], 'raises')"
    "r = a in Steps(3, 'breaks'), a not in Steps(3)"
}
property! { [COMPARE_OP CONTAINS_OP] (Key, Iterable) "r = a in b" "r = a in {1, 2, a}" "r = a not in {a: 1}" }

property! { [BINARY_SUBSCR] (Container, Index)
    "r = a[b]"
    "r = a[b], a[b]"
    "r = a[0][b]"
    "r = [a, a][0][b]"
    "r = {b: a}[b]"
}
property! { [STORE_SUBSCR BINARY_SUBSCR DELETE_SUBSCR] (Any)
    "t = Box([1, 2, 3], 'breaks')\nt[0] = a\nr = t[0], t[1]\ndel t[0]\nr = r, t.items"
}
property! { [STORE_SUBSCR] (Container, Index, Any)
    "a[b] = c"
    "r = a[b] = c"
    "a[b] = c\nr = list(a), a[b]"
    "r = {}\nr[b] = c\nr[b] = a"
    "try:\n    a[b] = c\nexcept Exception as e:\n    r = type(e), e.args"
}
property! { [STORE_SUBSCR DUP_TOP_TWO ROT_THREE COPY SWAP] (Container, Index, Small)
    "a[b] += c"
    "a[b] *= c\nr = a"
    "r = {b: 1}\nr[b] += c"
}
property! { [DELETE_SUBSCR] (Container, Index) "del a[b]" "del a[b]\nr = len(a)" "r = {b: 1}\ndel r[b]\ndel r[b]" }
property! { [BINARY_SLICE BUILD_SLICE] (Container, Index, Index)
    "r = a[b:c]"
    "r = a[b:]"
    "r = a[:c]"
    "r = a[b:c], a[:]"
    "r = a[b:c:2]"
    "r = a[::b]"
    "r = [1, 2, 3, 4][b:c]"
}
property! { [STORE_SLICE BUILD_SLICE STORE_SUBSCR] (Container, Small, Iterable)
    "a[b:] = c"
    "a[b:2] = c\nr = a"
    "r = [1, 2, 3]\nr[b:2] = c"
    "a[::b] = c"
    "a[b:] += c"
}
property! { [DELETE_SUBSCR BUILD_SLICE] (Container, Small) "del a[b:]" "del a[:b]\nr = a" "del a[::b]" }
