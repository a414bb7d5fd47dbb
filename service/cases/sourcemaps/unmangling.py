"""A case's latest error led back to its sources, with a verdict for each frame (R-CASE-03, R-CASE-04, G-054).

A map is taken apart once and then kept, weighed, for as long as there is room. That is done in a thread of its own,
one map after the other and tenants in turn; a look-up takes microseconds. Before, another process tries it with the
same bytes (see trial.py): what ends the parser ends that one, and the verdict stays with the map.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import msgspec
import structlog

from projections.cases import SourceMapRow
from schemas.cases.event import UnmangledCase, UnmangledFrame, Verdict
from schemas.cases.source_map import MAX_MAP_BYTES
from service.cases.sourcemaps import blobs, keeping, trial
from service.cases.sourcemaps.frames import RecordedFrame, frames_of, may_be_mapped
from service.cases.sourcemaps.resolving import Corrupt, ReadyMap, SourcePlace, TooComplex
from service.eventstore.store import EventStore
from service.fairness.bounds import SHARE, FairBounds, Weighted
from service.fairness.offload import Aside
from service.fairness.semaphore import FairSemaphore
from service.packing import unpack
from service.release import missing
from service.sql import load_query

log = structlog.get_logger(__name__)

WARM_BYTES = 128 * 1024 * 1024
MOST_WAITING = 64
MOST_MAPS = 32
"""Maps that are taken apart for one request."""
PATIENCE = 8.0  # seconds that one request waits for maps to be taken apart; what is late is there for the next
AT_ONCE = 20  # frames that are looked up before others have their turn
_LITTLE = 1024  # bytes that a verdict about a map weighs
UNKNOWN = "unknown"
EXTRA = "sourcemaps"
"""The extra with the library that takes maps apart."""

_LATEST = load_query("cases/sourcemaps", "latest_error")


class Led(NamedTuple):
    """A frame, and where it comes from or why that is not known."""

    frame: RecordedFrame
    place: SourcePlace | None
    verdict: Verdict


class Unmangled(NamedTuple):
    """The frames of the latest error of a case; `release` None: it came without one, or there is no error any more."""

    release: str | None
    frames: list[Led]


Ready = ReadyMap | Verdict
MapFiles = tuple[SourceMapRow, SourceMapRow | None]
"""A source map, and the minified file that it belongs to when that is known."""
FINAL: Mapping[str, Verdict] = {"map_corrupt": "map_corrupt", "map_too_complex": "map_too_complex"}
"""Verdicts that the same bytes get again."""


class Unmangler:
    """Takes maps apart for one process, and keeps them warm."""

    def __init__(self, store: EventStore, warm_bytes: int = WARM_BYTES) -> None:
        self._store = store
        self._worker = Aside(MOST_WAITING, "service-source-maps", stack=trial.PARSER_STACK)
        self.packer = Aside(MOST_WAITING, "service-packing")  # of uploads: a piece of them never waits for a map
        self._turns = FairSemaphore(FairBounds(2, per_tenant=1), waiting=MOST_WAITING)
        self._warm: Weighted[tuple[str, str, str], Ready] = Weighted(_weigh, max_bytes=SHARE.of(warm_bytes))
        self._making: dict[tuple[str, str, str], asyncio.Task[Ready]] = {}

    @property
    def kept_bytes(self) -> int:
        """Memory of the warm maps, in bytes."""
        return self._warm.bytes

    async def unmangle(self, project_id: str, case_id: str, tenant: str) -> Unmangled:
        """Lead the frames of a case's latest error back. Raises as reads do."""
        rows = await self._store.fetch(_LATEST, project_id=project_id, case_id=case_id)
        if not rows:
            return Unmangled(None, [])
        release, message, extra, packed = rows[0]
        said = _mapping(extra) if packed is None else unpack(packed)
        frames = frames_of(said, message)
        if release is None and not any(frame.debug_id for frame in frames):
            return Unmangled(None, [])  # Of such an error nothing is known (G-054).
        return await self.lead(project_id, release, frames, tenant)

    async def lead(
        self, project_id: str, release: str | None, frames: Sequence[RecordedFrame], tenant: str
    ) -> Unmangled:
        """Lead the frames of an error back, each with a verdict. Raises as reads do."""
        debug_ids = {frame.debug_id for frame in frames if frame.debug_id}
        urls = {frame.source_url for frame in frames if frame.source_url}
        files = await keeping.files_for(self._store, project_id, debug_ids, release, urls)
        found = (files_of(frame, files, release) for frame in frames)
        wanted = {pair[0].id: pair for pair in found if not isinstance(pair, str)}
        ready = await self.prepare(dict(islice(wanted.items(), MOST_MAPS)), tenant, PATIENCE)
        led = []
        for number, frame in enumerate(frames):
            if number % AT_ONCE == AT_ONCE - 1:
                await asyncio.sleep(0)
            led.append(_lead(frame, files, release, ready))
        return Unmangled(release, led)

    async def prepare(
        self, wanted: Mapping[str, MapFiles], tenant: str, patience: float, most: int = MOST_MAPS
    ) -> dict[str, Ready]:
        """Take maps apart; returns those that are ready within `patience` seconds, by the id of their row.

        The others go on, and are warm for the next caller. None begins while the project has `most` under way, but
        once one of these is ready, within the same time. Raises as reads do.
        """
        ready: dict[str, Ready] = {}
        end = time.monotonic() + patience
        while left := {map_id: files for map_id, files in wanted.items() if map_id not in ready}:
            tasks = self._begin(left, tenant, most, ready)
            awaited = set(tasks.values())
            if len(ready) + len(tasks) < len(wanted):
                projects = {row.project_id for row, _ in left.values()}
                awaited |= {task for key, task in self._making.items() if key[0] in projects}
            if not awaited:
                break
            done, _ = await asyncio.wait(
                awaited, timeout=max(0, end - time.monotonic()), return_when=asyncio.FIRST_COMPLETED
            )
            if not done:
                break
            ready |= {map_id: task.result() for map_id, task in tasks.items() if task in done}
        return ready

    def _begin(
        self, wanted: Mapping[str, MapFiles], tenant: str, most: int, ready: dict[str, Ready]
    ) -> dict[str, asyncio.Task[Ready]]:
        """Begin cold maps as far as `most` allows. Warm ones go into `ready`."""
        tasks: dict[str, asyncio.Task[Ready]] = {}
        for map_id, (row, minified) in wanted.items():
            key = (row.project_id, row.blob_id, "" if minified is None else minified.blob_id)
            warm = self._warm.get(key)
            if warm is not None:
                ready[map_id] = warm
                continue
            if key not in self._making:
                if sum(project_id == row.project_id for project_id, _, _ in self._making) >= most:
                    continue
                task = self._making[key] = asyncio.create_task(self._make(key, tenant))
                task.add_done_callback(partial(self._made, key))
            tasks[map_id] = self._making[key]
        return tasks

    async def _make(self, key: tuple[str, str, str], tenant: str) -> Ready:
        """Read a map and take it apart, unless it is known to be one that cannot be."""
        project_id, map_blob, source_blob = key
        kept = await blobs.verdict(self._store, project_id, map_blob, source_blob)
        if kept is not None:
            return FINAL[kept]
        # In turn already before it is read: of all the maps that are waited for, a process holds two.
        async with self._turns.place(tenant):
            packed = [piece async for piece in blobs.read(self._store, project_id, map_blob)]
            source = [piece async for piece in blobs.read(self._store, project_id, source_blob)] if source_blob else []
            made = await self._worker.run(tenant, partial(take_apart, packed, source))
        if isinstance(made, str) and made in FINAL:
            await blobs.keep_verdict(self._store.facts, project_id, map_blob, source_blob, made)
        return made

    def _made(self, key: tuple[str, str, str], task: asyncio.Task[Ready]) -> None:
        del self._making[key]
        if not task.cancelled() and task.exception() is None and task.result() != "not_looked_at":
            self._warm.put(key, task.result())


