"""Identities at OIDC issuers, each with its person. The row's scope is the id itself."""

from __future__ import annotations

from projections.kernel.projection import Row, projection
from statemachines.accounts.identity import IdentityBound
from statemachines.kernel.machine import Recorded


class IdentityRow(Row, frozen=True, kw_only=True):
    """An identity, bound to a person."""

    user_id: str
    issuer: str
    bound_at: int


def fold(row: IdentityRow | None, recorded: Recorded) -> IdentityRow | None:
    """Fold an event of an identity into its row."""
    match recorded.event:
        case IdentityBound(user_id, issuer, bound_at):
            return IdentityRow(
                project_id=recorded.project_id,
                id=recorded.originator_id,
                revision=recorded.revision,
                user_id=user_id,
                issuer=issuer,
                bound_at=bound_at,
            )
    return row


PROJECTION = projection("identities", IdentityRow, ("idn",), fold)
