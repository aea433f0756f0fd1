"""Match statements."""


class Point:
    __match_args__ = ("a", "b")

    def __init__(self, a, b):
        self.a = a
        self.b = b


def _kind(value):
    match value:
        case 0:
            return "zero"
        case int() | float() as n if n < 0:
            return "negative"
        case True | False:
            return "bool"
        case str(s):
            return "text " + s
        case []:
            return "empty"
        case [single]:
            return "one", single
        case [first, *rest] if first == 1:
            return "list", rest
        case (a, b):
            return "pair", a, b
        case {"type": "point", "at": [a, b], **rest}:
            return "mapping", a, b, rest
        case Point(a=0, b=b):
            return "on axis", b
        case Point(a, b):
            return "point", a, b
        case None:
            return "none"
        case _:
            return "other"


def literals(x):
    return x + 1, _kind(0), _kind(-2), _kind(None), _kind(3.5)


def captures(x):
    return x + 1, _kind("s"), _kind(True)


def sequences(x):
    return x + 1, _kind([]), _kind([4]), _kind([1, 2, 3]), _kind((5, 6)), _kind([7, 8, 9])


def mappings(x):
    return x + 1, _kind({"type": "point", "at": [1, 2], "k": 3}), _kind({"type": "line"})


def classes(x):
    return x + 1, _kind(Point(0, 2)), _kind(Point(3, 4))


def tensors_in_patterns(x):
    match [x, {"scale": 2}]:
        case [value, {"scale": k}]:
            return value * k


def pattern_of_a_tensor(x):
    match x:
        case int():
            return x
        case _:
            return x + 1
