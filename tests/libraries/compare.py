"""A model beside itself translated: results, gradients, parameters and buffers of a few training steps, and what was translated."""

import copy
import dataclasses
import time

import numpy as np
import paddle

STEPS = 3
# Sums in another order; a gradient is compared relative to the largest of its tensor.
RESULTS, GRADIENTS, LOSSES = 2e-4, 2e-3, 1e-3
# Below this, and this part of the largest gradient of a model, is what rounding leaves of zeros.
SMALLEST = 1e-3

FLOATING = (paddle.float16, paddle.bfloat16, paddle.float32, paddle.float64)


@dataclasses.dataclass
class Model:
    """`make()` gives the layer, `inputs()` its arguments and keyword arguments."""

    make: object
    inputs: object


class Differs(AssertionError):
    """The translated model does something else."""


class NotInEagerMode(Exception):
    """The model cannot be run, or trained, without translation."""


def leaves(value):
    """The tensors in a result, in its order."""
    if isinstance(value, paddle.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    elif not isinstance(value, (list, tuple)):
        value = list(vars(value).values()) if hasattr(value, "__dict__") and not callable(value) else []
    return [leaf for item in value for leaf in leaves(item)]


def structure(value):
    """Return the structure of a result: types, shapes, element types, keys, without values."""
    if isinstance(value, paddle.Tensor):
        return tuple(value.shape), str(value.dtype), value.stop_gradient
    if isinstance(value, dict):
        return type(value).__name__, [(key, structure(item)) for key, item in value.items()]
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [structure(item) for item in value]
    return type(value).__name__


def same_numbers(actual, expected, tolerance, what, smallest=SMALLEST):
    actual, expected = actual.numpy(), expected.numpy()
    if expected.dtype.kind not in "fc":
        if not np.array_equal(actual, expected):
            raise Differs(f"{what} is another")
        return
    if not np.array_equal(np.isnan(actual), np.isnan(expected)):
        raise Differs(f"{what} is not a number elsewhere")
    if expected.size:
        scale = max(float(np.nanmax(np.abs(expected))), smallest)
        error = float(np.nanmax(np.abs(actual.astype("float64") - expected.astype("float64"))))
        if error > tolerance * scale:
            raise Differs(f"{what} differs by {error:.2g} of {scale:.2g}")


def same_results(actual, expected, what):
    if structure(actual) != structure(expected):
        raise Differs(f"{what} is {structure(actual)}, not {structure(expected)}")
    for index, pair in enumerate(zip(leaves(actual), leaves(expected))):
        same_numbers(*pair, RESULTS, f"{what}, tensor {index}")


def seed(number):
    paddle.seed(number)
    np.random.seed(number)


def loss_of(output):
    """Something that all floating results with gradients have a part in."""
    tensors = (leaf for leaf in leaves(output) if leaf.dtype in FLOATING and not leaf.stop_gradient)
    return sum((tensor.astype("float32") ** 2).mean() for tensor in tensors)


@dataclasses.dataclass
class Measured:
    """The measurements of the first call in each mode."""

    predict: object
    train: object
    first_call: float
    """How many times as long as in eager mode the first call took."""

    def is_whole(self):
        modes = [mode for mode in (self.predict, self.train) if mode]
        return all(mode.graphs <= 1 and not mode.breaks and not mode.fallbacks for mode in modes)

    def reasons(self):
        """Reasons of breaks and fallbacks, with how often each was met."""
        reasons = {}
        for mode in (self.predict, self.train):
            if mode:
                reasons.update(mode.breaks)
                reasons.update({f"(fallback) {text}": count for text, count in mode.fallbacks.items()})
        return reasons


def compare(model, tracer, trains=True):
    """Runs the model in eager mode and under the tracer; raises `Differs` or `NotInEagerMode`."""
    try:
        eager, fast, arguments = made(model)
        seed(11)
        start = time.perf_counter()
        eager(*arguments[0], **arguments[1])
        eagerly = time.perf_counter() - start
    except Exception as error:
        raise NotInEagerMode(f"{type(error).__name__}: {str(error).strip().splitlines()[-1:]}") from error
    predict, first_call = compare_predict(eager, fast, arguments, tracer)
    train = compare_train(eager, fast, arguments, tracer) if trains else None
    return Measured(predict, train, first_call / eagerly)


def must_run(translated):
    try:
        return translated()
    except Exception as error:
        raise Differs(f"it raises {type(error).__name__}: {str(error).strip().splitlines()[-1:]}") from error


def made(model):
    seed(3)
    eager = model.make()
    seed(3)
    fast = model.make()
    fast.set_state_dict(copy.deepcopy(eager.state_dict()))
    for layer in (eager, fast):
        layer.eval()
    seed(5)
    return eager, fast, model.inputs()


def compare_predict(eager, fast, arguments, tracer):
    tracer.reset()
    translated = tracer.translate(lambda: fast(*arguments[0], **arguments[1]))
    for call in range(2):
        seed(11)
        expected = eager(*arguments[0], **arguments[1])
        seed(11)
        start = time.perf_counter()
        actual = must_run(translated)
        if call == 0:
            first, mode = time.perf_counter() - start, tracer.mode()
        same_results(actual, expected, f"result {call}")
    return mode, first


def compare_train(eager, fast, arguments, tracer):
    tracer.reset()
    for layer in (eager, fast):
        layer.train()
    runs = [lambda: loss_of(eager(*arguments[0], **arguments[1])), lambda: loss_of(fast(*arguments[0], **arguments[1]))]
    if not can_train(runs[0], eager):
        return None
    fast.set_state_dict(copy.deepcopy(eager.state_dict()))
    runs[1] = tracer.translate(runs[1])
    optimizers = [paddle.optimizer.Adam(1e-4, parameters=layer.parameters()) for layer in (eager, fast)]
    for step in range(STEPS):
        losses = []
        for run in runs:
            seed(20 + step)
            losses.append(must_run(run))
            losses[-1].backward()
        if step == 0:
            mode = tracer.mode()
        same_numbers(losses[1], losses[0], LOSSES * (1 + step), f"loss {step}")
        if step == 0:
            same_gradients(eager, fast)
            for (name, expected), actual in zip(eager.named_buffers(), fast.buffers()):
                same_numbers(actual, expected, LOSSES, f"buffer {name}")
        for optimizer in optimizers:
            optimizer.step()
            optimizer.clear_grad()
    return mode


def can_train(run, layer):
    """Return whether a training step is possible in eager mode."""
    try:
        loss = run()
        loss.backward()
    except Exception:
        return False
    finally:
        layer.clear_gradients()
    return isinstance(loss, paddle.Tensor)


def same_gradients(eager, fast):
    largest = max(float(parameter.grad.abs().max()) for parameter in eager.parameters() if parameter.grad is not None)
    for (name, expected), actual in zip(eager.named_parameters(), fast.parameters()):
        if (expected.grad is None) != (actual.grad is None):
            raise Differs(f"of {name} one has no gradient")
        if expected.grad is not None:
            same_numbers(actual.grad, expected.grad, GRADIENTS, f"the gradient of {name}", SMALLEST * max(largest, 1))
