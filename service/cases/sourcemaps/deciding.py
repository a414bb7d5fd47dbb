"""The minified deciding frame of an error, led back to its source before the error is stored (G-174).

An error waits at most PATIENCE for the news of any map in its project, and with one MAP_PATIENCE: two errors of one bug
would be two cases if one found its map late. Later errors find the maps taken apart meanwhile, and the places looked up
in them, kept by the content of the map. The list of a project's maps is read again after FRESH seconds, so an upload
counts for every process by then, and at once for the one with its answer.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from typing import Any, Final, NamedTuple

import psycopg
import psycopg_pool

from schemas.cases.event import Verdict
from service.cases.sourcemaps import keeping
from service.cases.sourcemaps.frames import RecordedFrame, may_be_mapped, recorded
from service.cases.sourcemaps.resolving import SourcePlace
from service.cases.sourcemaps.unmangling import EXTRA, MapFiles, Unmangler, files_of, place_of
from service.eventstore.store import EventStore
from service.fairness.bounds import SHARE, FairBounds, Weighted
from service.fairness.semaphore import FairSemaphore
from service.fairness.turns import CommandNotDone
from service.release import missing

PATIENCE = 0.3
"""Seconds of an error's wait for the news of any map in its project."""
MAP_PATIENCE = 5.0
"""Seconds of an error's wait for its own map, in a project with maps."""
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
"""Maps of a project under way, from which on its errors begin no other before one of them is ready."""
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