def take_apart(packed: Sequence[bytes], source: Sequence[bytes]) -> Ready:
    """Make a map ready from its pieces and those of the minified file, or say why it cannot be.

    It is tried in another process first, at the cost of a tenth of a second; a look-up in a warm map has no part in it.
    """
    if missing(EXTRA) is not None:
        return "not_looked_at"
    try:
        source_map, minified = _whole(packed), _whole(source)
        if (verdict := trial.verdict_of(source_map, minified)) is not None:
            return verdict
        return ReadyMap(source_map, minified)
    except trial.NotTried as reason:
        log.warning("source_map_not_tried", reason=str(reason))
        return "not_looked_at"
    except TooComplex:
        return "map_too_complex"
    except Corrupt:
        return "map_corrupt"


def _whole(packed: Sequence[bytes]) -> bytes:
    return b"".join(blobs.unpack(piece, MAX_MAP_BYTES) for piece in packed)


def files_of(frame: RecordedFrame, files: keeping.Files, release: str | None) -> MapFiles | Verdict:
    """The map of a frame and its minified file, or why there is none."""
    if frame.source_url is None or frame.line is None:
        return "no_location"
    if frame.debug_id is not None:
        found = files.by_debug_id.get(("source_map", frame.debug_id))
        if found is not None:
            return found, files.by_debug_id.get(("minified_source", frame.debug_id))
    elif release is None:
        return "no_release" if may_be_mapped(frame.source_url) else "not_mapped_code"
    spelt = keeping.spellings(frame.source_url)
    found = next((row for name in spelt if (row := files.by_url.get(("source_map", name)))), None)
    if found is None:
        return "no_map" if may_be_mapped(frame.source_url) else "not_mapped_code"
    if frame.debug_id is not None and found.debug_id not in {None, frame.debug_id}:
        return "debug_id_mismatch"
    minified = next((row for name in spelt if (row := files.by_url.get(("minified_source", name)))), None)
    # A minified file of another build would tell wrong names and lengths.
    return found, minified if minified is not None and minified.debug_id == found.debug_id else None


