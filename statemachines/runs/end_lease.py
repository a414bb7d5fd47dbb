"""The end of a lease: given back, over by time, its run over or cancelled (G-114).

A lease that time has ended is recorded as that, whatever comes after.
"""

from __future__ import annotations

from statemachines.kernel.machine import Event
from statemachines.runs.claim import (
    Claim,
    ClaimCompleted,
    ClaimExpired,
    ClaimReleased,
    ClaimRevoked,
    Holder,
    Status,
    lease_live,
    require_holder,
    require_live,
)
from statemachines.runs.lease import Lease


def decide_release(
    claim: Claim, lease: Lease, holder: Holder | None, lease_epoch: int | None, reason: str | None, now: int
) -> list[Event]:
    """Give the claim back. An owner (`holder` None) needs no epoch. Open while paused (G-114)."""
    if claim.status is not Status.ABSENT and holder is not None:
        require_holder(claim, holder)
    require_live(claim, lease, lease_epoch, now)
    return [ClaimReleased(reason, now)]


def settle(claim: Claim, lease: Lease, now: int) -> list[Event]:
    """What time has made of a claim by `now`: expired, or nothing."""
    if claim.status is Status.ACTIVE and not lease_live(claim, lease, now):
        return [ClaimExpired(min(claim.lease_expires_at, now))]
    return []


def decide_complete(claim: Claim, lease: Lease, now: int) -> list[Event]:
    """End the claim because its run is over; a lease that time ended first is recorded as that."""
    if claim.status is not Status.ACTIVE:
        return []
    return settle(claim, lease, now) or [ClaimCompleted(now)]


def decide_revoke(claim: Claim, lease: Lease, now: int) -> list[Event]:
    """End the claim because its run was cancelled or its project is being deleted."""
    if claim.status is not Status.ACTIVE:
        return []
    return settle(claim, lease, now) or [ClaimRevoked(now)]
