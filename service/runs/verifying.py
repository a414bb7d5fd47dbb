"""What verification counts and how it judges it, and the proof of a run (G-111, R-AUT-44, R-AUT-45)."""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from projections.cases import PROVIDER_LOOKS
from projections.runs import RunRow
from schemas.runs.proof import ProofInclusion, RunProof
from service.analytics.history import BeforeDeploy
from service.analytics.local import RepairedCase, count_recurrences
from service.analytics.metadata import TrafficProbe
from service.analytics.queries import AnalyticsProviders
from service.eventstore.connect.facts import NOT_WRITTEN
from service.eventstore.declare import names
from service.eventstore.declare.commands import Intent, Unit
from service.eventstore.read.reader import Row
from service.eventstore.read.stored import canonical
from service.eventstore.store import EventStore
from service.history.bundle import StreamBundle, StreamName, read_bundle, snapshot
from service.runs.scope import Ran, RunScope
from service.sql import Query, load_query
from service.tlog.tree import PIN, ProvenPositions, prove
from statemachines.cases import case as cases
from statemachines.kernel.machine import LATE_SECONDS, ReadFailed
from statemachines.projects import settings
from statemachines.runs.run import Run, RunNotFound
from statemachines.runs.statistics import compare
from statemachines.runs.steps.end_run import telling_what_is_left
from statemachines.runs.steps.results import Counts, observation_end, verify_run
from statemachines.runs.verdict import Verdict

# Verification: judge what was counted since the deploy of a run (G-111, R-AUT-44, R-AUT-45).


def verify(row: RunRow, counts: Counts | None) -> Intent[Ran[Verdict]]:
    """Judge what was counted since the run's deploy; success closes the case (G-050, G-111).

    `counts` are None when the outcome stood already: whoever asks again is still judged by the authority of now.
    """
    scope = RunScope.of(row)
    stream = None if row.case_id is None else cases.stream(row.project_id, row.case_id)
    asked = settings.stream(row.project_id)

    def decide(unit: Unit) -> Ran[Verdict]:
        book = scope.open(unit)
        with telling_what_is_left(book, unit.now):
            verdict, effects = verify_run(book, counts, unit.now, unit.state(asked).maximum_error_probability)
        if verdict.passed and effects and stream is not None:
            deployed_at = verdict.sample.observed_from
            unit.append(stream, cases.decide_resolve(unit.state(stream), row.id, unit.now, deployed_at))
        return Ran(verdict, scope.carry_out(unit, effects), bool(effects))

    return Intent([*scope.streams, *([] if stream is None else [stream])], decide, reads=[*scope.reads, asked])


# What verification counts: traffic as the project's analytics provider saw it, recurrence as this service did
# (G-111). Both are counted from the deploy on, and no further than its deadline and than what has settled: a record
# is received before its flush commits, so the latest ones, and all that came since the oldest flush under way began,
# may not be there to count yet (G-134). Exceptions of a connected provider are waited for until they were read
# (G-182). Both are counted in the environment of the run (G-190).

_SETTLED = load_query("runs", "settled_until")
LAG_SECONDS = 2
"""How far behind now counting stays at least."""


async def settled(store: EventStore, project_id: str) -> int:
    """The last second (epoch) that counts: all received in it or before is there for later reads.

    In a statement of its own, before the counts: they see whatever was committed by then.
    """
    [[second]] = await store.fetch(_SETTLED, gate=names.lock_number(names.gate(project_id)), lag=LAG_SECONDS)
    return int(second)


async def exceptions_settled(store: EventStore, project_id: str) -> int:
    """The last second (epoch) up to which all exceptions of the connected provider were counted (G-182)."""
    look = await store.get(PROVIDER_LOOKS, project_id, project_id)
    return 0 if look is None else look.read_to - LATE_SECONDS


