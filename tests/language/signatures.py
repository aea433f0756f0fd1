"""What `inspect` says of functions, methods and classes."""

import functools
import inspect


def _function(a, b=2, *args, c, d=4, **options) -> int:
    pass


class Model:
    """A model."""

    def __init__(self, size, bias=True):
        self.size = size

    def forward(self, x, scale=3):
        return x * scale

    @property
    def twice(self):
        return self.size * 2


class Made:
    def __new__(cls, a, b):
        return object.__new__(cls)


class Called:
    def __call__(self, x, *, y=1) -> str:
        pass


def _wrapper(function):
    @functools.wraps(function)
    def wrapped(*args, **kwargs):
        return function(*args, **kwargs)

    return wrapped


@_wrapper
def _wrapped(a, b):
    return a


def names_of_parameters(x):
    signature = inspect.signature(_function)
    return x + len(signature.parameters), list(signature.parameters), "b" in signature.parameters


def text_of_a_signature(x):
    return x + 1, str(inspect.signature(_function)), str(inspect.signature(_wrapped))


def parameters(x):
    seen = []
    for name, parameter in inspect.signature(_function).parameters.items():
        required = parameter.default is parameter.empty
        seen.append((name, required, parameter.kind == parameter.KEYWORD_ONLY, parameter.kind.name, parameter.annotation is int))
    return x + len(seen), seen


def signature_of_methods(x):
    return x + 1, list(inspect.signature(Model(1).forward).parameters), list(inspect.signature(Model.forward).parameters)


def signature_of_classes(x):
    return x + 1, list(inspect.signature(Model).parameters), list(inspect.signature(Made).parameters)


def signature_of_a_callable_object(x):
    signature = inspect.signature(Called())
    return x + 1, list(signature.parameters), signature.return_annotation is str


def signature_of_a_partial(x):
    return x + 1, str(inspect.signature(functools.partial(_function, 1, d=5)))


def arguments_bound(x):
    bound = inspect.signature(_function).bind(1, 2, 3, c=5, e=6)
    bound.apply_defaults()
    return x + bound.arguments["a"], bound.args, bound.kwargs, dict(bound.arguments)


def tensor_bound(x):
    bound = inspect.signature(Model(1).forward).bind(x)
    bound.apply_defaults()
    return bound.arguments["x"] * bound.arguments["scale"]


def arguments_bound_in_part(x):
    return x + 1, dict(inspect.signature(_function).bind_partial(1).arguments)


def arguments_that_do_not_fit(x):
    try:
        inspect.signature(_function).bind(1)
    except TypeError as error:
        return x + 1, str(error)


def options_that_a_function_takes(x):
    def scaled(a, *, by=3):
        return a * by

    taken = inspect.signature(scaled).parameters
    return scaled(x, **{name: value for name, value in {"by": 2, "other": 1}.items() if name in taken})


def signature_changed(x):
    signature = inspect.signature(Model.forward)
    first = list(signature.parameters.values())[0].replace(name="this")
    return x + 1, str(signature.replace(parameters=[first])), signature == inspect.signature(Model.forward)


def full_argument_specification(x):
    spec = inspect.getfullargspec(_function)
    return x + 1, spec.args, spec.varargs, spec.varkw, spec.defaults, spec.kwonlyargs, spec.kwonlydefaults


def unwrapped(x):
    return x + 1, inspect.unwrap(_wrapped).__name__, inspect.unwrap(_wrapped) is _wrapped.__wrapped__


def kinds_of_objects(x):
    kinds = [inspect.isfunction, inspect.ismethod, inspect.isclass, inspect.ismodule, inspect.isroutine, inspect.isgeneratorfunction]
    return x + 1, [[kind(thing) for kind in kinds] for thing in (_function, Model(1).forward, Model, inspect, len)]


def attributes_without_descriptors(x):
    found = inspect.getattr_static(Model, "twice")
    return x + 1, isinstance(found, property), inspect.getattr_static(Model, "no", 5)


def documentation(x):
    return x + 1, inspect.getdoc(Model), inspect.getmro(Made) == (Made, object)
