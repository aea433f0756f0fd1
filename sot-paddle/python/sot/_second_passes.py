"""Second backward passes that reach a program (`sot-paddle/src/backend/run/second_passes`).

The backward pass of a program is a constant to second gradients. So gradients that must have gradients, and that flow
through programs, are computed again: up to the programs, and from there through their statements, called one by one,
the latest program first.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Tuple

import numpy as np
import paddle
from paddle.autograd import PyLayer

from . import _sot

Gradients = List[Optional[paddle.Tensor]]
# A result of a program: the number of the run, and its index.
Result = Tuple[int, int]
# A gradient that has reached a program: number of the run (greater for later runs), function that calls its statements
# again, index of the result, gradient.
Met = Tuple[int, Callable[[], Optional[Dict[int, paddle.Tensor]]], int, paddle.Tensor]


class _NotTheSame(Exception):
    """The run of a program cannot be repeated with the same result."""


def keep(inputs: Iterable[paddle.Tensor], parameters: Iterable[paddle.Tensor], kept: Dict[int, Kept]) -> None:
    """Keep the tensors that are not kept yet, by identity."""
    for tensor in (*inputs, *parameters):
        if id(tensor) not in kept:
            kept[id(tensor)] = Kept(tensor)


class Kept:
    """The former state of a tensor, and a copy of its values. In eager mode a later pass reads what has since been
    written to the tensor's former memory, even if the tensor has other memory now (`tensor.data = ...`)."""

    def __init__(self, tensor: paddle.Tensor) -> None:
        self._tensor = tensor
        self._was = _same(tensor)
        self._version = tensor.inplace_version
        self._copy = tensor.detach().clone()
        # While the tensor is put back: the state and values to restore.
        self._is: Optional[paddle.Tensor] = None
        self._values: Optional[paddle.Tensor] = None

    def is_refused(self) -> bool:
        """Return whether the tensor has changed such that eager mode refuses a pass that reads it."""
        return self._was.inplace_version != self._version and self.has_changed()

    def has_changed(self) -> bool:
        """Return whether the tensor's former memory has other values now."""
        return _bytes([self._was]) != _bytes([self._copy])

    def put_back(self) -> None:
        """Set the tensor to its former state, until `restore`."""
        if _place(self._tensor) != _place(self._was):
            self._is = _same(self._tensor)
            self._tensor.reconstruct_from_(self._was)
        self._values = self._copy
        if self.has_changed():
            self._values = self._was.detach().clone()
            self._tensor.set_value(self._copy)

    def restore(self) -> None:
        """Set the tensor to its latest state again. Does nothing if it was not put back."""
        values, self._values = self._values, None
        if values is not None and _bytes([self._was]) != _bytes([values]):
            self._tensor.set_value(values)
        if self._is is not None:
            self._tensor.reconstruct_from_(self._is)
            self._is = None


def _same(tensor: paddle.Tensor) -> paddle.Tensor:
    """Return another tensor object for the same memory, which keeps this state."""
    same = paddle.empty([0])
    same.reconstruct_from_(tensor)
    return same


def _place(tensor: paddle.Tensor) -> int:
    return tensor.get_tensor()._ptr() if tensor._is_initialized() else 0


def may_be_filled(kept: Dict[int, Kept], given: Iterable[paddle.Tensor], viewed: Iterable[paddle.Tensor]) -> bool:
    """Return whether a backward pass with a restored scope reads the same values as in eager mode. It does not if an
    input has changed such that eager mode refuses the pass, or if a view shows new values of an input that the program
    has copied."""
    return not any(kept[id(tensor)].is_refused() for tensor in given) and not any(kept[id(tensor)].has_changed() for tensor in viewed)


def save(scopes: List[Any], inputs: Iterable[paddle.Tensor], parameters: Iterable[paddle.Tensor]) -> Optional[SavedAll]:
    """Save the contents of a graph's scopes, which its backward pass reads; `None` if some of them are no tensors."""
    given = [*inputs, *parameters]
    saved = [_save(scope, given) for scope in scopes]
    found = [one for one in saved if one is not None]
    return SavedAll(found) if len(found) == len(saved) else None


def hold(scopes: List[Any]) -> Optional[SavedAll]:
    """Refer to the contents of a graph's scopes, without copies. `None` if some of them are no tensors."""
    held = [_save(scope, None) for scope in scopes]
    found = [one for one in held if one is not None]
    return SavedAll(found) if len(found) == len(held) else None


