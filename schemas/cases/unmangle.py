"""Wire contract of unmangling: the frames of a case's latest error, led back to their sources (R-CASE-03, G-054)."""

from __future__ import annotations

from typing import Literal

import msgspec

Verdict = Literal[
    "resolved",
    "no_location",
    "not_mapped_code",
    "no_release",
    "no_map",
    "debug_id_mismatch",
    "line_out_of_range",
    "column_out_of_range",
    "map_corrupt",
    "map_too_complex",
    "not_looked_at",
]


class UnmangledFrame(msgspec.Struct, frozen=True, kw_only=True):
    """A frame, innermost first. Lines and columns begin at 1. `original_…` is null unless it is `resolved`.

    `verdict` is the result and `advice` the remedy. The surrounding lines come from the map. `original_source` is a
    name from the map, never a path out of the project.
    """

    index: int
    source_url: str | None
    line: int | None
    column: int | None
    function: str | None
    debug_id: str | None
    original_source: str | None
    original_line: int | None
    original_column: int | None
    original_function: str | None
    context_before: list[str]
    context_line: str | None
    context_after: list[str]
    resolved: bool
    verdict: Verdict
    advice: str


class UnmangledCase(msgspec.Struct, frozen=True, kw_only=True):
    """The frames of the latest stored error, including those that could not be resolved.

    `release_id` is the release that the error came with, or `unknown`. `unmapped_source_urls` lists each file once.
    """

    case_id: str
    release_id: str
    frames: list[UnmangledFrame]
    total_frames: int
    resolved_count: int
    unmapped_source_urls: list[str]
    next_action: str
