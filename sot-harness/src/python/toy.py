"""The toy framework: small tensors over flat lists of numbers, eager functions on them, and graphs that replay calls.

An operation is pure and its result's shape depends on its arguments' shapes only, so a graph learns the shape by running
the operation on examples.
"""

import math
import operator
import weakref


class Tensor:
    """Numbers in row-major order with a shape."""

    __slots__ = ("_shape", "dtype", "_data", "__weakref__")

    def __init__(self, data, shape, dtype):
        self._shape = tuple(shape)
        self.dtype = dtype
        self._data = list(data)

    @property
    def shape(self):
        return list(self._shape)

    @property
    def ndim(self):
        return len(self._shape)

    @property
    def size(self):
        return len(self._data)

    @property
    def T(self):
        return self.transpose()

    def __deepcopy__(self, memo):
        return type(self)(self._data, self._shape, self.dtype)

    def __repr__(self):
        return f"tensor({self.tolist()}, {self.dtype})"

    def __hash__(self):
        return id(self)

    def __len__(self):
        if not self._shape:
            raise TypeError("len() of a tensor without dimensions")
        return self._shape[0]

    def __iter__(self):
        return iter([self[i] for i in range(len(self))])

    def __bool__(self):
        return bool(self.item())

    def __int__(self):
        return int(self.item())

    def __float__(self):
        return float(self.item())

    def item(self):
        if len(self._data) != 1:
            raise ValueError("only a tensor of one element is a number")
        return self._data[0]

    def tolist(self):
        return _nested(self._data, self._shape)

    def __getitem__(self, key):
        keys = key if isinstance(key, tuple) else (key,)
        if len(keys) > len(self._shape):
            raise IndexError("too many indices for a tensor")
        picked, shape = [], []
        for size, k in zip(self._shape, keys):
            if isinstance(k, slice):
                chosen = list(range(*k.indices(size)))
                shape.append(len(chosen))
            else:
                k = operator.index(k)
                if not -size <= k < size:
                    raise IndexError("a tensor's index is out of range")
                chosen = [k % size]
            picked.append(chosen)
        for size in self._shape[len(keys):]:
            picked.append(list(range(size)))
            shape.append(size)
        strides = _strides(self._shape)
        return _like(self, [self._data[i] for i in _offsets(picked, strides)], shape)

    def reshape(self, *shape):
        shape = list(shape[0] if len(shape) == 1 and isinstance(shape[0], (list, tuple)) else shape)
        if -1 in shape:
            rest = math.prod(n for n in shape if n != -1)
            shape[shape.index(-1)] = len(self._data) // rest
        if math.prod(shape) != len(self._data):
            raise ValueError(f"a tensor of shape {self.shape} cannot have shape {shape}")
        return _like(self, self._data, shape)

    def flatten(self):
        return self.reshape(-1)

    def unsqueeze(self, axis):
        shape = self.shape
        shape.insert(axis if axis >= 0 else len(shape) + 1 + axis, 1)
        return self.reshape(shape)

    def transpose(self):
        if len(self._shape) != 2:
            raise ValueError("only matrices are transposed")
        rows, columns = self._shape
        return _like(self, [self._data[r * columns + c] for c in range(columns) for r in range(rows)], (columns, rows))

    def sum(self, axis=None, keepdim=False):
        return self._reduce(sum, axis, keepdim)

    def max(self, axis=None, keepdim=False):
        return self._reduce(max, axis, keepdim)

    def min(self, axis=None, keepdim=False):
        return self._reduce(min, axis, keepdim)

    def mean(self, axis=None, keepdim=False):
        return self._reduce(lambda items: sum(items) / len(items), axis, keepdim)

    def _reduce(self, function, axis, keepdim):
        if axis is None:
            return Tensor([function(self._data)], [1] * len(self._shape) if keepdim else [], self.dtype)
        axis = operator.index(axis) % len(self._shape)
        before, size, after = self._shape[:axis], self._shape[axis], self._shape[axis + 1:]
        inner = math.prod(after)
        data = [
            function([self._data[(b * size + k) * inner + a] for k in range(size)])
            for b in range(math.prod(before))
            for a in range(inner)
        ]
        return Tensor(data, before + ((1,) if keepdim else ()) + after, self.dtype)

    def relu(self):
        return _map(self, lambda v: v if v > 0 else v * 0)

    def exp(self):
        return _map(self, lambda v: math.exp(min(v, 700)))

    def tanh(self):
        return _map(self, math.tanh)

    def abs(self):
        return _map(self, abs)

    def astype(self, dtype):
        return Tensor([_TYPES[dtype](v) for v in self._data], self._shape, dtype)

    def split(self, parts):
        step = self._shape[0] // parts
        return [self[i * step:(i + 1) * step] for i in range(parts)]

    def minmax(self):
        return self.min(), self.max()

    def add(self, other):
        return self + other

    def clone(self):
        return _like(self, self._data, self._shape)

    def __neg__(self):
        return _map(self, operator.neg)

    def __pos__(self):
        return _map(self, operator.pos)

    def __abs__(self):
        return self.abs()

    def __invert__(self):
        return Tensor([not v for v in self._data], self._shape, "bool")

    def __matmul__(self, other):
        if not isinstance(other, Tensor):
            return NotImplemented
        if len(self._shape) != 2 or len(other._shape) != 2 or self._shape[1] != other._shape[0]:
            raise ValueError(f"shapes {self.shape} and {other.shape} do not match in a product of matrices")
        rows, inner, columns = self._shape[0], self._shape[1], other._shape[1]
        data = [
            sum(self._data[r * inner + k] * other._data[k * columns + c] for k in range(inner))
            for r in range(rows)
            for c in range(columns)
        ]
        return Tensor(data, (rows, columns), self.dtype)


