"""Wire contracts of a person's own API keys (G-027)."""

from __future__ import annotations

import msgspec

from schemas.kernel.shape import Epoch


class KeyItem(msgspec.Struct, frozen=True, kw_only=True):
    """A key without its secret."""

    id: str
    key_prefix: str
    created_at: Epoch
    last_used_at: Epoch | None
    revoked_at: Epoch | None


class KeyList(msgspec.Struct, frozen=True, kw_only=True):
    """A page of the caller's keys, newest first."""

    keys: list[KeyItem]
    count: int
    next_cursor: str | None
    next_action: str


class RevokeKey(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Revoke a key. The body is an empty object."""


class KeyRevokedBody(KeyItem, frozen=True, kw_only=True):
    """The revoked key."""

    next_action: str
