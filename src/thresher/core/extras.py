"""Packages that only some parts need: where one is missing, a sentence says what to install."""

from importlib.util import find_spec

from thresher.core.errors import ThresherError

PACKAGES = {"PIL": "pillow", "vl_convert": "vl-convert-python"}  # modules whose package has another name


def needs_extra(what: str, extra: str, *modules: str, otherwise: str = "") -> None:
    """Refuse, where one of these modules is not installed; none of them is imported. `otherwise` is another way out.

    >>> needs_extra("The report", "report", "json", "no_such_module")
    Traceback (most recent call last):
    thresher.core.errors.ThresherError: The report needs no_such_module: pip install 'thresher[report]'.
    """
    for module in modules:
        if find_spec(module) is None:
            fix = f"pip install 'thresher[{extra}]'" + (f", or {otherwise}" if otherwise else "")
            raise ThresherError(f"{what} needs {PACKAGES.get(module, module)}: {fix}.")
