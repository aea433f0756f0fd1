"""Strings made from values."""

import toy
from cases import given, whole


def one():
    return (toy.arange(2),)


@whole
@given(one)
def test_f_strings(x):
    n, s = 3, "s"
    return x + 1, f"{n} {s!r} {n:>4} {2.5:.2f} {n + 1} {{}} {s!s:^5} {n=}"


@whole
@given(one)
def test_nested_f_string(x):
    width = 6
    return x + 1, f"{'a':>{width}}"


@whole
@given(one)
def test_percent(x):
    return x + 1, "%d %s %5.1f" % (1, "a", 2.5), "%s" % 5, "%(k)s" % {"k": 1}


@whole
@given(one)
def test_format_method(x):
    return x + 1, "{} {0}".replace("0", "") .format(1, 2), "{a} {b:>3}".format(a=1, b=2), format(255, "x")


@whole
@given(one)
def test_shape_in_a_string(x):
    return x + 1, f"{x.shape} {x.dtype}", str(x.shape), repr((1, "a"))


@given(one)
def test_tensor_in_a_string(x):
    y = x + 1
    return f"{y}"


@whole
@given(one)
def test_str_of_containers(x):
    return x + 1, str([1, "a", None]), repr({"k": (1,)}), str({1}), f"{[1, 2]}"


class Shown:
    def __str__(self):
        return "shown"

    def __repr__(self):
        return "repr"

    def __format__(self, spec):
        return "format:" + spec


@given(lambda: (toy.arange(2), Shown()))
def test_own_text(x, s):
    return x + 1, str(s), repr(s), f"{s}", f"{s:abc}", f"{s!r}"


@given(one)
def test_wrong_format(x):
    y = x + 1
    return y, f"{1:zz}"


@given(one)
def test_wrong_percent(x):
    y = x + 1
    return y, "%d" % "a"


@whole
@given(one)
def test_string_methods(x):
    s = " Ab,c "
    return x + 1, s.strip(), s.lower(), s.startswith(" A"), s.find("b"), s.partition(","), "x".zfill(3), "a-b".title(), s.isalpha()


@whole
@given(one)
def test_join_of_generated(x):
    return x + 1, ",".join(str(i) for i in range(3)), "".join(["a"] * 3)


@given(one)
def test_join_of_numbers(x):
    y = x + 1
    return y, ",".join([1, 2])


@given(one)
def test_printed(x):
    print("before", x.shape)
    y = x + 1
    print("after", end="!")
    return y