class _Project(NamedTuple):
    """The existence of maps in a project, the time of its reading, and of the last change by this process."""

    maps: bool
    read_at: float
    changed_at: float = 0.0


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
        self._turns = FairSemaphore(FairBounds(SHARE.of(4, least=2), per_tenant=1), waiting=MOST_WAITING)
        self._projects: Weighted[str, _Project] = Weighted(_one, max_bytes=SHARE.of(MOST_KNOWN))
        # The files of frames, and since when they are known.
        self._files: Weighted[_FileName, tuple[float, MapFiles | None]] = Weighted(_one, max_bytes=SHARE.of(MOST_KNOWN))
        self._places: Weighted[_PlaceName, tuple[MappedFrame | None]] = Weighted(
            _weigh, max_bytes=SHARE.of(PLACES_BYTES)
        )
        self._waiting: Counter[str] = Counter()

    def has_none(self, project_id: str) -> bool:
        """Whether a project is known to have no maps, so that none of its frames is led back now.

        Without the extra `sourcemaps`, none has.
        """
        if missing(EXTRA) is not None:
            return True
        known = self._projects.get(project_id)
        return known is not None and not known.maps and known.read_at + FRESH > time.monotonic()

    def forget(self, project_id: str) -> None:
        """Read the list of a project's maps again after a change of it."""
        self._projects.put(project_id, _Project(maps=True, read_at=0.0, changed_at=time.monotonic()))

    async def lead(self, project_id: str, frames: Sequence[Minified], tenant: str) -> list[Mapped]:
        """Lead frames back within MAP_PATIENCE. Never raises: a frame not known by then is LATE."""
        wanted = frames[:MOST_AT_ONCE]
        found = self._known(project_id, wanted)
        if LATE in found and self._waiting[tenant] < MOST_WAITING:
            self._waiting[tenant] += 1
            try:
                # Without a database, or beyond the time, the raw frame counts.
                with suppress(TimeoutError, CommandNotDone, psycopg.Error, psycopg_pool.PoolTimeout):
                    await self._learn(project_id, wanted, found, tenant)
            finally:
                self._waiting[tenant] -= 1
                self._waiting = +self._waiting
        return [*found, *([LATE] * (len(frames) - len(wanted)))]

    def _known(self, project_id: str, frames: Sequence[Minified]) -> list[Mapped]:
        """What is remembered of frames: LATE of those that have to be looked up."""
        now = time.monotonic()
        if self.has_none(project_id):
            return [None] * len(frames)
        return [self._known_one(project_id, one, now) for one in frames]

    def _known_one(self, project_id: str, one: Minified, now: float) -> Mapped:
        known = self._current(project_id, one, now)
        if known is None:
            return LATE
        return None if known[1] is None else self._place(known[1], one.frame)

    def _current(self, project_id: str, one: Minified, now: float) -> tuple[float, MapFiles | None] | None:
        """Files of a frame as known. None: they have to be read."""
        known = self._files.get(_file_name(project_id, one))
        fresh = known is not None and known[0] + FRESH > now and known[0] > self._changed_at(project_id)
        return known if fresh else None

    def _place(self, files: MapFiles, frame: RecordedFrame) -> Mapped:
        place = self._places.get(_place_name(files, frame))
        return LATE if place is None else place[0]

    def _changed_at(self, project_id: str) -> float:
        known = self._projects.peek(project_id)
        return 0.0 if known is None else known.changed_at

    async def _learn(self, project_id: str, wanted: Sequence[Minified], found: list[Mapped], tenant: str) -> None:
        """Find the files of the LATE frames in `found`, and put their places there. Raises as reads do."""
        loop = asyncio.get_running_loop()
        end = loop.time() + MAP_PATIENCE
        known = self._projects.get(project_id)
        patience = MAP_PATIENCE if known is not None and known.maps else PATIENCE
        async with asyncio.timeout(patience) as bound, self._turns.place(tenant):
            found[:] = self._known(project_id, wanted)
            missing = [(index, one) for index, one in enumerate(wanted) if found[index] is LATE]
            files = await self._files_of(project_id, [one for _, one in missing], bound, end)
        pairs: list[tuple[int, RecordedFrame, MapFiles]] = []
        for index, one in missing:
            held = files.get(_file_name(project_id, one))
            found[index] = None if held is None else self._place(held, one.frame)
            if held is not None and found[index] is LATE:
                pairs.append((index, one.frame, held))
        by_id = {held[0].id: held for _, _, held in pairs}
        ready = await self._unmangler.prepare(by_id, tenant, end - loop.time(), MOST_BEGUN)
        for index, frame, held in pairs:
            made = ready.get(held[0].id, "not_looked_at")
            if made != "not_looked_at":
                found[index] = mapped = _mapped(place_of(made, frame))
                self._places.put(_place_name(held, frame), (mapped,))

    async def _files_of(
        self, project_id: str, frames: Sequence[Minified], bound: asyncio.Timeout, end: float
    ) -> dict[_FileName, MapFiles | None]:
        """Read the files of frames, until `end` where the project has any. Raises as reads do."""
        now = time.monotonic()
        files = {
            _file_name(project_id, one): known[1]
            for one in frames
            if (known := self._current(project_id, one, now)) is not None
        }
        unknown = [one for one in frames if _file_name(project_id, one) not in files]
        if not unknown or not await self._has_maps(project_id):
            return files
        bound.reschedule(end)
        for release in {one.release for one in unknown}:
            same = [one for one in unknown if one.release == release]
            debug_ids = {one.frame.debug_id for one in same if one.frame.debug_id}
            urls = {one.frame.source_url for one in same if one.frame.source_url}
            began = time.monotonic()
            read = await keeping.files_for(self._store, project_id, debug_ids, release, urls)
            for one in same:
                name, found = _file_name(project_id, one), files_of(one.frame, read, release)
                files[name] = None if isinstance(found, str) else found
                self._files.put(name, (began, files[name]))
        return files

    async def _has_maps(self, project_id: str) -> bool:
        """Read whether a project has maps, and remember it. Raises as reads do."""
        began = time.monotonic()
        has_maps = bool((await keeping.total_of(self._store, project_id)).files)
        changed_at = self._changed_at(project_id)
        if began <= changed_at:
            return True  # Its files were changed meanwhile.
        self._projects.put(project_id, _Project(has_maps, began, changed_at))
        return has_maps


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