def _lead(frame: RecordedFrame, files: keeping.Files, release: str | None, ready: dict[str, Ready]) -> Led:
    found = files_of(frame, files, release)
    if isinstance(found, str):
        return Led(frame, None, found)
    place = place_of(ready.get(found[0].id, "not_looked_at"), frame)
    if isinstance(place, str):
        return Led(frame, None, place)
    return Led(frame._replace(in_app=False) if place.library else frame, place, "resolved")


def place_of(ready: Ready, frame: RecordedFrame) -> SourcePlace | Verdict:
    """Look a frame with a line up in its map, or say why it is not found."""
    if isinstance(ready, str):
        return ready
    assert frame.line is not None, "a frame without a line has no map"
    # Some only tell the line: that is then where its first mapped code is.
    return ready.look_up(frame.line, frame.column or ready.first_column(frame.line))


def _weigh(ready: Ready) -> int:
    return _LITTLE if isinstance(ready, str) else ready.weight


def _mapping(text: str) -> dict[str, Any]:
    value = msgspec.json.decode(text)
    return value if isinstance(value, dict) else {}


# Frames led back to their sources, on the wire.

_UPLOAD = "PUT /v1/projects/{project_id}/source-maps, or sentry-cli sourcemaps upload"
ADVICE: Mapping[Verdict, str] = {
    "resolved": "Read the original source at this place, at the commit of the release.",
    "no_location": "The frame names no file and line, so no map applies.",
    "not_mapped_code": (
        "No source map describes this code: it belongs to the runtime, is generated or is not "
        "JavaScript. Read the file at the commit of the release."
    ),
    "no_release": f"Send release with the error, or inject debug ids and send them. Then upload the maps: {_UPLOAD}.",
    "no_map": f"Upload the map of this file for this release, or under its debug id: {_UPLOAD}.",
    "debug_id_mismatch": (
        "The map stored for this URL belongs to another build. Upload the map of the build with the "
        "frame's debug_id. Build and upload in one job."
    ),
    "line_out_of_range": (
        "The map has no such line, so it belongs to another build. Upload the map of the deployed file."
    ),
    "column_out_of_range": (
        "The map has nothing at this column: it belongs to another build, or the code was generated. "
        "Upload the map of the deployed file."
    ),
    "map_corrupt": "The stored file is not a readable source map. Build it again and upload it.",
    "map_too_complex": ("The map or its minified file is too large or too deeply nested to parse. Split the bundle."),
    "not_looked_at": "The error needs more maps than one request parses. Repeat the request.",
}
_UNMAPPED = frozenset({"no_map", "no_release", "debug_id_mismatch", "map_corrupt", "map_too_complex"})
_NONE = (
    "Nothing to resolve: the latest error has no frames, or neither a release nor debug ids. Send extra.exception with "
    "frames or stack, and release."
)
_RESOLVED = "Read the innermost resolved frame at the commit of the release."
_UNRESOLVED = "No frame leads to another source. Read the advice of each frame."


def unmangled(case_id: str, found: Unmangled) -> UnmangledCase:
    """Show the frames of a case's latest error."""
    frames = [_frame(index, led) for index, led in enumerate(found.frames)]
    resolved = sum(frame.resolved for frame in frames)
    urls = dict.fromkeys(f.source_url for f in frames if f.verdict in _UNMAPPED and f.source_url is not None)
    worst = next((frame.advice for frame in frames if frame.verdict in _UNMAPPED), None)
    other = next((frame.advice for frame in frames if frame.verdict == "not_looked_at"), None)
    return UnmangledCase(
        case_id=case_id,
        release_id=UNKNOWN if found.release is None else found.release,
        frames=frames,
        total_frames=len(frames),
        resolved_count=resolved,
        unmapped_source_urls=list(urls),
        next_action=_NONE if not frames else other or worst or (_RESOLVED if resolved else _UNRESOLVED),
    )


def _frame(index: int, led: Led) -> UnmangledFrame:
    frame, place, verdict = led
    return UnmangledFrame(
        index=index,
        source_url=frame.source_url,
        line=frame.line,
        column=frame.column,
        function=frame.function,
        debug_id=frame.debug_id,
        original_source=None if place is None else place.source,
        original_line=None if place is None else place.line,
        original_column=None if place is None else place.column,
        original_function=None if place is None else place.function,
        context_before=[] if place is None else place.before,
        context_line=None if place is None else place.text,
        context_after=[] if place is None else place.after,
        resolved=place is not None,
        verdict=verdict,
        advice=ADVICE[verdict],
    )
