"""What verify mode raises if it is asked to. The mode itself is imported when it is switched on."""


class VerifyError(AssertionError):
    """A translated call differs from the program's own run (`SOT_VERIFY_RAISE=1`)."""
