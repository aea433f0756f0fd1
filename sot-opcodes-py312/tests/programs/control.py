import math
import os.path


def case_loop():
    total = 0
    for i in range(10):
        if i == 2:
            continue
        if i == 7:
            break
        total += i
    else:
        total = -1
    return total


def case_loop_else():
    for i in [1, 2]:
        pass
    else:
        return "else", i


def case_while():
    n = 0
    while True:
        n += 1
        if n > 5 and n % 2 == 0 or n == 9:
            break
    return n


def case_none_tests():
    a, b = None, 1
    out = []
    for x in (a, b):
        if x is None:
            out.append("none")
        if x is not None:
            out.append("some")
        while x is not None:
            x = None
    return out


def case_and_or():
    a, b = 0, "x"
    return a and b, a or b, b and a, b or a, not (a or b)


def case_conditional():
    return [("even" if n % 2 == 0 else "odd") for n in range(3)]


def case_unpack():
    a, (b, *c), d = 1, (2, 3, 4), 5
    *e, f = range(3)
    return a, b, c, d, e, f


def case_unpack_too_few():
    a, b = (1,)
    return a, b


def case_unpack_too_many():
    a, b = 1, 2, 3
    return a, b


def case_unpack_starred_too_few():
    a, b, *c = [1]
    return a, b, c


def case_containers():
    a, b = [1, 2], {"x": 1}
    k = "k"
    t = (*a, 3, *a)
    l = [*a, 4]
    s = {*a, 5}
    d = {**b, "y": 2, k: 3}
    return t, l, s == {1, 2, 5}, d, {1, 2} == {2, 1}, {k: 1}, slice(1, 2)


def case_comprehensions():
    return [i * j for i in range(3) for j in range(i)], {i: str(i) for i in range(2)}, {i % 2 for i in range(5)} == {0, 1}


def case_format():
    a, b = 1, "x"
    w = 6
    return f"{a}", f"{a!r}", f"{b!r:>5}", f"<{b:{w}}>", f"{3.14159:.2f} {b!s} {b!a}", f"{b}", f"{a}{b}"


def case_format_error():
    a = 1
    return f"{a:z}"


def case_import():
    import math
    from math import pi
    import os.path
    import os.path as p
    return math.floor(pi), p is os.path


def case_assert():
    x = 1
    assert x == 2, "message"


def case_assert_caught():
    AssertionError = ValueError
    try:
        assert not 1
    except BaseException as e:
        return type(e).__name__
