"""Errors that a person can act on: one sentence that names the fix."""


class ThresherError(ValueError):
    """Wrong input, said in one sentence that names the fix; the command line exits with 2."""
