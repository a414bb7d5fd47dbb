"""Forgetting sign-ins and invitations whose time is over (G-020, G-177).

Their history stays. What goes are the rows that polls look up, what is noted of the pace of polling, and what
showed an invitation.
"""

from __future__ import annotations

from projections.accounts.invitation import KEPT as INVITATION_KEPT
from projections.accounts.invitation import PROJECTION as INVITATIONS
from projections.accounts.sign_in import KEPT, PROJECTION, SIGN_IN_POLLS
from service.eventstore.connect.clock import NOW_SECONDS
from service.eventstore.write.forgetting import forget
from statemachines.accounts.sign_in import LIFETIME

_OVER = {
    PROJECTION.name: f"expires_at < {NOW_SECONDS} - {KEPT}",
    SIGN_IN_POLLS.name: f"last_polled_at < {NOW_SECONDS} - {LIFETIME + KEPT}",
    INVITATIONS.name: f"expires_at < {NOW_SECONDS} - {INVITATION_KEPT}",
}


async def forget_sign_ins(conninfo: str) -> None:
    """Delete the sign-ins, polls and invitations that are over. Raises psycopg.Error."""
    await forget(conninfo, _OVER.items(), "sign_ins_forgotten")