class SavedAll:
    """The contents of the scopes of a graph; one scope for each of its programs."""

    def __init__(self, each: List[Saved]) -> None:
        self._each = each

    def fill(self) -> None:
        """Put the contents into the scopes again."""
        for saved in self._each:
            saved.fill()


def are_emptied(scopes: List[Any]) -> bool:
    """Return whether Paddle has released the contents of the scopes."""
    return any(scope._can_reused for scope in scopes)


def _save(scope: Any, given: Optional[List[paddle.Tensor]]) -> Optional[Saved]:
    # Variables with this name part are values between operations of the forward pass. No backward pass reads them.
    names = [name for name in scope.local_var_names() if "_inner_var_" not in name]
    try:
        found = {name: scope.find_var(name).get_tensor() for name in names}
    except (RuntimeError, ValueError):
        return None
    return Saved(scope, found, given)


class Saved:
    """The contents of a program's scope that the first pass found, and that the executor empties. Inputs and results
    of the program (`given`: inputs and parameters) are not copied: as in eager mode, a later pass reads values that
    have since been written to their memory. Other tensors are copied, because the pass may write to them. If `given`
    is `None`, no pass has run yet, and nothing is copied."""

    def __init__(self, scope: Any, found: Dict[str, Any], given: Optional[Iterable[paddle.Tensor]]) -> None:
        self._scope = scope
        self._shared: Dict[str, paddle.Tensor] = {}
        self._copied: Dict[str, paddle.Tensor] = {}
        places = {_place(tensor) for tensor in given or ()} - {0}
        for name, variable in found.items():
            if not variable._is_initialized():
                continue
            tensor = paddle.Tensor(variable)
            if given is None or name.startswith("output_") or variable._ptr() in places:
                self._shared[name] = tensor
            else:
                self._copied[name] = tensor.clone()

    def fill(self) -> None:
        """Put the contents into the scope again."""
        for name, tensor in self._shared.items():
            self._put(name, tensor)
        for name, tensor in self._copied.items():
            self._put(name, tensor.clone())

    def _put(self, name: str, tensor: paddle.Tensor) -> None:
        self._scope.find_var(name).get_tensor()._share_data_with(tensor.get_tensor())


def again(
    work: Callable[[], Any],
    inputs: Iterable[paddle.Tensor],
    parameters: Iterable[paddle.Tensor],
    kept: Dict[int, Kept],
    random_state: Any,
) -> Any:
    """Return the result of `work`, a list or dict of tensors, computed with the tensors in their former state. Return
    `None` if it may differ from the former result: eager mode refuses what the tensors have become, `work` draws
    random numbers without `random_state`, or its writes to the tensors change its result. Tensors and random numbers
    are restored."""

    def done() -> Any:
        if random_state is not None:
            paddle.set_rng_state(random_state)
        return work()

    given = list({id(tensor): kept[id(tensor)] for tensor in (*inputs, *parameters)}.values())
    if any(one.is_refused() for one in given):
        return None
    random_state_now = paddle.get_rng_state()
    try:
        for one in given:
            one.put_back()
        results = done()
        if random_state is None and draws_since(random_state_now):
            return None
        if any(one.has_changed() for one in given):
            # Most statistics are written, but not read, by the same graph. For the others, the second result differs.
            first = _bytes(results)
            del results
            results = done()
            if _bytes(results) != first:
                return None
        return results
    finally:
        paddle.set_rng_state(random_state_now)
        for one in given:
            one.restore()


def _bytes(results: Any) -> list[Optional[bytes]]:
    tensors = results.values() if isinstance(results, dict) else results
    return [None if tensor is None else tensor.numpy().tobytes() for tensor in tensors]


def draws_since(state: Any) -> bool:
    """Return whether random numbers have been drawn since this state. Draws none, because other threads may draw."""
    return _engines(paddle.get_rng_state()) != _engines(state)


def _engines(state: Any) -> List[List[str]]:
    """Return the state of each device's random number generator as words, but not its memory addresses."""
    return [[word for word in str(device).split() if not word.startswith("0x")] for device in state]


def zeros_like(gradient: Optional[paddle.Tensor]) -> Optional[paddle.Tensor]:
    """Return zeros of the gradient's shape, which flow on from a program instead of the gradient."""
    return None if is_undefined(gradient) else paddle.zeros_like(gradient).detach()


