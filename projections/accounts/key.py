"""API keys: what authentication looks up and their holders list. The row's scope is the user id (G-027)."""

from __future__ import annotations

from msgspec.structs import replace

from projections.kernel.projection import Row, Table, projection
from projections.kernel.use import UseRow
from statemachines.accounts.key import KeyMinted, KeyRevoked
from statemachines.kernel.machine import Recorded


class KeyRow(Row, frozen=True, kw_only=True):
    """A key, live or revoked; of its secret only the SHA-256 and the first characters."""

    key_hash: str
    key_prefix: str
    sign_in_id: str | None
    created_at: int
    revoked_at: int | None = None

    @property
    def user_id(self) -> str:
        """The person it belongs to."""
        return self.project_id

    @property
    def status(self) -> str:
        """Its status: live or revoked."""
        return "live" if self.revoked_at is None else "revoked"


def fold(row: KeyRow | None, recorded: Recorded) -> KeyRow | None:
    """Fold an event of a key into its row."""
    match recorded.event:
        case KeyMinted() as event:
            return KeyRow(
                project_id=recorded.project_id,
                id=recorded.originator_id,
                revision=recorded.revision,
                key_hash=event.key_hash,
                key_prefix=event.key_prefix,
                sign_in_id=event.sign_in_id,
                created_at=event.minted_at,
            )
        case KeyRevoked(revoked_at) if row:
            return replace(row, revision=recorded.revision, revoked_at=revoked_at)
    return row


PROJECTION = projection("api_keys", KeyRow, ("key",), fold)
KEY_USES = Table("key_uses", UseRow, ("project_id", "id"))
