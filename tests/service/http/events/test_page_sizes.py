"""What pages of events take in memory: their bytes have a bound, and so has the number on their way to slow readers."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from scripts.load import worlds
from service import events as feeds
from service import events as reads
from tests.service.http.events.test_event import numbered, shop
from tests.support.api import World, world  # noqa: F401 (a fixture)
from tests.torture.neighbours.attacks import MOST_TARGETS, plan_of

pytestmark = pytest.mark.shares_server


async def test_a_page_holds_so_many_bytes_however_well_they_pack(world: World) -> None:  # noqa: F811
    """In the table the payloads of the largest plans take an eighth of their size, and less."""
    owner, project, path = await shop(world)
    place, tag = f"/v1/projects/{project['id']}/onboarding", None
    plans = 4
    for number in range(plans):
        headers = {} if tag is None else {"if-match": tag}
        saved = await owner.post(place, plan_of(worlds.plan("How many?"), number, MOST_TARGETS), headers=headers)
        assert saved.is_success, saved.text
        tag = saved.headers["etag"]
    events = await numbered(owner, path, 5 + plans)
    assert "onboarding" in events[-1]["topic"]
    for source in (reads.EventSource(project["id"]), reads.EventSource(project["id"], events[-1]["stream_id"])):

        async def sizes(store: Any, source: reads.EventSource = source) -> list[list[int]]:
            found: list[list[int]] = []
            after, more = 0, True
            while more:
                page = await reads.read_page(store, source, after, 200)
                found.append([len(event.payload or "") for event in page.events])
                after, more = page.next_after, page.more
            return found

        pages = await world.operate(sizes)
        assert sum(size > reads.PAGE_BYTES for page in pages for size in page) == plans
        assert all(sum(page[:-1]) < reads.PAGE_BYTES for page in pages)


async def test_slow_readers_hold_few_pages(world: World, monkeypatch: Any) -> None:  # noqa: F811
    """A reader behind its feed waits until another one of its account has had its page."""
    owner, project, path = await shop(world)
    last = (await numbered(owner, path, 5))[-1]["position"]
    source = reads.EventSource(project["id"])
    monkeypatch.setattr(feeds, "MOST_PAGES_OF_ACCOUNT", 1)

    async def admit() -> None:
        return

    async def read(store: Any) -> list[bytes]:
        authority = feeds.StreamAuthority(admit, (), "a")
        sources = feeds.StreamParts(store, None, feeds.Feeds(store, None))  # type: ignore[arg-type]
        slow, other = (feeds.download(sources, source, 0, authority, reads.encode_event) for _ in range(2))
        got = [await anext(slow)]
        waiting = asyncio.create_task(anext(other))
        while not sources.feeds.pages.waiting:  # noqa: ASYNC110 - the other one begins when it is its turn
            await asyncio.sleep(0)
        await slow.aclose()
        return [*got, await waiting]

    first, second = await world.operate(read)
    assert first == second
    assert json.loads(first.splitlines()[-1])["position"] == last
