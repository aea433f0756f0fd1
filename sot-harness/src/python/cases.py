"""Helpers of the case files, and the observation of a call: result, exception, output and side effects."""

import collections
import contextlib
import gc
import io
import logging
import marshal
import re
import sys
import types
import warnings

import toy


# Shared by the two runs of a case, because from 3.10 on the hash of a NaN is its address.
NANS = [float("nan") for _ in range(24)]


COMPILED = {}


def compiled(source, file="<string>"):
    """Compiles a file of Python. Each call returns code objects of its own.

    A file that was compiled before is copied from its serialised code, which takes a tenth of the time.
    """
    if (source, file) not in COMPILED:
        COMPILED[source, file] = marshal.dumps(compile(source, file, "exec", dont_inherit=True))
    return marshal.loads(COMPILED[source, file])


def given(*makers, hit=True):
    """Marks a case. Each maker returns the arguments of a call; a single maker is called twice, for a miss and a hit.

    `hit=False` says that the second call cannot be a hit, because the first one has changed a value that is guarded.
    """

    def mark(function):
        function.given = (makers if len(makers) > 1 else makers * 2, hit and len(makers) == 1)
        return function

    return mark


def _expecting(expected):
    def mark(function):
        function.expected = expected
        return function

    return mark


whole = _expecting("whole")  # One graph, without breaks and fallbacks; the second call is a hit.
two = _expecting("two")  # Two graphs around one break.
pieces = _expecting("pieces")  # One graph for each part between two breaks.
left = _expecting("left")  # Iterations of a loop are left to CPython.


def changed(*changes, args=lambda: (toy.arange(2),)):
    """Marks a case of calls with equal arguments. After the first two calls, each piece of Python changes the
    case's module, and is followed by two calls."""

    def mark(function):
        def maker(change):
            def make():
                exec(change, function.__globals__)
                return args()

            return make

        steps = ["", ""] + [step for change in changes for step in (change, "")]
        return given(*map(maker, steps))(function)

    return mark


def observe(module, function, maker, call):
    """Return a text of all effects of a call. The collector is off, so cycles die only when the program collects."""
    collects = gc.isenabled()
    gc.disable()
    try:
        return observed(module, function, maker, call)
    finally:
        if collects:
            gc.enable()


def observed(module, function, maker, call):
    args = maker()
    output, errors = io.StringIO(), io.StringIO()
    describe = Describe(module)
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors), warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("ignore")
        for category in (UserWarning, FutureWarning):
            warnings.simplefilter("always", category)
        try:
            outcome = "returned " + describe(call(function, args))
        except Exception as error:
            outcome = "raised " + describe(error) + describe.traceback(error)
            # Releases the frames before the variables are looked at. If a handler passes an exception on, the traceback
            # has the frame of the new code, which has handed over its variables.
            BaseException.with_traceback(error, None)
    variables = {name: value for name, value in vars(module).items() if describe.is_state(name, value)}
    lines = [outcome, "arguments " + describe(args), "variables " + describe(variables)]
    lines += [f"warned {w.filename}:{w.lineno} {w.category.__name__}: {w.message}" for w in warned]
    if output.getvalue():
        lines.append("printed " + output.getvalue())
    # Without frames, because the tracer adds some of its own, and without addresses.
    told = re.sub(r"\bat 0x[0-9a-fA-F]+", "at its address", errors.getvalue())
    lines += ["told " + line for line in told.splitlines() if not line.startswith((" ", "Traceback", "Call"))]
    return "\n".join(lines)


def own_attributes(value):
    """Return `vars(value)` without calling hooks of its class."""
    try:
        return object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}


def _has_one_hash(value):
    """True if the hash depends on the value alone, and not on an address."""
    if type(value) in (tuple, frozenset):
        return all(map(_has_one_hash, value))
    return value is None or type(value) in (bool, int, float, complex, str, bytes, type(...))


