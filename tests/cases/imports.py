"""Modules that are loaded when a function imports them."""

import atexit
import importlib
import importlib.machinery
import os
import shutil
import sys
import tempfile
import types

import toy
from cases import given, whole


def without(*names):
    def make():
        for name in names:
            sys.modules.pop(name, None)
        return (toy.arange(2),)

    return make


@whole
@given(without("colorsys"), without())
def test_a_module_of_the_standard_library(x):
    import colorsys

    return x + 1, colorsys.rgb_to_hsv(1, 0, 0), "colorsys" in sys.modules


@whole
@given(without("wsgiref", "wsgiref.util"), without())
def test_a_module_of_a_package(x):
    from wsgiref import util
    import wsgiref.util as same

    return x + 1, util is same, util.guess_scheme({})


@given(without("colorsys"), without("colorsys"))
def test_a_module_that_is_loaded_again(x):
    import colorsys

    return x + 1, colorsys.rgb_to_hsv(0, 1, 0), sys.modules["colorsys"] is colorsys


@given(without("colorsys"), without("colorsys"))
def test_the_program_looks_whether_it_is_loaded(x):
    before = "colorsys" in sys.modules
    import colorsys

    return x + 1, before, "colorsys" in sys.modules, colorsys.hsv_to_rgb(0, 0, 1)


def whether_the_last_call_loaded():
    return toy.arange(2), sys.modules.pop("colorsys", None) is not None


importlib.import_module("colorsys")


@given(*[whether_the_last_call_loaded] * 4)
def test_a_module_of_which_nothing_is_asked(x, was_loaded):
    import colorsys

    return x + 1, was_loaded


SEEN = []


@given(without("colorsys"), without("colorsys"))
def test_a_module_that_is_loaded_behind_a_write(x):
    SEEN.append(1)
    import colorsys

    return x + 1, colorsys.hsv_to_rgb(0, 0, 1)


@given(without(), without())
def test_a_module_that_is_not_there(x):
    y = x + 1
    try:
        import no_such_module_anywhere
    except ImportError as error:
        return y, error.name


class Finder:
    """A finder of the program's own, which has a module of its own, or none."""

    def __init__(self, found=None):
        self.found = found
        self.asked = 0

    def find_spec(self, name, path=None, target=None):
        self.asked += 1
        if name == self.found:
            return importlib.machinery.ModuleSpec(name, self)
        return None

    def create_module(self, spec):
        return types.ModuleType(spec.name)

    def exec_module(self, module):
        module.value = 5


ADDED = Finder("module_of_later")
NOTHING = Finder()
FOLDER = os.path.join(tempfile.gettempdir(), f"modules-of-{os.getpid()}")
os.makedirs(FOLDER, exist_ok=True)
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)


def with_module(where=None, path=None, finder=None, written=None):
    """Prepares a call: what was there for others is gone."""

    def make():
        sys.modules.pop("module_of_later", None)
        sys.path[:] = [entry for entry in sys.path if entry != FOLDER]
        sys.meta_path[:] = [entry for entry in sys.meta_path if not isinstance(entry, Finder)]
        for entry in os.listdir(FOLDER):
            if entry.endswith(".py"):
                os.remove(os.path.join(FOLDER, entry))
        if written:
            with open(os.path.join(FOLDER, "module_of_later.py"), "w") as file:
                file.write(written)
        importlib.invalidate_caches()
        if where is not None:
            sys.modules["module_of_later"] = where
        if path:
            sys.path.append(path)
        if finder is not None:
            sys.meta_path.insert(0, finder)
        return (toy.arange(2),)

    return make


def optional():
    try:
        import module_of_later
    except ImportError as error:
        return error.name, str(error)
    return module_of_later.value


@given(with_module(), with_module(), with_module(where=types.SimpleNamespace(value=1)), with_module())
def test_a_module_that_comes_to_be_loaded(x):
    return x + 1, optional()


@given(with_module(), with_module(path=FOLDER, written="value = 2"), with_module(path=FOLDER), with_module())
def test_a_module_in_a_directory_that_is_searched_later(x):
    return x + 1, optional()


@given(with_module(path=FOLDER), with_module(path=FOLDER, written="value = 3"), with_module(path=FOLDER))
def test_a_module_that_is_written_later(x):
    return x + 1, optional()


@given(with_module(), with_module(finder=ADDED), with_module())
def test_a_finder_that_comes_later(x):
    return x + 1, optional()


@given(with_module(finder=NOTHING), with_module(finder=NOTHING))
def test_a_finder_of_the_program_that_finds_nothing(x):
    return x + 1, optional(), NOTHING.asked > 0


@given(with_module(), with_module())
def test_a_directory_that_the_program_adds(x):
    sys.path.append(FOLDER)
    found = optional()
    sys.path.remove(FOLDER)
    return x + 1, found


@given(with_module(), with_module())
def test_a_module_that_must_not_be_loaded(x):
    sys.modules["module_of_later"] = None
    return x + 1, optional()


@given(with_module(), with_module())
def test_a_module_that_the_program_makes_after_it_was_missing(x):
    before = optional()
    sys.modules["module_of_later"] = types.SimpleNamespace(value=7)
    after = optional()
    del sys.modules["module_of_later"]
    return x + 1, before, after, optional()


HALF = types.ModuleType("half")
ASKED = types.ModuleType("asked")
ASKED.__getattr__ = lambda name: fail(name)
sys.modules["half"], sys.modules["asked"] = HALF, ASKED


def fail(name):
    raise AttributeError("no " + name)


def half(**names):
    def make():
        for name in ("value", "__file__", "__spec__", "__getattr__"):
            HALF.__dict__.pop(name, None)
        sys.modules.pop("half.value", None)
        for name, value in names.items():
            if name == "half_value":
                sys.modules["half.value"] = value
            else:
                setattr(HALF, name, value)
        return (toy.arange(2),)

    return make


@given(half(), half(__file__="here.py"), half(value=3), half(__getattr__=len), half(half_value=9), half())
def test_a_name_that_a_module_comes_to_have(x):
    try:
        from half import value
    except ImportError as error:
        return x + 1, str(error), error.name, error.path
    return x + 1, value


@given(half(), half())
def test_a_name_that_the_module_says_it_has_not(x):
    try:
        from asked import value
    except ImportError as error:
        return x + 1, str(error), error.name, error.path
    return x + 1, value


@given(without(), without())
def test_a_missing_module_goes_out(x):
    y = x + 1
    try:
        import no_such_module_anywhere
    except ImportError as error:
        return y, error
    return y, no_such_module_anywhere


@given(without(), without())
def test_a_missing_name_is_raised(x):
    y = x + 1
    from math import nothing_like_it

    return y, nothing_like_it
