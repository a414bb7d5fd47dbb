"""Sessions and their links: what the console looks up and people list. The row's scope is the user id."""

from __future__ import annotations

from msgspec.structs import replace

from projections.kernel.projection import Row, Table, projection
from projections.kernel.use import UseRow
from statemachines.accounts.session import LIFETIME, SessionAuthenticated, SessionEnded, SessionOffered, SessionOpened
from statemachines.kernel.machine import Recorded

KEPT = 3600  # seconds
LONGEST_USE = LIFETIME + KEPT
"""Seconds after its last use at which a session has no row."""


class SessionRow(Row, frozen=True, kw_only=True):
    """A link or a session; of their secrets only the SHA-256. `status` is offered, open or ended.

    `authenticated_at` is when the person signed in last, `by` what with.
    """

    status: str
    link_hash: str
    secret_hash: str
    by: str
    created_at: int
    authenticated_at: int
    expires_at: int
    ended_at: int | None = None

    @property
    def user_id(self) -> str:
        """The person it belongs to."""
        return self.project_id

    def open(self, now: int) -> bool:
        """Whether somebody can be signed in by it."""
        return self.status == "open" and now < self.expires_at


def fold(row: SessionRow | None, recorded: Recorded) -> SessionRow | None:
    """Fold an event of a session into its row."""
    match recorded.event:
        case SessionOffered() as event:
            return SessionRow(
                project_id=recorded.project_id,
                id=recorded.originator_id,
                revision=recorded.revision,
                status="offered",
                link_hash=event.link_hash,
                secret_hash="",
                by="",
                created_at=event.offered_at,
                authenticated_at=0,
                expires_at=event.expires_at,
            )
        case SessionOpened() as event:
            return SessionRow(
                project_id=recorded.project_id,
                id=recorded.originator_id,
                revision=recorded.revision,
                status="open",
                link_hash="",  # A link that was used is found by nobody.
                secret_hash=event.secret_hash,
                by=event.by,
                created_at=event.opened_at,
                authenticated_at=event.opened_at,
                expires_at=event.expires_at,
            )
        case SessionAuthenticated(secret_hash, by, authenticated_at) if row:
            revision = recorded.revision
            return replace(row, revision=revision, secret_hash=secret_hash, by=by, authenticated_at=authenticated_at)
        case SessionEnded(_, ended_at) if row:
            return replace(row, revision=recorded.revision, status="ended", ended_at=ended_at)
    return row


def lasts(row: SessionRow, now: int) -> bool:
    """Whether a row is kept: until an hour after its time."""
    return now <= row.expires_at + KEPT


PROJECTION = projection("sessions", SessionRow, ("ses",), fold)._replace(lasts=lasts)
SESSION_USES = Table("session_uses", UseRow, ("project_id", "id"))
