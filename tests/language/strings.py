"""Strings and their formatting."""


def string_methods(x):
    s = "Hello World"
    return x + len(s), s.lower(), s.split(), s.replace("l", "L"), s.find("o"), s.title(), s.swapcase(), s[::-1], s.center(15, "*")


def string_tests(x):
    return x + 1, "abc".isalpha(), "12".isdigit(), "a".islower(), "ab".startswith(("x", "a")), "b" in "abc", "ab".endswith("b")


def string_joins(x):
    return x + 1, ",".join(["a", "b"]), "-".join(str(i) for i in range(3)), "".join(reversed("abc"))


def string_strips(x):
    return x + 1, " a ".strip(), "xxa".lstrip("x"), "a,b".partition(","), "a b c".rsplit(None, 1), "a\nb".splitlines()


def string_operators(x):
    return x + 1, "ab" * 2, "a" + "b", "a" < "b", "%s and %d" % ("x", 3), "%(k)s" % {"k": 1}, "%5.2f" % 2.0


def f_strings(x):
    v, w = 3.14159, 8
    return x + 1, f"{v:.2f}", f"{v:{w}.{2}f}", f"{'a'!r:>5}", f"{'é'!a}", f"{[1, 2]!s}", f"{{}}", f"{w=}", f"{w:>+4d}"


def f_string_of_containers(x):
    return x + 1, f"{[1, 'a']} {(1,)} { {'k': 1} } {None} {True}"


def str_format(x):
    return x + 1, "{} {}".format(1, 2), "{1} {0}".format("a", "b"), "{k:>4}".format(k=3), "{0[1]} {1.real}".format([1, 2], 3), "{!r}".format("a")


def str_format_map(x):
    return x + 1, "{a}-{b}".format_map({"a": 1, "b": 2})


def str_translate(x):
    table = str.maketrans("ab", "xy")
    return x + 1, "aabbc".translate(table), "abc".translate({97: None})


def shape_in_a_text(x):
    return x + 1, f"shape {x.shape}", "%s" % (x.shape,), str(x.ndim), "{}".format(x.shape)


def regular_expressions(x):
    import re

    m = re.match(r"(\w+)-(\d+)", "abc-12")
    return x + int(m.group(2)), m.groups(), re.sub("a", "b", "banana"), re.findall(r"\d", "a1b2"), re.split(",", "a,b")


def compiled_regular_expression(x):
    import re

    pattern = re.compile(r"(?P<key>\w)=(?P<value>\d)")
    found = pattern.search("x a=1")
    return x + int(found["value"]), found.groupdict(), found.span(), pattern.findall("a=1 b=2"), bool(pattern.match("no"))


def template_text(x):
    import textwrap

    return x + 1, textwrap.dedent("  a\n  b")


def string_iteration(x):
    total = 0
    for i, c in enumerate("abc"):
        total += i * ord(c)
    return x + total, [c.upper() for c in "ab"], dict(zip("ab", range(2)))


def string_comparison_chain(x):
    return x + 1, min("b", "a"), sorted("hello"), max("abc"), "a" "b", "abc"[1], "abc"[-2:]


def bytes_formatting(x):
    return x + 1, b"%d" % 3, b"a".join([b"x", b"y"]), bytes.fromhex("00ff"), int.from_bytes(b"\x01\x00", "big")


def struct_packing(x):
    import struct

    return x + struct.calcsize("<i"), struct.unpack("<h", struct.pack("<h", 5))


def json_texts(x):
    import json

    return x + 1, json.dumps({"a": [1, None]}), json.loads("[1, 2]")


def translations(x):
    table = str.maketrans({"a": "1", "b": None, "c": "xyz"})
    return x + 1, "abc".translate(table), "hello".translate(str.maketrans("el", "ip", "o")), "a-b".translate({45: "_"})


def json_with_options(x):
    import json

    return x + 1, json.dumps({"b": 1, "a": [1.5, "x"]}, sort_keys=True, separators=(",", ":")), json.loads("true")


def formats_of_containers(x):
    return x + 1, str([1, "a", None]), repr({"k": (1,)}), str({1}), f"{[x.ndim, 'a']}", "%s" % [1], str(range(3)), repr(slice(1, 2))


def nested_format_specs(x):
    width, precision = 10, 3
    return x + 1, f"{3.14159:{width}.{precision}}", "{:{}}".format("a", 3), "{0:>{1}}".format("b", 4), f"{'x':*^{width}}"


def percent_formats(x):
    return x + 1, "%5d|%-5s|%05.1f|%x|%e|%%" % (3, "a", 2.55, 255, 1000.0), "%(a)s %(b)d" % {"a": 1, "b": 2}, "%c" % 97, "%r" % "q", "%s" % None


def date_texts(x):
    import datetime

    return x + 1, f"{datetime.date(2024, 1, 2):%Y-%m}", datetime.datetime(2024, 1, 2, 3).strftime("%H")


def encodings(x):
    return x + 1, "é".encode("latin-1"), b"\xe9".decode("latin-1"), "a".encode("utf-16-le"), "ä".encode("ascii", "replace")


def case_folds(x):
    return x + 1, "ß".casefold(), "aB".swapcase(), "x".isidentifier(), "a b".title(), "abc".isprintable(), "１".isdecimal(), "ab".zfill(4), "a\tb".expandtabs(2)


def prefix_tests(x):
    return x + 1, "model.layer".startswith("model."), "a.b.c".rpartition("."), "k=v=w".split("=", 1), "a,,b".split(","), "abc".index("c"), "aXbX".count("X"), "abc".rfind("z")


def f_string_of_tensor_shape(x):
    return x + 1, f"{x.shape[0]:>3}", f"{x.ndim=}", f"{len(x.shape)}d", f"{x.dtype}"
