"""Runs the programs of this folder with the toy framework, and with numbers in the place of tensors."""

import toy
from programs import PROGRAMS

CALLS = 400


class Tensors:
    """The toy framework; `translate` is its tracer, or leaves a function as it is."""

    relu = staticmethod(toy.relu)

    def __init__(self, translate):
        self.translate = translate
        self.x = toy.full((2,), 2.0)


class Numbers:
    """No framework at all."""

    def __init__(self, translate):
        self.translate = translate
        self.x = 2.0

    @staticmethod
    def relu(x):
        return max(x, 0.0)


def translated(function):
    fast = toy.translate(function)

    def call(*args):
        return fast(*args)

    return call


def described(value):
    if isinstance(value, toy.Tensor):
        return value.tolist()
    if isinstance(value, (tuple, list)):
        return [described(item) for item in value]
    if isinstance(value, dict):
        return [[described(key), described(item)] for key, item in value.items()]
    return value if isinstance(value, (int, float, str, bool)) else type(value).__name__


def outcomes(make, framework):
    call, results, translations = make(framework), [], []
    for number in range(CALLS):
        try:
            results.append(described(call(number)))
        except Exception as error:
            results.append(repr(error))
        translations.append(toy.stats()["translations"])
    return results, translations


def failures(most):
    """Return the failures of all programs: results that differ from CPython's, or too many translations (`most`)."""
    found = []
    for make in PROGRAMS:
        for framework in (Tensors, Numbers):
            name = f"{make.__name__} ({framework.__name__})"
            expected, _ = outcomes(make, framework(lambda function: function))
            toy.reset()
            results, translations = outcomes(make, framework(translated))
            if results != expected:
                wrong = next(number for number in range(CALLS) if results[number] != expected[number])
                found.append(f"{name}: call {wrong} gives {results[wrong]} and not {expected[wrong]}")
            if not 0 < translations[-1] <= most.get(make.__name__, 12):
                found.append(f"{name}: {translations[-1]} translations")
            if translations[-1] != translations[CALLS // 2]:
                found.append(f"{name}: translations up to the end: {translations[CALLS // 2]}, {translations[-1]}")
    return found
