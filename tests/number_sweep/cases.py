"""The cases of the sweep: where a number can stand beside a tensor, the numbers, and the element types.

A place for a number is a small function `call(args, k)`. Operators are written down here; functions and methods come from the
public names of Paddle, with the arguments of `tests/api_table`: each argument that is a number there is a place, and so is each
parameter whose default is one.
"""

import functools
import inspect
import sys
from pathlib import Path

import numpy
import paddle

sys.path.insert(0, str(Path(__file__).parent.parent / "api_table"))

from arguments import candidates, floats, ints, bools  # noqa: E402

DTYPES = (
    "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128".split()
)

NUMBERS = {
    "0": 0,
    "1": 1,
    "-1": -1,
    "2**24+1": 2**24 + 1,
    "-2**24-1": -(2**24) - 1,
    "2**31": 2**31,
    "2654435761": 2654435761,
    "2**53+1": 2**53 + 1,
    "2**63-1": 2**63 - 1,
    "2**64": 2**64,
    "0.0": 0.0,
    "0.1": 0.1,
    "1e-5": 1e-5,
    "2.0": 2.0,
    "1e-45": 1e-45,
    "1e300": 1e300,
    "nan": float("nan"),
    "inf": float("inf"),
    "-inf": float("-inf"),
    "-0.0": -0.0,
    "1j": 1j,
    "0.1-0.7j": 0.1 - 0.7j,
    "True": True,
    "np.float64": numpy.float64(0.1),
    "np.float32": numpy.float32(0.1),
    "np.float16": numpy.float16(0.1),
    "np.int64": numpy.int64(2**53 + 1),
    "np.int32": numpy.int32(2**24 + 1),
    "np.uint8": numpy.uint8(200),
    "np.bool_": numpy.bool_(True),
    "np.complex64": numpy.complex64(1j),
}

# For integers that are a count or a position, other numbers test nothing new, or need too much memory.
FEW = ("0", "1", "-1", "0.1", "2.0", "nan", "1j", "True", "np.int64", "np.float32")

# The numbers that the functions of the table are called with.
MOST = (
    "0 1 -1 2**24+1 -2**24-1 2**31 2**53+1 2**63-1 0.1 1e-5 1e-45 nan inf -inf -0.0 1j True np.float32 np.float64 np.int64".split()
)

# Numbers that others of their type come before.
CHANGING = "0 -1 2**24+1 2**53+1 2**63-1 2**64 0.1 2.0 1e-45 1e300 nan inf -0.0".split()

# Element types beside which numbers change, and methods are tried that are functions, too.
MAIN = ("int32", "int64", "float16", "float32", "float64")

OPERATORS = {
    "x + k": lambda x, k: x + k,
    "k + x": lambda x, k: k + x,
    "x - k": lambda x, k: x - k,
    "k - x": lambda x, k: k - x,
    "x * k": lambda x, k: x * k,
    "k * x": lambda x, k: k * x,
    "x / k": lambda x, k: x / k,
    "k / x": lambda x, k: k / x,
    "x // k": lambda x, k: x // k,
    "k // x": lambda x, k: k // x,
    "x % k": lambda x, k: x % k,
    "k % x": lambda x, k: k % x,
    "x ** k": lambda x, k: x**k,
    "k ** x": lambda x, k: k**x,
    "x & k": lambda x, k: x & k,
    "k & x": lambda x, k: k & x,
    "x | k": lambda x, k: x | k,
    "x ^ k": lambda x, k: x ^ k,
    "x << k": lambda x, k: x << k,
    "k << x": lambda x, k: k << x,
    "x >> k": lambda x, k: x >> k,
    "x @ k": lambda x, k: x @ k,
    "x < k": lambda x, k: x < k,
    "x <= k": lambda x, k: x <= k,
    "x > k": lambda x, k: x > k,
    "k >= x": lambda x, k: k >= x,
    "x == k": lambda x, k: x == k,
    "k == x": lambda x, k: k == x,
    "x != k": lambda x, k: x != k,
}


def _in_place(operator):
    scope = {}
    exec(f"def call(x, k):\n    y = x.clone()\n    z = y\n    y {operator}= k\n    return y, z\n", scope)
    return scope["call"]


for _operator in ("+", "-", "*", "/", "//", "%", "**", "&", "|", "^", "<<", ">>"):
    OPERATORS[f"x {_operator}= k"] = _in_place(_operator)


