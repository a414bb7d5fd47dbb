"""When a secret was last used: the same fact of keys, sessions and credentials."""

from __future__ import annotations

import msgspec


class UseRow(msgspec.Struct, frozen=True, kw_only=True):
    """A fact outside streams: when a key, session or credential was last used, at most a minute old (G-040)."""

    project_id: str
    id: str
    last_used_at: int
