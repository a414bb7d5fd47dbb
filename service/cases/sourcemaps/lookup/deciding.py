"""The minified deciding frame of an error, led back to its source before the error is stored (G-174).

An error waits at most PATIENCE for this. Later errors find what was prepared meanwhile: a map that was taken apart,
and the places looked up in it, which are kept by the content of the map. Which maps a project has is read again after
FRESH seconds, so an upload counts for every process by then.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from typing import Any, Final, NamedTuple

import psycopg
import psycopg_pool

from schemas.cases.unmangle import Verdict
from service.cases.sourcemaps import reads
from service.cases.sourcemaps.lookup.frames import RecordedFrame, may_be_mapped, recorded
from service.cases.sourcemaps.lookup.resolving import SourcePlace
from service.cases.sourcemaps.lookup.unmangling import MapFiles, Unmangler, files_of, place_of
from service.eventstore.store import EventStore
from service.fairness.not_done import CommandNotDone
from service.fairness.turns import Turns
from service.weighted import Weighted

PATIENCE = 0.3
"""Seconds that an error waits for its map."""
FRESH = 1.0
"""Seconds for which is known which maps a project has."""
MOST_KNOWN = 2000
"""Projects and files that are remembered, of each."""
PLACES_BYTES = 4 * 1024 * 1024
"""Memory of the places that are remembered."""
PLACE_BYTES = 400
"""Memory of one of them beside its texts, by estimate."""
MOST_WAITING = 256
"""Requests of one account that wait for their frames."""
MOST_BEGUN = 4
"""Maps of a project under way, from which on its errors begin no other: nobody waits for them any more."""
MARGIN = 0.02
"""Seconds of PATIENCE in which what is ready is looked up."""
MOST_AT_ONCE = 200
"""Frames of one request that are led back: of a larger batch the others wait for no map."""
MOST_OF_ERROR = 10
"""Frames of one error that are: the innermost own ones, of which a map may say that they are of libraries."""


class Late(Enum):
    """No map was ready in time."""

    LATE = "late"


LATE: Final = Late.LATE


class MappedFrame(NamedTuple):
    """Where a frame comes from: its source file, the function around it if that is known, and the line itself.

    `library`: the map says that the file is none of the product's own.
    """

    source: str
    function: str | None
    text: str
    library: bool = False
    line: int = 0


Mapped = MappedFrame | Late | None
"""None: no map of the project leads the frame back."""


class Minified(NamedTuple):
    """A frame of minified code, and the release of its error.

    `place` is that among the frames. `decides`: it is the innermost own one, which alone decided before (G-174).
    """

    release: str | None
    frame: RecordedFrame
    place: int = 0
    decides: bool = True


_FileName = tuple[str, str | None, str | None, str | None]  # project, release, URL, debug id
_PlaceName = tuple[str, str, str, int | None, int | None]  # project, blobs of map and minified file, line, column


def minified_frames(extra: Mapping[str, Any], release: str | None) -> list[Minified]:
    """The innermost own frames of an error, else the innermost of all, that are places in a script. Pure."""
    exception = extra.get("exception")
    frames = exception.get("frames") if isinstance(exception, dict) else None
    if not isinstance(frames, list):
        return []
    found = []
    for number, (index, frame) in enumerate(_innermost(frames)):
        if not ("colno" in frame or "column" in frame):
            continue
        sent = recorded(frame, extra)
        if sent.source_url is None or sent.line is None or sent.column is None:
            continue
        if (release is not None or sent.debug_id is not None) and may_be_mapped(sent.source_url):
            # Without either nothing says which map it has.
            found.append(Minified(release, sent, index, number == 0))
    return found


def _innermost(frames: Sequence[Any]) -> Iterable[tuple[int, Mapping[str, Any]]]:
    """The first own frames of a list with their places in it, else its first one."""
    listed = [(index, frame) for index, frame in enumerate(frames) if isinstance(frame, dict)]
    own = [(index, frame) for index, frame in listed if frame.get("in_app") is True]
    return own[:MOST_OF_ERROR] or listed[:1]


class DecidingFrames:
    """Leads deciding frames back for the intake of one process."""

    def __init__(self, store: EventStore, unmangler: Unmangler) -> None:
        self._store = store
        self._unmangler = unmangler
        self._turns = Turns(places=4, per_tenant=1, waiting=MOST_WAITING)
        # Projects without maps, and the files of frames: beside each, until when that is known.
        self._without: Weighted[str, float] = Weighted(_one, max_bytes=MOST_KNOWN)
        self._files: Weighted[_FileName, tuple[float, MapFiles | None]] = Weighted(_one, max_bytes=MOST_KNOWN)
        self._places: Weighted[_PlaceName, tuple[MappedFrame | None]] = Weighted(_weigh, max_bytes=PLACES_BYTES)

    def has_none(self, project_id: str) -> bool:
        """Whether a project is known to have no maps, so that none of its frames is led back now."""
        return (self._without.get(project_id) or 0) > time.monotonic()

    async def lead(self, project_id: str, frames: Sequence[Minified], tenant: str) -> list[Mapped]:
        """Lead frames back within PATIENCE. Never raises: a frame not known by then is LATE."""
        wanted = frames[:MOST_AT_ONCE]
        found = self._known(project_id, wanted)
        if LATE in found:
            end = time.monotonic() + PATIENCE
            # Without a database, or beyond the time, the raw frame counts: no error waits for its map.
            with suppress(TimeoutError, CommandNotDone, psycopg.Error, psycopg_pool.PoolTimeout):
                async with asyncio.timeout(PATIENCE), self._turns.place(tenant):
                    await self._learn(project_id, wanted, tenant, end)
            found = self._known(project_id, wanted)
        return [*found, *([LATE] * (len(frames) - len(wanted)))]

    def _known(self, project_id: str, frames: Sequence[Minified]) -> list[Mapped]:
        """What is remembered of frames: LATE of those that have to be looked up."""
        now = time.monotonic()
        if self.has_none(project_id):
            return [None] * len(frames)
        return [self._known_one(project_id, one, now) for one in frames]

    def _known_one(self, project_id: str, one: Minified, now: float) -> Mapped:
        known = self._files.get(_file_name(project_id, one))
        if known is None or known[0] <= now:
            return LATE
        if known[1] is None:
            return None
        place = self._places.get(_place_name(known[1], one.frame))
        return LATE if place is None else place[0]

    async def _learn(self, project_id: str, frames: Sequence[Minified], tenant: str, end: float) -> None:
        """Find the files of frames, and look up their places. Raises as reads do."""
        missing = [one for one, known in zip(frames, self._known(project_id, frames), strict=True) if known is LATE]
        if not missing or not await self._find_files(project_id, missing):
            return
        found = [(one.frame, self._files.get(_file_name(project_id, one))) for one in missing]
        pairs = [(frame, held[1]) for frame, held in found if held is not None and held[1] is not None]
        wanted = {files[0].id: files for _, files in pairs}
        # The time ends inside, so that what is ready in time is kept.
        ready = await self._unmangler.prepare(wanted, tenant, end - MARGIN - time.monotonic(), MOST_BEGUN)
        for frame, files in pairs:
            made = ready.get(files[0].id, "not_looked_at")
            if made != "not_looked_at":
                self._places.put(_place_name(files, frame), (_mapped(place_of(made, frame)),))

    async def _find_files(self, project_id: str, frames: Sequence[Minified]) -> bool:
        """Read which files frames belong to; False when the project has none at all. Raises as reads do."""
        if not (await reads.total_of(self._store, project_id)).files:
            self._without.put(project_id, time.monotonic() + FRESH)
            return False
        for release in {one.release for one in frames}:
            same = [one for one in frames if one.release == release]
            debug_ids = {one.frame.debug_id for one in same if one.frame.debug_id}
            urls = {one.frame.source_url for one in same if one.frame.source_url}
            files = await reads.files_for(self._store, project_id, debug_ids, release, urls)
            until = time.monotonic() + FRESH
            for one in same:
                found = files_of(one.frame, files, release)
                self._files.put(_file_name(project_id, one), (until, None if isinstance(found, str) else found))
        return True


def _file_name(project_id: str, one: Minified) -> _FileName:
    return project_id, one.release, one.frame.source_url, one.frame.debug_id


def _place_name(files: MapFiles, frame: RecordedFrame) -> _PlaceName:
    source_map, minified = files
    blob = minified.blob_id if minified is not None else ""
    return source_map.project_id, source_map.blob_id, blob, frame.line, frame.column


def _mapped(place: SourcePlace | Verdict) -> MappedFrame | None:
    return (
        None
        if isinstance(place, str)
        else MappedFrame(place.source, place.function, (place.text or "").strip(), place.library, place.line)
    )


def _one(_: object) -> int:
    return 1


def _weigh(place: tuple[MappedFrame | None]) -> int:
    found = place[0]
    return (
        PLACE_BYTES if found is None else PLACE_BYTES + len(found.source) + len(found.function or "") + len(found.text)
    )
