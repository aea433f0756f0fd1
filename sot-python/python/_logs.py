"""Python's loggers of the tracer: `sot.graphs`, `sot.breaks`, `sot.recompiles`, `sot.guards`, `sot.code`.

The loggers of another backend's package begin with its name: `sot_numpy.graphs`.

Before each translation the tracer asks which of these loggers are enabled for INFO or below, by their own level or by
the level of the package's logger. The messages are handed over when the translation is done.
"""

from __future__ import annotations

import logging
import sys
from typing import Iterable, List

from ._names import nearest

CHANNELS = ("graphs", "breaks", "recompiles", "guards", "code")
# Names of channels in `TORCH_LOGS` that differ from ours.
_OTHER_NAMES = {"graph_breaks": "breaks", "graph_code": "graphs", "bytecode": "code"}

_chosen: List[str] = []


class _Stderr(logging.StreamHandler):  # type: ignore[type-arg]
    """Writes to standard error if the program has no handler of its own. One handler serves all backends."""

    is_sots = True

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> object:
        return sys.stderr

    def handle(self, record: logging.LogRecord) -> bool:
        loggers = [logging.getLogger(name) for name in (record.name, record.name.partition(".")[0], None)]
        has_own = any(not _is_sots(handler) for logger in loggers for handler in logger.handlers)
        return False if has_own else bool(super().handle(record))


def names_in(text: str) -> List[str]:
    """Return the channels of a list such as `breaks,recompiles`. The names of `TORCH_LOGS` are taken, too.

    Raises:
        ValueError: a name belongs to no channel.
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    names = [_OTHER_NAMES.get(name, name) for name in names]
    for name in names:
        if name not in (*CHANNELS, "all"):
            raise ValueError(f"there is no log {name!r}{nearest(name, (*CHANNELS, 'all'))}")
    return list(CHANNELS) if "all" in names else names


def choose(names: Iterable[str]) -> None:
    """Switch on the loggers of these channels, and switch off those that an earlier call switched on."""
    global _chosen
    for name in _chosen:
        _logger(name).setLevel(logging.NOTSET)
    _chosen = list(names)
    for name in _chosen:
        _logger(name).setLevel(logging.INFO)


def set_up() -> None:
    """Add a handler to each logger, so that programs without handlers see the messages."""
    for channel in CHANNELS:
        logger = _logger(channel)
        if not any(map(_is_sots, logger.handlers)):
            logger.addHandler(_Stderr())


def _logger(channel: str) -> logging.Logger:
    return logging.getLogger(f"{__package__}.{channel}")


def _is_sots(handler: logging.Handler) -> bool:
    return bool(getattr(handler, "is_sots", False))
