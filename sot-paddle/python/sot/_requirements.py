"""The tracer's requirements, checked before it is loaded: a supported CPython and a new enough Paddle.

Each failure is an ImportError that names the remedy. Written so that any Python 3 can parse it.
"""

import sys
from types import FrameType
from typing import Optional, Tuple

OLDEST_PYTHON = (3, 8)
NEWEST_PYTHON = (3, 13)
OLDEST_PADDLE = (3, 0)


def check() -> None:
    """Raise ImportError if the tracer cannot work here."""
    check_interpreter(sys.implementation.name, sys.version_info[:2])
    check_paddle()


def is_run_as_command() -> bool:
    """Return whether `runpy` imports the package for `python -m sot`, in its function that looks for the module."""
    frame = sys._getframe()  # type: Optional[FrameType]
    while frame is not None:
        code = frame.f_code
        if code.co_name == "_get_module_details" and frame.f_globals.get("__name__") == "runpy":
            return frame.f_locals.get("mod_name") == "sot.__main__"
        frame = frame.f_back
    return False


def check_interpreter(implementation: str, version: Tuple[int, int]) -> None:
    """Raise ImportError unless the tracer knows the layout of this interpreter's frames: CPython in these versions."""
    supported = "CPython {}.{} to {}.{}".format(*(OLDEST_PYTHON + NEWEST_PYTHON))
    if implementation != "cpython":
        raise ImportError(
            "sot works on {} only and this is {}; run it with one of those.".format(supported, implementation)
        )
    if not OLDEST_PYTHON <= version <= NEWEST_PYTHON:
        raise ImportError(
            "sot supports {} and this is {}.{}; install it in an environment with one of those.".format(
                supported, *version
            )
        )


def check_paddle() -> None:
    """Import Paddle. Raise ImportError if it is older than the first release with the tracer's program format."""
    try:
        import paddle
    except ModuleNotFoundError as error:
        if error.name != "paddle":
            raise
        raise ImportError("sot needs Paddle, which is not installed: pip install paddlepaddle") from None
    version = getattr(paddle, "__version__", "0.0.0")
    if is_too_old(version):
        raise ImportError(
            "sot needs Paddle {}.{} or newer and found {}: pip install --upgrade paddlepaddle".format(
                *(OLDEST_PADDLE + (version,))
            )
        )


def is_too_old(version: str) -> bool:
    """Return whether a version such as `2.6.2` is too old. Builds from source have the version `0.0.0`."""
    numbers = []
    for part in version.split(".")[:2]:
        digits = "".join(c for c in part if c.isdigit())
        numbers.append(int(digits) if digits else 0)
    return tuple(numbers) != (0, 0) and tuple(numbers) < OLDEST_PADDLE
