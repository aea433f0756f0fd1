COUNTER = 1


def case_locals():
    a = 1
    b, c = a + 1, 3
    del a
    return b, c


def case_unbound():
    if COUNTER > 5:
        a = 1
    return a


def case_deleted():
    a = 1
    del a
    return a


def case_global_write():
    global WRITTEN
    WRITTEN = 5
    r = WRITTEN
    del WRITTEN
    return r


def case_global_missing():
    return MISSING


def case_closure():
    total = 0

    def add(n):
        nonlocal total
        total += n
        return total

    add(1)
    add(2)
    return total


def case_free_unbound():
    def get():
        return late

    if COUNTER > 5:
        late = 1
    return get()


def case_cell_unbound():
    def get():
        return late

    r = late
    late = 1
    return r, get


def case_cell_deleted():
    x = 1

    def get():
        return x

    del x
    return get()


def case_comprehension_shadows_cell():
    x = "outer"
    get = lambda: x
    inner = [x for x in range(3)]
    return inner, get(), x


def case_comprehension_with_cell():
    x = "outer"
    made = [lambda: x for x in range(3)]
    get = lambda: x
    return [f() for f in made], get(), x


def case_comprehension_shadows_local():
    x = 7
    squares = {x: x * x for x in range(4)}
    return squares, x


def case_comprehension_unbound_local():
    r = [n for n in range(2)]
    if COUNTER > 5:
        n = 1
    return r, n


def case_comprehension_raises_and_restores():
    x = "outer"
    get = lambda: x
    try:
        [1 // x for x in (1, 0)]
    except ZeroDivisionError:
        return get(), x


def case_stack_moves():
    a = b = [1]
    a[0] += 1
    x, y, z = 1, 2, 3
    x, y, z = z, x, y
    w, x, y, z = z, y, x, 0
    return a is b, a, x, y, z, w
