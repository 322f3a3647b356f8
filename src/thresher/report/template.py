"""Pages of HTML from templates that lie beside the code that fills them in."""

from typing import Any


def filled_in(folder: str, template: str, **values: Any) -> str:
    """The template in this folder of the package, with its blanks filled in; one that is forgotten is an error."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("thresher", folder),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template).render(**values)