def varying(gradient: Any) -> Any:
    """Return the gradient as a tensor that is no constant."""
    if not is_undefined(gradient) and gradient.stop_gradient:
        gradient = gradient.detach()
        gradient.stop_gradient = False
    return gradient


def is_all_zeros(gradient: paddle.Tensor) -> bool:
    """Return whether a gradient is all zeros."""
    return gradient.is_dense() and not bool((gradient.detach() != 0).any())


def is_undefined(gradient: Optional[paddle.Tensor]) -> bool:
    return gradient is None or not gradient._is_initialized()


# The arguments of a pass: outputs, inputs, weights.
Arguments = Tuple[Sequence[paddle.Tensor], Sequence[paddle.Tensor], Sequence[Optional[paddle.Tensor]]]
# A function like `paddle.grad` that stops at programs, and also returns the gradients that have reached programs. Its
# additional arguments are the tensors that no gradient flows through, whether hooks are called, and (if not as asked)
# whether the gradients have gradients.
UpToPrograms = Callable[..., Tuple[Gradients, List[Met]]]
# A tensor such that a pass for gradients with respect to it reaches a program with a wanted result: number of the run,
# tensor, and whether it is the only result of the program.
Source = Tuple[int, paddle.Tensor, bool]
# A pass for its inputs, and for the given sources.
ForSources = Callable[[List[paddle.Tensor]], Tuple[Gradients, List[Met]]]


def differentiable(up_to_programs: UpToPrograms, arguments: Arguments, gradients: Gradients, has_hooks: bool) -> Gradients:
    """Return the gradients with gradients of their own. If that is impossible, the result refuses any pass through it
    to what outputs or weights come from. The given gradients were computed without hooks."""
    outputs, _, weights = arguments
    try:
        made = _through_statements(up_to_programs, arguments, _Results(), False)[0]
        made = [None if known is None else _checked(known, found) for known, found in zip(gradients, made)]
        return _with_hooks(up_to_programs, arguments, _Results())[0] if has_hooks else made
    except _NotTheSame:
        if has_hooks:
            _sot._refuse_hook()
        return _refuse_backward(gradients, [*outputs, *(weight for weight in weights if weight is not None)])


def by_results(
    up_to_programs: UpToPrograms,
    arguments: Arguments,
    gradients: Gradients,
    places: Sequence[int],
    results: Tuple[Dict[Result, int], Sequence[Result], Sequence[Source]],
    asked: Tuple[int, bool, bool, bool],
) -> Optional[Gradients]:
    """Return `count` gradients: with respect to the inputs, and to the wanted results of programs, without flow through
    the stopped results. `None` if that is impossible. The given gradients are those with respect to the inputs, and to
    the sources that are no inputs."""
    wanted, stopped, sources = results
    count, have_gradients, may_be_unused, has_hooks = asked
    made: List[Any] = [None] * count
    try:
        if not stopped:
            _check_statements(up_to_programs, arguments, gradients, wanted, sources)
        of_programs = _Results(wanted, stopped, sources)
        parts, found = _through_statements(up_to_programs, arguments, of_programs, False)
        if has_hooks:
            parts, found = _with_hooks(up_to_programs, arguments, of_programs)
    except _NotTheSame:
        return None
    for part, place in zip(parts, places):
        made[place] = _sum(made[place], part)
    for result, place in wanted.items():
        made[place] = _sum(made[place], found.get(result))
    made = [None if is_undefined(gradient) else gradient if have_gradients else gradient.detach() for gradient in made]
    unused = [place for place, gradient in enumerate(made) if gradient is None]
    if unused and not may_be_unused:
        say_unused(count, unused[0])
    return made


def _check_statements(
    up_to_programs: UpToPrograms,
    arguments: Arguments,
    gradients: Gradients,
    wanted: Iterable[Result],
    sources: Sequence[Source],
) -> None:
    """Check that a pass through statements, up to all sources, gives the known gradients. It needs no second
    derivatives, which the operations on the way to the sources may not have."""
    outputs, inputs, weights = arguments
    asked = _with_sources(inputs, [source for _, source, _ in sources])
    known = {id(tensor): gradient for tensor, gradient in zip(asked, gradients)}
    only = [(run, source) for run, source, is_only in sources if is_only]
    tensors = _with_sources(inputs, [source for _, source, is_only in sources if not is_only])
    of_programs = _Results(wanted, (), [(run, source, True) for run, source in only])
    begins = (outputs, tensors, weights)
    parts, found = _through_statements(lambda *given: up_to_programs(*given, False), begins, of_programs, False)
    checked = [*zip(tensors, parts), *((source, found.get((run, 0))) for run, source in only)]
    for tensor, part in checked:
        if not is_undefined(known[id(tensor)]):
            _checked(known[id(tensor)], part)


