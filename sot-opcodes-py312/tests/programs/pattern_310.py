class Point:
    __match_args__ = ("x", "y")

    def __init__(self, x, y):
        self.x = x
        self.y = y


def which(value):
    match value:
        case 0:
            return "zero"
        case 1 | 2:
            return "small"
        case int(n) if n > 100:
            return "big", n
        case str():
            return "text"
        case []:
            return "empty"
        case [a]:
            return "one", a
        case [a, *rest, b]:
            return a, rest, b
        case {"k": v, **others}:
            return "map", v, others
        case {"a": 1}:
            return "a"
        case Point(0, y):
            return "axis", y
        case Point(x=x, y=y):
            return "point", x, y
        case None:
            return "none"
        case _:
            return "other"


def case_constants():
    return which(0), which(2), which(101), which("x"), which(None), which(7)


def case_sequences():
    return which([]), which((1,)), which([1, 2, 3, 4])


def case_mappings():
    return which({"k": 1, "z": 2}), which({"a": 1}), which({"b": 1})


def case_classes():
    return which(Point(0, 5)), which(Point(1, 2))


def case_too_many():
    match Point(1, 2):
        case Point(a, b, c):
            return a, b, c