def _setitem(index):
    scope = {"paddle": paddle}
    exec(f"def call(x, k):\n    y = x.clone()\n    y[{index}] = k\n    return y\n", scope)
    return scope["call"]


# Programs that no function of the table covers.
PROGRAMS = {
    "x[1] = k": _setitem("1"),
    "x[...] = k": _setitem("..."),
    "x[:2] = k": _setitem(":2"),
    "x[x > 2] = k": _setitem("x.astype('float32') > 2"),
    "x[[0, 2]] = k": _setitem("[0, 2]"),
    "where(c, x, k)": lambda x, k: paddle.where(x.astype("bool"), x, k),
    "where(c, k, x)": lambda x, k: paddle.where(x.astype("bool"), k, x),
    "to_tensor(k)": lambda x, k: (paddle.to_tensor(k), x.astype("bool")),
    "to_tensor([k])": lambda x, k: (paddle.to_tensor([k, 1]), x.astype("bool")),
    "to_tensor(k, dtype)": lambda x, k: paddle.to_tensor(k, dtype=x.dtype),
    "to_tensor([k], dtype) + x": lambda x, k: paddle.to_tensor([k], dtype=x.dtype) + x,
    "full(k, dtype)": lambda x, k: paddle.full([2], k, dtype=x.dtype),
    "full(k)": lambda x, k: (paddle.full([2], k), x.astype("bool")),
    "full(k) + x": lambda x, k: paddle.full([], k, x.dtype) + x,
    "full_like(x, k)": lambda x, k: paddle.full_like(x, k),
    "full_like(x, k, float64)": lambda x, k: paddle.full_like(x, k, dtype="float64"),
    "full_like(x, k, int64)": lambda x, k: paddle.full_like(x, k, dtype="int64"),
    "clip(min=k)": lambda x, k: paddle.clip(x, min=k),
    "clip(max=k)": lambda x, k: paddle.clip(x, max=k),
    "x.clip(k, k)": lambda x, k: x.clip(k, k),
    "x.clip_(k)": lambda x, k: x.clone().clip_(k),
    "x.fill_(k)": lambda x, k: x.clone().fill_(k),
    "x.scale(k)": lambda x, k: x.scale(k),
    "scale(x, 2, k)": lambda x, k: paddle.scale(x, 2, k),
    "scale(x, k, 1.0, False)": lambda x, k: paddle.scale(x, k, 1.0, False),
    "x.scale_(k)": lambda x, k: x.clone().scale_(k),
    "x.pow(k)": lambda x, k: x.pow(k),
    "x.add_(k)": lambda x, k: x.clone().add_(paddle.to_tensor(k)),
    "x.masked_fill(m, k)": lambda x, k: x.masked_fill(x.astype("bool"), k),
    "x.masked_fill_(m, k)": lambda x, k: x.clone().masked_fill_(x.astype("bool"), k),
    "x.index_fill(i, k)": lambda x, k: x.index_fill(paddle.arange(2), 0, k),
    "x.index_fill_(i, k)": lambda x, k: x.clone().index_fill_(paddle.arange(2), 0, k),
    "x.put_along_axis(i, k)": lambda x, k: x.put_along_axis(paddle.zeros([1], "int64"), k, 0),
    "x.fill_diagonal_(k)": lambda x, k: paddle.stack([x, x]).fill_diagonal_(k),
    "F.pad(x, k)": lambda x, k: paddle.nn.functional.pad(x, [1, 1], value=k),
    "arange(0, k)": lambda x, k: (paddle.arange(0, min(k, 5), 1), x.astype("bool")),
    "arange(k, k + 3)": lambda x, k: (paddle.arange(k, k + 3), x.astype("bool")),
    "arange(k, k + 3, dtype)": lambda x, k: paddle.arange(k, k + 3, 1, x.dtype),
    "linspace(0, k)": lambda x, k: paddle.linspace(0, k, 4, x.dtype),
    "linspace(k, 0)": lambda x, k: (paddle.linspace(k, 0, 4), x.astype("bool")),
    "x.lerp(x, k)": lambda x, k: x.lerp(x + x, k),
    "addmm(beta)": lambda x, k: paddle.addmm(x.reshape([1, -1]), x.reshape([1, -1])[:, :1], x.reshape([1, -1]), k),
    "addmm(alpha)": lambda x, k: paddle.addmm(x.reshape([1, -1]), x.reshape([1, -1])[:, :1], x.reshape([1, -1]), 1, k),
    "nan_to_num(k)": lambda x, k: paddle.nan_to_num(x, k),
    "allclose(rtol)": lambda x, k: paddle.allclose(x, x + x, rtol=k),
    "leaky_relu(k)": lambda x, k: paddle.nn.functional.leaky_relu(x, k),
    "softplus(k)": lambda x, k: paddle.nn.functional.softplus(x, beta=k),
    "hardtanh(k)": lambda x, k: paddle.nn.functional.hardtanh(x, -1, k),
    "maximum(x, full(k))": lambda x, k: paddle.maximum(x, paddle.full([], k, x.dtype)),
    "clip(x * 2, -k, k)": lambda x, k: paddle.clip(x + x, -k, k),
    "x * k + k": lambda x, k: x * k + k,
    "x * (k + 1)": lambda x, k: x * (k + 1),
    "x.astype(k + x)": lambda x, k: (x.astype("float32") + k).astype(x.dtype),
}

