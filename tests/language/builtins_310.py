"""What builtins learned in 3.10."""


def zip_strict(x):
    return x + 1, list(zip([1, 2], "ab", strict=True))


def zip_strict_fails(x):
    try:
        list(zip([1, 2], "a", strict=True))
    except ValueError as e:
        return x + 1, str(e)


def isinstance_of_a_union(x):
    return x + 1, isinstance(3, int | str), isinstance(2.0, int | str)


def bit_count(x):
    return x + (7).bit_count()
