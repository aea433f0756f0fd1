"""Closures, cells, functions made in the function."""

import toy
from cases import changed, given, whole


def one():
    return (toy.arange(2),)


@whole
@given(one)
def test_read_of_an_outer_variable(x):
    factor = 3

    def inner(v):
        return v * factor

    return inner(x)


@whole
@given(one)
def test_nonlocal(x):
    count = 0

    def inner(v):
        nonlocal count
        count += 1
        return v + count

    a = inner(x)
    b = inner(a)
    return a, b, count


@whole
@given(one)
def test_late_binding(x):
    functions = [lambda: x * i for i in range(3)]
    return [f() for f in functions]


@whole
@given(one)
def test_early_binding(x):
    functions = [lambda i=i: x * i for i in range(3)]
    return [f() for f in functions]


def make_adder(n):
    def add(x):
        return x + n

    return add


add_three = make_adder(3)


@whole
@given(one)
def test_closure_of_a_global_function(x):
    return add_three(x) * 2


@whole
@given(one)
def test_closure_made_and_called(x):
    return make_adder(5)(x), make_adder(x)(1)


def make_counter():
    count = 0

    def counter(x):
        nonlocal count
        count += 1
        return x + count

    def read():
        return count

    return counter, read


counter, read_counter = make_counter()


@whole
@given(one, hit=False)
def test_cell_of_a_global_function_written(x):
    return counter(x), read_counter()


@given(one)
def test_function_returned(x):
    y = x + 1

    def inner(z, k=2):
        return y * z * k

    return inner, y


@given(one)
def test_function_returned_and_cell_written(x):
    y = x + 1
    n = 0

    def inner():
        nonlocal n
        n += 1
        return n

    inner()
    return inner, y


@given(one)
def test_two_functions_share_a_cell(x):
    n = x + 1

    def get():
        return n

    def put(v):
        nonlocal n
        n = v

    put(x * 3)
    return get, put, get()


def translated_with_closure():
    factor = 2.0
    state = {"calls": 0}

    def inner(x):
        state["calls"] += 1
        return x * factor

    return inner


closed = translated_with_closure()


@whole
@given(one, hit=False)
def test_dict_in_a_closure(x):
    return closed(x)


@whole
@given(one)
def test_cell_of_an_argument(x):
    def inner():
        return x + 1

    x = x * 2
    return inner()


@given(one)
def test_unbound_free_variable(x):
    y = x + 1

    def inner():
        return later

    result = inner()
    later = y
    return result


@given(one)
def test_deleted_cell(x):
    y = x + 1

    def inner():
        return y

    del y
    return inner()


@whole
@given(one)
def test_recursion_through_a_cell(x):
    def down(v, n):
        return v if n == 0 else down(v + n, n - 1)

    return down(x, 3)


@whole
@given(one)
def test_comprehension_in_a_closure(x):
    scale = 2

    def inner(values):
        return [v * scale + len(values) for v in values]

    return [x + v for v in inner([1, 2])]


@whole
@given(one)
def test_function_attributes_read(x):
    return x + 1, add_three.__name__, make_adder.__doc__


@whole
@given(one)
def test_default_of_a_new_function(x):
    base = [1]

    def inner(v, items=base, *, k=x + 1):
        items.append(2)
        return v + len(items) + k

    return inner(x), inner(x), base


@given(one)
def test_class_made_in_the_function(x):
    class Local:
        value = 3

    return x + Local.value


def unbound():
    return toy.full((1,), 2.0), False


@given(unbound)
def test_an_empty_cell_of_its_own_behind_a_break(x, late):
    toy.save(x)
    y = x + 1
    try:
        captured
    except NameError as error:
        told = type(error).__name__, str(error)
    read = lambda: captured
    try:
        read()
    except NameError as error:
        told += type(error).__name__, str(error)
    if late:
        captured = 1
    toy.save(y)
    return y, told, captured


@given(unbound)
def test_an_emptied_cell_behind_a_break(x, late):
    captured = x * 2
    read = lambda: captured
    toy.save(x)
    y = x + read()
    del captured
    toy.save(y)
    try:
        return y, read()
    except NameError as error:
        seen = type(error).__name__
    return captured, seen


@given(unbound)
def test_a_cell_of_a_caller_behind_a_break(x, late):
    def inner(y):
        toy.save(y)
        y = y + 1
        return y + captured

    toy.save(x)
    if late:
        captured = 1
    return inner(x * 2)


def shared(value):
    def read():
        return value

    def write(new):
        nonlocal value
        value = new

    return read, write


READ, WRITE = shared(4)


@whole
@changed("WRITE(9)", "READ.__closure__[0].cell_contents = 3", "del READ.__closure__[0].cell_contents")
def test_contents_of_a_cell_from_outside(x):
    (cell,) = READ.__closure__
    try:
        found = cell.cell_contents
    except ValueError as error:
        found = len(str(error))
    cell.cell_contents = 7
    return x + found, READ(), cell.cell_contents


@whole
@given(one)
def test_contents_of_a_new_cell(x):
    value = 12

    def read():
        return value

    (cell,) = read.__closure__
    found = [cell.cell_contents, read.__code__.co_freevars]
    cell.cell_contents = x
    found += [value, cell is read.__closure__[0]]
    del cell.cell_contents
    try:
        value
    except NameError as error:
        found.append(str(error))
    return x + 1, found, read


def counted(x):
    counted.calls += 1
    return x * 2


@whole
@given(one)
def test_attributes_of_a_function_that_was_written_to(x):
    counted.calls = 0
    y = counted(x)
    return y, counted.calls, counted.__name__, counted.__qualname__, counted.__doc__, counted.__defaults__
