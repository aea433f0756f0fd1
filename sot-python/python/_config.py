"""`sot.config`: every environment variable as a typed attribute.

An attribute is its variable: reading and writing it reads and writes `os.environ`. So there is one place to look at,
and programs that this process starts inherit the value. Existing translations stay as they were made.
"""

from __future__ import annotations

import contextlib
import os
import warnings
from types import TracebackType
from typing import Any, Callable, Dict, Generic, List, Optional, Tuple, Type, TypeVar, Union, cast, overload

from . import _logs, _names

_T = TypeVar("_T")
_F = TypeVar("_F", bound=Callable[..., Any])

_TRUE = ("1", "true", "yes", "on", "t", "y")
_FALSE = ("0", "false", "no", "off", "f", "n")

# Variables with the prefix `SOT_` that are not read here: those of another tracer, which programs may set, and those
# of this project's tests.
NOT_READ = (
    "SOT_WITH_CONTROL_FLOW",
    "SOT_ENABLE_FASTER_GUARD",
    "SOT_ENABLE_GUARD_TREE",
    "SOT_ENABLE_STRICT_GUARD_CHECK",
    "SOT_UNSAFE_CACHE_FASTPATH",
    "SOT_ENABLE_COMPILE_TIME_LIMIT",
    "SOT_COLLECT_INFO",
    "SOT_SERIALIZE_INFO",
    "SOT_CE_DEBUG_MODE",
    "SOT_FORCE_FALLBACK_SIR_IDS",
    "SOT_BREAK_GRAPH_ON_GET_SYMBOLIC_VALUE",
    "SOT_ENABLE_0_SIZE_FALLBACK",
    "SOT_BLESS",
    "SOT_VERIFY_RESULT",
)


class Variable(Generic[_T]):
    """One environment variable, as an attribute of `Config`."""

    def __init__(
        self,
        name: str,
        read: Callable[[str], _T],
        default: _T,
        values: str,
        meaning: str,
        then: Callable[[], None] = lambda: None,
        at_import: str = "",
    ) -> None:
        self.name = name
        self.read = read
        self.default = default
        self.values = values
        self.__doc__ = meaning
        self.then = then
        self.at_import = at_import

    def __set_name__(self, owner: type, attribute: str) -> None:
        self.attribute = attribute

    @overload
    def __get__(self, config: None, owner: type) -> Variable[_T]: ...
    @overload
    def __get__(self, config: Config, owner: type) -> _T: ...
    def __get__(self, config: Optional[Config], owner: type) -> Union[Variable[_T], _T]:
        if config is None:
            return self
        try:
            return self.value_of(os.environ.get(self.name, ""))
        except ValueError:
            return self.default

    def __set__(self, config: Config, value: _T) -> None:
        if self.at_import:
            raise AttributeError(f"{__package__}.config.{self.attribute} is read when {__package__} is imported; {self.at_import}")
        self.write(self.text_of(value))

    def value_of(self, text: str) -> _T:
        """Return the value that a text stands for; an empty text stands for the default."""
        return self.read(text.strip()) if text.strip() else self.default

    def text_of(self, value: Any) -> Optional[str]:
        """Return the text that stands for a value; `None` if the variable is to be deleted.

        Raises:
            ValueError: the variable does not take this value.
            TypeError: the value has the wrong type.
        """
        if value is None:
            return None
        text = {True: "1", False: "0"}[value] if isinstance(value, bool) else value
        if isinstance(text, (int, float)):
            text = repr(text)
        if not isinstance(text, str):
            raise TypeError(f"{__package__}.config.{self.attribute} takes {self.values}, not {value!r}")
        try:
            found = self.value_of(text)
        except ValueError as error:
            raise ValueError(f"{__package__}.config.{self.attribute} = {value!r}: {error}") from None
        # `True` does not count as a number, and `1` does not count as a text.
        if isinstance(found, bool) is not isinstance(value, bool) or not isinstance(value, (type(found), int) if isinstance(found, float) else type(found)):
            raise TypeError(f"{__package__}.config.{self.attribute} takes {self.values}, not {value!r}")
        return text

    def write(self, text: Optional[str]) -> None:
        """Set the variable, or delete it."""
        if text is None:
            os.environ.pop(self.name, None)
        else:
            os.environ[self.name] = text
        self.then()


class Folder(Variable[Optional[str]]):
    """A variable that names a folder: it is set to a text or a path, and read as a text."""

    def __set__(self, config: Config, value: Union[str, os.PathLike[str], None]) -> None:
        super().__set__(config, cast(Optional[str], value))

    def text_of(self, value: Any) -> Optional[str]:
        """Return the text that stands for a folder."""
        return super().text_of(os.fspath(value) if isinstance(value, os.PathLike) else value)


