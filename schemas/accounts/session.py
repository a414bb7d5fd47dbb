"""Wire contracts of a person's own sessions in the console."""

from __future__ import annotations

from typing import Literal

import msgspec

from schemas.kernel.shape import Epoch


class SessionItem(msgspec.Struct, frozen=True, kw_only=True):
    """An open session without its secret."""

    session_id: str
    signed_in_by: Literal["link", "oidc"]
    created_at: Epoch
    authenticated_at: Epoch
    last_used_at: Epoch | None
    expires_at: Epoch
    current: bool


class SessionList(msgspec.Struct, frozen=True, kw_only=True):
    """A page of the caller's open sessions, newest first."""

    sessions: list[SessionItem]
    count: int
    next_cursor: str | None
    next_action: str


class SessionEndedBody(msgspec.Struct, frozen=True, kw_only=True):
    """A session that has ended."""

    session_id: str
    ended_at: Epoch
    next_action: str