class Parameter(Tensor):
    """A tensor that is a parameter of a model."""

    __slots__ = ()


_TYPES = {"float32": float, "int64": int, "bool": bool}


def _div(a, b):
    return a / b if b else math.copysign(math.inf, a)


def _mod(a, b):
    return a % b if b else math.nan


def _floor(a, b):
    return a // b if b else math.nan


def _power(a, b):
    try:
        result = a ** b
    except (ZeroDivisionError, OverflowError):
        return math.inf
    return math.nan if isinstance(result, complex) else result


def _install_operators():
    arithmetic = {
        "add": operator.add, "sub": operator.sub, "mul": operator.mul, "truediv": _div, "floordiv": _floor, "mod": _mod,
        "pow": _power,
    }
    for name, function in arithmetic.items():
        setattr(Tensor, f"__{name}__", _operator(f"__{name}__", function, None))
        setattr(Tensor, f"__r{name}__", _operator(f"__r{name}__", lambda a, b, f=function: f(b, a), None))
    for name in ("lt", "le", "eq", "ne", "gt", "ge"):
        setattr(Tensor, f"__{name}__", _operator(f"__{name}__", getattr(operator, name), "bool"))


def _operator(name, function, dtype):
    def apply(self, other):
        if isinstance(other, (int, float)):
            other = Tensor([other], (), "float32" if isinstance(other, float) else "int64")
        if not isinstance(other, Tensor):
            return NotImplemented
        shape = _broadcast(self._shape, other._shape)
        data = [function(a, b) for a, b in zip(_expand(self, shape), _expand(other, shape))]
        kind = "float32" if "float32" in (self.dtype, other.dtype) or "div" in name else "int64"
        return Tensor(data, shape, dtype or kind)

    apply.__name__ = name
    apply.__qualname__ = f"Tensor.{name}"
    return apply


def _broadcast(a, b):
    n = max(len(a), len(b))
    a, b = (1,) * (n - len(a)) + a, (1,) * (n - len(b)) + b
    if any(x != y and 1 not in (x, y) for x, y in zip(a, b)):
        raise ValueError(f"shapes {list(a)} and {list(b)} do not fit")
    return tuple(y if x == 1 else x for x, y in zip(a, b))


def _expand(tensor, shape):
    own = (1,) * (len(shape) - len(tensor._shape)) + tensor._shape
    picked = [[0] * n if size == 1 else range(n) for size, n in zip(own, shape)]
    return [tensor._data[i] for i in _offsets(picked, _strides(own))]


def _strides(shape):
    return [math.prod(shape[i + 1:]) for i in range(len(shape))]


def _offsets(picked, strides):
    offsets = [0]
    for chosen, stride in zip(picked, strides):
        offsets = [offset + k * stride for offset in offsets for k in chosen]
    return offsets


def _nested(data, shape):
    if not shape:
        return data[0]
    step = math.prod(shape[1:])
    return [_nested(data[i * step:(i + 1) * step], shape[1:]) for i in range(shape[0])]


def _like(tensor, data, shape):
    return Tensor(data, shape, tensor.dtype)


def _map(tensor, function):
    return _like(tensor, [function(v) for v in tensor._data], tensor._shape)


_install_operators()


def arange(*shape):
    """A tensor of the given shape with the numbers from 0 on, as floats."""
    return Tensor([float(i) for i in range(math.prod(shape))], shape, "float32")


def ones(shape):
    return full(shape, 1.0)


def zeros(shape):
    return full(shape, 0.0)


def full(shape, value):
    return Tensor([value] * math.prod(shape), shape, "float32")


def relu(x):
    return x.relu()


def add(x, y, alpha=1):
    return x + y * alpha


