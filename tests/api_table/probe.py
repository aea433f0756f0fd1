"""Calls every public function of Paddle in eager mode and translated, and says what became of it.

    python tests/api_table/probe.py [--only NAME] [--write docs/paddle-api.md | --check docs/paddle-api.md] [--dtype TYPE]
    python tests/api_table/probe.py --options [--only NAME] [--part 3/8] [--dtype TYPE]
    python tests/api_table/probe.py --sizes [--only NAME] [--part 3/8] [--dtype TYPE]

Each is called in a small function with the arguments of `arguments.py`, tensors of floating numbers brought to another type
with `--dtype`. Results, what the function sees of them, arguments afterwards, what shares memory with what, and gradients
must be those of eager mode. The exit status is 1 if one differs, or the page is not current.

With `--options`, each is also called with each of its optional arguments at other values, and with gradients of each
tensor alone. With `--sizes`, each is called with tensors of several sizes one after the other, so that sizes open, and
with such a size in the place of each integer argument; with `--sizes --options`, also with each option. `--part 3/8`
takes every eighth function, from the third on.
"""

import argparse
import collections
import difflib
import functools
import io
import os
import sys
import types
import warnings
from pathlib import Path

os.environ.setdefault("MIN_GRAPH_SIZE", "0")  # programs, not the operations one by one
os.environ.setdefault("GLOG_minloglevel", "3")

import paddle
from arguments import candidates, variations

import sot

# Not called, because they end, block or change the process.
NEVER = {
    "set_printoptions": "changes the process",
    "disable_static": "changes the process",
    "enable_static": "changes the process",
    "set_default_dtype": "changes the process",
    "set_flags": "changes the process",
    "set_grad_enabled": "changes the process",
    "set_device": "changes the process",
    "enable_compat": "changes the process",
    "disable_signal_handler": "changes the process",
    "monkey_patch_variable": "changes the process",
    "save": "writes files",
    "load": "reads files",
    "async_save": "writes files",
    "flops": "runs a whole model",
    "summary": "runs a whole model",
    "batch": "is a decorator of readers",
    "check_shape": "is no tensor API",
    "cuda": "needs a device that is not there",
    "pin_memory": "needs a device that is not there",
    "sparse_attention": "needs a device that is not there",
    "reconstruct_from_": "takes another tensor's memory away",
    "create_parameter": "belongs to static graph programs",
    "create_tensor": "belongs to static graph programs",
    "set_string_list": "belongs to tensors of strings",
    "set_vocab": "belongs to tensors of strings",
    "get_map_tensor": "belongs to distributed tensors",
}

# Functions whose results in eager mode cannot be compared with.
INCOMPARABLE = {
    "empty": "its values are not defined",
    "empty_like": "its values are not defined",
    "new_empty": "its values are not defined",
    "data_ptr": "an address",
    "householder_product": "eager mode overwrites its argument",
    "ormqr": "eager mode overwrites its argument",
}

# Like `INCOMPARABLE`, if the arguments are not floating-point numbers.
INCOMPARABLE_INTEGERS = {
    "clamp_": "eager mode turns infinity, the bound that is not given, into an integer",
    "clip_": "eager mode turns infinity, the bound that is not given, into an integer",
    "svd": "called with complex numbers; vectors of any phase will do",
    "svd_lowrank": "called with complex numbers; vectors of any phase will do",
    "pca_lowrank": "called with complex numbers; vectors of any phase will do",
}

# Eager mode crashes in the backward pass.
NO_BACKWARD = {"pca_lowrank", "svd_lowrank"}

# Eager mode crashes in the backward pass if only one of the tensors wants a gradient.
NO_BACKWARD_ALONE = {
    "broadcast_tensors",
    "cartesian_prod",
    "cholesky_solve",
    "cross",
    "grid_sample",
    "meshgrid",
    "prelu",
    "solve",
    "triangular_solve",
}

# Eager mode crashes with most values of optional arguments.
NO_OPTIONS = {"hsigmoid_loss"}

# Functions and arguments: the kernel reads or writes past the end of what it is given here, or its result is one of several.
UNDEFINED = {
    ("batch_norm", "weight"),
    ("batch_norm", "bias"),
    ("lstsq", "rcond"),
    ("searchsorted", "sorter"),
    ("set_", "source"),
}

