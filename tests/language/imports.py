"""Modules and names that are not there."""

import importlib
import importlib.util
import json


def optional_module(x):
    try:
        import not_there_at_all
    except ImportError:
        not_there_at_all = None
    return x + 1, not_there_at_all


def optional_module_of_a_name(x):
    try:
        import not_there_at_all.inside as inside
    except ModuleNotFoundError as e:
        return x + 1, str(e), e.name, e.path, e.args, repr(e)
    return x, inside


def optional_module_of_a_package(x):
    try:
        import json.not_there
    except ImportError as e:
        return x + 1, str(e), e.name, e.path, e.__context__, e.__traceback__.tb_lineno
    return x


def optional_name(x):
    try:
        from math import nothing_like_it
    except ImportError as e:
        return x + 1, str(e), e.name, e.path, type(e)
    return x, nothing_like_it


def optional_name_of_a_package(x):
    try:
        from json import nothing_like_it, dumps
    except ImportError as e:
        return x + 1, str(e), e.name, e.path == json.__file__
    return x, nothing_like_it, dumps


def name_behind_names(x):
    try:
        from json import dumps, nothing_like_it
    except ImportError:
        nothing_like_it = None
    return x + 1, dumps([1]), nothing_like_it


def one_of_several(x):
    try:
        import not_there_at_all as reader
    except ImportError:
        try:
            from not_there_either import reader
        except ImportError:
            import json as reader
    return x + 1, reader.loads("[1]")


def _flag():
    try:
        import not_there_at_all  # noqa: F401
    except ImportError:
        return False
    return True


def whether_it_is_there(x):
    return (x + 1 if _flag() else x + 2), _flag()


def error_of_its_own(x):
    try:
        try:
            import not_there_at_all  # noqa: F401
        except ImportError as e:
            raise RuntimeError("install it") from e
    except RuntimeError as e:
        return x + 1, str(e), type(e.__cause__), e.__cause__.name


def error_that_is_kept(x):
    try:
        import not_there_at_all  # noqa: F401
    except ImportError as e:
        kept = ImportError(*e.args, name=e.name)
    return x + 1, kept.name, kept.args, kept.msg


def by_import_module(x):
    try:
        found = importlib.import_module("not_there_at_all")
    except ImportError as e:
        found = e.name, str(e)
    return x + 1, found, importlib.import_module("json").dumps([1])


def by_import_module_of_a_package(x):
    try:
        found = importlib.import_module(".not_there", "json")
    except ModuleNotFoundError as e:
        found = e.name, str(e)
    return x + 1, found, importlib.import_module("json.decoder").JSONDecodeError


def by_find_spec(x):
    return x + 1, importlib.util.find_spec("not_there_at_all") is None, importlib.util.find_spec("json").name


def by_the_function(x):
    try:
        found = __import__("not_there_at_all")
    except ImportError as e:
        found = e.args
    return x + 1, found, __import__("json").loads("1")
