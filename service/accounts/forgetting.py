"""Forgetting sign-ins, sessions and invitations whose time is over (G-020, G-177).

Their history stays. What goes are the rows that polls and pages look up, what is noted of the pace of polling and of
uses, and what showed an invitation.
"""

from __future__ import annotations

from projections.accounts.invitation import KEPT as INVITATION_KEPT
from projections.accounts.invitation import PROJECTION as INVITATIONS
from projections.accounts.session import KEPT as SESSION_KEPT
from projections.accounts.session import LONGEST_USE, SESSION_USES
from projections.accounts.session import PROJECTION as SESSIONS
from projections.accounts.sign_in import KEPT, PROJECTION, SIGN_IN_POLLS
from service.eventstore.connect.clock import NOW_SECONDS
from service.eventstore.write.forgetting import forget
from statemachines.accounts.sign_in import LIFETIME

_OVER = {
    PROJECTION.name: f"expires_at < {NOW_SECONDS} - {KEPT}",
    SIGN_IN_POLLS.name: f"last_polled_at < {NOW_SECONDS} - {LIFETIME + KEPT}",
    SESSIONS.name: f"expires_at < {NOW_SECONDS} - {SESSION_KEPT}",
    SESSION_USES.name: f"last_used_at < {NOW_SECONDS} - {LONGEST_USE}",
    INVITATIONS.name: f"expires_at < {NOW_SECONDS} - {INVITATION_KEPT}",
}


async def forget_sign_ins(conninfo: str) -> None:
    """Delete the sign-ins, polls, sessions and invitations that are over. Raises psycopg.Error."""
    await forget(conninfo, _OVER.items(), "sign_ins_forgotten")
