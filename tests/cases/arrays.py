"""numpy's arrays made in the function of values that are known."""

import copy
import warnings
import weakref

import numpy as np
import toy
from cases import given, whole
from numpy import array as make


def one():
    return (toy.arange(3),)


OUTSIDE = np.array([1.0, 2.0])
HELD = []


@whole
@given(one)
def test_an_array_is_one_object(x):
    first = np.zeros(3)
    second = first
    return x + 1, first, second, [first, {"a": first}], first is second, np.zeros(3) is first


@whole
@given(one)
def test_views_share_memory(x):
    whole = np.arange(12.0)
    table = whole.reshape(3, 4)
    turned = table.T
    column = table[:, 1]
    column[0] = 50
    turned[3] += 7
    return x + float(whole.sum()), whole, table, turned, column, table.base is whole, column.base is whole, turned.base


@whole
@given(one)
def test_a_view_alone(x):
    return x + 1, np.arange(6).reshape(2, 3), np.arange(6)[::-2], np.arange(6)[1:1], np.ones((2, 2), order="F")[0], np.array(5)[...]


@whole
@given(one)
def test_views_of_temporaries_are_one_memory(x):
    first, second = np.split(np.arange(4), 2)
    first[0] = 9
    rows = list(np.arange(4).reshape(2, 2))
    rows[1][0] = 8
    return x + 1, first, second, first.base is second.base, rows


@whole
@given(one)
def test_reading_only(x):
    table = np.broadcast_to(np.arange(3), (2, 3))
    try:
        table[0, 0] = 1
    except ValueError as error:
        return x + 1, table, str(error), table.base


@whole
@given(one)
def test_writes(x):
    a = np.zeros((2, 3))
    a[0, 1] = 5
    a[1] = [1, 2, 3]
    a += 1
    a *= a
    a[a > 5] = 0
    b = a.copy()
    b.sort(axis=1)
    a.fill(3)
    np.add(a, b, out=b)
    np.multiply(b, 2, out=(b,))
    np.fill_diagonal(b, -1)
    np.copyto(a, b, where=b > 10)
    return x + float(b.sum()), a, b


@whole
@given(one)
def test_a_write_that_fails_half_way(x):
    a = np.zeros(2)
    try:
        a[:] = ["1", "text"]
    except ValueError as error:
        return x + 1, a, str(error)


@whole
@given(one)
def test_what_a_write_gives_is_the_array(x):
    a = np.arange(3)
    b = a
    b += 1
    c = np.add(a, 1, out=a)
    d = np.asarray(a)
    return x + 1, a, b, c, d, a is b, c is a, d is a, a.real is a


@whole
@given(one)
def test_a_list_is_copied(x):
    values = [1, 2]
    a = np.array(values)
    values.append(3)
    return x + 1, a, values, np.array([a, a + 1]), np.stack((a, a)), np.concatenate([a, [7.5]])


@whole
@given(one)
def test_arrays_in_containers_and_closures(x):
    a = np.arange(2)
    kept = {"a": a, "list": [a, a[1:]]}

    def write(value):
        a[0] = value
        return a

    write(5)
    kept["list"][1][0] = 6
    return x + 1, kept, write


@given(one, hit=False)
def test_an_array_that_outlives_the_call(x):
    a = np.arange(3)
    HELD.append(a)
    a[1] = 10
    return x + 1, a


class Holder:
    pass


@given(one)
def test_an_array_as_an_attribute(x):
    holder = Holder()
    holder.table = np.zeros(2)
    holder.table[0] = 1
    holder.table += 1
    return x + 1, holder, holder.table


@given(one)
def test_arrays_on_both_sides_of_a_break(x):
    a = np.arange(4)
    b = a[2:]
    y = x + int(a.sum())
    toy.save(y)
    b[0] = 9
    return y + int(a.sum()), a, b


