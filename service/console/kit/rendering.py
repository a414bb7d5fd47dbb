"""Templates of the console with their filters: times, numbers, and Markdown made safe.

Everything on a page is escaped text. Only `markdown` makes HTML. What is computed from texts of others is a filter, so
that it happens where the page is rendered: in the event loop while it is little, else in another process (P25).
"""

from __future__ import annotations

import gc
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any
from zoneinfo import ZoneInfo

import jinja2
import msgspec

from service.console import assets
from service.console.texts.budget import budget
from service.console.texts.differences import differences
from service.console.texts.folding import compare
from service.console.texts.prose import markdown
from service.console.texts.spots import Spots
from service.ids import new_id

SHORT = 12
_OTHERS = re.compile(r'{%-? *(?:extends|import|include|from) "([^"]+)"')


def render(template: str, facts: Mapping[str, Any], zone: str = "UTC", *, here: int | None = None) -> bytes:
    """Fill in a template. Times are told in `zone`.

    At most `here` characters of plain work are done on texts of others. Raises TooMuchHere for more of it, and
    jinja2.UndefinedError for a missing fact.
    """
    with budget(here):
        page = _environment().get_template(template).render({**facts, "zone": zone}).encode("utf-8", "replace")
    # Macros and their context refer to each other, and to all facts. Without this they pile up to several MB, since
    # the collector of a process that serves requests passes seldom. What is young is little: this takes 0.3 ms.
    gc.collect(0)
    return page


@cache
def load(template: str) -> None:
    """Compile a template with all that it takes from others: a tenth of a second, so it is done apart and once."""
    made = _environment()
    source = made.loader.get_source(made, template)[0] if made.loader else ""
    for name in sorted(set(_OTHERS.findall(source))):
        load(name)
    if "|markdown" in source:
        markdown("*")
    made.get_template(template)


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


def _short(value: str | None) -> str:
    return "–" if value is None else value if len(value) <= SHORT + 1 else f"{value[:SHORT]}…"


def pretty(value: Any) -> str:
    """A value as JSON for people."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def _asset(name: str) -> str:
    return f"/console/assets/{name}?v={assets.version(name)}"


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
    made.filters |= {"differences": differences, "compare": compare, "spots": Spots}
    made.filters |= {"whole": lambda value: told_number(None if value is None else round(value))}
    made.filters |= {"short": _short, "pretty": pretty, "clock": told_time, "day": told_day}
    made.globals |= {"asset": _asset, "new_key": lambda: new_id("req")}
    return made
