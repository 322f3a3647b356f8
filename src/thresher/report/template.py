"""Pages of HTML from templates, which lie beside the code that fills them in."""

from typing import Any

from thresher.core.extras import needs_extra


def filled_in(folder: str, template: str, **values: Any) -> str:
    """The template in this folder of the package with these values, which are escaped; a missing value is an error."""
    needs_extra(f"The page {template}", "report", "jinja2")
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("thresher", folder),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template).render(**values)