async def count(store: EventStore, providers: AnalyticsProviders, project_id: str, run: Run) -> Counts | ReadFailed:
    """Count for a run whose deploy is bound. A failed provider read tells nothing and is no empty one."""
    deploy, terms = run.deploy, run.terms.verification
    assert deploy is not None, "only a bound deploy can be verified"
    place = run.terms.environment or deploy.environment
    provider = await providers.for_project(project_id)
    now = await settled(store, project_id)
    read = now if provider.source == "local" else min(now, await exceptions_settled(store, project_id))
    end, until = (observation_end(terms, deploy.recorded_at, moment) for moment in (now, read))
    repair = RepairedCase(run.case_id, deploy.deploy_id, deploy.version, place, deploy.recorded_at)

    async def ask(query: Query, values: Mapping[str, Any]) -> list[Row]:
        return await store.fetch(query, project_id=project_id, **values)

    recurrences = await count_recurrences(
        ask, repair, deploy.recorded_at + 1, end + 1, by_version=deploy.compared == "version"
    )
    if isinstance(recurrences, ReadFailed):
        return recurrences
    until = end if recurrences else until  # One that was seen decides at once, whatever else was not read yet.
    traffic = await provider.count_events(TrafficProbe(terms.traffic_sample_event, place, deploy.recorded_at, until))
    if isinstance(traffic, ReadFailed):
        return traffic
    waiting_at = now if until < end else None
    told = traffic.count, recurrences, until, traffic.counted_by, traffic.counted_in, provider.source
    by = traffic.counted_in.unnamed, traffic.counted_by == "public"
    compared = BeforeDeploy(project_id, run.case_id or "", place, terms.traffic_sample_event, deploy.recorded_at, *by)
    before = await providers.history.before(provider, compared)
    return Counts(*told, waiting_at, None if before is None else compare(before, recurrences, traffic.count))


# The proof of a run: every event along its chain, for whoever wants to check it without the service. The streams are
# those that the run's own row names, read in the snapshot in which the events are: a request, grant or deploy that
# joins meanwhile is in the next proof with all of its links.

NEXT = (
    "Save this answer and check it with scripts/verify_proof.py and the keys of the log, from `service log keys`. "
    "Without a key it checks the hashes alone."
)
_RUN_ROW = load_query("runs", "run_row")


async def prove_run(store: EventStore, project_id: str, run_id: str) -> RunProof:
    """Read the proof of a run. Raises RunNotFound."""
    async with snapshot(store) as connection:
        cursor = await connection.execute(_RUN_ROW, {"project_id": project_id, "run_id": run_id})
        found = await cursor.fetchone()
        if found is None:
            raise RunNotFound("There is no such run.")
        row = msgspec.json.decode(found[0], type=RunRow)
        read = await read_bundle(connection, chain_of(row))
        events = (event for stream in read.streams for event in stream.events)
        proven = await prove(connection, {event.position for event in events if event.position is not None})
    if proven is not None:
        proven = await keep(store, proven)
    return seal(row, read, proven, made_at=found[1])


async def keep(store: EventStore, proven: ProvenPositions) -> ProvenPositions | None:
    """Pin the checkpoint of a proof for ever. None when it is gone, or cannot be kept now."""
    checkpoint = proven.checkpoint
    try:
        async with store.facts.connection() as connection:
            done = await connection.execute(PIN, {"origin": checkpoint.origin, "size": checkpoint.size})
    except NOT_WRITTEN:
        return None
    return proven if done.rowcount == 1 else None


def chain_of(row: RunRow) -> list[StreamName]:
    """Name the streams of a run's chain, in the order in which they began."""
    state = row.state
    ids = [
        row.receipt_id,
        row.claim_id,
        row.id,
        *(ref.approval_id for ref in state.approvals),
        *(ref.grant_id for ref in state.grants),
        None if state.deploy is None else state.deploy.deploy_id,
        state.report_id if isinstance(state.report_id, str) else None,
    ]
    return [(row.project_id, stream_id) for stream_id in ids if stream_id is not None]


def seal(row: RunRow, read: StreamBundle, proven: ProvenPositions | None, *, made_at: int) -> RunProof:
    """Put the document together. Its own hash covers what no stream's hashes do: links, heads, positions."""
    document = RunProof(
        project_id=row.project_id,
        run_id=row.id,
        made_at=made_at,
        streams=read.streams,
        links=read.links,
        checkpoint=None if proven is None else proven.checkpoint.text,
        inclusion=[] if proven is None else [show(position, path) for position, path in proven.hashes.items()],
        next_action=NEXT,
        document_sha256="",
    )
    plain = msgspec.to_builtins(document)
    del plain["document_sha256"]
    return msgspec.structs.replace(document, document_sha256=hashlib.sha256(canonical(plain)).hexdigest())


def show(position: int, path: Sequence[bytes]) -> ProofInclusion:
    """Show a proof of inclusion."""
    return ProofInclusion(position, [base64.b64encode(one).decode() for one in path])


def as_tlog_proof(document: RunProof) -> str | None:
    """Lay a proof out as a C2SP tlog-proof of its last event below the checkpoint. None without such an event."""
    if document.checkpoint is None or not document.inclusion:
        return None
    last = max(document.inclusion, key=lambda one: one.position)
    extra = base64.b64encode(msgspec.json.encode(document)).decode()
    lines = ["c2sp.org/tlog-proof@v1", f"extra {extra}", f"index {last.position - 1}", *last.hashes]
    return "\n".join(lines) + "\n\n" + document.checkpoint
