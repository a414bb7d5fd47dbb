"""Pull requests as CI observes them: recorded, judged, and what nobody granted stops the automation (G-172).

An observation is an ordinary command. Only one that has to turn automations off is a fence of its project: after its
answer nothing that these automations had begun can commit. Observation, finding and the end of the automations are one
transaction, so a crash leaves all of it or nothing, and CI sends it again.

A patch has a stream for each id that git gives it. Whoever may open a pull request with it, or has seen one, writes
these streams. The runs and the pull requests of its earlier holders are looked up before, and read under their locks.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from projections.cases import CaseNotesRow
from projections.runs import PATCHES, PULL_REQUESTS, RUNS, PatchRow, PullRequestRow, RunRow
from schemas.kernel.shape import shape_from
from schemas.runs import pull_request as wire
from service.eventstore.declare.commands import Intent, Refused, Unit
from service.eventstore.read.reader import PageEnd
from service.eventstore.store import EventStore
from service.runs import acting
from service.runs.bundles import read_page
from service.runs.scope import Ran, read_contract_state, read_state
from service.sql import load_query
from statemachines.contracts import contract as contracts
from statemachines.kernel.machine import CiRun, Moved, Stream
from statemachines.runs import patch as patches
from statemachines.runs import pull_request as pull_requests
from statemachines.runs import run as runs
from statemachines.runs.grant import DraftPrBinding
from statemachines.runs.patch import Around, Patch, PatchHolder, PatchIds
from statemachines.runs.steps.book import FencingToken
from statemachines.runs.steps.prove_pull_request import ObservedPr

# Recording what CI observed.


class Observed(NamedTuple):
    """The pull request after an observation, and whether it was recorded now."""

    row: PullRequestRow
    new: bool


def observe(project_id: str, seen: pull_requests.Observation, *, fence: bool) -> Intent[Observed]:
    """Record an observation. Raises Moved when it has to be a fence and is none.

    An ungranted pull request turns off every enabled automation of its repository.
    """
    stream = pull_requests.stream(project_id, seen.repository, seen.pr_number)
    run = None if seen.run_id is None else runs.stream(project_id, seen.run_id)
    contract = contracts.stream(project_id)
    used = PatchIds(seen.tree_sha, seen.patch_id).streams(project_id)

    def decide(unit: Unit) -> Observed:
        off = contracts.enabled_for(read_contract_state(unit, project_id), seen.repository) if fence else []
        judged = pull_requests.decide_observe(
            unit.state(stream), seen, read_state(unit, run, runs.Run()), off, unit.now
        )
        if judged.ungranted and not fence:
            raise Moved
        state: pull_requests.ObservedPullRequest = unit.append(stream, judged.events)
        if judged.ungranted:
            _turn_off(unit, contract, off, seen.credential_id)
        if judged.events and state.seen is not None and state.seen.verdict != "fork":
            _use(unit, used, PatchHolder(pull_request_id=stream.id, pr_url=seen.pr_url))
        row = unit.row(PULL_REQUESTS, project_id, stream.id)
        assert row is not None, "an observed pull request has a row"
        return Observed(row, bool(judged.events))

    written = [stream, *used, *([contract] if fence else [])]
    return Intent(written, decide, reads=[] if run is None else [run], fence=fence)


def _turn_off(unit: Unit, contract: Stream, automation_ids: list[str], by: str) -> None:
    events = contracts.decide_disable_all(
        unit.state(contract),
        reason=pull_requests.UNGRANTED,
        disabled_by=by,
        now=unit.now,
        automation_ids=automation_ids,
    )
    unit.append(contract, events)


def _use(unit: Unit, streams: list[Stream], holder: PatchHolder) -> None:
    for stream in streams:
        unit.append(stream, patches.decide_use(unit.state(stream), holder, unit.now))


# One pull request for a patch: who else has it, and the fence between two that ask at once.


class KnownPatches(NamedTuple):
    """The patches of a request with their holders, as read before the locks. Relations of a holder only grow."""

    project_id: str
    streams: list[Stream]
    runs: dict[str, Stream]
    pull_requests: dict[str, Stream]

    def guard(self, intent: Intent[Ran[str]], mine: PatchHolder, *, refuses: bool = True) -> Intent[Ran[str]]:
        """Carry out an intent that opens a pull request, or tells of one, if no other one has its patch.

        A repeat that records nothing is answered as before. Raises DuplicatePatch, and Moved when a patch has another
        holder by now.
        """
        if not self.streams:
            return intent

        def decide(unit: Unit) -> Ran[str] | Refused:
            ran = intent.decide(unit)
            if isinstance(ran, Refused) or not ran.changed:
                return ran
            if refuses:
                states = [unit.state(stream) for stream in self.streams]
                patches.require_unique(self.project_id, states, mine, self._around(unit, states, mine), unit.now)
            _use(unit, self.streams, PatchHolder(run_id=mine.run_id))
            return ran

        writes = {stream.name for stream in intent.streams}
        others = [*self.runs.values(), *self.pull_requests.values()]
        known = writes | {stream.name for stream in intent.reads}
        return Intent(
            [*intent.streams, *self.streams],
            decide,
            reads=[*intent.reads, *(stream for stream in others if stream.name not in known)],
            lookups=intent.lookups,
        )

    def _around(self, unit: Unit, states: list[Patch], mine: PatchHolder) -> Around:
        """Read the other holders under their locks. Raises Moved for one that was not looked up."""
        holders = [one for state in states for one in state.holders if not patches.is_mine(one, mine)]
        found: dict[str, runs.Run] = {}
        named = {holder.pull_request_id for holder in holders}
        for run_id in {holder.run_id for holder in holders} - {None}:
            assert run_id is not None, "it was left out"
            found[run_id] = self._read(unit, self.runs, run_id)
            named.add(patches.pull_request_of(self.project_id, found[run_id]))
        return Around(found, {name: self._read(unit, self.pull_requests, name) for name in named if name is not None})

    @staticmethod
    def _read(unit: Unit, known: dict[str, Stream], name: str) -> Any:
        if name not in known:
            raise Moved
        return unit.state(known[name])


async def find_patches(store: EventStore, project_id: str, ids: PatchIds) -> KnownPatches:
    """Look up the holders of patches."""
    streams = ids.streams(project_id)
    if not streams:
        return KnownPatches(project_id, [], {}, {})
    rows: list[PatchRow] = await store.find(
        PATCHES, "t.project_id = %s and t.id = any(%s)", project_id, [stream.id for stream in streams]
    )
    holders = [holder for row in rows for holder in row.holders]
    run_ids = sorted({holder.run_id for holder in holders if holder.run_id is not None})
    held: list[RunRow] = await store.find(RUNS, "t.project_id = %s and t.id = any(%s)", project_id, run_ids)
    seen = {holder.pull_request_id for holder in holders}
    seen |= {patches.pull_request_of(project_id, row.state) for row in held}
    return KnownPatches(
        project_id,
        streams,
        {run_id: runs.stream(project_id, run_id) for run_id in run_ids},
        {name: Stream(pull_requests.MACHINE, project_id, name) for name in sorted(seen - {None}, key=str) if name},
    )


_BEFORE_MERGE = frozenset({"pr_opened", "checks_passed", "auto_merge_enabled"})
"""Observations that a twin refuses. The deeds of people and of the host are recorded anyhow."""


def authorize_once(
    row: RunRow, known: KnownPatches, *, token: FencingToken, binding: DraftPrBinding
) -> Intent[Ran[str]]:
    """Authorize one pull request, if no other one has its patch."""
    return known.guard(acting.authorize_draft_pr(row, token, binding), PatchHolder(run_id=row.id))


def prove_once(
    row: RunRow,
    known: KnownPatches,
    *,
    observed: ObservedPr,
    notes: CaseNotesRow | None,
    ci_run: CiRun | None = None,
) -> Intent[Ran[str]]:
    """Take in an observation of CI, if no other pull request has its patch.

    `ci_run` is behind an exchanged credential.
    """
    own = pull_requests.pull_request_id(row.project_id, observed.repository, observed.pr_number)
    return known.guard(
        acting.record_observation(row, observed, notes, ci_run),
        PatchHolder(run_id=row.id, pull_request_id=own),
        refuses=observed.observation in _BEFORE_MERGE,
    )


# Which pull requests CI observed.

_PAGE = load_query("runs", "pull_requests")


async def observed(
    store: EventStore, project_id: str, after: PageEnd, limit: int, *, run_id: str | None, verdict: str | None
) -> list[PullRequestRow]:
    """Read at most `limit` pull requests after a place, the one observed last first."""
    page = {"project_id": project_id, "at": after.at, "id": after.id, "limit": limit}
    return await read_page(store, PullRequestRow, _PAGE, **page, run_id=run_id, verdict=verdict)


# How observed pull requests are shown.

_STOPPED = "Find out who opened it, and close it. Then an owner reviews the contract and enables it again."
_NEXT: dict[pull_requests.Verdict, str] = {
    "granted": "Prove it with pr-proof of its run.",
    "changed": "Prove it with pr-proof of its run, once it is merged or closed.",
    "fork": "Nothing to do.",
    "other_branch": "Nothing to do.",
    "ungranted": _STOPPED,
}


def shown(row: PullRequestRow) -> wire.ObservedPullRequest:
    """Show a pull request as it was observed last."""
    state, seen = row.state, row.state.seen
    assert seen is not None, "it was observed"
    return shape_from(
        wire.ObservedPullRequest,
        seen,
        pull_request_id=row.id,
        project_id=row.project_id,
        ungranted_heads=[
            wire.UngrantedHead(head_sha=one.head_sha, automations_disabled=one.automation_ids, found_at=one.found_at)
            for one in reversed(state.breaches)
        ],
        first_observed_at=state.first_seen_at,
        observed_at=seen.seen_at,
    )


def observation(told: Observed) -> wire.PullRequestObservation:
    """Answer an observation."""
    pull_request, breach = shown(told.row), told.row.state.breach
    return wire.PullRequestObservation(
        pull_request=pull_request,
        automations_disabled=[] if breach is None else breach.automation_ids,
        next_action=_NEXT[pull_request.verdict],
    )


def listed(project_id: str, rows: list[PullRequestRow], next_cursor: str | None) -> wire.PullRequestList:
    """Show a page of observed pull requests."""
    return wire.PullRequestList(
        project_id=project_id,
        pull_requests=[shown(row) for row in rows],
        count=len(rows),
        next_cursor=next_cursor,
        next_action=_STOPPED if any(row.verdict == "ungranted" for row in rows) else "Nothing to do.",
    )
