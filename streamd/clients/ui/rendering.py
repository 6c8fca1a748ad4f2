"""HTML from the templates, with numbers, times and names for readers."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import jinja2
from starlette.responses import HTMLResponse

from streamd.clients.ui import shown
from streamd.clients.ui.names import brief, text_of, value_of

HERE = Path(__file__).parent
STATIC = HERE / "static"

# A list shows so much of a value; the page of an entry shows it whole, up to a length that a browser can bear.
VALUE_CHARACTERS_MAX = 300
WHOLE_CHARACTERS_MAX = 200_000


class Templates:
    """The templates, with the common parts of all pages."""

    def __init__(self, **same: Any) -> None:
        loader = jinja2.FileSystemLoader(HERE / "templates")
        self._environment = jinja2.Environment(
            loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
        )
        self._environment.globals.update(same, address=address)
        self._environment.filters.update(
            brief=brief,
            count=shown.count,
            duration=shown.duration,
            moment=shown.moment,
            name=text_of,
            plural=shown.plural,
            rate=shown.rate,
            size=shown.size,
            value=lambda value: value_of(value, VALUE_CHARACTERS_MAX),
            whole=lambda value: value_of(value, WHOLE_CHARACTERS_MAX),
        )

    def page(self, template: str, status: int = 200, **values: Any) -> HTMLResponse:
        """Return a template, filled."""
        return HTMLResponse(self._environment.get_template(template).render(values), status)


def address(path: str, **parameters: Any) -> str:
    """Return a path with its parameters; bytes as reversible text, without empty ones."""
    given: Mapping[str, str] = {
        name: text_of(value) if isinstance(value, bytes) else str(value)
        for name, value in parameters.items()
        if value not in (None, "", b"", 0)
    }
    return f"{path}?{urlencode(given)}" if given else path
