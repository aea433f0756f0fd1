"""Modules that are loaded when a function imports them."""

import sys

import toy
from cases import given


def without(*names):
    def make():
        for name in names:
            sys.modules.pop(name, None)
        return (toy.arange(2),)

    return make


@given(without("colorsys"), without())
def test_whole__a_module_of_the_standard_library(x):
    import colorsys

    return x + 1, colorsys.rgb_to_hsv(1, 0, 0), "colorsys" in sys.modules


@given(without("wsgiref", "wsgiref.util"), without())
def test_whole__a_module_of_a_package(x):
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
