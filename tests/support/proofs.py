"""A run's chain recorded directly in the store, and its proof as the service would serve it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from scripts.golden import events as declared_events
from service.eventstore.declare.commands import Answer, Command, Origin, Unit
from service.eventstore.store import EventStore
from service.history.bundle import NAMING, NAMING_LISTS
from service.ids import new_id
from service.registry import machines
from service.runs.verifying import prove_run
from statemachines.kernel.machine import Event, Stream
from statemachines.kernel.topics import decode_event

GOLDEN = Path(__file__).parents[1] / "golden" / "events"
TOPICS = declared_events()
PROJECT = "proj_proven"
RECEIPT, CLAIM, RUN, DEPLOY = "trc_proven", "claim_proven", "run_proven", "dep_proven"
ASKED, LAPSED, GRANT = "appr_asked", "appr_lapsed", "grant_proven"

CHAIN = (
    (RECEIPT, "trigger_receipt.issued.v1", {}),
    (CLAIM, "claim.created.v1", {"receipt_id": RECEIPT}),
    (RECEIPT, "trigger_receipt.claimed.v1", {"claim_id": CLAIM}),
    (RUN, "run.started.v1", {"receipt_id": RECEIPT, "claim_id": CLAIM}),
    (RECEIPT, "trigger_receipt.consumed.v1", {"run_id": RUN}),
    (CLAIM, "claim.bound.v1", {"run_id": RUN}),
    (RUN, "run.progressed.v1", {}),
    (CLAIM, "claim.renewed.v1", {}),
    (RUN, "run.charged.v1", {}),
    (LAPSED, "approval.requested.v1", {"run_id": RUN}),
    (RUN, "run.approval_requested.v1", {"approval_id": LAPSED}),
    (LAPSED, "approval.expired.v1", {}),
    (RUN, "run.review_lapsed.v1", {"expired": [LAPSED], "cancelled": []}),
    (ASKED, "approval.requested.v1", {"run_id": RUN}),
    (RUN, "run.approval_requested.v1", {"approval_id": ASKED}),
    (ASKED, "approval.approved.v1", {}),
    (RUN, "run.review_ended.v1", {"approval_id": ASKED}),
    (RUN, "run.resumed.v1", {}),
    (GRANT, "grant.authorized.v1", {"run_id": RUN, "approval_id": ASKED}),
    (RUN, "run.draft_pr_authorized.v1", {"grant_id": GRANT}),
    (GRANT, "grant.consumed.v1", {}),
    (RUN, "run.draft_pr_consumed.v1", {"grant_id": GRANT}),
    (RUN, "run.pr_proven.v1", {"grant_id": GRANT}),
    (GRANT, "grant.settled.v1", {}),
    (DEPLOY, "deploy.recorded.v1", {"automation_run_id": RUN}),
    (RUN, "run.deploy_bound.v1", {"deploy_id": DEPLOY}),
    (RUN, "run.verified.v1", {}),
    (CLAIM, "claim.completed.v1", {}),
)
"""Stream, topic, and what the members that name streams are set to, wherever in the payload they stand."""


def golden_event(topic: str, named: dict[str, Any]) -> Event:
    """The golden example of a topic, with its members that name streams set."""

    def set_names(value: Any) -> Any:
        if isinstance(value, list):
            return [set_names(item) for item in value]
        if not isinstance(value, dict):
            return value
        return {
            name: named[name] if name in NAMING | NAMING_LISTS and name in named else set_names(item)
            for name, item in value.items()
        }

    plain = set_names(msgspec.json.decode((GOLDEN / f"{topic}.json").read_bytes()))
    return decode_event(topic, msgspec.json.encode(plain))


async def record(store: EventStore, stream_id: str, *events: Event) -> None:
    """Append events to a stream of the project, directly in the store."""
    kind = next(kind for kind, machine in machines().items() if type(events[0]).TOPIC in machine.table.events)
    stream = Stream(machines()[kind], PROJECT, stream_id)

    def decide(unit: Unit) -> Answer:
        unit.append(stream, list(events))
        return Answer(204, None)

    origin = Origin("runner", "cred_of_runner", "seed", new_id("req"), correlation_id="req_first", causation_id="")
    await store.execute(Command(origin=origin, decide=decide, streams=[stream]))


async def record_chain(store: EventStore) -> None:
    """Record a chain from its receipt to its verified deploy, with one lapsed and one granted request."""
    for stream_id, topic, named in CHAIN:
        await record(store, stream_id, golden_event(topic, named))


async def read_proof(store: EventStore) -> dict[str, Any]:
    """The proof of that chain, as a client receives it."""
    proof: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(await prove_run(store, PROJECT, RUN)))
    return proof
