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


def attribute_and_its_object(x):
    has = Has()
    try:
        has.nothing_like_it
    except AttributeError as e:
        return x + 1, e.name, e.obj is has, str(e)


def attribute_of_a_constant(x):
    try:
        (1).nothing_like_it
    except AttributeError as e:
        return x + 1, e.name, e.obj


def unknown_name(x):
    try:
        nothing_like_it
    except NameError as e:
        return x + 1, e.name, str(e)


def given_name_and_object(x):
    try:
        raise AttributeError("a", name="n", obj=3)
    except AttributeError as e:
        return x + 1, e.name, e.obj, e.args


def attribute_that_a_hook_refuses(x):
    class Refuses:
        def __getattr__(self, name):
            raise AttributeError("refused " + name)

        @property
        def told(self):
            raise AttributeError("told", name="own", obj=None)

    refuses, seen = Refuses(), []
    for work in (lambda: refuses.some, lambda: getattr(refuses, "other"), lambda: refuses.method(1)):
        try:
            work()
        except AttributeError as e:
            seen.append((e.name, e.obj is refuses, str(e)))
    return x + 1, seen, AttributeError("not raised").__dict__


def attribute_of_a_module_and_a_class(x):
    import math

    seen = []
    for owner in (math, Has, [], "text", len):
        try:
            owner.nothing_like_it
        except AttributeError as e:
            seen.append((e.name, e.obj is owner, str(e)))
        try:
            owner.nothing_like_it()
        except AttributeError as e:
            seen.append((e.name, e.obj is owner))
    return x + 1, seen


def raised_on_by_a_caller(x):
    def reads():
        try:
            return Has().nothing_like_it
        except AttributeError as e:
            raise KeyError(e.name) from e

    try:
        reads()
    except KeyError as e:
        return x + 1, e.args, e.__cause__.name, type(e.__cause__.obj) is Has


def error_of_the_program_about_attributes(x):
    try:
        raise AttributeError("said")
    except AttributeError as e:
        return x + 1, e.name, e.obj, traceback.format_exc(), traceback.format_exception_only(e)