Outcome = collections.namedtuple("Outcome", "kind text")
CAPTURED, BREAKS, FALLBACK, NO_TENSORS, UNCALLED, WRONG = (
    "captured",
    "breaks",
    "left to CPython",
    "not a tensor API",
    "not called",
    "WRONG",
)


# Modules with functions that others have without naming them in `__all__`.
OF_TENSORS = ("paddle.tensor.", "paddle.nn.functional.", "paddle.audio.functional.", "paddle.base.dygraph.generated_")


def public(owner):
    listed = getattr(owner, "__all__", None) if isinstance(owner, types.ModuleType) else None
    for name in sorted(dir(owner)):
        if name.startswith("_") or not callable(getattr(owner, name, None)):
            continue
        if listed is None or name in listed or unlisted(getattr(owner, name), owner.__name__):
            yield name


def unlisted(function, owner):
    """Return whether programs call a function although it is not in `__all__`, such as `paddle.norm`."""
    if owner == "paddle.signal":
        return getattr(function, "__module__", None) == owner
    if owner == "paddle" and function is getattr(paddle, "tensor", None):
        return True
    is_helper = not isinstance(function, types.FunctionType) or function.__name__.startswith("monkey_patch")
    return not is_helper and function.__module__.startswith(OF_TENSORS)


def tensors(value):
    if isinstance(value, paddle.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors(item)
    elif isinstance(value, dict):
        yield from tensors(list(value.values()))


def same(left, right):
    """Return whether two results are equal up to rounding. NaNs are equal."""
    if isinstance(left, paddle.Tensor) and isinstance(right, paddle.Tensor):
        if left.dtype != right.dtype or left.shape != right.shape or left.stop_gradient != right.stop_gradient:
            return False
        if left.is_sparse():
            left, right = left.to_dense(), right.to_dense()
        a, b = left.detach().numpy(), right.detach().numpy()
        if a.dtype.kind in "fc":
            return bool(((abs(a - b) <= 1e-6 + 1e-5 * abs(b)) | (a == b) | ((a != a) & (b != b))).all())
        return bool((a == b).all())
    if isinstance(left, (list, tuple)) and type(left) is type(right):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict) and type(left) is type(right):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if type(left) is not type(right):
        return False
    if isinstance(left, float) and left != left:
        return right != right
    try:
        return bool(left == right) or type(left).__eq__ is object.__eq__
    except Exception:
        return True


def shares_memory(result, tensor):
    dense = result.is_dense() and tensor.is_dense()
    return dense and result._is_initialized() and result._is_shared_buffer_with(tensor)


class Run:
    """One call with fresh arguments: what it gave or raised, its arguments afterwards, their gradients."""

    def __init__(self, function, make, with_gradient, alone=None):
        """`alone` is the number of the only tensor with a gradient; without it, all have one."""
        paddle.seed(7)
        args, kwargs = make()
        self.inputs = list(tensors([list(args), kwargs]))
        for number, tensor in enumerate(self.inputs):
            wanted = with_gradient and alone in (None, number)
            tensor.stop_gradient = not (wanted and tensor.dtype in (paddle.float32, paddle.float64))
        self.error = self.result = None
        self.gradients = []
        self.sharing = []
        paddle.seed(7)
        try:
            self.result = function(*args, **kwargs)
            self.sharing = [
                (at, number, result is tensor)
                for at, result in enumerate(tensors(self.result))
                for number, tensor in enumerate(self.inputs)
                if result is tensor or shares_memory(result, tensor)
            ]
            if with_gradient:
                self.backward()
        except Exception as error:
            self.error = error

    def backward(self):
        results = [
            tensor
            for tensor in tensors(self.result)
            if not tensor.stop_gradient and tensor.dtype in (paddle.float32, paddle.float64)
        ]
        if results:
            paddle.add_n([(tensor * tensor).sum().astype("float32") for tensor in results]).backward()
        self.gradients = [None if tensor.grad is None else tensor.grad.detach() for tensor in self.inputs]

    def differs(self, other):
        if (self.error is None) != (other.error is None) or type(self.error) is not type(other.error):
            return f"raises {other.error!r:.80} instead of {self.error!r:.80}"
        if not same(self.result, other.result):
            return f"gives {other.result!r:.160} instead of {self.result!r:.160}"
        if not same([t.detach() for t in self.inputs], [t.detach() for t in other.inputs]):
            return "leaves other arguments behind"
        if self.sharing != other.sharing:
            return f"shares memory with its arguments as {other.sharing} instead of {self.sharing}"
        if not same(self.gradients, other.gradients):
            return "has other gradients"
        return None


