"""The error of verify mode. It has a module of its own because verify mode is only imported when it is switched on."""


class VerifyError(AssertionError):
    """A translated call differs from the program's own run (`SOT_VERIFY_RAISE=1`)."""
