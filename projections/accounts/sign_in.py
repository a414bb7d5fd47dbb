"""Device sign-ins: what a poll looks up by its device code. The row's scope is the sign-in itself."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from projections.kernel.projection import Row, Table, projection
from statemachines.accounts.sign_in import SignInAuthorized, SignInDenied, SignInRedeemed, SignInStarted
from statemachines.kernel.machine import Recorded

KEPT = 3600  # seconds


class SignInRow(Row, frozen=True, kw_only=True):
    """A sign-in by its current user code; a later one with the same user code replaces the row."""

    device_code_hash: str
    client_name: str | None
    status: str
    started_at: int
    expires_at: int
    user_id: str | None = None
    is_new: bool = False


class PollRow(msgspec.Struct, frozen=True, kw_only=True):
    """A fact outside streams: when a device last polled, and its interval in seconds (G-020)."""

    project_id: str
    id: str
    device_code_hash: str
    last_polled_at: int
    interval_seconds: int


def fold(row: SignInRow | None, recorded: Recorded) -> SignInRow | None:
    """Fold an event of a sign-in into its row."""
    match recorded.event:
        case SignInStarted() as event:
            return SignInRow(
                project_id=recorded.project_id,
                id=recorded.originator_id,
                revision=recorded.revision,
                device_code_hash=event.device_code_hash,
                client_name=event.client_name,
                status="pending",
                started_at=event.started_at,
                expires_at=event.expires_at,
            )
        case SignInAuthorized(user_id, is_new) if row:
            return replace(row, revision=recorded.revision, status="authorized", user_id=user_id, is_new=is_new)
        case SignInDenied() if row:
            return replace(row, revision=recorded.revision, status="denied")
        case SignInRedeemed() if row:
            return replace(row, revision=recorded.revision, status="redeemed")
    return row


def lasts(row: SignInRow, now: int) -> bool:
    """Whether a row is kept: until an hour after the code expired; a poll gets the same answer without it."""
    return now <= row.expires_at + KEPT


PROJECTION = projection("sign_ins", SignInRow, ("dev",), fold)._replace(lasts=lasts)
SIGN_IN_POLLS = Table("sign_in_polls", PollRow, ("project_id", "id"))