def _switch(text: str) -> bool:
    if text.lower() in _TRUE or text.lower() in _FALSE:
        return text.lower() in _TRUE
    raise ValueError(f"{text!r} is neither true ({', '.join(_TRUE)}) nor false ({', '.join(_FALSE)})")


def _number(least: int, most: Optional[int] = None) -> Callable[[str], int]:
    said = f"from {least} to {most}" if most is not None else f"from {least} on"

    def read(text: str) -> int:
        if not text.isdigit() or int(text) < least or (most is not None and int(text) > most):
            raise ValueError(f"{text!r} is no whole number {said}")
        return int(text)

    return read


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise ValueError(f"{text!r} is no number of seconds")
    return seconds


def _one_of(*values: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text.lower() not in values:
            raise ValueError(f"{text!r} is none of its values{_names.nearest(text, values)}")
        return text.lower()

    return read


def _logs_text(text: str) -> str:
    _logs.names_in(text)
    return text


def _log_level_changed() -> None:
    from . import _sot

    _sot._ask_log_level_again()


def _logs_changed() -> None:
    _logs.choose(_logs.names_in(config.logs))


def _verify_changed() -> None:
    try:
        from . import _verify
    except ImportError:
        if config.verify:
            raise RuntimeError(f"{__package__} has no verify mode") from None
    else:
        _verify.switch(config.verify)


class Config:
    """The variables of `sot.config`. A wrong name or value is an error that names the nearest right one.

    `sot.config.min_graph_size = 4` holds for the process from then on. `with sot.config.patch(min_graph_size=4):`
    holds for a block, and `@sot.config.patch(min_graph_size=4)` for each call of a function. All of them hold for all
    threads.
    """

    log_level = Variable(
        "SOT_LOG_LEVEL", _number(0), 0, "a number from 0 on, of which 3 shows everything",
        "What is written to standard error: 1 breaks, 2 graphs and guards, too, 3 code and every instruction.",
        _log_level_changed,
    )  # fmt: skip
    logs = Variable(
        "SOT_LOGS", _logs_text, "", f"names of {', '.join(_logs.CHANNELS)}, with commas, or 'all'",
        "The loggers that are switched on.", _logs_changed,
    )  # fmt: skip
    progress = Variable(
        "SOT_PROGRESS", _seconds, 2.0, "a number of seconds (a float)",
        "After how many seconds a translation shows itself on a terminal; 0: never.",
    )  # fmt: skip
    install = Variable(
        "SOT_INSTALL", _switch, False, "True or False",
        "Whether `sot.install()` is called as soon as the framework is imported.", at_import=f"call {__package__}.install()",
    )  # fmt: skip
    report = Folder(
        "SOT_REPORT", cast(Callable[[str], Optional[str]], str), None, "a folder, or None",
        "The folder for a report of the whole run.", at_import="set the environment variable SOT_REPORT before",
    )  # fmt: skip
    strict_mode = Variable(
        "STRICT_MODE", _switch, False, "True or False",
        "Whether a bug of the tracer raises instead of leaving the frame to CPython; for tests.",
    )  # fmt: skip
    allow_dynamic_shape: Variable[Optional[bool]] = Variable(
        "SOT_ALLOW_DYNAMIC_SHAPE", cast(Callable[[str], Optional[bool]], _switch), None, "True, False or None",
        "Whether sizes and numbers that differ between calls are left open; None: a size at its second value.",
    )  # fmt: skip
    specialized_dim_numbers = Variable(
        "SOT_SPECIALIZED_DIM_NUMBERS", _one_of("01", "0", "no"), "01", "'01', '0' or 'no'",
        "Which sizes have a translation of their own all the same.",
    )  # fmt: skip
    min_graph_size: Variable[Optional[int]] = Variable(
        "MIN_GRAPH_SIZE", cast(Callable[[str], Optional[int]], _number(0)), None, "a number from 0 on, or None",
        "Smaller graphs are called operation by operation; None: what was measured.",
    )  # fmt: skip
    program_size: Variable[Optional[int]] = Variable(
        "SOT_PROGRAM_SIZE", cast(Callable[[str], Optional[int]], _number(1)), None, "a number from 1 on, or None",
        "Larger graphs become several programs; None: what was measured.",
    )  # fmt: skip
    export = Folder(
        "SOT_EXPORT", cast(Callable[[str], Optional[str]], str), None, "a folder, or None",
        "The folder where each graph is written as a file.",
    )  # fmt: skip
    verify = Variable(
        "SOT_VERIFY", _switch, False, "True or False",
        "Whether each call that was asked for is compared with the program's own run.", _verify_changed,
    )  # fmt: skip
    verify_raise = Variable(
        "SOT_VERIFY_RAISE", _switch, False, "True or False",
        "Whether a difference that verify mode finds is an error (`sot.VerifyError`).",
    )  # fmt: skip
    guard_memory = Variable(
        "SOT_GUARD_MEMORY", _switch, True, "True or False",
        "Whether guards that held compare the memory they rest on, instead of being walked at each call.",
    )  # fmt: skip

    def __setattr__(self, name: str, value: Any) -> None:
        _variable(name)
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        _checked(name, None)
        attribute = f"{__package__}.config.{name}"
        instead = f"{attribute} = None deletes the environment variable {_VARIABLES[name].name}"
        raise AttributeError(f"{attribute} cannot be deleted; {instead}")

    def __getattr__(self, name: str) -> Any:
        # Python calls this only for attributes that do not exist.
        if name.startswith("__"):
            raise AttributeError(name)
        raise AttributeError(_no_attribute(name))

    def __dir__(self) -> List[str]:
        return [*_VARIABLES, "patch"]

    def patch(self, **values: Any) -> Patch:
        """Set variables for a `with` block, or for each call of a function that the result decorates.

        Raises:
            AttributeError: there is no such variable, or the variable is read only when sot is imported.
            ValueError, TypeError: a variable does not take the value.
        """
        return Patch({name: _checked(name, value) for name, value in values.items()})

    def __repr__(self) -> str:
        values = [f"  {name} = {getattr(self, name)!r}  # {variable.name}" for name, variable in _VARIABLES.items()]
        return "\n".join([f"<{__package__}.config", *values, ">"])


class Patch(contextlib.ContextDecorator):
    """Variables that are set for a `with` block, or for each call of a decorated function."""

    def __init__(self, texts: Dict[str, Optional[str]]) -> None:
        self._texts = texts
        self._before: List[Dict[str, Optional[str]]] = []

    def __enter__(self) -> Config:
        self._before.append({name: os.environ.get(_VARIABLES[name].name) for name in self._texts})
        for name, text in self._texts.items():
            _VARIABLES[name].write(text)
        return config

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], traceback: Optional[TracebackType]
    ) -> None:
        for name, text in self._before.pop().items():
            _VARIABLES[name].write(text)