def seen(value):
    """Return properties of the tensors in a result that can be read without their values."""
    if isinstance(value, paddle.Tensor):
        return value.dtype, value.ndim
    if isinstance(value, (list, tuple)):
        return [seen(item) for item in value]
    if isinstance(value, dict):
        return seen(list(value.values()))
    return None


def of_type(dtype, value):
    """Return the value, with its tensors of `float32` converted to another element type."""
    if isinstance(value, paddle.Tensor) and value.dtype == paddle.float32 and value.is_dense():
        return (value * 10 if "int" in dtype else value).astype(dtype)
    if isinstance(value, (list, tuple)):
        return type(value)(of_type(dtype, item) for item in value)
    if isinstance(value, dict):
        return {key: of_type(dtype, item) for key, item in value.items()}
    return value


def arguments(area, name, function, method, dtype):
    """`candidates` with tensors of this type."""
    for make in candidates(area, name, function, method):
        yield make if dtype is None else lambda make=make: of_type(dtype, make())


def measured(value):
    """Return what a program computes with the sizes of the tensors in a result."""
    if isinstance(value, paddle.Tensor):
        if not value.ndim or value.is_sparse() or 0 in value.shape:
            return value.ndim
        rows, columns = value.shape[0], value.shape[-1]
        scaled = value.astype("float32") * rows / (columns + 1)
        return value.shape, rows * 2 + columns, scaled.reshape([rows, -1]), scaled.sum() + paddle.ones([columns]).sum()
    if isinstance(value, (list, tuple)):
        return [measured(item) for item in value]
    if isinstance(value, dict):
        return measured(list(value.values()))
    return None


def wrapper(owner, name, method, seen=seen):
    # A method that changes its tensor in place is called on a copy made in the function.
    changed = ".clone()" if name.endswith("_") and not name.endswith("__") and name != "set_" else ""
    arguments = f"x{changed}, *args, **kwargs" if changed and not method else "*args, **kwargs"
    of = f"x{changed}" if method else "owner"
    takes = "x, *args, **kwargs" if method or changed else "*args, **kwargs"
    source = f"def call({takes}):\n    result = {of}.{name}({arguments})\n    return result, seen(result)\n"
    scope = {"owner": owner, "seen": seen}
    exec(compile(source, f"<call of {name}>", "exec"), scope)
    return scope["call"]


def probe(area, owner, name, method, dtype=None):
    if name in NEVER:
        return Outcome(UNCALLED, NEVER[name])
    function = getattr(owner, name)
    if isinstance(function, type):
        return Outcome(NO_TENSORS, "a class")
    call = wrapper(owner, name, method)
    for make in arguments(area, name, function, method, dtype):
        try:
            eager = Run(call, make, False)
        except Exception:  # the arguments themselves are not to be had here
            continue
        if eager.error is None:
            break
    else:
        return Outcome(UNCALLED, "no arguments were found that it takes")
    incomparable = name in INCOMPARABLE or dtype in ("bool", "int32", "int64") and name in INCOMPARABLE_INTEGERS
    if not list(tensors(eager.result)) and not eager.inputs:
        return Outcome(NO_TENSORS, "")
    outcome = None
    for with_gradient in (False, True) if name not in NO_BACKWARD else (False,):
        eager = Run(call, make, with_gradient)
        if with_gradient and eager.error is not None:
            break
        sot.reset()
        translated = sot.symbolic_translate(call)
        for number in ("first", "second"):
            run = Run(translated, make, with_gradient)
            wrong = eager.differs(run)
            if wrong and not incomparable:
                mode = " with gradients" if with_gradient else ""
                return Outcome(WRONG, f"{number} call{mode}: {wrong}")
        if outcome is None:
            outcome = judge(sot.stats())
    return outcome