def matmul(x, y):
    return x @ y


def concat(tensors, axis=0):
    if axis != 0:
        raise ValueError("tensors are joined along the first axis only")
    first = tensors[0]
    if any(t._shape[1:] != first._shape[1:] for t in tensors):
        raise ValueError("tensors of different shapes cannot be joined")
    return _like(first, [v for t in tensors for v in t._data], (sum(t._shape[0] for t in tensors),) + first._shape[1:])


def stack(tensors):
    return concat([t.unsqueeze(0) for t in tensors])


def split(x, parts):
    return x.split(parts)


def minmax(x):
    return x.minmax()


def sqrt(x):
    """Square roots; negative numbers raise when the graph runs."""
    return _map(x, lambda v: math.sqrt(v))


def interruptible(x):
    """Returns the same numbers, but raises `KeyboardInterrupt` at a negative one."""

    def same(v):
        if v < 0:
            raise KeyboardInterrupt
        return v

    return _map(x, same)


def where(condition, x, y):
    x, y = (v if isinstance(v, Tensor) else full(condition._shape, v) for v in (x, y))
    return _like(x, [a if c else b for c, a, b in zip(condition._data, x._data, y._data)], x._shape)


def linear(x, weight, bias=None):
    result = x @ weight
    return result if bias is None else result + bias


class _Multiply:
    """An operation that is a callable object, like NumPy's ufuncs."""

    def __call__(self, left, right, out=None):
        result = left * right
        if out is None:
            return result
        out._data[:] = result._data
        return out


multiply = _Multiply()

_GRAPH_FUNCTIONS = [multiply, ones, zeros, full, relu, add, matmul, concat, stack, split, minmax, sqrt, interruptible, where, linear]

_grad = True


def is_grad_enabled():
    return _grad


def set_grad_enabled(mode):
    global _grad
    _grad = mode


_SAVED = []


def save(tensor):
    """Stores a tensor: a side effect, which must not be part of a graph."""
    _SAVED.append(tensor.tolist())


_METHODS = [
    "reshape", "flatten", "unsqueeze", "transpose", "sum", "max", "min", "mean", "relu", "exp", "tanh", "abs", "astype", "split",
    "minmax", "add", "clone",
] + [name for name in vars(Tensor) if name.startswith("__") and callable(getattr(Tensor, name)) and name not in (
    "__init__", "__bool__", "__int__", "__float__", "__iter__", "__len__", "__repr__", "__hash__", "__deepcopy__", "__class__",
)]


class Value:
    """A tensor of a graph, with an example of the same shape and element type."""

    __slots__ = ("example",)

    def __init__(self, example):
        self.example = example


def _fill(structure, find):
    """Return the structure with each value replaced by the result of `find`."""
    if isinstance(structure, Value):
        return find(structure)
    if type(structure) in (list, tuple):
        return type(structure)(_fill(item, find) for item in structure)
    if type(structure) is dict:
        return {key: _fill(item, find) for key, item in structure.items()}
    return structure


def _values(result):
    """Return the result with a new value in place of each tensor."""
    if isinstance(result, Tensor):
        return Value(result)
    if type(result) in (list, tuple):
        return type(result)(_values(item) for item in result)
    return result


def _bind(values, result, env):
    if isinstance(values, Value):
        env[values] = result
    elif type(values) in (list, tuple):
        for value, item in zip(values, result):
            _bind(value, item, env)


def _run(kind, callee, args, kwargs):
    return getattr(args[0], callee)(*args[1:], **kwargs) if kind == "method" else callee(*args, **kwargs)


class Graph:
    """A graph: the list of its calls."""

    def __init__(self):
        self.steps = []
        self.parameters = []

    def input(self, tensor):
        return Value(Tensor([_TYPES[tensor.dtype](1)] * tensor.size, tensor._shape, tensor.dtype))

    def parameter(self, tensor):
        value = self.input(tensor)
        self.parameters.append((value, weakref.ref(tensor)))
        return value

    def call(self, kind, callee, args, kwargs):
        example = operator.attrgetter("example")
        result = _values(_run(kind, callee, _fill(args, example), _fill(kwargs, example)))
        if result is NotImplemented:
            raise TypeError(f"{callee} does not know its operands")
        self.steps.append((kind, callee, args, kwargs, result))
        return result

    def finish(self, name, inputs, outputs):
        steps, parameters = tuple(self.steps), tuple(self.parameters)

        def graph(*tensors):
            env = dict(zip(inputs, tensors))
            env.update((value, tensor()) for value, tensor in parameters)
            for kind, callee, args, kwargs, result in steps:
                _bind(result, _run(kind, callee, _fill(args, env.get), _fill(kwargs, env.get)), env)
            return [env[value] for value in outputs]

        return graph