_VARIABLES: Dict[str, Variable[Any]] = {
    name: found for name, found in vars(Config).items() if isinstance(found, Variable)
}

config = Config()


def _no_attribute(name: str) -> str:
    by_variable = {variable.name: attribute for attribute, variable in _VARIABLES.items()}
    if name in by_variable:
        return f"{__package__}.config has no {name!r}; did you mean {by_variable[name]!r}?"
    return f"{__package__}.config has no {name!r}{_names.nearest(name, _VARIABLES)}"


def _variable(name: str) -> Variable[Any]:
    if name not in _VARIABLES:
        raise AttributeError(_no_attribute(name))
    return _VARIABLES[name]


def _checked(name: str, value: Any) -> Optional[str]:
    variable = _variable(name)
    if variable.at_import:
        raise AttributeError(f"{__package__}.config.{name} is read when {__package__} is imported; {variable.at_import}")
    return variable.text_of(value)


def problems() -> List[Tuple[str, str]]:
    """Return the environment variables with a wrong name or value, and what is wrong with each."""
    found = []
    for variable in _VARIABLES.values():
        try:
            variable.value_of(os.environ.get(variable.name, ""))
        except ValueError as error:
            has_default = variable.default not in (None, "")
            instead = f"the default is used: {variable.default!r}" if has_default else "the variable is ignored"
            found.append((variable.name, f"{error}; {instead}"))
    for name in os.environ:
        right = _meant(name)
        if right is not None:
            found.append((name, f"there is no such variable; did you mean {right}?"))
    return found


def _meant(name: str) -> Optional[str]:
    """Return the variable that a mistyped name probably means; `None` if the name is right or unlike all of them."""
    known = {variable.name.replace("SOT_", "", 1): variable.name for variable in _VARIABLES.values()}
    if not name.upper().startswith("SOT_") or name in known.values() or name in NOT_READ:
        return None
    right = _names.near(name[4:], known, 0.75)
    return known[right] if right else None


def variables() -> List[str]:
    """Return the names of the environment variables that are read."""
    return [variable.name for variable in _VARIABLES.values()]


def is_known(name: str) -> bool:
    """Return whether an environment variable is read, or is one of `NOT_READ`."""
    return name in variables() or name in NOT_READ


def warn_of_problems() -> None:
    """Warn of each environment variable with a wrong name or value."""
    for name, wrong in problems():
        warnings.warn(f"{__package__}: environment variable {name}: {wrong}", RuntimeWarning, stacklevel=3)


def start() -> None:
    """Warn of wrong variables, and switch on the loggers of `SOT_LOGS` and verify mode, as the environment asks."""
    warn_of_problems()
    _logs.set_up()
    _logs_changed()
    if config.verify:
        _verify_changed()