class Describe:
    """Texts of values that show shared objects: each mutable object has a number, and is described once."""

    def __init__(self, module):
        self.module = module
        self.numbers = {}

    def is_state(self, name, value):
        if name.startswith("__") or isinstance(value, (types.ModuleType, logging.Logger)):
            return False
        if isinstance(value, (type, types.FunctionType)):
            return isinstance(value, type) and value.__module__ == self.module.__name__
        return True

    def traceback(self, error):
        places = []
        entry = error.__traceback__
        while entry is not None:
            code = entry.tb_frame.f_code
            if code.co_filename == self.module.__file__:
                places.append(f"{code.co_name}:{entry.tb_lineno}")
            entry = entry.tb_next
        if sys.version_info[:2] == (3, 11) and type(error) is UnboundLocalError and places:
            # Two instructions that CPython runs as one superinstruction have the line of the first.
            places[-1] = places[-1].partition(":")[0]
        return " at " + ", ".join(places)

    def __call__(self, value):
        if value is None or type(value) in (bool, int, float, complex, str, bytes, type(...), type(NotImplemented), range):
            return f"{type(value).__name__} {value!r}"
        if type(value).__module__ in ("numpy", "numpy.dtypes") and type(value).__name__ != "ndarray":
            return f"{type(value).__name__} {value!r}"
        known = self.numbers.get(id(value))
        if known:
            return known[0]
        text = f"#{len(self.numbers)}"
        self.numbers[id(value)] = (text, value)
        return text + self.new(value)

    def new(self, value):
        name = type(value).__name__
        if isinstance(value, io.StringIO):
            return f"{name} {value.getvalue()!r}"
        if isinstance(value, types.FunctionType):
            cells = [self.cell(cell) for cell in value.__closure__ or ()]
            defaults, keyword = self(value.__defaults__), self(value.__kwdefaults__)
            return f"function {value.__qualname__} {defaults} {keyword} [{', '.join(cells)}] {self.attributes(value)}"
        if isinstance(value, types.MethodType):
            return f"method {self(value.__func__)} of {self(value.__self__)}"
        if isinstance(value, (types.BuiltinFunctionType, types.ModuleType)):
            return f"{name} {value.__name__}"
        if isinstance(value, type):
            return f"class {value.__qualname__} {self.attributes(value)}"
        if isinstance(value, BaseException):
            cause, context = self(value.__cause__), self(value.__context__)
            return f"{name}{self(value.args)} {self.attributes(value)} cause {cause} context {context}{self.traceback(value)}"
        if type(value).__module__ == "toy":
            return f"{name} {value._shape} {value.dtype} {value._data}"
        if type(value).__module__ == "strided":
            return f"{name} {value._shape} {value._strides} from {value._offset} of {self(value._storage)}"
        if name == "ndarray" and type(value).__module__ == "numpy":
            form = f"{value.dtype!r} {value.shape} {value.strides} {value.flags.num} base {self(value.base)}"
            return f"{name} {form} {value.tolist()!r}"
        if isinstance(value, (list, tuple)):
            return f"{name}[{', '.join(map(self, value))}] {self.attributes(value)}"
        if isinstance(value, collections.deque):
            return f"{name}[{', '.join(map(self, value))}] {value.maxlen} {self.attributes(value)}"
        if isinstance(value, (set, frozenset)):
            return f"{name}{{{self.elements(value)}}} {self.attributes(value)}"
        if isinstance(value, dict):
            items = [f"{self(key)}: {self(item)}" for key, item in value.items()]
            return f"{name}{{{', '.join(items)}}} {self.attributes(value)}"
        if isinstance(value, slice):
            return f"slice {self(value.start)} {self(value.stop)} {self(value.step)}"
        if hasattr(type(value), "__next__") or name.startswith("dict_"):
            return f"{name} of {self([item for item in value])}"
        return f"{name} {self.attributes(value)}"

    def elements(self, value):
        """The elements in iteration order, the size of the table, and a copy's order; sorted if a hash is an address."""
        if not all(map(_has_one_hash, value)):
            return ", ".join(sorted(map(repr, value)))
        return f"{[*set.__iter__(value)] if isinstance(value, set) else [*value]} {sys.getsizeof(value)} {[*value.copy()]}"

    def cell(self, cell):
        try:
            return self(cell.cell_contents)
        except ValueError:
            return "empty"

    def attributes(self, value):
        own = dict(own_attributes(value))
        for slot in getattr(type(value), "__slots__", ()):
            if hasattr(value, slot):
                own[slot] = getattr(value, slot)
        if isinstance(value, type):
            own = {k: v for k, v in own.items() if not k.startswith("__") and not callable(v) and not hasattr(v, "__get__")}
        own.pop("given", None)
        own.pop("__weakref__", None)  # guards refer weakly to what they compare by identity
        return "".join(f" {name}={self(item)}" for name, item in own.items())
