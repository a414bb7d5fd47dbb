"""All pages of the console: those with links to them, and those that one has to know."""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Generator, Iterable, Iterator
from contextlib import suppress
from urllib.parse import parse_qsl, urldefrag, urljoin, urlsplit

import httpx2

from service.console import site
from tests.support.naughty.judging import ShownPage

ROOT = "/console"
EACH = 2
"""Pages of one address, with the same parameters, that are looked at."""
KNOWN = ("again?next=settings", "device?user_code=BCDF-GHJK", "how-to-verify", "sessions", "settings")


def address_of(place: str) -> str | None:
    """The declared address of a place. None where there is no page."""
    path = place.partition("?")[0]
    return next((one.address for one in site._pages() if one.match(path) is not None), None)


def declared() -> set[str]:
    """The addresses of all pages."""
    return {one.address for one in site._pages()}


def crawl(client: httpx2.Client, cookie: str, known: Iterable[str] = (), each: int = EACH) -> Iterator[ShownPage]:
    """Open all pages that one leads to another, `each` times at most, beginning with the first and the `known`."""
    way = places(known, each)
    place = next(way)
    with suppress(StopIteration):
        while True:
            page = page_of(place, client.get(f"{ROOT}/{place}".rstrip("/"), headers={"cookie": cookie}))
            if page is not None:
                yield page
            place = way.send(page)


def page_of(place: str, answer: httpx2.Response) -> ShownPage | None:
    """The page at a place. None for a file, which a browser keeps."""
    address = address_of(place)
    assert address is not None, place
    if address.startswith("download/"):
        assert answer.headers["content-disposition"].startswith("attachment; filename="), place
        assert answer.headers["content-type"] == "application/octet-stream", place
        assert answer.headers["x-content-type-options"] == "nosniff", place
        return None
    return ShownPage(place, address, answer.status_code, answer.text)


def places(known: Iterable[str] = (), each: int = EACH) -> Generator[str, ShownPage | None, None]:
    """The places of a crawl, each of which wants its page sent."""
    first = ["", *known, *KNOWN]
    waiting, found, counts = deque(first), set[str](), Counter[tuple[str, ...]]()
    while waiting:
        place = waiting.popleft()
        kind = _kind(place)
        if place in found or kind is None or (counts[kind] >= each and place not in first):
            continue
        found.add(place)
        counts[kind] += 1
        page = yield place
        if page is not None:
            waiting.extend(_places(f"{ROOT}/{place}", page.links))


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