def probe_options(area, owner, name, method, dtype=None):
    """Yield what differs from eager mode with optional arguments at other values, and with gradients of one tensor."""
    function = getattr(owner, name)
    left_out = {*NEVER, *INCOMPARABLE, *NO_BACKWARD, *NO_OPTIONS, *(INCOMPARABLE_INTEGERS if dtype else ())}
    if name in left_out or isinstance(function, type):
        return
    call = wrapper(owner, name, method)
    for make in arguments(area, name, function, method, dtype):
        eager = attempt(call, make, False)
        if eager is not None:
            break
    else:
        return
    if not list(tensors(eager.result)) and not eager.inputs:
        return
    for label, made in [("", make), *variations(function, make)]:
        eager = None if (name, label.split("=")[0]) in UNDEFINED else attempt(call, made, True)
        if eager is None:
            continue
        wanting = [(False, None), (True, None)]
        if len(eager.inputs) > 1 and name not in NO_BACKWARD_ALONE:
            wanting += [(True, at) for at, tensor in enumerate(eager.inputs) if not tensor.stop_gradient]
        for want in wanting:
            eager = attempt(call, made, *want)
            if eager is None:
                continue
            sot.reset()
            translated = sot.symbolic_translate(call)
            differences = [eager.differs(Run(translated, made, *want)) for _ in range(2)]
            internal = [reason for reason in sot.stats().fallbacks if reason.startswith("internal-error")]
            for wrong in differences + internal:
                if wrong:
                    yield f"{area}.{name}({label}), gradients: {want[0] and (want[1] is None or want[1])}: {wrong}"
                    break


# With other sizes eager mode gives one of several results, or reads past the end of what it is given.
NO_SIZES = {"as_strided", "class_center_sample", "lstsq"}

# How often a tensor is repeated along an axis, in the calls that follow each other.
GROWTHS = (1, 2, 3, 5, 4)


def grown(value, axis, times):
    """Return the value with its tensors repeated along an axis."""
    if isinstance(value, paddle.Tensor) and value.ndim > axis and value.is_dense():
        return value.tile([times if at == axis else 1 for at in range(value.ndim)])
    if isinstance(value, (list, tuple)):
        return type(value)(grown(item, axis, times) for item in value)
    if isinstance(value, dict):
        return {key: grown(item, axis, times) for key, item in value.items()}
    return value


def probe_sizes(area, owner, name, method, dtype=None, varied=False):
    """Yield what differs from eager mode in calls with tensors of several sizes; with each option if `varied`."""
    function = getattr(owner, name)
    left_out = {*NEVER, *INCOMPARABLE, *NO_BACKWARD, *NO_SIZES, *(INCOMPARABLE_INTEGERS if dtype else ())}
    if name in left_out or isinstance(function, type):
        return
    call = wrapper(owner, name, method, measured)
    for make in arguments(area, name, function, method, dtype):
        if attempt(call, make, False):
            break
    else:
        return
    yield from probe_size_arguments(area, owner, name, make)
    if not list(tensors(list(make()))):
        return
    for axis in (0, 1):
        for with_gradient in (False, True):
            if wrong := differs_for_sizes(call, make, axis, with_gradient):
                yield f"{area}.{name}, axis {axis}, gradients: {with_gradient}: {wrong}"
    if not varied or name in NO_OPTIONS:
        return
    for label, made in variations(function, make):
        if (name, label.split("=")[0]) in UNDEFINED or attempt(call, made, False) is None:
            continue
        for axis in (0, 1):
            if wrong := differs_for_sizes(call, made, axis, False):
                yield f"{area}.{name}({label}), axis {axis}: {wrong}"


def integers(args, kwargs):
    """Yield where integers are among the arguments: a key, the position if it is in a list there, and the integer."""
    for key, value in [*enumerate(args), *kwargs.items()]:
        if type(value) is int:
            yield key, None, value
        elif type(value) in (list, tuple):
            yield from ((key, at, item) for at, item in enumerate(value) if type(item) is int)


def with_size(owner, name, key, at):
    """Return a function of a tensor and arguments: it calls with the tensor's first size in the place of an integer."""

    def call(sized, *args, **kwargs):
        args, size = list(args), sized.shape[0]
        given = kwargs if isinstance(key, str) else args
        if at is None:
            given[key] = size
        else:
            given[key] = given[key][:at] + type(given[key])([size]) + given[key][at + 1 :]
        result = getattr(owner, name)(*args, **kwargs)
        return result, measured(result)

    return call


