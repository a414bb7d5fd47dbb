"""Naughty texts through every door into every page: they stay text, and none reaches beyond its place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.e2e.test_tenants import server as server  # noqa: PLC0414 (a fixture is found by name)
from tests.support import seen
from tests.support.naughty.judging import ShownPage
from tests.support.naughty.places import crawl, declared
from tests.support.naughty.scene import DOORS, NaughtyScene, open_naughty
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
        yield Looked(scene, pages)


def test_the_texts_went_through_the_doors(looked: Looked) -> None:
    """Each door took them, as long as it takes any, and names the ones that only take something else."""
    assert looked.scene.refused == []
    taken = {f"{operation} {member}" for operation, members in looked.scene.taken.items() for member in members}
    assert DOORS - taken == set()


def test_every_page_was_looked_at_and_shows_them(looked: Looked) -> None:
    assert {page.address for page in looked.pages} == declared() - {"download/{operation_id}"}
    assert [(page.place, page.status) for page in looked.pages if page.status != 200] == []
    assert {page.address for page in looked.pages} - {
        page.address for page in looked.pages if page.has_foreign_text
    } <= BARE


def test_they_are_text_and_nothing_else(looked: Looked) -> None:
    faults = {(page.address, fault): page.place for page in looked.pages for fault in page.faults()}
    assert faults == {}
