def case_binary():
    a, b = 7, 3
    return a + b, a - b, a * b, a / b, a // b, a % b, a ** b, a << b, a >> b, a & b, a | b, a ^ b


def case_inplace():
    a = 7
    a += 3
    a -= 1
    a *= 2
    a //= 4
    a **= 3
    a %= 50
    a <<= 2
    a >>= 1
    a |= 8
    a &= 12
    a ^= 5
    b = 1.0
    b /= 4
    return a, b


def case_unary():
    a = 5
    return -a, +a, ~a, not a


def case_compare():
    a, b = 1, 2
    return a < b, a <= b, a == b, a != b, a > b, a >= b, a < b < 3, a is None, a is not None, a in (1, 2), b not in (1, 2)


def case_type_error():
    a = 1
    return a + "x"


def case_inplace_type_error():
    a = 1
    a += "x"
    return a


def case_zero_division():
    a = 0
    return 1 / a


def case_subscripts():
    a = [0, 1, 2, 3, 4]
    i = 1
    b = a[i:3], a[i:], a[:i], a[::2], a[i]
    a[i] = 9
    del a[0]
    return a, b


def case_store_slice():
    a = [0, 1, 2, 3, 4]
    i = 1
    a[i:3] = [7, 8, 9]
    return a
