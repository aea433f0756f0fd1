"""What exceptions say of themselves since Python 3.10."""

import traceback


class Coded(Exception):
    def __init__(self, code):
        self.code = code

    def __str__(self):
        return f"code {self.code}"


class Has:
    known = 1


def text_of_an_exception_alone(x):
    try:
        raise Coded(3)
    except Coded as e:
        return x + 1, traceback.format_exception_only(e), traceback.format_exception_only(ValueError("v"))


def name_and_object_not_given(x):
    a, n = AttributeError("a"), NameError("n")
    return x + 1, a.name, a.obj, n.name
