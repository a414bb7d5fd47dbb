"""What may be done with cases: closed and brought back, assigned, commented, merged and split; an agent's run recorded.

Where a merge was decided from what was read before the locks, the decision compares it under them and raises Moved.
"""

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from projections.accounts import MEMBERSHIPS
from projections.cases import CASE_NOTES
from projections.runs import LeaseRow
from service.auth.refusals import InvalidPayload, refusal
from service.eventstore.declare.commands import Intent, Lookup, Unit
from service.eventstore.store import EventStore
from service.ids import new_id
from service.runs.acting import count_notes, notes_of
from service.runs.scope import ChainScope
from service.sql import load_query
from statemachines.accounts.membership import membership_id
from statemachines.cases import agent_run, comment
from statemachines.cases import case as cases
from statemachines.kernel.machine import Event, Stream
from statemachines.runs.claim import lease_live
from statemachines.runs.lease import CaseAlreadyClaimed
from statemachines.runs.steps.book import overdue

_AROUND = load_query("cases", "around")

Decision = Callable[[cases.Case, int], list[Event]]


class Acted(NamedTuple):
    """A case after the deed of a member. `split_case_id` names the one split off."""

    case_id: str
    project_id: str
    state: cases.Case
    split_case_id: str | None = None


class Written(NamedTuple):
    """A comment as it was written; `at` in epoch seconds, `case_revision` that of the case."""

    id: str
    case_id: str
    project_id: str
    user_id: str
    text: str
    at: int
    case_revision: int


class AgentRunReport(NamedTuple):
    """What an agent did about a case, as a member tells it."""

    outcome: agent_run.Outcome
    summary_md: str | None
    pr_url: str | None


class RecordedAgentRun(NamedTuple):
    """The record of an agent's run, made `at` (epoch seconds), and the case as it stands afterwards."""

    id: str
    case_id: str
    project_id: str
    report: AgentRunReport
    case: cases.Case
    at: int


class _Around(NamedTuple):
    """What a merge or split looks up before it holds any lock: what was merged into the case, and who works on it."""

    members: tuple[str, ...]
    chains: tuple[ChainScope, ...]


def resolve(project_id: str, case_id: str, case_revision: int) -> Intent[Acted]:
    """Close a case (G-145). Raises CaseConflict and CaseNotActionable."""
    return _act(project_id, case_id, case_revision, cases.decide_resolve_by_member)


def ignore(project_id: str, case_id: str, case_revision: int) -> Intent[Acted]:
    """Ignore a case (G-145). Raises CaseConflict and CaseNotActionable."""
    return _act(project_id, case_id, case_revision, cases.decide_ignore_by_member)


def reopen(project_id: str, case_id: str, case_revision: int) -> Intent[Acted]:
    """Bring a case back (G-145). Raises CaseConflict and CaseNotActionable."""
    return _act(project_id, case_id, case_revision, cases.decide_reopen)


def assign(project_id: str, case_id: str, case_revision: int, user_id: str | None) -> Intent[Acted]:
    """Assign a case to a member, a member or nobody (G-145). Raises CaseConflict, and InvalidPayload for others."""
    stream = cases.stream(project_id, case_id)
    member = None if user_id is None else Lookup(MEMBERSHIPS, project_id, membership_id(project_id, user_id))

    def decide(unit: Unit) -> Acted:
        state = seen(unit, stream, case_revision)
        if member is not None and unit.row(MEMBERSHIPS, member.project_id, member.id) is None:
            raise InvalidPayload(
                "The case can be assigned to members of its project only.",
                invalid=[("user_id", "must be a member of the project, or null")],
            )
        return _acted(stream, unit.append(stream, cases.decide_assign(state, user_id, unit.now)))

    return Intent([stream], decide, lookups=[] if member is None else [member])


async def write_comment(
    store: EventStore, project_id: str, case_id: str, case_revision: int, user_id: str, text: str
) -> Intent[Written]:
    """Write a member's comment on a case. The revision of the case stays (G-145).

    Raises CaseConflict, and CaseNotActionable for a full case.
    """
    case, written = cases.stream(project_id, case_id), comment.stream(project_id, new_id("cmt"))
    there = await count_notes(store, project_id, case_id)

    def decide(unit: Unit) -> Written:
        seen(unit, case, case_revision)
        notes = notes_of(unit, there)
        events = comment.decide_write(unit.state(written), case_id, user_id, text, unit.now, beside=notes.comments)
        unit.append(written, events)
        unit.put(case, CASE_NOTES, msgspec.structs.replace(notes, comments=notes.comments + 1))
        return Written(written.id, case_id, project_id, user_id, text, unit.now, case_revision)

    return Intent([written, case], decide, lookups=[Lookup(CASE_NOTES, project_id, case_id)])