def probe_size_arguments(area, owner, name, first):
    """Yield what differs from eager mode where an integer argument is a size that changes."""
    makers = [first]
    if name not in NO_OPTIONS:
        varied = variations(getattr(owner, name), first)
        makers += [made for label, made in varied if (name, label.split("=")[0]) not in UNDEFINED]
    seen_places = set()
    for make in makers:
        args, kwargs = make()
        for key, at, number in integers(args, kwargs):
            if number < 1 or (key, at, number) in seen_places:
                continue
            seen_places.add((key, at, number))
            sized = with_size(owner, name, key, at)
            sot.reset()
            translated = sot.symbolic_translate(sized)
            for size in (number, number + 1, number + 2, 2 * number + 3, number):

                def made(size=size):
                    args, kwargs = make()
                    return [paddle.zeros([size]), *args], kwargs

                eager = attempt(sized, made, False)
                wrong = eager and eager.differs(Run(translated, made, False))
                if wrong:
                    yield f"{area}.{name}, argument {key}{'' if at is None else f'[{at}]'} of size {size}: {wrong}"
                    break


def differs_for_sizes(call, make, axis, with_gradient):
    """Return what differs from eager mode in calls with tensors repeated along an axis."""
    sot.reset()
    translated, compared = sot.symbolic_translate(call), 0
    for times in GROWTHS:
        made = lambda times=times: grown(make(), axis, times)
        eager = attempt(call, made, with_gradient)
        if eager is None:
            continue
        compared += 1
        wrong = eager.differs(Run(translated, made, with_gradient))
        wrong = wrong or next((text for text in sot.stats().fallbacks if text.startswith("internal-error")), None)
        if wrong:
            return f"{times} times: {wrong}"
    return "nothing was translated" if compared and not sot.stats().translations else None


def attempt(call, make, *want):
    """A run in eager mode; `None` if it raises."""
    try:
        run = Run(call, make, *want)
    except Exception:  # the arguments themselves are not to be had here
        return None
    return run if run.error is None else None


def judge(stats):
    if not stats.translations:
        return Outcome(WRONG, "nothing was translated")
    if stats.breaks:
        return Outcome(BREAKS, "; ".join(sorted(set(map(reason, stats.breaks)))))
    if stats.fallbacks:
        return Outcome(FALLBACK, "; ".join(sorted(set(map(reason, stats.fallbacks)))))
    return Outcome(CAPTURED, "")


def reason(text):
    """Return a reason without its place, and without parts that differ between functions."""
    text = text.rsplit(" at ", 1)[0]
    for kind in ("unsupported-call: paddle: ", "tensor-value: Tensor."):
        if text.startswith(kind):
            return text[len(kind) :].split(" ", 1)[1]
    if "changes what the tensor is" in text:
        return "changes what the tensor is, not only its numbers"
    if text.startswith("unsupported-mutation: ") and " changes " in text:
        return "changes " + text.split(" changes ", 1)[1]
    if "static mode takes the result" in text:
        return "static mode takes its result for another tensor than it is, for these element types at least"
    if "cannot be put into the graph" in text:
        return "exists in eager mode only"
    if "a number that differs from call to call" in text:
        return "a number that differs from call to call"
    return text.split(": ", 1)[1]


AREAS = [
    ("paddle", paddle, False),
    ("paddle.Tensor", paddle.Tensor, True),
    ("paddle.nn.functional", paddle.nn.functional, False),
    ("paddle.linalg", paddle.linalg, False),
    ("paddle.fft", paddle.fft, False),
    ("paddle.signal", paddle.signal, False),
    ("paddle.sparse", paddle.sparse, False),
]
# Areas that older releases do not have.
AREAS += [(f"paddle.{name}", getattr(paddle, name), False) for name in ("compat", "special") if hasattr(paddle, name)]

INTRODUCTION = f"""\
# Paddle's functions

What becomes of a call of each public function of Paddle {paddle.__version__} in a translated function. Made by calling them
(`python tests/api_table/probe.py --write docs/paddle-api.md`), and checked by the tests. What is captured is part of
a graph, or known while tracing, and gives the results, the gradients and the sharing of memory of eager mode. What breaks runs
in eager mode between two graphs. What was not called is not known to do either.

| names in | captured | break | no tensor API | not called |
|---|---|---|---|---|
"""


