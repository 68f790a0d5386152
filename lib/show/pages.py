"""HTML pages from jinja2 templates. Shared templates are in lib/show/templates, others next to
their code.
"""

import functools
from pathlib import Path

TEMPLATES = Path(__file__).with_name("templates")


@functools.cache
def template(name: str, folder: Path = TEMPLATES):
    """Return the template <name>.html.j2 of a folder. Whatever is filled in is escaped, unless it
    is a Markup.

    It may extend or include the templates of lib/show/templates.
    """
    # here, because most of lib writes no page
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader([folder, TEMPLATES]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(f"{name}.html.j2")
