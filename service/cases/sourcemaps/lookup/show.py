"""Frames led back to their sources, on the wire."""

from __future__ import annotations

from collections.abc import Mapping

from schemas.cases.event import UnmangledCase, UnmangledFrame, Verdict
from service.cases.sourcemaps.lookup.unmangling import UNKNOWN, Led, Unmangled

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
