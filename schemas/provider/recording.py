"""Wire contract of the recordings of sessions, as the provider keeps them (R-PRV-03, G-095)."""

from __future__ import annotations

import msgspec

from schemas.kernel.shape import Epoch


class SessionRecording(msgspec.Struct, frozen=True, kw_only=True):
    """A recording. Its address opens it at the provider, for people with an account there."""

    id: str
    distinct_id: str | None
    started_at: Epoch | None
    duration_seconds: int
    web_ui_url: str


class SessionRecordingList(msgspec.Struct, frozen=True, kw_only=True):
    """A page of recordings, newest first. Without a provider it is empty, and `next_action` says what to do."""

    project_id: str
    session_recordings: list[SessionRecording]
    count: int
    next_cursor: str | None
    next_action: str
