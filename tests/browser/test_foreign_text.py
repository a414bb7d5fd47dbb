"""Naughty texts through every door into every page: they stay text, and none reaches beyond its place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest
from playwright.sync_api import Browser

from tests.e2e.test_tenants import server as server  # noqa: PLC0414 (a fixture is found by name)
from tests.support import seen
from tests.support.chromium import PHONE, WIDE, seated
from tests.support.fullscene import NO_PAGES
from tests.support.naughty.judging import ShownPage
from tests.support.naughty.places import crawl, declared
from tests.support.naughty.scene import DOORS, NaughtyScene, open_naughty, operator_cookie
from tests.support.server import ServerHandle

SEED = 1
BARE = {"again", "device", "how-to-verify", "operator", "sessions", "settings"}
"""Addresses of pages without any text of others."""


class Looked(NamedTuple):
    """What was seen."""

    scene: NaughtyScene
    pages: list[ShownPage]


@pytest.fixture(scope="module")
def looked(server: ServerHandle) -> Iterator[Looked]:
    with open_naughty(server, SEED) as scene, seen.client(server.base_url, timeout=60) as client:
        pages = list(crawl(client, scene.owner, scene.known))
        pages += crawl(client, scene.guest, [f"invitations/{scene.invitation}"], each=1)
        pages += [page for page in crawl(client, operator_cookie(server), ["operator"]) if page.address == "operator"]
        yield Looked(scene, pages)


def test_the_texts_went_through_the_doors(looked: Looked) -> None:
    """Each door took them, as long as it takes any, and names the ones that only take something else."""
    assert looked.scene.refused == []
    taken = {f"{operation} {member}" for operation, members in looked.scene.taken.items() for member in members}
    assert DOORS - taken == set()


def test_every_page_was_looked_at_and_shows_them(looked: Looked) -> None:
    assert {page.address for page in looked.pages} == declared() - NO_PAGES
    assert [(page.place, page.status) for page in looked.pages if page.status != 200] == []
    assert {page.address for page in looked.pages} - {
        page.address for page in looked.pages if page.has_foreign_text
    } <= BARE


def test_they_are_text_and_nothing_else(looked: Looked) -> None:
    faults = {(page.address, fault): page.place for page in looked.pages for fault in page.faults()}
    assert faults == {}


REACHES_OUT = """() => {
  const found = [...document.querySelectorAll("x-naughty, [data-naughty], img, iframe, object, embed, base")]
    .map((one) => `<${one.tagName}>`);
  if (document.scripts.length > 2) found.push("more scripts");
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const one = texts.currentNode.parentElement;
    if (!texts.currentNode.data.includes("\u27ea")) continue;
    if (one.closest("textarea, option, title, pre, text, script")) continue;
    const style = getComputedStyle(one);
    if (style.display === "inline" && style.unicodeBidi === "normal") found.push(`<${one.tagName}> lets it out`);
  }
  return found;
}"""


@pytest.mark.parametrize("scripts", [True, False])
def test_nothing_runs_and_nothing_breaks_the_layout(
    looked: Looked, server: ServerHandle, chromium: Browser, scripts: bool
) -> None:
    """The page of each address with the most texts, on a wide screen and on a phone; without scripts every second."""
    pages = sorted(looked.pages, key=lambda page: page.html.count("\u27ea"))
    most = {page.address: page for page in pages if not page.address.startswith(("invitations/", "operator"))}
    secret = looked.scene.owner.partition("=")[2]
    with seated(chromium, server.base_url, secret, scripts=scripts) as seat:
        for page in [*most.values()][:: 1 if scripts else 2]:
            seat.page.set_viewport_size({"width": WIDE, "height": 900})
            seat.open(page.place)
            assert seat.page.evaluate(REACHES_OUT) == [], page.place
            seat.page.set_viewport_size({"width": PHONE, "height": 900})
            seat.look()


@pytest.mark.parametrize(
    ("html", "faults"),
    [
        ("<main><p><bdi>\u27ea<b>\u27eb</bdi></p></main>", 3),
        ("<main><p onclick=x>a</p></main>", 2),
        ("<main><img src=/console/x></main>", 1),
        ("<main><a href='javascript:x'>a</a></main>", 1),
        ("<main><a href='https://evil.example'>a</a></main>", 1),
        ("<main><a href='//evil.example' rel='noopener'>a</a></main>", 1),
        ("<main><p>Of \u27eathis\u27eb</p></main>", 1),
        ("<main><p>\u27eathis\u27eb and that</p></main>", 1),
        ("<main><h2 id='\u27ea'>a</h2></main>", 1),
        ("<main><p>60481729</p></main>", 1),
        ("<main><p><bdi>\u27ea&lt;b&gt;\u27eb</bdi> and that</p></main>", 0),
    ],
)
def test_the_judge_finds_what_is_wrong(html: str, faults: int) -> None:
    found = list(ShownPage("", "", 200, html).faults())
    assert len(found) >= faults
    assert faults or not found


def test_the_window_finds_what_is_wrong(chromium: Browser) -> None:
    page = chromium.new_page()
    page.set_content("<p>a<x-naughty>b</x-naughty><span>\u27eac</span><bdi>\u27ead</bdi></p>")
    assert page.evaluate(REACHES_OUT) == ["<X-NAUGHTY>", "<SPAN> lets it out"]
    page.close()