RANDOM = (
    "rand bernoulli binomial dropout gumbel normal poisson gamma exponential cauchy geometric multinomial uniform shuffle "
    "sample rrelu fractional seed empty top_p"
).split()

# Not called, for a reason in `tests/api_table/probe.py`, or because they combine no number with a tensor.
NEVER = set(
    """set_printoptions disable_static enable_static set_default_dtype set_flags set_grad_enabled set_device enable_compat
    disable_signal_handler monkey_patch_variable save load async_save flops summary batch check_shape cuda pin_memory
    sparse_attention reconstruct_from_ create_parameter create_tensor set_string_list set_vocab get_map_tensor data_ptr
    householder_product ormqr svd_lowrank pca_lowrank get_rng_state set_rng_state set_cuda_rng_state LazyGuard DataParallel
    backward apply register_hook iinfo finfo numel hsigmoid_loss rnnt_loss ctc_loss margin_cross_entropy
    class_center_sample adaptive_log_softmax_with_loss embedding_renorm_ sync_batch_norm
    as_strided narrow get_flags svdvals matrix_exp lstsq""".split()
)

# Parameters that are a count or a position.
COUNTS = set(
    """axis axis1 axis2 dim dim1 dim2 axes n k num num_or_sections num_or_indices chunks shifts repeats groups kernel_size
    output_size upscale_factor downscale_factor sections padding stride dilation offset diagonal start_axis stop_axis end_axis
    num_classes num_rows num_columns num_groups size depth decimals bins minlength index_num nshards shard_id row col
    max_norm_dim source destination dim0 dim1 degree r full_matrices num_samples driver hop_length frame_length n_fft
    win_length ignore_index num_splits seg_num ceil_mode sampling_ratio output_padding q_dim dim_a dim_b maxlen scale_factor
    begin_norm_axis num_or_section spatial_scale top_k niter length window_length step swap_axes perm start_dim end_dim order
    num_heads sparse_dim shape""".split()
)


class Place:
    """A place for a number: a function to translate, and a maker of new arguments for each call."""

    def __init__(self, name, call, make, few=False):
        self.name, self.call, self.make, self.few = name, call, make, few
        self.refused = self.again = self.listed = False

    def numbers(self, dtype, mode):
        """Return the numbers that are tried in this place, with tensors of an element type."""
        numbers = self._numbers(dtype, mode)
        if ("**" in self.name or "pow" in self.name) and ("int" in dtype or dtype == "bool"):
            # Eager mode never ends.
            numbers = [label for label in numbers if not label.startswith(("-", "2**53", "2**63", "2**64", "np.int64"))]
        return numbers

    def _numbers(self, dtype, mode):
        if self.refused:
            return ["2.0", "np.int64"] if mode == "known" and dtype in ("int64", "float32") else []
        if mode == "replayed":
            return list(FEW) if dtype in ("int64", "float32") else []
        if self.again and dtype not in MAIN:
            return []
        if mode == "known":
            return list(FEW if self.few else NUMBERS if self.listed else MOST)
        return [] if self.few or dtype not in MAIN else list(CHANGING)


def vector(dtype, name=""):
    if dtype == "bool":
        return filled(dtype, [1, 0, 1, 1, 0, 1])
    # Eager mode ends the process when it divides an integer by zero, and never ends for negative powers of zero.
    second = 17 if "**" in name else -17
    return filled(dtype, [3, second, 2, 1, 73, 5] if "int" in dtype else [0.3, -1.7, 2.0, 0.0, 7.3, -0.0])


def scalar(dtype):
    return filled(dtype, 3.7)


def filled(dtype, values):
    return paddle.to_tensor(values, dtype="float64").astype(dtype)