def page(areas):
    """The text of the page, of `{area: {name: outcome}}`."""
    rows, sections = [], []
    for area, outcomes in areas.items():
        named = collections.defaultdict(lambda: collections.defaultdict(list))
        for name, outcome in outcomes.items():
            named[outcome.kind][outcome.text].append(f"`{name}`")
        count = {kind: sum(map(len, texts.values())) for kind, texts in named.items()}
        kinds = (CAPTURED, BREAKS, NO_TENSORS, UNCALLED)
        rows.append(f"| `{area}` | " + " | ".join(str(count.get(kind, 0)) for kind in kinds) + " |\n")
        lines = [f"\n## `{area}`\n"]
        for kind, title in ((CAPTURED, "Captured"), (NO_TENSORS, "No tensor API")):
            if names := [name for texts in named[kind].values() for name in texts]:
                lines.append(f"\n{title}: {', '.join(sorted(names))}\n")
        for kind, title in ((BREAKS, "Breaks"), (UNCALLED, "Not called")):
            if named[kind]:
                lines.append(f"\n| {title} | why |\n|---|---|\n")
                lines += (f"| {', '.join(names)} | {text} |\n" for text, names in sorted(named[kind].items()))
        sections.append("".join(lines))
    return INTRODUCTION + "".join(rows) + "".join(sections)


def sweep(probing, options):
    """Probe functions, print what is wrong, and return the exit status."""
    warnings.simplefilter("ignore")
    first, step = map(int, options.part.split("/"))
    names = [(area, owner, name, method) for area, owner, method in AREAS for name in public(owner)]
    names = [one for one in names if options.only in f"{one[0]}.{one[2]}"][first - 1 :: step]
    wrong = 0
    for area, owner, name, method in names:
        print(f"\r\033[K{area}.{name}", end="", file=sys.stderr, flush=True)
        stdout, sys.stdout = sys.stdout, io.StringIO()
        try:
            found = list(probing(area, owner, name, method, options.dtype))
        finally:
            sys.stdout = stdout
        for one in found:
            print(one, flush=True)
        wrong += len(found)
    print(f"{len(names)} functions, {wrong} differences")
    return 1 if wrong else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", help="only functions with this in their full name", default="")
    parser.add_argument("--write", type=Path, help="write the page")
    parser.add_argument("--check", type=Path, help="compare with the page")
    parser.add_argument("--dtype", help="the element type of tensors that are float32 otherwise")
    parser.add_argument("--options", action="store_true", help="vary optional arguments, and which tensors want a gradient")
    parser.add_argument("--sizes", action="store_true", help="call with tensors of several sizes")
    parser.add_argument("--part", help="with --options and --sizes, a part of the functions: 3/8", default="1/1")
    options = parser.parse_args()
    if options.sizes:
        sys.exit(sweep(functools.partial(probe_sizes, varied=options.options), options))
    if options.options:
        sys.exit(sweep(probe_options, options))
    if options.dtype and (options.write or options.check):
        parser.error("the page is about float32")
    warnings.simplefilter("ignore")
    areas, wrong = {}, []
    for area, owner, method in AREAS:
        outcomes = areas[area] = {}
        for name in public(owner):
            full = f"{area}.{name}"
            if options.only not in full:
                continue
            print(f"\r\033[K{full}", end="", file=sys.stderr, flush=True)
            stdout, sys.stdout = sys.stdout, io.StringIO()
            try:
                outcome = outcomes[name] = probe(area, owner, name, method, options.dtype)
            finally:
                sys.stdout = stdout
            if outcome.kind in (WRONG, FALLBACK):
                wrong.append(full)
                print(f"{full}: {outcome.kind}: {outcome.text}", flush=True)
            elif options.only:
                print(f"{full}: {outcome.kind}. {outcome.text}", flush=True)
        counts = collections.Counter(outcome.kind for outcome in outcomes.values())
        print(f"{area}: " + ", ".join(f"{number} {kind}" for kind, number in counts.items()), flush=True)
    text = page(areas)
    if options.write:
        options.write.write_text(text)
    if options.check and (known := options.check.read_text()) != text:
        wrong.append(str(options.check))
        sys.stdout.writelines(difflib.unified_diff(*(t.splitlines(True) for t in (known, text)), "page", "now", n=0))
        print(f"{options.check} is not current: write it anew with --write")
    sys.exit(1 if wrong else 0)


main()
