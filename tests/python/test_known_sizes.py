"""Shapes made from the results of `paddle.shape` are known during tracing, as the sizes of the tensor are."""

import paddle
import paddle.nn.functional as F
import pytest

import sot


def of_a_reshape(x):
    sizes = paddle.shape(x)
    y = x.reshape([sizes[0], sizes[1] * sizes[2]])
    return y * y.shape[1]


def of_unpacked_sizes(x):
    n, c, h = paddle.shape(x)
    y = paddle.reshape(x, [n, 2, c // 2, h]).transpose([0, 2, 1, 3])
    return y.reshape(shape=[n, c, h]) + y.shape[1]


def of_made_tensors(x):
    n, c = paddle.shape(x)[:2]
    made = paddle.arange(c, dtype="float32")
    y = paddle.ones([n, c]) + paddle.full(shape=[c], fill_value=2.0) + paddle.zeros([n, 1]) + made
    return y * made.shape[0] + len(y)


def of_a_mask(x):
    n, c = paddle.shape(x)[0], paddle.shape(x)[1]
    ids = paddle.arange(c)
    mask = paddle.tile(ids.unsqueeze([0, 1]), [n, c, 1]) <= ids.unsqueeze([0, 2])
    return mask.astype("float32") * mask.shape[1]


def of_another_tensor(x):
    y = paddle.sum(x, axis=-1, keepdim=True).expand(paddle.shape(x))
    return y * y.shape[-1]


def of_sums(x):
    sizes = paddle.shape(x)
    y = paddle.ones([sizes[0] + 1, 2 * sizes[1] - 1, sizes[2] % 2 + 1])
    return y * sum(y.shape)


def of_other_makers(x):
    n, c = paddle.shape(x)[0], paddle.shape(x)[1]
    y = paddle.eye(c) + F.one_hot(paddle.arange(c), c) + paddle.rand([c, c]) * 0 + paddle.randn([n, 1, 1]) * 0
    return y * y.shape[-1]


def of_evenly_spaced_numbers(x):
    times = paddle.linspace(0.0, 1.0, 5)
    for time, step in zip(times[:-1], times[1:] - times[:-1]):
        x = x + step * paddle.cos(time) * x
    return x * times.shape[0] + len(paddle.logspace(0, 1, num=3))


def of_resized_images(x):
    image = x.unsqueeze(1)
    y = F.interpolate(image[:, :, :1, :2], size=paddle.shape(image)[2:])
    y = y + F.upsample(image[:, :, :2, :1], paddle.shape(image)[-2:], mode="bilinear")
    y = y + F.adaptive_avg_pool2d(image, paddle.shape(image)[2:])
    return y * y.shape[2] + y.shape[3]


def of_slices(x):
    n, c = paddle.shape(x)[0], paddle.shape(x)[1]
    y = x[:, : c - 1, n // n :] + x[0, c - 1, 0] + x[n - 1 :, n:, :1].sum()
    z = paddle.slice(x, [1], [0], [c // 2]) + paddle.split(x, [c // 2, c - c // 2], axis=1)[0]
    return y.sum() * y.shape[1] + z.sum() * z.shape[1]


def of_branches(x):
    sizes = paddle.shape(x)
    if sizes[0] > 2 and not sizes[1] == 4:
        return x * 2
    return x + 1 if sizes[2] % 2 else x - 1


def of_python_numbers(x):
    sizes = paddle.shape(x)
    for _ in range(sizes[0]):
        x = x + int(sizes[1]) * sizes[2].item()
    return x * [1, 2, 3, 4, 5, 6][sizes[2]] * float(sizes[0]) * (sizes[0] // 1).item() * int(sizes[0] >= 3)


def of_a_tensor_of_a_number(x):
    n = paddle.to_tensor(x.shape[0] * x.shape[1], "int32")
    c = paddle.to_tensor(x.shape[2], dtype=paddle.int64)
    y = paddle.reshape(x, [n, c])
    z = paddle.ones(paddle.to_tensor([x.shape[0], 2])) * paddle.to_tensor([5, 6])[1]
    return y * y.shape[0] + int(n) + z.shape[0] if c > 2 else y - z.shape[1]


def of_a_padding(x):
    h = paddle.shape(x)[1]
    pad = paddle.cast(paddle.ceil(h / 7) * 7 - h, "int32").reshape([-1])
    if pad > 0:
        x = F.pad(x, paddle.concat([pad // 2, pad - pad // 2]), data_format="NLC")
    return x * 2


def of_bounds_with_a_dimension(x):
    """A tensor of one element is a bound, with a dimension, too."""
    half = paddle.shape(x)[0].clone().reshape([-1]) // 2
    return x[half:].sum(0) + x[: paddle.to_tensor(2).reshape([-1])].sum(0)


def of_a_quotient(x):
    sizes = paddle.shape(x)
    ratio = sizes[0].astype("float32") / sizes[1]
    return x * 2 if ratio > 0.6 else x - float(ratio)


def of_the_largest(x):
    sizes = paddle.shape(x)
    if sizes.max() > 4 and (sizes >= 2).all():
        return x * int(sizes.sum())
    return x + paddle.maximum(sizes[0], sizes[1]).item()


def of_a_permutation(x):
    return x[paddle.randperm(paddle.shape(x)[0])].sum(0) * 0 + x.sum()


def of_copied_sizes(x):
    rows = paddle.assign(paddle.shape(x)[:1]).clone().astype("int32")
    both = paddle.to_tensor([paddle.shape(x)[1], 3])
    y = F.pad(x, paddle.concat([rows, paddle.to_tensor([paddle.shape(x)[2]]).cast("int32")]), data_format="NCL")
    return y.sum() * y.shape[2] + x.reshape([-1, 1]).expand([-1, both[1]]).shape[1]


def of_halved_sizes(x):
    pad = paddle.shape(x)[2] // 2
    sizes = [paddle.cast(pad, "int32").reshape([1]), (pad * 2).astype("int32").reshape([1])]
    y = F.pad(x, paddle.concat(sizes), data_format="NCL")
    return y * y.shape[2]


OF_SHAPES = [
    of_a_padding,
    of_copied_sizes,
    of_halved_sizes,
    of_bounds_with_a_dimension,
    of_a_permutation,
    of_a_quotient,
    of_the_largest,
    of_a_tensor_of_a_number,
    of_a_reshape,
    of_unpacked_sizes,
    of_made_tensors,
    of_a_mask,
    of_another_tensor,
    of_sums,
    of_other_makers,
    of_evenly_spaced_numbers,
    of_resized_images,
    of_slices,
    of_branches,
    of_python_numbers,
]


@pytest.mark.parametrize("fn", OF_SHAPES)
def test_no_break(fn):
    translated = sot.symbolic_translate(fn)
    for shape in ([2, 4, 3], [3, 6, 5], [2, 4, 3]):
        x = paddle.rand(shape)
        expected, actual = fn(x), translated(x)
        assert actual.dtype == expected.dtype
        assert paddle.equal_all(actual, expected)
    stats = sot.stats()
    assert (stats.breaks, stats.fallbacks) == ({}, {})
    assert (stats.graphs, stats.hits) == (2, 1)


def test_what_is_no_shape_stays_a_tensor():
    def f(x):
        sizes = paddle.shape(x)
        return paddle.stack([sizes[0], sizes[1]]), sizes[0] * x, paddle.full([2], sizes[1])

    translated = sot.symbolic_translate(f)
    x = paddle.ones([2, 3])
    for expected, actual in zip(f(x), translated(x)):
        assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
        assert paddle.equal_all(actual, expected)
    assert sot.stats().graphs == 1


@pytest.mark.parametrize("fn", OF_SHAPES)
def test_open_sizes_are_not_taken_for_known(fn, monkeypatch):
    monkeypatch.setenv("SOT_ALLOW_DYNAMIC_SHAPE", "1")
    translated = sot.symbolic_translate(fn)
    for shape in ([2, 4, 3], [3, 6, 5], [4, 2, 4], [5, 4, 2], [3, 6, 5]):
        x = paddle.rand(shape)
        assert paddle.allclose(translated(x), fn(x))
    assert sot.stats().graphs


def test_what_is_known_is_asked_as_in_eager_mode(same):
    def ask(x):
        n = paddle.shape(x)[1]
        return n, n > 2, bool(n), float(n), n.item(), (n > 2).item(), n // 2, max(n, 2), not n, x[n - 3], x[..., n - 1]

    x = paddle.rand([2, 4])
    same(sot.symbolic_translate(ask)(x), ask(x))
    assert (sot.stats().graphs, sot.stats().breaks) == (1, {})


def test_numbers_of_elements(same):
    weight = paddle.ones([3, 5])

    def ask(x):
        n = x.numel()
        y = x / n if n > 7 else x * n
        return y, n.item(), int(paddle.numel(x)), float(x.T.numel()), sum(int(p.numel()) for p in (weight, x)), n

    x = paddle.rand([2, 4])
    same(sot.symbolic_translate(ask)(x), ask(x))
    assert (sot.stats().graphs, sot.stats().breaks, sot.stats().fallbacks) == (1, {}, {})


def test_a_listed_method_still_breaks():
    def ask(x):
        return x * paddle.shape(x)[0].item()

    x = paddle.rand([2, 4])
    with sot.break_on(paddle.Tensor.item):
        assert paddle.equal_all(sot.symbolic_translate(ask)(x), ask(x))
        assert any("break-listed" in reason for reason in sot.stats().breaks)


def test_tensors_of_other_numbers_and_those_that_are_changed(same):
    def ask(x):
        n, half, flag = paddle.to_tensor(2), paddle.to_tensor(0.5), paddle.to_tensor(True)
        n += 1
        several = paddle.to_tensor([2])
        as_floating = paddle.to_tensor(3, "float32")
        return x.reshape([n, -1]), x * half + as_floating, n, flag, several, paddle.full([2], as_floating)

    x = paddle.rand([2, 3])
    for _ in range(2):
        same(sot.symbolic_translate(ask)(x), ask(x))
    assert sot.stats().graphs


def with_sizes_written(x):
    shape = x.shape
    shape[0] = -1
    shape.append(1)
    halved = x.shape
    halved[1:] = [2, halved[1] // 2]
    ones = x.shape
    del ones[0]
    ones.insert(0, 1)
    seen = [size for size in ones if len(ones) > 3 or ones.append(size) is None]
    ones.reverse()
    return x.reshape(shape) * 2, x.reshape(halved), ones, seen, x.shape, list(reversed(halved)), type(ones) is type(x.shape)


def with_sizes_added(x):
    shape = same = x.shape
    shape += [1]
    twice = x.shape
    twice *= 2
    return x.reshape(shape), shape is same, same, twice, ([1] + twice)[1:3] == x.shape


def with_errors_of_lists(x):
    shape, errors = x.shape, []

    def write_beyond():
        shape[5] = 1

    for write in (lambda: shape.pop(9), lambda: shape.remove(77), write_beyond):
        try:
            write()
        except (IndexError, ValueError) as error:
            errors.append(str(error))
    return x.reshape(shape) + 1, errors


def to_an_object_that_stays(x, kept=[]):
    kept.append(x.shape)
    kept[-1].append(x.shape[1])
    kept[-1][1] = 7
    return x + len(kept[-1]), kept.pop()


@pytest.mark.parametrize("fn", [with_sizes_written, with_sizes_added, with_errors_of_lists, to_an_object_that_stays])
def test_shapes_are_written_to_as_lists_are(fn, same):
    fast = sot.symbolic_translate(fn)
    for size in (2, 3, 5):
        x = paddle.arange(size * 4, dtype="float32").reshape([size, 4])
        same(fast(x), fn(x))
    assert sot.stats().graphs == sot.stats().translations <= 3
    assert not sot.stats().breaks and not sot.stats().fallbacks


def test_shapes_from_outside_are_written_to_where_they_are(same):
    def f(x, shape):
        y = x * 2
        shape.append(1)
        return y.reshape(shape), shape

    fast = sot.symbolic_translate(f)
    for _ in range(2):
        x = paddle.ones([2, 3])
        given, expected = x.shape, x.shape
        y, kept = fast(x, given)
        same((y, list(kept)), (f(x, expected)[0], list(expected)))
        assert kept is given
    assert not sot.stats().fallbacks


def of_read_sizes(x):
    n, m = paddle.shape(x)[0].item(), int(paddle.shape(x)[-1:][0])
    return paddle.full([n, m + 1], 2.0).sum() * x, n, m


def of_sizes_of_a_result(x):
    part = (x * 2)[:, 1:]
    rows, columns = paddle.shape(part)
    return part.reshape([int(columns), int(rows)]), int(columns) // 2


def of_a_range(x):
    y = x
    for _ in range(paddle.shape(x)[0]):
        y = y + 1
    return y.reshape([paddle.shape(x)[0], x.shape[1], 1])


def of_numbers_of_elements(x):
    return x * 2, int(paddle.numel(x * 2)), x.numel().item() + 1, x.reshape([paddle.numel(x).item()])


def of_computed_sizes(x):
    rows, columns = paddle.shape(x)
    missing = (3 - columns % 3) % 3
    if missing > 2 or rows * columns > 100:
        return x, missing.item()
    return x * 2, missing.item(), (columns // 2 + 1).item(), int(2 * columns - rows), (columns == 50).item()


def of_a_cache(x):
    cache = ATTENTION.gen_cache(x.reshape([2, -1, 1]))
    return cache.k.shape, x + 1


ATTENTION = paddle.nn.MultiHeadAttention(4, 2)


@pytest.mark.parametrize(
    "fn",
    [of_read_sizes, of_sizes_of_a_result, of_a_range, of_numbers_of_elements, of_computed_sizes, of_a_cache],
    ids=lambda fn: fn.__name__,
)
def test_open_sizes_are_read_without_a_break(fn, same):
    """The second size opens the dimension, and its translation serves all others."""
    translated = sot.symbolic_translate(fn)
    for columns in (5, 3, 7, 4, 9, 2):
        x = paddle.rand([2, columns])
        same(translated(x), fn(x))
    stats = sot.stats()
    assert (stats.breaks, stats.fallbacks) == ({}, {})
    assert (stats.graphs, stats.hits) == (2, 4)


def test_a_size_that_is_written_over_is_the_former_one(same):
    def fn(x):
        y = x * 1
        size = paddle.shape(y)[1]
        y.reshape_([-1, 1])
        return y, int(size)

    translated = sot.symbolic_translate(fn)
    for columns in (5, 3, 7, 4):
        x = paddle.rand([2, columns])
        same(translated(x), fn(x))
    assert sot.stats().graphs
