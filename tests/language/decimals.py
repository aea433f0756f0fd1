"""Decimal numbers."""

import decimal
import math

_PRICE = decimal.Decimal("2.5")


def decimal_arithmetic(x):
    a = decimal.Decimal("1.5") + decimal.Decimal(2)
    return x * float(a), a, a * 3, -a, abs(a), a // 2, divmod(a, 2), a ** 2, _PRICE + 1, _PRICE / 2, sum([a, _PRICE])


def decimal_texts(x):
    a = decimal.Decimal("1.250")
    return x + 1, str(a), repr(a), "{:.2f}".format(a), "%s" % a, a.normalize(), a.quantize(decimal.Decimal("0.01")), a.is_finite()


def decimal_comparisons(x):
    a = decimal.Decimal(1)
    return x + 1, a == 1, a < 2, a > _PRICE, {a: "one"}[1], a in [1], max(a, _PRICE), sorted([_PRICE, a]), bool(a - 1), hash(a) == hash(1)


def decimal_conversions(x):
    return x + int(_PRICE), round(_PRICE), math.floor(_PRICE), math.ceil(_PRICE), decimal.Decimal.from_float(0.5), decimal.Decimal((0, (1, 2), -1))