def of_type(value, dtype):
    """Return the value, with its tensors of `float32` converted to another element type."""
    if isinstance(value, paddle.Tensor) and value.dtype == paddle.float32 and value.is_dense():
        return (value * 10 if "int" in dtype else value).astype(dtype)
    if isinstance(value, (list, tuple)):
        return type(value)(of_type(item, dtype) for item in value)
    if isinstance(value, dict):
        return {key: of_type(item, dtype) for key, item in value.items()}
    return value


AREAS = [
    ("paddle", paddle, False),
    ("paddle.Tensor", paddle.Tensor, True),
    ("paddle.nn.functional", paddle.nn.functional, False),
    ("paddle.linalg", paddle.linalg, False),
    ("paddle.fft", paddle.fft, False),
    ("paddle.signal", paddle.signal, False),
]


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def works(function, make):
    try:
        args, kwargs = make()
        function(*args, **kwargs)
    except Exception:
        return False
    return True


def public(owner):
    for name in sorted(dir(owner)):
        skipped = name.startswith(("_", "set_", "get_")) or name in NEVER or any(part in name for part in RANDOM)
        if not skipped and callable(getattr(owner, name)) and not isinstance(getattr(owner, name), type):
            yield name


def of_api():
    """Yield the places in calls of Paddle's functions and methods."""
    seen = set()
    for area, owner, method in AREAS:
        for name in public(owner):
            function = getattr(owner, name)
            module = getattr(function, "__module__", None) or ""
            in_place = name.endswith("_") and hasattr(paddle.Tensor, name)  # Methods, too.
            if not method and (id(function) in seen or in_place or not module.startswith("paddle")):
                continue
            seen.add(id(function))
            for make in candidates(area, name, function, method):
                if works(function, make):
                    yield from of_function(area, owner, name, function, method, make)
                    break


def of_function(area, owner, name, function, method, make):
    args, kwargs = make()
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    changed = ".clone()" if name.endswith("_") and not name.endswith("__") and name != "set_" else ""
    names = [f"a{at}" for at in range(len(args))]
    scope = {"owner": owner, "paddle": paddle}

    def place(slot, given, few):
        first = f"{names[0]}{changed}" if names and given and given[0] == names[0] else None
        given = [first, *given[1:]] if first else given
        if method:
            if not first:
                return None
            called = f"y = {first}\n    result = y.{name}({', '.join(given[1:])})\n    return result, y"
        else:
            called = f"return owner.{name}({', '.join(given)})"
        inner = {}
        source = f"def call({', '.join([*names, 'k'])}):\n    {called}\n"
        exec(compile(source, f"<{area}.{name}>", "exec"), scope, inner)
        return Place(f"{area}.{name}({slot})", inner["call"], lambda dtype: of_type(make()[0], dtype), few)

    places = []
    tensors = [isinstance(arg, paddle.Tensor) for arg in args]
    for at, arg in enumerate(args):
        label = parameters[at].name if at < len(parameters) else str(at)
        second = at > 0 and tensors[0] and tensors[at] and label in ("y", "other", "value", "values", "weight")
        if is_number(arg) or second:
            given = [*names[:at], "k", *names[at + 1 :]]
            places.append(place(label, given, label in COUNTS))
    for parameter in parameters[len(args) :]:
        if "dropout" in parameter.name:
            continue
        numeric = is_number(parameter.default) or parameter.name in ("min", "max", "nan", "posinf", "neginf", "eps", "value")
        if numeric and parameter.default is not parameter.empty and any(tensors):
            given = [*names, f"{parameter.name}=k"]
            places.append(place(parameter.name, given, parameter.name in COUNTS))
    places = [each for each in places if each]
    for each in places:
        # For an argument that must be a tensor, a few numbers are enough to see that numbers are refused.
        each.again = method and function is getattr(paddle, name, None)
        each.refused = not any(works(each.call, lambda k=k: ((*each.make("float32"), k), {})) for k in (2, 0.5))
    return places


@functools.lru_cache(maxsize=None)
def places():
    """Return all places, by name."""
    found = {}
    for name, call in {**OPERATORS, **PROGRAMS}.items():
        found[name] = Place(name, call, lambda dtype, name=name: (vector(dtype, name),))
        found[name].listed = True
    for name, call in OPERATORS.items():
        found[f"{name} (no dimensions)"] = Place(name, call, lambda dtype: (scalar(dtype),))
    for place in of_api():
        found[place.name] = place
    return found