async def record_run(
    store: EventStore, project_id: str, case_id: str, report: AgentRunReport
) -> Intent[RecordedAgentRun]:
    """Record what an agent did; one that found the case to be noise takes it out of attention (R-CASE-01, G-050).

    Raises CaseNotActionable for a full case.
    """
    case, made = cases.stream(project_id, case_id), agent_run.stream(project_id, new_id("arun"))
    there = await count_notes(store, project_id, case_id)

    def decide(unit: Unit) -> RecordedAgentRun:
        state, notes = _existing(unit, case), notes_of(unit, there)
        outcome, summary_md, pr_url = report
        events = agent_run.decide_record_run(
            unit.state(made), case_id, outcome, summary_md, pr_url, unit.now, beside=notes.agent_runs
        )
        unit.append(made, events)
        unit.put(case, CASE_NOTES, msgspec.structs.replace(notes, agent_runs=notes.agent_runs + 1))
        if outcome is agent_run.Outcome.MARKED_SPURIOUS:
            state = unit.append(case, cases.decide_mark_spurious(state, made.id, unit.now))
        return RecordedAgentRun(made.id, case_id, project_id, report, state, unit.now)

    return Intent([made, case], decide, lookups=[Lookup(CASE_NOTES, project_id, case_id)])


async def merge(store: EventStore, project_id: str, wish: cases.Merge, case_revision: int) -> Intent[Acted]:
    """Let what comes for a case go into another from now on (G-145).

    Raises CaseConflict, CaseAlreadyClaimed, CaseNotActionable, and Moved when somebody has merged or begun to work
    meanwhile.
    """
    around = await _look_around(store, project_id, wish.case_id, wish.into_case_id)
    stream = cases.stream(project_id, wish.case_id)
    named = dict.fromkeys((wish.case_id, wish.into_case_id, *around.members))
    streams = {case_id: cases.stream(project_id, case_id) for case_id in named}

    def decide(unit: Unit) -> Acted:
        _existing(unit, streams[wish.into_case_id])
        state = seen(unit, stream, case_revision)
        try:
            events = cases.merge_cases(wish, {name: unit.state(streams[name]) for name in streams}, unit.now)
        except cases.CaseNotActionable:
            _require_unclaimed(unit, around)  # is told first (G-178)
            raise
        if events:
            _require_unclaimed(unit, around)
        for name, recorded in events.items():
            unit.append(streams[name], recorded)
        return _acted(stream, unit.state(stream) if events else state)

    return Intent([*streams.values()], decide, reads=_reads(around))


async def split(
    store: EventStore, project_id: str, case_id: str, case_revision: int, fingerprint: str
) -> Intent[Acted]:
    """Let what comes under a fingerprint that was merged be a case of its own again (G-145).

    Raises CaseConflict, CaseAlreadyClaimed, and Moved when somebody has begun to work meanwhile.
    """
    stream = cases.stream(project_id, case_id)
    member = cases.stream(project_id, cases.case_id(project_id, fingerprint))
    around = await _look_around(store, project_id, case_id)

    def decide(unit: Unit) -> Acted:
        state = seen(unit, stream, case_revision)
        events = cases.split_off(case_id, member.id, state, unit.state(member), unit.now)
        _require_unclaimed(unit, around)
        unit.append(member, events[member.id])
        return _acted(stream, unit.append(stream, events[case_id]))._replace(split_case_id=member.id)

    return Intent(list(dict.fromkeys((stream, member))), decide, reads=_reads(around))


async def _look_around(store: EventStore, project_id: str, *case_ids: str) -> _Around:
    """Read what was merged into the first of these cases, and who works on each."""
    [[members, leases]] = await store.fetch(
        _AROUND, project_id=project_id, case_id=case_ids[0], case_ids=list(case_ids)
    )
    rows = {row.case_id: row for row in msgspec.json.decode(leases or "[]", type=list[LeaseRow])}
    chains = [ChainScope.of(project_id, case_id, rows.get(case_id)) for case_id in dict.fromkeys(case_ids)]
    return _Around(tuple(msgspec.json.decode(members or "[]", type=list[str])), tuple(chains))


def _act(project_id: str, case_id: str, case_revision: int, decision: Decision) -> Intent[Acted]:
    stream = cases.stream(project_id, case_id)

    def decide(unit: Unit) -> Acted:
        state = seen(unit, stream, case_revision)
        return _acted(stream, unit.append(stream, decision(state, unit.now)))

    return Intent([stream], decide)


def _existing(unit: Unit, stream: Stream) -> cases.Case:
    state: cases.Case = unit.state(stream)
    if state.status is cases.Status.ABSENT:
        raise refusal("case_not_found")
    return state


def seen(unit: Unit, stream: Stream, case_revision: int) -> cases.Case:
    """Return the state of a case that is as the caller has seen it. Raises CaseConflict."""
    state = _existing(unit, stream)
    cases.require_revision(state, case_revision)
    return state


def _acted(stream: Stream, state: cases.Case) -> Acted:
    return Acted(stream.id, stream.project_id, state)


def _reads(around: _Around) -> list[Stream]:
    return [stream for chain in around.chains for stream in (chain.lease, *chain.reads)]


def _require_unclaimed(unit: Unit, around: _Around) -> None:
    """Refuse while a runner works on one of the cases. Raises CaseAlreadyClaimed, and Moved."""
    for scope in around.chains:
        chain = scope.open(unit)
        runs = chain.run.live and overdue(chain.run, chain.claim, chain.lease, unit.now) is None
        if runs or lease_live(chain.claim, chain.lease, unit.now):
            raise CaseAlreadyClaimed(
                "A runner is working on the case, so its errors must not change.",
                next_action="Wait until its claim ends, or release the claim, then retry.",
            )