def say_unused(count: int, at: int) -> None:
    """Make Paddle raise its error for input `at` of `count` that is not reached."""
    inputs = [paddle.zeros([1]) for _ in range(count + 1)]
    for tensor in inputs:
        tensor.stop_gradient = False
    paddle.grad(paddle.add_n([tensor for index, tensor in enumerate(inputs) if index != at]), inputs[:count])


class _Results:
    """The results of programs that gradients are asked for (`wanted`), and those that no gradient flows through
    (`stopped`). Paddle gives no gradient by one of several results, so a pass that is to reach their program must be
    for a source, too."""

    def __init__(
        self, wanted: Iterable[Result] = (), stopped: Iterable[Result] = (), sources: Sequence[Source] = ()
    ) -> None:
        self.wanted, self.stopped, self._sources = list(wanted), list(stopped), sources
        # The sources that passes are for, by the run whose statements a pass begins with.
        self._chosen: Dict[Optional[int], List[paddle.Tensor]] = {}

    def run_pass(self, number: Optional[int], for_sources: ForSources) -> Tuple[Gradients, List[Met]]:
        """Run a pass that begins with the statements of a run (`None`: with the outputs), and reaches the programs before
        it that have wanted results.

        A pass for all sources may fail where eager mode has no pass: an operation between a source and the outputs, or
        between two sources, has no second derivative. Then it is made for one source of each program."""
        if number in self._chosen:
            return for_sources(self._chosen[number])
        ahead: Dict[int, List[paddle.Tensor]] = {}
        for run, source, _ in self._sources:
            if number is None or run < number:
                ahead.setdefault(run, []).append(source)
        chosen = [source for sources in ahead.values() for source in sources]
        try:
            made = for_sources(chosen)
        except Exception:
            ways = [_way_to(run, sources, for_sources) for run, sources in ahead.items()]
            if not ahead or None in ways:
                raise
            chosen = [source for way in ways for source in way or ()]
            made = for_sources(chosen)
        self._chosen[number] = chosen
        return made


def _way_to(run: int, sources: List[paddle.Tensor], for_sources: ForSources) -> Optional[List[paddle.Tensor]]:
    """Return at most one of the sources, with which a pass reaches the run. `None` if each pass fails."""
    for way in ([], *([source] for source in sources)):
        try:
            if any(met[0] == run for met in for_sources(way)[1]):
                return way
        except Exception:
            continue
    return None


def _with_hooks(
    up_to_programs: UpToPrograms, arguments: Arguments, of_programs: _Results
) -> Tuple[Gradients, Dict[Result, Optional[paddle.Tensor]]]:
    """Like `_through_statements`, with hooks, each of which may be called only once."""
    from . import _late_hooks

    before, _late_hooks.hooks_called = _late_hooks.hooks_called, set()
    try:
        return _through_statements(up_to_programs, arguments, of_programs, True)
    finally:
        _late_hooks.hooks_called = before


