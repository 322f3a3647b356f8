"""The error for wrong input: one sentence that names the fix."""


class ThresherError(ValueError):
    """Wrong input: the message is one sentence that names the fix; the command line exits with 2."""
