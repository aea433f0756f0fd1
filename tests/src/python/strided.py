"""A toy framework whose tensors are views of memory: operations in place, views, random numbers, and a global state that
operations read. A graph runs its statements in order on the tensors that it is given, and changes them as the statements
do.
"""

import math
import operator
import weakref


class Tensor:
    """Numbers in a storage that other tensors may share, which is a list: where they begin, and how far apart they lie."""

    __slots__ = ("_storage", "_offset", "_shape", "_strides", "__weakref__")

    def __init__(self, storage, offset, shape, strides):
        self._storage, self._offset = storage, offset
        self._shape, self._strides = tuple(shape), tuple(strides)

    @property
    def shape(self):
        return list(self._shape)

    @property
    def ndim(self):
        return len(self._shape)

    @property
    def T(self):
        return Tensor(self._storage, self._offset, self._shape[::-1], self._strides[::-1])

    def __deepcopy__(self, memo):
        storage = memo.setdefault(id(self._storage), list(self._storage))
        return type(self)(storage, self._offset, self._shape, self._strides)

    def __repr__(self):
        return f"tensor({self.tolist()})"

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

    def __float__(self):
        return float(self.item())

    def item(self):
        if math.prod(self._shape) != 1:
            raise ValueError("only a tensor of one element is a number")
        return self._storage[_offsets(self)[0]]

    def tolist(self):
        return _nested(_numbers(self), self._shape)

    # Views.

    def __getitem__(self, key):
        keys = key if isinstance(key, tuple) else (key,)
        if len(keys) > len(self._shape):
            raise IndexError("too many indices for a tensor")
        offset, shape, strides = self._offset, [], []
        for k, size, stride in zip(keys, self._shape, self._strides):
            if isinstance(k, slice):
                chosen = range(*k.indices(size))
                offset += chosen.start * stride if len(chosen) else 0
                shape.append(len(chosen))
                strides.append(chosen.step * stride)
            else:
                k = operator.index(k)
                if not -size <= k < size:
                    raise IndexError("a tensor's index is out of range")
                offset += k % size * stride
        rest = len(keys)
        return Tensor(self._storage, offset, shape + list(self._shape[rest:]), strides + list(self._strides[rest:]))

    def reshape(self, *shape):
        """A view where the numbers lie one behind the other, else a copy."""
        shape = [math.prod(self._shape) // -math.prod(shape) if n == -1 else n for n in shape]
        if math.prod(shape) != math.prod(self._shape):
            raise ValueError(f"a tensor of shape {self.shape} cannot have shape {shape}")
        whole = self if self._strides == _row_major(self._shape) else self.clone()
        return Tensor(whole._storage, whole._offset, shape, _row_major(shape))

    def alias(self):
        return Tensor(self._storage, self._offset, self._shape, self._strides)

    # New tensors.

    def clone(self):
        return _new(_numbers(self), self._shape)

    def sum(self):
        return _new([sum(_numbers(self))], ())

    def relu(self):
        return _new([max(v, 0.0) for v in _numbers(self)], self._shape)

    def __neg__(self):
        return _new([-v for v in _numbers(self)], self._shape)

    def sqrt(self):
        """What has no root is found out when the numbers are known."""
        return _new([math.sqrt(v) for v in _numbers(self)], self._shape)

    # In place.

    def fill_(self, value):
        return _write(self, [value] * math.prod(self._shape))

    def zero_(self):
        return self.fill_(0.0)

    def copy_(self, other):
        return _write(self, _expand(other, self._shape))

    def relu_(self):
        return _write(self, [max(v, 0.0) for v in _numbers(self)])

    def sqrt_(self):
        """The first numbers are written before one that has no root is met."""
        for offset in _offsets(self):
            self._storage[offset] = math.sqrt(self._storage[offset])
        return self

    def uniform_(self):
        return _write(self, [_next_random() for _ in range(math.prod(self._shape))])

    def __setitem__(self, key, value):
        part = self[key]
        _write(part, _expand(value, part._shape) if isinstance(value, Tensor) else [value] * math.prod(part._shape))


class Parameter(Tensor):
    """A tensor that belongs to a model."""

    __slots__ = ()


def _install_operators():
    for name, function in {"add": operator.add, "sub": operator.sub, "mul": operator.mul}.items():
        setattr(Tensor, f"__{name}__", _pure(f"__{name}__", function))
        setattr(Tensor, f"__r{name}__", _pure(f"__r{name}__", lambda a, b, f=function: f(b, a)))
        setattr(Tensor, f"__i{name}__", _in_place(f"__i{name}__", function))
        setattr(Tensor, f"{name}_", _in_place(f"{name}_", function))
    for name in ("gt", "lt"):
        setattr(Tensor, f"__{name}__", _pure(f"__{name}__", lambda a, b, f=getattr(operator, name): float(f(a, b))))


def _pure(name, function):
    def apply(self, other):
        if isinstance(other, (int, float)):
            return _new([function(a, float(other)) for a in _numbers(self)], self._shape)
        if not isinstance(other, Tensor):
            return NotImplemented
        shape = _broadcast(self._shape, other._shape)
        return _new([function(a, b) for a, b in zip(_expand(self, shape), _expand(other, shape))], shape)

    return _named(apply, name)


def _in_place(name, function):
    def apply(self, other):
        if isinstance(other, Tensor):
            operand = _expand(other, self._shape)
        elif isinstance(other, (int, float)):
            operand = [float(other)] * math.prod(self._shape)
        else:
            return NotImplemented
        return _write(self, [function(a, b) for a, b in zip(_numbers(self), operand)])

    return _named(apply, name)


def _named(function, name):
    function.__name__, function.__qualname__ = name, f"Tensor.{name}"
    return function


def _row_major(shape):
    return tuple(math.prod(shape[i + 1:]) for i in range(len(shape)))


def _offsets(tensor):
    offsets = [tensor._offset]
    for size, stride in zip(tensor._shape, tensor._strides):
        offsets = [offset + k * stride for offset in offsets for k in range(size)]
    return offsets


def _numbers(tensor):
    return [tensor._storage[offset] for offset in _offsets(tensor)]


def _write(tensor, numbers):
    for offset, number in zip(_offsets(tensor), numbers):
        tensor._storage[offset] = number
    return tensor


def _new(numbers, shape):
    return Tensor(list(numbers), 0, shape, _row_major(shape))


def _nested(numbers, shape):
    if not shape:
        return numbers[0]
    step = math.prod(shape[1:])
    return [_nested(numbers[i * step:(i + 1) * step], shape[1:]) for i in range(shape[0])]


def _broadcast(a, b):
    n = max(len(a), len(b))
    a, b = (1,) * (n - len(a)) + a, (1,) * (n - len(b)) + b
    if any(x != y and 1 not in (x, y) for x, y in zip(a, b)):
        raise ValueError(f"shapes {list(a)} and {list(b)} do not fit")
    return tuple(y if x == 1 else x for x, y in zip(a, b))


def _expand(tensor, shape):
    own = (1,) * (len(shape) - len(tensor._shape)) + tensor._shape
    if len(own) > len(shape) or any(n not in (1, size) for n, size in zip(own, shape)):
        raise ValueError(f"a tensor of shape {tensor.shape} does not fit into shape {list(shape)}")
    strides = (0,) * (len(shape) - len(tensor._shape)) + tensor._strides
    strides = tuple(0 if n == 1 else stride for n, stride in zip(own, strides))
    return _numbers(Tensor(tensor._storage, tensor._offset, shape, strides))


_install_operators()


def tensor(numbers):
    """A new tensor of nested lists."""
    shape, flat = [], numbers
    while isinstance(flat, list):
        shape.append(len(flat))
        flat = flat[0]
    flat = numbers if shape else [numbers]
    for _ in shape[1:]:
        flat = [v for row in flat for v in row]
    return _new([float(v) for v in flat], shape)


def full(shape, value):
    return _new([value] * math.prod(shape), shape)


def stack(tensors):
    first = tensors[0]
    if any(t._shape != first._shape for t in tensors):
        raise ValueError("tensors of different shapes cannot be stacked")
    return _new([v for t in tensors for v in _numbers(t)], (len(tensors),) + first._shape)


def add(x, y, inplace=False):
    return x.add_(y) if inplace else x + y


# Random numbers.

GENERATOR = [1]


def manual_seed(seed):
    GENERATOR[0] = seed


def _next_random():
    GENERATOR[0] = GENERATOR[0] * 1103515245 + 12345 & 0x7FFFFFFF
    return GENERATOR[0] / 0x80000000


def rand(shape):
    return _new([_next_random() for _ in range(math.prod(shape))], shape)


# A global state that operations read.

_scale = 1.0


def scale():
    return _scale


def set_scale(value):
    global _scale
    _scale = value


def scaled(x):
    return x * _scale


_GRAPH_FUNCTIONS = [full, stack, rand, scaled]
_IN_PLACE = [name for name in vars(Tensor) if name.endswith("_") and not name.startswith("_")]
_IN_PLACE += ["__iadd__", "__isub__", "__imul__", "__setitem__"]
_METHODS = [
    "reshape", "alias", "clone", "sum", "relu", "sqrt", "__getitem__", "__neg__",
    "__add__", "__radd__", "__sub__", "__rsub__", "__mul__", "__rmul__", "__gt__", "__lt__",
]


class Value:
    """A tensor of a graph, with an example of what it will be: its numbers mean nothing, its memory does."""

    __slots__ = ("example",)

    def __init__(self, example):
        self.example = example


def _fill(structure, find):
    """The structure with every value replaced by what `find` gives for it."""
    if isinstance(structure, Value):
        return find(structure)
    if type(structure) in (list, tuple):
        return type(structure)(_fill(item, find) for item in structure)
    if type(structure) is dict:
        return {key: _fill(item, find) for key, item in structure.items()}
    return structure


def _run(step, find):
    """Runs a statement under the state in which it was made."""
    kind, callee, args, kwargs, _, step_scale = step
    set_scale(step_scale)
    args, kwargs = _fill(args, find), _fill(kwargs, find)
    return callee(*args, **kwargs) if kind.startswith("function") else getattr(args[0], callee)(*args[1:], **kwargs)


class Graph:
    """A list of statements."""

    def __init__(self):
        self.steps = []
        self.parameters = []
        # By the address of the storage of a tensor that enters: that storage, and the one that examples have for it.
        self.storages = {}

    def input(self, tensor):
        storage = self.storages.setdefault(id(tensor._storage), (tensor._storage, [math.nan] * len(tensor._storage)))[1]
        return Value(Tensor(storage, tensor._offset, tensor._shape, tensor._strides))

    def parameter(self, tensor):
        value = self.input(tensor)
        self.parameters.append((value, weakref.ref(tensor)))
        return value

    def call(self, kind, callee, args, kwargs):
        step = (kind, callee, args, kwargs, None, _scale)
        result = _values(_on_examples(step), args)
        self.steps.append(step[:4] + (result,) + step[5:])
        return result

    def operations(self):
        return len(self.steps)

    def roll_back(self, operations):
        """Forgets the statements behind the first so many. Examples hold no numbers that matter, so that there is
        nothing to take back in the others."""
        del self.steps[operations:]

    def has_effects(self):
        outside = {id(storage) for _, storage in self.storages.values()}

        def is_seen(kind, callee, args):
            if callee is rand or callee == "uniform_":
                return True
            return kind in ("method in place", "function in place") and id(args[0].example._storage) in outside

        return any(is_seen(*step[:3]) for step in self.steps)

    def finish(self, name, inputs, outputs):
        """The graph runs on copies of the storages, and writes them back when nothing has raised. If it has effects, inputs
        that share a storage now must share one whenever it runs, and the others must not."""
        steps, parameters = tuple(self.steps), tuple(self.parameters)
        given = list(inputs) + [value for value, _ in parameters]
        first, has_effects = {}, self.has_effects()
        # For each input the first one that has its storage.
        places = [first.setdefault(id(value.example._storage) if has_effects else at, at) for at, value in enumerate(given)]

        def graph(*tensors):
            tensors = list(tensors) + [tensor() for _, tensor in parameters]
            copies = {at: list(tensors[at]._storage) for at in set(places)}
            values = {}
            for value, tensor, at in zip(given, tensors, places):
                values[value] = Tensor(copies[at], tensor._offset, tensor._shape, tensor._strides)
            before = GENERATOR[0], _scale
            try:
                for step in steps:
                    _bind(step[4], _run(step, values.__getitem__), values)
            except BaseException:
                manual_seed(before[0])
                raise
            finally:
                set_scale(before[1])
            real = {}
            for at, copy in copies.items():
                tensors[at]._storage[:] = copy
                real[id(copy)] = tensors[at]._storage
            results = [values[value] for value in outputs]
            return [Tensor(real.get(id(r._storage), r._storage), r._offset, r._shape, r._strides) for r in results]

        return graph


def _values(result, args):
    """The result with a value for every tensor: what a statement in place gives is the value that it was given."""
    if isinstance(result, Tensor):
        given = (arg for arg in args if isinstance(arg, Value) and arg.example is result)
        return next(given, None) or Value(result)
    if type(result) in (list, tuple):
        return type(result)(_values(item, args) for item in result)
    return result


def _bind(values, result, found):
    if isinstance(values, Value):
        found[values] = result
    elif type(values) in (list, tuple):
        for value, item in zip(values, result):
            _bind(value, item, found)


def _on_examples(step):
    """Runs a statement on examples, which leaves random numbers and the state as they are."""
    before = GENERATOR[0], _scale
    try:
        return _run(step, operator.attrgetter("example"))
    finally:
        manual_seed(before[0])
        set_scale(before[1])
