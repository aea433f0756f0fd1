"""Decimal numbers, whose operations depend on the thread's context and tell it what they did."""

import decimal
import threading
from decimal import Decimal

import toy
from cases import changed, given

NUMBER = Decimal("2.5")


def one():
    return (toy.arange(2),)


@changed("decimal.getcontext().prec = 5", "decimal.getcontext().rounding = decimal.ROUND_UP", "decimal.setcontext(decimal.Context())", "NUMBER = Decimal(3)")
def test_a_context_that_changes(x):
    return x + float(Decimal(1) / 3), Decimal(2) / 3, +NUMBER / 7, str(Decimal("1E+30"))


@given(one)
def test_contexts_in_the_function(x):
    y = x + 1
    with decimal.localcontext() as context:
        context.prec = 4
        third = Decimal(1) / 3
    return y * float(third), third, Decimal(1) / 3


@given(one)
def test_what_the_context_is_told(x):
    context = decimal.getcontext()
    context.clear_flags()
    before = context.flags[decimal.Inexact]
    third = Decimal(1) / 3
    return x + float(third), before, context.flags[decimal.Inexact], context.flags[decimal.DivisionByZero]


def thirds(x):
    return x + float(Decimal(1) / 3), Decimal(2) / 3


@given(one)
def test_what_is_told_again(x):
    context = decimal.getcontext()
    told = []
    for _ in range(3):
        context.clear_flags()
        thirds(x)
        told.append(context.flags[decimal.Rounded])
    return thirds(x), told


@given(one)
def test_errors_that_are_told(x):
    found = []
    for make in (lambda: Decimal(1) / 0, lambda: Decimal("x"), lambda: NUMBER + 1.5, lambda: Decimal("sNaN") + 1):
        try:
            make()
        except (ArithmeticError, TypeError) as e:
            found.append((type(e).__name__, str(e)))
    return x + 1, found


@given(one)
def test_a_context_of_another_thread(x):
    found = [thirds(x)]

    def run():
        decimal.getcontext().prec = 3
        found.append(thirds(x)[1])

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return found


@given(one)
def test_parts_with_names(x):
    parts = Decimal("-1.25").as_tuple()
    return x + 1, type(parts) is decimal.DecimalTuple, parts.digits, parts == (1, (1, 2, 5), -2), repr(parts)