def _through_statements(
    up_to_programs: UpToPrograms, arguments: Arguments, of_programs: _Results, calls_hooks: bool
) -> Tuple[Gradients, Dict[Result, Optional[paddle.Tensor]]]:
    """Return the gradients with respect to the inputs, and to the wanted results of programs that are reached."""
    outputs, inputs, weights = arguments
    wanted, stopped = of_programs.wanted, of_programs.stopped
    # For each run that is still to come: the function that calls its statements, and the gradients that have reached
    # its results.
    pending: Dict[int, Tuple[Callable[[], Any], Dict[int, paddle.Tensor]]] = {}
    sums: Gradients = [None] * len(inputs)
    found: Dict[Result, Optional[paddle.Tensor]] = {}
    number: Optional[int] = None
    results: Dict[int, paddle.Tensor] = {}
    while True:
        by_result = [at for run, at in wanted if run == number]
        not_through = [results[at] for run, at in stopped if run == number and at in results]
        begins = (outputs, [*inputs, *(results[at] for at in by_result)], weights)
        run_pass = functools.partial(_run_pass, up_to_programs, begins, not_through, calls_hooks)
        parts, met = of_programs.run_pass(number, run_pass)
        sums = [_sum(so_far, part) for so_far, part in zip(sums, parts)]
        if number is not None:
            found.update(((number, at), part) for at, part in zip(by_result, parts[len(inputs) :]))
        for run, call, at, gradient in met:
            if (run, at) not in stopped and not is_undefined(gradient):
                came = pending.setdefault(run, (call, {}))[1]
                came[at] = _sum(came.get(at), gradient)
        if not pending:
            return sums, found
        if number is not None and max(pending) >= number:
            # An input of the run has been written to since, and now depends on the run's own results.
            raise _NotTheSame
        number = max(pending)
        if not inputs and all(run > number for run, _ in wanted):
            return sums, found
        call, came = pending.pop(number)
        results = call()
        if results is None:
            raise _NotTheSame
        # The base of views may be no result itself. Then the only gradients that reach it are those held back by views.
        came = {at: gradient for at, gradient in came.items() if at in results or bool((gradient != 0).any())}
        needed = {*came, *(at for run, at in wanted if run == number)}
        if any(at not in results or results[at].stop_gradient for at in needed):
            raise _NotTheSame
        # Copies are needed: if a gradient is used as a weight itself, Paddle's second gradients of products are wrong,
        # and if a tensor is both output and input, Paddle's result depends on the order.
        weights = [varying(gradient).clone() for gradient in came.values()]
        with paddle.enable_grad():
            outputs = [paddle.assign(results[at]) for at in came]


def _run_pass(
    up_to_programs: UpToPrograms,
    arguments: Arguments,
    not_through: List[paddle.Tensor],
    calls_hooks: bool,
    sources: List[paddle.Tensor],
) -> Tuple[Gradients, List[Met]]:
    outputs, inputs, weights = arguments
    asked = _with_sources(inputs, sources)
    return up_to_programs(outputs, asked, weights, not_through, calls_hooks) if asked else ([], [])


def _with_sources(inputs: Sequence[paddle.Tensor], sources: Iterable[paddle.Tensor]) -> List[paddle.Tensor]:
    """Return the inputs, and the sources that are no inputs, each once: Paddle takes no input twice."""
    known = {id(tensor) for tensor in inputs}
    return [*inputs, *{id(source): source for source in sources if id(source) not in known}.values()]


def _sum(one: Any, other: Any) -> Any:
    if is_undefined(one) or is_undefined(other):
        return other if is_undefined(one) else one
    return one + other


def _checked(known: paddle.Tensor, found: Optional[paddle.Tensor]) -> paddle.Tensor:
    """Return the gradient that was found, if it has the known values."""
    if found is None or not is_close(known, found):
        raise _NotTheSame
    return found


def is_close(known: paddle.Tensor, found: paddle.Tensor) -> bool:
    """Return whether tensors have the same values, apart from rounding."""
    wide = "complex128" if known.is_complex() else "float64"
    expected, actual = (tensor.detach().cast(wide).numpy() for tensor in (known, found))
    tolerance = 1e-2 if known.element_size() < 4 else 1e-4
    return bool(np.allclose(actual, expected, tolerance, tolerance * np.abs(expected).max(initial=0), equal_nan=True))


def _refuse_backward(gradients: Gradients, sources: Sequence[paddle.Tensor]) -> Gradients:
    """Return the gradients such that any pass through them to `sources` is refused."""
    at = [index for index, gradient in enumerate(gradients) if gradient is not None and not gradient.stop_gradient]
    given = _Given([gradients[index] for index in at])
    for index, gradient in zip(at, _NotAgain.apply(given, *sources) if at else ()):
        gradients[index] = gradient
    return gradients


class _Given:
    """Hides tensors from Paddle, so that they are no arguments whose history counts."""

    def __init__(self, tensors: list[paddle.Tensor]) -> None:
        self.tensors = tensors


class _NotAgain(PyLayer):  # type: ignore[misc]
    """Returns tensors unchanged, with a backward pass that is refused."""

    @staticmethod
    def forward(ctx: Any, given: _Given, *sources: paddle.Tensor) -> tuple[paddle.Tensor, ...]:
        return tuple(tensor.detach() for tensor in given.tensors)

    @staticmethod
    def backward(ctx: Any, *gradients: paddle.Tensor) -> Any:
        _sot._refuse_pass()
