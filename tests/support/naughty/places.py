"""All pages of the console: those with links to them, and those that one has to know."""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from urllib.parse import parse_qsl, urldefrag, urljoin, urlsplit

import httpx2

from service.console import site
from tests.support.naughty.judging import ShownPage

ROOT = "/console"
EACH = 2
"""Pages of one address, with the same parameters, that are looked at."""
KNOWN = ("again?next=settings", "device?user_code=BCDF-GHJK", "how-to-verify", "sessions", "settings", "operator")


def address_of(place: str) -> str | None:
    """The declared address of a place. None where there is no page."""
    path = place.partition("?")[0]
    return next((one.address for one in site._pages() if one.match(path) is not None), None)


def declared() -> set[str]:
    """The addresses of all pages."""
    return {one.address for one in site._pages()}


def crawl(client: httpx2.Client, cookie: str, known: Iterable[str] = (), each: int = EACH) -> Iterator[ShownPage]:
    """Open all pages that one leads to another, `each` times at most, beginning with the first and the `known`."""
    first = ["", *known, *KNOWN]
    waiting, seen, counts = deque(first), set[str](), Counter[tuple[str, ...]]()
    while waiting:
        place = waiting.popleft()
        kind = _kind(place)
        if place in seen or kind is None or (counts[kind] >= each and place not in first):
            continue
        seen.add(place)
        counts[kind] += 1
        answer = client.get(f"{ROOT}/{place}".rstrip("/"), headers={"cookie": cookie})
        if kind[0].startswith("download/"):
            assert answer.headers["content-disposition"].startswith("attachment; filename="), place
            assert answer.headers["content-type"] == "application/octet-stream", place
            assert answer.headers["x-content-type-options"] == "nosniff", place
            continue
        shown = ShownPage(place, kind[0], answer.status_code, answer.text)
        yield shown
        waiting.extend(_places(f"{ROOT}/{place}", shown.links))


def _kind(place: str) -> tuple[str, ...] | None:
    """The address of a place, with the names of its parameters."""
    address = address_of(place)
    if address is None:
        return None
    return (address, *sorted({name for name, value in parse_qsl(place.partition("?")[2]) if value}))


def _places(base: str, links: Iterable[str]) -> Iterator[str]:
    for link in links:
        parts = urlsplit(urldefrag(urljoin(f"http://here{base}", link)).url)
        if parts.netloc == "here" and re.match(rf"{ROOT}(/(?!assets/|follow)|$)", parts.path):
            yield parts.path.removeprefix(ROOT).strip("/") + (f"?{parts.query}" if parts.query else "")
