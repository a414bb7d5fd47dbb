"""Templates of the console with their filters: times, numbers, and Markdown made safe.

Everything on a page is escaped text. Only `markdown` makes HTML.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any
from zoneinfo import ZoneInfo

import jinja2
import nh3
from markdown_it import MarkdownIt
from markupsafe import Markup

from service.console import assets
from service.http.edge.answer.page import HTML
from service.ids import new_id

SHORT = 12
OWN_HEADINGS = 3
LEAST_HEADING = 6
TAGS = frozenset(
    [
        "a",
        "blockquote",
        "br",
        "code",
        "del",
        "em",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "hr",
        "li",
        "ol",
        "p",
        "pre",
        "s",
        "strong",
        "table",
        "tbody",
        "td",
        "th",
        "thead",
        "tr",
        "ul",
    ]
)
HEADERS: Mapping[str, str] = {
    "content-type": HTML,
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "same-origin",  # "no-referrer" would have browsers send the origin "null" with forms
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
FRAMELESS: Mapping[str, str] = {name: value for name, value in HEADERS.items() if name != "content-type"}
"""The same for answers without a page: ways to another place, files and streams."""


def render(template: str, facts: Mapping[str, Any], zone: str = "UTC") -> bytes:
    """Fill in a template. Times are told in `zone`. Raises jinja2.UndefinedError for a missing fact."""
    page = _environment().get_template(template).render({**facts, "zone": zone}).encode("utf-8", "replace")
    # Macros and their context refer to each other, and to all facts. Without this they pile up to several MB, since
    # the collector of a process that serves requests passes seldom. What is young is little: this takes 0.3 ms.
    gc.collect(0)
    return page


def told_time(epoch: float | None, zone: str = "UTC") -> str:
    """A moment as text in a zone. A dash for None."""
    if epoch is None:
        return "–"
    moment = datetime.fromtimestamp(epoch, UTC).astimezone(ZoneInfo(zone))
    return f"{moment:%Y-%m-%d %H:%M:%S} {moment.tzname()}"


def told_day(epoch: int) -> str:
    """The UTC day that begins at a moment."""
    return f"{datetime.fromtimestamp(epoch, UTC):%Y-%m-%d}"


def told_duration(seconds: float | None) -> str:
    """A length of time in its two largest units. A dash for None."""
    if seconds is None:
        return "–"
    left = int(seconds)
    parts = []
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")):
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2]) or "0 s"


def told_number(value: float | None) -> str:
    """A number with its thousands apart. A dash for None."""
    if value is None:
        return "–"
    whole = int(value) if float(value).is_integer() else value
    return f"{whole:,}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def markdown(text: str | None) -> Markup:
    """Markdown of others as safe HTML: no picture, no script, no other link than to the web and to mail.

    Its headings come below those of the page.
    """
    tokens = _markdown().parse(text or "")
    for token in tokens:
        if token.type.startswith("heading"):
            token.tag = f"h{min(int(token.tag[1:]) + OWN_HEADINGS, LEAST_HEADING)}"
    html = _markdown().renderer.render(tokens, _markdown().options, {})
    return Markup(nh3.clean(html, tags=set(TAGS), url_schemes={"http", "https", "mailto"}))  # noqa: S704 - cleaned


def _short(value: str | None) -> str:
    return "–" if value is None else value if len(value) <= SHORT + 1 else f"{value[:SHORT]}…"


def _pretty(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def _asset(name: str) -> str:
    return f"/console/assets/{name}?v={assets.version(name)}"


@cache
def _markdown() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": False}).enable("table")


@cache
def _environment() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("service.console"),
        undefined=jinja2.StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters |= {"duration": told_duration, "number": told_number, "markdown": markdown}
    made.filters |= {"whole": lambda value: told_number(None if value is None else round(value))}
    made.filters |= {"short": _short, "pretty": _pretty, "clock": told_time, "day": told_day}
    made.globals |= {"asset": _asset, "new_key": lambda: new_id("req")}
    return made
