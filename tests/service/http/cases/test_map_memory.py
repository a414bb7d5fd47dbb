"""What a process remembers of minified frames, and how much of it: the second look-up reads nothing (G-174, P26)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from service.cases.sourcemaps import deciding
from service.cases.sourcemaps.deciding import LATE, DecidingFrames, MappedFrame, Minified
from service.cases.sourcemaps.frames import RecordedFrame
from service.cases.sourcemaps.unmangling import Unmangler
from service.eventstore.store import EventStore
from tests.service.http.cases.test_acting import project as project  # noqa: PLC0414 (a fixture is found by name)
from tests.service.http.cases.test_mapped_grouping import PLACE, URL, build, upload
from tests.service.http.cases.test_source_map import put
from tests.support.api import World, ok
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)

pytestmark = pytest.mark.shares_server

FRAME = Minified("r1", RecordedFrame(URL, 1, PLACE, "n"))


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The projects that something was read of, each time."""
    told: list[str] = []
    reads = deciding.keeping
    total_of, files_for = reads.total_of, reads.files_for

    async def total(store: EventStore, project_id: str) -> Any:
        told.append(f"total {project_id}")
        return await total_of(store, project_id)

    async def files(store: EventStore, project_id: str, *asked: Any) -> Any:
        told.append(f"files {project_id}")
        return await files_for(store, project_id, *asked)

    monkeypatch.setattr(reads, "total_of", total)
    monkeypatch.setattr(reads, "files_for", files)
    return told


async def led(frames: DecidingFrames, project_id: str, *wanted: Minified) -> Sequence[Any]:
    """What frames are led back to, once no map is late."""
    while LATE in (found := await frames.lead(project_id, wanted, "acc")):
        pass
    return found


