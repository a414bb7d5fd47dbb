"""The texts of discovery: templates in `texts/`, filled in with facts (R-DISC-09, R-DISC-10).

A template names no route, limit, code or variable by heart. It takes them from the facts it is given. A missing fact
stops the rendering. A fact within HTML is escaped, within Markdown, JSON and style sheets it is not.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import jinja2

MARKDOWN = "text/markdown; charset=utf-8"
KEPT = 4
"""Most compiled templates in memory. The pages for people render theirs again and again."""


class Text(NamedTuple):
    """A rendered text: its bytes in UTF-8, and the quoted strong tag of them."""

    body: bytes
    etag: str


def as_text(content: str | bytes) -> Text:
    """Tag some content."""
    body = content.encode() if isinstance(content, str) else content
    return Text(body, f'"{hashlib.sha256(body).hexdigest()[:32]}"')


def render(name: str, facts: Mapping[str, Any]) -> Text:
    """Fill in a template of `texts/`. Raises jinja2.UndefinedError for a missing fact."""
    return as_text(_environment().get_template(name).render(facts))


@cache
def _environment() -> jinja2.Environment:
    """Load the engine with the first text, so that other processes do without it."""
    import jinja2  # noqa: PLC0415

    return jinja2.Environment(
        loader=jinja2.PackageLoader("service.discovery", "texts"),
        undefined=jinja2.StrictUndefined,
        autoescape=jinja2.select_autoescape(("html",)),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        cache_size=KEPT,
        auto_reload=False,
    )
