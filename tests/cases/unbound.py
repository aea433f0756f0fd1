"""Variables without a value, read or deleted behind a graph break: a local, a cell of the function's own, a free variable."""

import contextlib

import toy
from cases import given


def one():
    return (toy.full((1,), 2.0),)


@given(one)
def test_a_local(x):
    y = x + 1
    float(y)
    del y
    return y


@given(one)
def test_a_cell(x):
    y = x + 1
    def g():
        return y
    float(y)
    del y
    return y


@given(one)
def test_a_cell_read_by_another(x):
    y = x + 1
    def g():
        return y
    float(y)
    del y
    return g()


@given(one)
def test_in_a_callee(x):
    def g():
        z = x + 1
        float(z)
        del z
        return z
    return g()


@given(one)
def test_a_cell_in_a_callee(x):
    def g():
        z = x + 1
        def h():
            return z
        float(z)
        del z
        return z
    return g() + 1


@given(one)
def test_a_free_variable_in_a_callee(x):
    def g():
        z = x + 1
        def h():
            return z
        float(z)
        del z
        return h()
    return g() + 1


@given(one)
def test_never_bound(x):
    if float(x) > 100:
        w = 1
    return x + w


@given(one)
def test_a_cell_never_bound(x):
    if float(x) > 100:
        w = 1
    def g():
        return w
    return x + w


@given(one)
def test_a_free_variable_never_bound(x):
    if float(x) > 100:
        w = 1
    def g():
        return w
    return x + g()


@given(one)
def test_name_of_an_exception(x):
    try:
        raise ValueError(float(x))
    except ValueError as e:
        y = x + 1
    float(y)
    return e


@given(one)
def test_cell_of_an_exception(x):
    try:
        raise ValueError(float(x))
    except ValueError as e:
        y = x + 1
        h = lambda: e
    float(y)
    return e


@given(one)
def test_free_variable_of_an_exception(x):
    try:
        raise ValueError(float(x))
    except ValueError as e:
        y = x + 1
        h = lambda: e
    float(y)
    return h()


@given(one)
def test_class_body(x):
    y = x + 1
    float(y)
    class C:
        z = y
        del z
        w = z
    return C


@given(one)
def test_variable_of_a_comprehension(x):
    y = x + 1
    float(y)
    r = [q for q in range(3)]
    return q


@given(one)
def test_generator(x):
    y = x + 1
    def gen():
        z = 3
        float(y)
        yield z
        del z
        yield z
    return list(gen())


@given(one)
def test_cell_of_a_generator(x):
    y = x + 1
    def gen():
        z = 3
        k = lambda: z
        float(y)
        yield z
        del z
        float(y)
        yield z
    return list(gen())


@given(one)
def test_caught_and_raised_from(x):
    y = x + 1
    del y
    float(x)
    try:
        return y
    except NameError as e:
        float(x)
        raise RuntimeError(str(e)) from e


@given(one)
def test_cell_caught(x):
    y = x + 1
    g = lambda: y
    del y
    float(x)
    try:
        return y
    except NameError as e:
        t = (type(e).__name__, str(e))
    float(x)
    return t


@given(one)
def test_cell_in_a_finally(x):
    y = x + 1
    g = lambda: y
    del y
    float(x)
    try:
        return y
    finally:
        float(x)


@given(one)
def test_cell_deleted_twice(x):
    y = x + 1
    g = lambda: y
    float(x)
    del y
    float(x)
    del y


@given(one)
def test_local_deleted_twice(x):
    y = x + 1
    float(x)
    del y
    float(x)
    del y


@given(one)
def test_nonlocal_deleted(x):
    y = x + 1
    def g():
        nonlocal y
        float(x)
        del y
    g()
    float(x)
    return y


@given(one)
def test_nonlocal_deleted_twice(x):
    y = x + 1
    def g():
        nonlocal y
        float(x)
        del y
        float(x)
        del y
    g()
    return y


@given(one)
def test_cell_in_a_comprehension(x):
    y = x + 1
    g = lambda: y
    float(x)
    del y
    return [y for _ in range(2)]


@given(one)
def test_local_in_a_comprehension(x):
    y = x + 1
    float(x)
    del y
    return [y for _ in range(2)]


@given(one)
def test_nested_comprehension(x):
    y = x + 1
    float(x)
    return [(lambda: z)() for z in [y] if float(z) > 0 and [1 for k in ()] == [] and unknown_name]


@given(one)
def test_variable_of_an_empty_loop(x):
    float(x)
    for i in range(0):
        pass
    float(x)
    return i


@given(one)
def test_free_and_own(x):
    y = x + 1
    def g():
        return y
    def h():
        nonlocal y
        del y
    h()
    try:
        g()
    except NameError as e:
        float(x)
        s = str(e), type(e).__name__
    try:
        y
    except NameError as e:
        float(x)
        s += str(e), type(e).__name__
    return s


@given(one)
def test_caught_of_an_augmented_assignment(x):
    y = x + 1
    g = lambda: y
    float(x)
    try:
        del y
        y += 1
    except UnboundLocalError as e:
        return x * 2, str(e)


@given(one)
def test_caught_in_an_expression(x):
    y = x + 1
    g = lambda: y
    del y
    try:
        z = y + float(x)
    except UnboundLocalError as e:
        return x * 2, str(e)


@given(one)
def test_caught_in_a_callee(x):
    def inner(v):
        g = lambda: w
        float(v)
        try:
            return w
        except UnboundLocalError as e:
            float(v)
            return str(e)
        w = 1
    return inner(x), x * 2


@given(one)
def test_caught_by_the_caller(x):
    def inner(v):
        g = lambda: w
        float(v)
        return w
        w = 1
    try:
        return inner(x * 2)
    except UnboundLocalError as e:
        float(x)
        return str(e), x + 1


@given(one)
def test_raised_by_a_callee(x):
    def inner(v):
        g = lambda: w
        float(v)
        return w
        w = 1
    return inner(x * 2)


@given(one)
def test_suppressed(x):
    y = x + 1
    g = lambda: y
    with contextlib.suppress(UnboundLocalError):
        float(x)
        del y
        float(x)
        y.foo
    return x + 2


@given(one)
def test_behind_a_branch(x):
    y = x + 1
    g = lambda: y
    del y
    if float(x) > 0:
        return y
    return x


@given(one)
def test_half_an_expression(x):
    y = x + 1
    g = lambda: y
    del y
    return float(x) + y


@given(one)
def test_right_of_an_or(x):
    y = x + 1
    g = lambda: y
    del y
    return toy.save(x) or y


@given(one)
def test_in_a_loop(x):
    y = x + 1
    g = lambda: y
    float(x)
    for k in range(3):
        float(y)
        if k:
            del y
    return y


class Layer:
    def forward(self, x):
        float(x)
        if float(x) > 100:
            w = 3
        k = lambda: w
        return w


class Derived(Layer):
    def forward(self, x):
        y = x + 1
        k = lambda: (x, __class__)
        del x
        try:
            return super().forward(y)
        except UnboundLocalError as error:
            float(y)
            return str(error), x


@given(one)
def test_a_method(x):
    return Derived().forward(x)


@given(one)
def test_a_generator_that_breaks(x):
    def numbers():
        n = 3
        k = lambda: n
        toy.save(x)
        yield n
        del n
        try:
            toy.save(x)
            yield n
        except UnboundLocalError as error:
            yield str(error)
        yield k()

    out = []
    try:
        for n in numbers():
            out.append(n)
    except NameError as error:
        out.append((type(error), str(error)))
    return x + 1, out