async def test_a_project_without_maps_is_known_as_such(
    world: World, project: Any, read: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One read serves all errors until it is out of date; then an upload counts."""
    owner, project_id, _ = project
    monkeypatch.setattr(deciding, "FRESH", 3600.0)

    async def work(store: EventStore) -> None:
        frames = DecidingFrames(store, Unmangler(store))
        others = [Minified(f"r{n}", RecordedFrame(f"{URL}?{n}", n, n, "f")) for n in range(1, 9)]
        assert await led(frames, project_id, FRAME, *others) == [None] * 9
        read.clear()
        for one in (FRAME, *others):
            assert await frames.lead(project_id, [one], "acc") == [None]
        assert read == []
        monkeypatch.setattr(deciding.time, "monotonic", lambda now=deciding.time.monotonic: now() + 3601)
        await upload(owner, project_id, "r1", 0)
        [found] = await led(frames, project_id, FRAME)
        assert isinstance(found, MappedFrame)

    await world.operate(work)


async def test_a_place_is_remembered_by_the_content_of_its_map(
    world: World, project: Any, read: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also after the files of a release are read again: the map is not taken apart for it. Other content is."""
    owner, project_id, _ = project
    await upload(owner, project_id, "r1", 0)

    async def work(store: EventStore) -> None:
        unmangler = Unmangler(store)
        frames = DecidingFrames(store, unmangler)
        [first] = await led(frames, project_id, FRAME)
        assert first.source == "src/money.ts"
        read.clear()
        prepared: list[int] = []
        prepare = unmangler.prepare

        async def counted(wanted: Any, *more: Any) -> Any:
            prepared.append(len(wanted))
            return await prepare(wanted, *more)

        monkeypatch.setattr(unmangler, "prepare", counted)
        monkeypatch.setattr(deciding, "FRESH", 3600.0)
        monkeypatch.setattr(deciding.time, "monotonic", lambda now=deciding.time.monotonic: now() + 3601)
        assert await led(frames, project_id, FRAME) == [first]
        assert read == [f"total {project_id}", f"files {project_id}"]
        read.clear()
        assert await frames.lead(project_id, [FRAME] * 3, "acc") == [first] * 3
        assert read == []
        monkeypatch.setattr(deciding.time, "monotonic", lambda now=deciding.time.monotonic: now() + 3601)
        await upload(owner, project_id, "r1", 1)
        [moved] = await led(frames, project_id, FRAME)
        assert moved != first
        assert prepared

    await world.operate(work)


async def test_what_is_remembered_is_bounded(world: World, project: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever frames are sent: the least recently used go first."""
    owner, project_id, _ = project
    await upload(owner, project_id, "r1", 0)
    monkeypatch.setattr(deciding, "PLACES_BYTES", 10 * deciding.PLACE_BYTES)
    monkeypatch.setattr(deciding, "MOST_KNOWN", 10)

    async def work(store: EventStore) -> None:
        frames = DecidingFrames(store, Unmangler(store))
        for n in range(1, 60):
            await led(frames, project_id, Minified("r1", RecordedFrame(URL, 1, n, "n")))
            await led(frames, project_id, Minified("r1", RecordedFrame(f"{URL}?{n}", 1, n, "n")))
            await led(frames, f"proj_{n}", FRAME)
        assert 0 < frames._places.bytes <= 10 * deciding.PLACE_BYTES
        assert (len(frames._files), len(frames._projects)) == (10, 10)

    await world.operate(work)


async def test_errors_begin_a_bounded_number_of_maps(
    world: World, project: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one project, and no other waits for it; the rest begins when one is ready, for the same error."""
    owner, project_id, _ = project
    other = await owner.create_project()
    source_map, _ = build(0)
    many = deciding.MOST_BEGUN + 3
    for n in range(many):
        ok(await put(owner, project_id, source_map + b" " * n, release="r1", source_url=f"~/assets/{n}.js"))
    await upload(owner, other["id"], "r1", 0)

    async def work(store: EventStore) -> None:
        unmangler = Unmangler(store)
        begun: list[str] = []
        free = asyncio.Event()
        make = unmangler._make

        async def held(key: tuple[str, str, str], tenant: str) -> Any:
            begun.append(key[0])
            if key[0] == project_id:
                await free.wait()
            return await make(key, tenant)

        monkeypatch.setattr(unmangler, "_make", held)
        frames = DecidingFrames(store, unmangler)
        urls = [f"https://shop.example/assets/{n}.js" for n in range(many)]
        wanted = [Minified("r1", RecordedFrame(url, 1, PLACE, "n")) for url in urls]
        monkeypatch.setattr(deciding, "MAP_PATIENCE", 0.3)
        for _ in range(3):
            assert await frames.lead(project_id, wanted, "acc") == [LATE] * many
        monkeypatch.undo()
        monkeypatch.setattr(unmangler, "_make", held)
        assert begun == [project_id] * deciding.MOST_BEGUN
        [found] = await led(frames, other["id"], FRAME)
        assert isinstance(found, MappedFrame)
        free.set()
        assert all(isinstance(one, MappedFrame) for one in await frames.lead(project_id, wanted, "acc"))
        assert begun.count(project_id) == many

    await world.operate(work)


async def test_an_upload_that_was_answered_counts_at_once(
    world: World, project: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long ago it was read that there is none, and also when its map was not begun before (G-174)."""
    owner, project_id, _ = project
    monkeypatch.setattr(deciding, "FRESH", 3600.0)

    async def work(store: EventStore) -> None:
        frames = DecidingFrames(store, Unmangler(store))
        assert await led(frames, project_id, FRAME) == [None]
        assert frames.has_none(project_id)
        monkeypatch.setattr(deciding, "PATIENCE", 0.0)  # is for a project of which no map is known
        for lines_before in range(3):
            await upload(owner, project_id, "r1", lines_before)
            frames.forget(project_id)
            assert not frames.has_none(project_id)
            frame = Minified("r1", RecordedFrame(URL, 1 + lines_before, PLACE, "n"))
            found = await asyncio.gather(*(frames.lead(project_id, [frame], "acc") for _ in range(20)))
            assert {one.source for [one] in found if isinstance(one, MappedFrame)} == {"src/money.ts"}
            assert all(isinstance(one, MappedFrame) for [one] in found)

    await world.operate(work)


async def test_a_bounded_number_of_requests_waits_for_maps(
    world: World, project: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of an account; the others count as sent at once, and those of another account wait."""
    owner, project_id, _ = project
    await upload(owner, project_id, "r1", 0)
    monkeypatch.setattr(deciding, "MOST_WAITING", 3)

    async def work(store: EventStore) -> None:
        unmangler = Unmangler(store)
        begun, free = asyncio.Event(), asyncio.Event()
        make = unmangler._make

        async def held(key: tuple[str, str, str], tenant: str) -> Any:
            begun.set()
            await free.wait()
            return await make(key, tenant)

        monkeypatch.setattr(unmangler, "_make", held)
        frames = DecidingFrames(store, unmangler)
        waiting = [asyncio.create_task(frames.lead(project_id, [FRAME], "acc")) for _ in range(3)]
        await begun.wait()
        assert await frames.lead(project_id, [FRAME], "acc") == [LATE]
        waiting.append(asyncio.create_task(frames.lead(project_id, [FRAME], "other")))
        await asyncio.sleep(0)
        free.set()
        assert all(isinstance(one, MappedFrame) for found in await asyncio.gather(*waiting) for one in found)

    await world.operate(work)
