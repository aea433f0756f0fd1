def f(a, b=2, *args, c=3, **kw):
    return a, b, args, c, kw


def case_positional():
    return f(1), f(1, 5), f(1, 5, 6, 7)


def case_keywords():
    return f(1, c=5), f(a=1, b=3, d=4)


def case_packed():
    args, kw = (1, 2), {"c": 4, "z": 5}
    return f(*args), f(0, *args, **kw), f(*args, 9, c=1, **{"q": 1}), f(*[1], *[2, 3])


def case_duplicate_keyword():
    kw = {"c": 1}
    return f(1, **kw, **{"c": 2})


def case_missing():
    return f()


def case_methods():
    a = [3, 1, 2]
    a.append(5)
    return a, "a-b".split("-"), "x".join(["a", "b"])


def case_functions():
    def g(a, b=1, *, c=2):
        return a, b, c

    def annotated(a: int, *, b: str = "x") -> int:
        return a, b

    h = lambda x, y=g(0): (x, y)
    return g(1), g(1, 2, c=3), annotated(1), h(4)


def case_default_closure():
    n = 3

    def outer(k=n):
        def inner(j=k):
            return n, k, j
        return inner

    return outer()(), outer(1)(2)


class Base:
    def __init__(self, n):
        self.n = n

    def twice(self):
        return self.n * 2

    @property
    def half(self):
        return self.n / 2


def case_instance():
    b = Base(4)
    b.n += 1
    return b.twice(), b.half


def class_statement():
    class A:
        k = 3

    return A.k, A().k
