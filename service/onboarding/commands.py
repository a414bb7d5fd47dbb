"""What may be done with an onboarding: plan, review, prove, verify; the signal map goes along (R-ONB-43 to R-ONB-59).

`if_match` is the quoted tag that the caller has read, None when it sent none. Every decision raises what the machine
raises: OnboardingNotStarted, IfMatchRequired, PreconditionFailed and OnboardingConflict.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import NamedTuple

from projections.onboarding.lifecycle import ONBOARDING, OnboardingRow
from projections.onboarding.signal_map import SIGNAL_MAPS, SignalMapRow
from schemas.onboarding.proof import Remaining
from service.eventstore.declare.commands import Unit
from service.eventstore.declare.intents import Intent
from service.eventstore.store import EventStore
from service.ids import new_id
from service.onboarding.evidence import Providers, look
from service.onboarding.reads import find_onboarding
from statemachines.kernel.machine import Event, Stream
from statemachines.kernel.readings import source_told
from statemachines.onboarding import lifecycle as onboarding
from statemachines.onboarding import signal_map
from statemachines.onboarding.lifecycle import ProofStart, Status
from statemachines.onboarding.plan import ProposedPlan
from statemachines.onboarding.proof import hash_marker
from statemachines.onboarding.stored import SourceSnapshot

MARKER_BYTES = 32


class Started(NamedTuple):
    """An onboarding after a start, and whether this was its first."""

    row: OnboardingRow
    first: bool


class ProofBegun(NamedTuple):
    """An onboarding whose proof has begun, with its two markers, of which only the hashes are kept (G-084)."""

    row: OnboardingRow
    runtime_marker: str
    ci_marker: str


class Verified(NamedTuple):
    """An onboarding after a verify: proven when `ok`, else what remains to be seen."""

    row: OnboardingRow
    ok: bool
    remaining: Remaining


class PutMap(NamedTuple):
    """A signal map after a PUT, and whether it is the project's first."""

    row: SignalMapRow
    first: bool


def start(project_id: str, wish: ProposedPlan, if_match: str | None) -> Intent[Started]:
    """Make a plan the current one, which withdraws the map of an approved one (R-ONB-43 to R-ONB-46).

    An exact replay is shown what is there.
    """
    stream, map_stream = onboarding.stream(project_id), signal_map.stream(project_id)

    def decide(unit: Unit) -> Started:
        state: onboarding.Onboarding = unit.state(stream)
        events = onboarding.decide_start(state, wish, id=stream.id, if_match=if_match, now=unit.now)
        unit.append(stream, events)
        if events and state.status in {Status.APPROVED, Status.PROVING}:
            unit.append(map_stream, signal_map.decide_withdraw(unit.state(map_stream), unit.now))
        return Started(_row(unit, stream), first=state.status is Status.ABSENT)

    return Intent([stream, map_stream], decide)


def approve(project_id: str, plan_sha256: str, if_match: str | None) -> Intent[OnboardingRow]:
    """Approve the plan with this hash, which makes it the signal map (R-ONB-47, R-ONB-48).

    Raises PlanHashMismatch when another plan is the current one.
    """
    stream, map_stream = onboarding.stream(project_id), signal_map.stream(project_id)

    def decide(unit: Unit) -> OnboardingRow:
        state: onboarding.Onboarding = unit.state(stream)
        unit.append(stream, onboarding.decide_approve(state, plan_sha256, if_match=if_match, now=unit.now))
        assert state.plan is not None, "what was approved is a plan"
        of_map = signal_map.decide_record(unit.state(map_stream), state.plan, state.plan_sha256, unit.now)
        unit.append(map_stream, of_map)
        return _row(unit, stream)

    return Intent([stream, map_stream], decide)


def replace(
    project_id: str, plan_sha256: str, replacement: ProposedPlan, if_match: str | None
) -> Intent[OnboardingRow]:
    """Put another plan in the place of the one with this hash (R-ONB-47, R-ONB-50). Raises PlanHashMismatch."""
    stream = onboarding.stream(project_id)

    def decide(unit: Unit) -> OnboardingRow:
        state = unit.state(stream)
        events = onboarding.decide_replace(state, plan_sha256, replacement, if_match=if_match, now=unit.now)
        unit.append(stream, events)
        return _row(unit, stream)

    return Intent([stream], decide)


def begin_proof(project_id: str, snapshot: SourceSnapshot, if_match: str | None) -> Intent[ProofBegun]:
    """Open a session with a fresh marker pair; a former pair is dead from the commit on (R-ONB-52, R-ONB-53).

    Raises SourceSnapshotMismatch when the proof that runs is for another tree.
    """
    stream = onboarding.stream(project_id)
    runtime, ci = (f"{prefix}{secrets.token_urlsafe(MARKER_BYTES)}" for prefix in ("sop_rt_", "sop_ci_"))
    wish = ProofStart(
        proof_session_id=new_id("ps"),
        implementation_source_snapshot=snapshot,
        runtime_marker_sha256=hash_marker(runtime),
        ci_marker_sha256=hash_marker(ci),
    )

    def decide(unit: Unit) -> ProofBegun:
        unit.append(stream, onboarding.decide_proof(unit.state(stream), wish, if_match=if_match, now=unit.now))
        return ProofBegun(_row(unit, stream), runtime, ci)

    return Intent([stream], decide)


async def verify(store: EventStore, providers: Providers, project_id: str, if_match: str | None) -> Intent[Verified]:
    """Judge the open session; only a complete proof is recorded, with the signal map's (R-ONB-54 to R-ONB-59).

    The evidence is gathered here, for the session that `if_match` means, and for none when it means another state.
    """
    row = await find_onboarding(store, project_id)
    findings = await look(store, providers, row) if row is not None and if_match == row.etag else None
    stream, map_stream = onboarding.stream(project_id), signal_map.stream(project_id)

    def decide(unit: Unit) -> Verified:
        verdict = onboarding.decide_verify(unit.state(stream), findings, if_match=if_match, now=unit.now)
        unit.append(stream, verdict.events)
        unit.append(map_stream, _of_map(verdict.events, unit.state(map_stream)))
        return Verified(_row(unit, stream), verdict.ok, verdict.remaining)

    return Intent([stream, map_stream], decide)


def put_map(project_id: str, wish: ProposedPlan) -> Intent[PutMap]:
    """Make a reviewed plan the signal map of a project without onboarding (R-MAP-04). Raises SignalMapConflict.

    The onboarding's stream is locked too: a start and a PUT at once come one after the other.
    """
    stream, other = signal_map.stream(project_id), onboarding.stream(project_id)

    def decide(unit: Unit) -> PutMap:
        state: signal_map.SignalMap = unit.state(stream)
        begun = unit.state(other).status is not Status.ABSENT
        unit.append(stream, signal_map.decide_put(state, wish, unit.now, onboarding=begun))
        row = unit.row(SIGNAL_MAPS, project_id, stream.id)
        assert row is not None, "a map that was put has a row"
        return PutMap(row, first=state.status is signal_map.Status.ABSENT)

    return Intent([stream], decide, reads=[other])


def _of_map(events: Sequence[Event], state: signal_map.SignalMap) -> list[Event]:
    of_map: list[Event] = []
    for event in events:
        if isinstance(event, onboarding.OnboardingVerified):
            of_map += signal_map.decide_verify(state, event.receipt, source_told(event.evidence_source))
    return of_map


def _row(unit: Unit, stream: Stream) -> OnboardingRow:
    row = unit.row(ONBOARDING, stream.project_id, stream.id)
    assert row is not None, "an accepted step leaves a row"
    return row
