def count(n):
    for i in range(n):
        yield i
    return "done"


def delegating(n):
    result = yield from count(n)
    yield result


def from_list():
    yield from [1, 2]
    yield from (3,)


def guarded():
    try:
        yield 1
        yield 1 // 0
    except ZeroDivisionError:
        yield "caught"
    finally:
        yield "finally"


def handling():
    try:
        1 // 0
    except ZeroDivisionError:
        yield 1
        raise


def stopping():
    yield 1
    raise StopIteration


def case_list():
    return list(count(3))


def case_loop():
    out = []
    for i in count(4):
        if i == 1:
            continue
        out.append(i)
    return out


def case_yield_from():
    return list(delegating(2)), list(from_list())


def case_expression():
    n = 2
    return [i for i in (j * n for j in range(3))], tuple(i for i in range(2))


def case_exceptions():
    return list(guarded())


def case_exception_state():
    out = []
    try:
        try:
            raise ValueError("outer")
        except ValueError:
            for i in handling():
                out.append(i)
                try:
                    raise
                except ValueError:
                    out.append("outer")
    except ZeroDivisionError:
        out.append("zero")
    return out


def case_closure():
    def numbers():
        yield base
        yield base + 1

    base = 5
    return list(numbers())