@whole
@given(one)
def test_operators(x):
    a, b = np.array([3, 4]), np.array([1.5, 2.0])
    found = [a + b, a - 1, 2 * a, a / b, a // 2, a % 2, a**2, 2**a, -a, +a, ~a, abs(-a), a @ a, a & 1, 1 | a, a ^ a, a << 1, a >> 1]
    found += [a == b, a != b, a < b, a >= 3, 3 < a, divmod(a, 2), np.float32(2) * a, a * np.float32(2), True + a]
    found += [[1, 2] + a, a + [1, 2], (1, 2) * a, a - (1, 2), [1, 2] == a, a != [3, 5]]
    return x + 1, found


@whole
@given(one)
def test_a_list_that_an_array_is_added_to(x):
    values = [1, 2]
    values += np.array([3, 4])
    other = [1, 2]
    other.extend(np.array([3, 4]))
    return x + 1, values, other


@whole
@given(one)
def test_builtins(x):
    a = np.array([3, 1, 2])
    found = [len(a), sum(a), max(a), min(a), sorted(a), list(a), tuple(a), list(reversed(a)), list(zip(a, a)), list(enumerate(a))]
    found += [2 in a, 7 in a, bool(np.array([1])), float(np.array(2.5)), int(np.array(2)), [*a], list(map(float, a)), any(a), all(a)]
    found += [isinstance(a, np.ndarray), type(a) is np.ndarray, hasattr(a, "shape"), getattr(a, "nothing", None), callable(a)]
    found += [round(np.array(2.5), 1) if hasattr(a, "__round__") else None, [10, 20, 30][a[1]], list(range(a[2]))]
    first, *rest = a
    return x + 1, found, first, rest


@whole
@given(one)
def test_what_an_array_says(x):
    a = np.ones((2, 3), "int16")
    return x + 1, a.shape, a.ndim, a.size, a.dtype, a.itemsize, a.nbytes, a.strides, a.T, a.base, a.real, a.imag


@whole
@given(one)
def test_methods(x):
    a = np.array([[3.0, 1.0], [2.0, 4.0]])
    found = [a.sum(), a.mean(axis=0), a.max(), a.argmax(), a.min(axis=1), a.astype("int64"), a.reshape(4), a.reshape(-1, 1), a.tolist()]
    found += [a.item(2), a.copy(), a.flatten(), a.ravel(), a.transpose(), a.cumsum(), a.prod(), a.std(), a.var(), a.round(), a.clip(2, 3)]
    found += [a.any(), a.all(), a.nonzero(), a.argsort(), a.repeat(2), a.squeeze(), a.swapaxes(0, 1), a.diagonal(), a.trace(), a.dot(a)]
    found += [a.take([0, 1]), a.tobytes(), a.view("int64"), a.searchsorted(2) if a.ndim == 1 else None, a.ptp() if hasattr(a, "ptp") else 0]
    return x + 1, found


@whole
@given(one)
def test_functions(x):
    a = np.array([0.1, 0.2])
    found = [np.sin(a), np.exp(a), np.linspace(0, 1, 5), np.arange(2, 8, 2), np.eye(2), np.full((2,), 7), np.zeros_like(a), np.ones_like(a)]
    found += [np.full_like(a, 3), np.where(a > 0.15, 1, 2), np.maximum(a, 0.15), np.clip(a, 0, 0.15), np.tile(a, 2), np.outer(a, a)]
    found += [np.tril(np.ones((2, 2))), np.triu_indices(2), np.meshgrid([1, 2], [3]), np.unique([2, 1, 2]), np.sort([2, 1]), np.cumsum(a)]
    found += [np.add.reduce(a), np.add.outer([1, 2], [3, 4]), np.add.accumulate([1, 2]), np.linalg.norm(a), np.dot(a, a), np.pad(a, 1)]
    found += [np.expand_dims(a, 0), np.squeeze(np.array([[1]])), np.ascontiguousarray(a), np.flip(a), np.roll(a, 1), np.isnan(a).any()]
    found += [np.einsum("i,i->", a, a), np.allclose(a, a), np.array_equal(a, [1]), np.mean(a), np.median(a), np.argsort([3, 1, 2])]
    return x + 1, found


@whole
@given(one)
def test_indices(x):
    a = np.arange(24).reshape(2, 3, 4)
    found = [a[1, 2, 3], a[0], a[:, 1], a[..., 0], a[a > 20], a[[0, 1], [1, 2]], a[None, 0].shape, a[1][2][3], a[-1, -1, -1], a[:, ::2, 1:3]]
    found += [a[np.array([True, False])], a[np.int64(1), np.array(0)], a[np.arange(2), 0, 0]]
    return x + 1, found


@whole
@given(one)
def test_a_loop_of_writes(x):
    mask = np.zeros((4, 4), dtype=bool)
    for i in range(4):
        mask[i, : i + 1] = True
    for row in mask:
        row[0] = False
    return x + int(mask.sum()), mask


@whole
@given(one)
def test_an_item_is_read_when_it_is_asked_for(x):
    a, seen = np.array([1, 2, 3]), []
    for item in a:
        seen.append(int(item))
        a[:] = 7
    iterator = iter(a)
    return x + 1, seen, next(iterator), iterator


@given(one)
def test_errors_are_numpys(x):
    told = []
    for work in (
        lambda: np.zeros(2) + np.zeros(3),
        lambda: np.zeros(2)[5],
        lambda: np.array([[1], [2, 3]], dtype=float),
        lambda: np.zeros(3).reshape(2, 2),
        lambda: bool(np.zeros(2)),
        lambda: iter(np.array(1)),
        lambda: len(np.array(1)),
        lambda: np.zeros(2).nothing,
        lambda: {np.zeros(2): 1},
        lambda: hash(np.zeros(2)),
        lambda: np.zeros(2)(),
        lambda: int(np.zeros(2)),
        lambda: np.zeros(-1),
        lambda: np.concatenate([]),
        lambda: [1, 2][np.array([0, 1])],
        lambda: "abc" + np.zeros(2),
        lambda: np.zeros(2) + None,
        lambda: next(np.zeros(2)),
    ):
        try:
            told.append(work())
        except Exception as error:
            told.append((type(error).__name__, str(error)))
    return x + 1, told


@whole
@given(one)
def test_an_error_leaves_the_function(x):
    a = np.zeros(2)
    if x.shape:
        try:
            return a[7]
        except IndexError:
            return x + 1, a


@given(one)
def test_an_error_that_is_not_caught(x):
    return x + np.zeros(2)[9]


@given(one)
def test_warnings_are_given_at_each_call(x):
    y = x + 1
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        a = np.array([1.0, 0.0]) / 0
        b = np.float32(1) / np.float32(0)
        c = np.mean([])
    return y, a, b, c, [str(warning.message) for warning in seen]


@given(one)
def test_the_state_of_errors_is_heeded(x):
    y = x + 1
    a = np.ones(2)
    with np.errstate(divide="raise"):
        try:
            a / 0
        except FloatingPointError as error:
            return y + 1, str(error)


@given(one)
def test_what_is_in_memory_by_chance_is_not_known(x):
    a = np.empty(3)
    a[:] = 1
    b = np.empty_like(a)
    b.fill(2)
    return x + 1, a, b


@given(one)
def test_large_arrays_are_left_to_numpy(x):
    a = np.zeros(100000)
    a[5] = 2
    return x + float(a.sum()), a[:7]


@given(one)
def test_objects_and_records_are_left_to_numpy(x):
    a = np.array([[], None], dtype=object)
    a[0].append(1)
    b = np.zeros(2, dtype=[("a", "f8"), ("b", "i4")])
    b["a"] = 2
    return x + 1, a, b


@given(one)
def test_what_an_array_is_said_to_be(x):
    a = np.zeros(4)
    a.shape = (2, 2)
    b = np.zeros(4)
    b.flags.writeable = False
    c = np.zeros(4)
    c.setflags(write=False)
    d = np.zeros(4)
    d.resize((2,), refcheck=False)
    return x + 1, a, b, c, d


@given(one)
def test_texts_of_arrays_depend_on_a_state(x):
    a = np.array([0.123456])
    before = str(a), repr(a), f"{a}", "%s" % a
    with np.printoptions(precision=2):
        return x + 1, before, str(a), repr(a)


@whole
@given(one)
def test_read_only_arrays(x):
    a = np.ones(2).imag
    b = a[1:]
    try:
        b[0] = 1
    except ValueError as error:
        return x + 1, a, b, str(error)


@given(one)
def test_a_reference_to_an_array(x):
    a = np.zeros(2)
    found = weakref.ref(a)
    found()[0] = 4
    return x + 1, a, found() is a


@given(one)
def test_times_are_left_to_numpy(x):
    return x + 1, np.datetime64("2020-01-01"), np.array(["2020-01-01"], "M8[D]")


@whole
@given(one)
def test_numbers_of_arrays(x):
    return x + 1, np.float32(np.arange(2)), np.int64([1, 2]), np.float64(np.array(2)), np.bool_([[0]])


class Asked:
    def __getattr__(self, name):
        HELD.append(name)
        raise AttributeError(name)

    def __call__(self, value):
        return value


@whole
@given(one)
def test_other_callables_are_not_asked_their_names(x):
    return Asked()(x + 1)


@given(one)
def test_copies(x):
    a = np.arange(3)
    return x + 1, copy.copy(a), copy.deepcopy(a), copy.deepcopy([a, a]), a.copy()


@given(one)
def test_arrays_from_outside_beside_others(x):
    a = np.zeros(2)
    b = OUTSIDE + a
    a += OUTSIDE
    part = OUTSIDE[:1]
    same = np.asarray(OUTSIDE)
    return x + 1, a, b, part, same, same is OUTSIDE, part.base is OUTSIDE


@given(one, hit=False)
def test_arrays_from_outside_are_written(x):
    a = np.ones(2)
    np.add(a, OUTSIDE, out=OUTSIDE)
    OUTSIDE[0] += a[1]
    return x + 1, OUTSIDE


@given(one)
def test_functions_that_ask_a_function_of_the_programs(x):
    seen = []

    def square(value):
        seen.append(1)
        return value * value

    doubled = np.frompyfunc(square, 1, 1)(3)
    return x + 1, doubled, np.fromfunction(lambda i: i * 2, (3,)), np.vectorize(square)([1, 2]), np.apply_along_axis(np.sum, 0, np.ones((2, 2))), len(seen)


@whole
@given(one)
def test_by_another_name(x):
    from numpy import zeros

    a = make([1, 2])
    return x + int(a.sum()), zeros(2), np.ndarray.sum(a), np.ndarray.reshape(a, (2, 1))


@given(one)
def test_printing(x):
    a = np.arange(3)
    print(a, len(a))
    a[0] = 5
    print(a)
    return x + 1


def _table(count):
    for i in range(count):
        yield np.full(2, i)


@whole
@given(one)
def test_generators_of_arrays(x):
    return x + sum(int(row.sum()) for row in _table(3)), list(_table(2))


@given(one)
def test_an_argument_is_an_array(x):
    def inner(values, out=None):
        values[0] += 1
        return values

    a = np.zeros(2)
    return x + 1, inner(a), a


@given(one)
def test_arrays_whose_flags_warn_of_writes(x):
    row, column = np.broadcast_arrays(np.array([[1, 2, 3]]), np.array([[4], [5]]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return x + int(row.sum()) + int(column.sum()), row.tolist(), column.copy()


@given(one)
def test_resizing_counts_references(x):
    table = np.array([[0, 1], [2, 3]])
    table.resize((2, 1))
    return x + 1, table


def resized(x):
    table = np.array([[0, 1], [2, 3]])
    table.resize((2, 1), refcheck=True)
    return x + 1, table


@given(one)
def test_resizing_counts_references_in_a_function_that_is_called(x):
    x, table = resized(x * 2)
    return x + 1, table
