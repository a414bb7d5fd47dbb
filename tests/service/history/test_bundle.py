"""A bundle shows streams whole, as of one moment, with the links between them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import msgspec
import psycopg
import pytest
import pytest_asyncio

from schemas.runs.proof import ProofLink
from scripts import verify_proof
from service.eventstore.connect.connection import connect
from service.eventstore.log.sequencer import sequence_all
from service.eventstore.store import EventStore
from service.history.bundle import StreamMissing, bundle, names_in, read_bundle, snapshot
from service.registry import machines, registry
from tests.golden.test_events import shortest_history
from tests.support.proofs import (
    ASKED,
    CHAIN,
    CLAIM,
    DEPLOY,
    GRANT,
    LAPSED,
    PROJECT,
    RECEIPT,
    RUN,
    TOPICS,
    golden_event,
    read_proof,
    record,
    record_chain,
)


@pytest_asyncio.fixture
async def store(database_url: str) -> AsyncIterator[EventStore]:
    """A store of the product."""
    running = EventStore(database_url, registry())
    await running.start()
    yield running
    await running.stop()


async def test_streams_come_whole_in_the_order_asked_for(store: EventStore):
    """Every event from revision 1 on with its payload, and the head that they lead to."""
    await record_chain(store)
    shown = await bundle(store, [(PROJECT, GRANT), (PROJECT, RECEIPT)])
    assert [(stream.stream_id, stream.kind) for stream in shown.streams] == [(GRANT, "grant"), (RECEIPT, "trc")]
    for stream in shown.streams:
        wanted = [topic for stream_id, topic, _ in CHAIN if stream_id == stream.stream_id]
        assert [event.topic for event in stream.events] == wanted
        assert [event.revision for event in stream.events] == list(range(1, len(wanted) + 1))
        assert stream.head.revision == len(wanted)
        assert stream.head.chain == stream.events[-1].chain


async def test_a_position_is_null_until_the_sequencer_has_numbered_the_event(store: EventStore, database_url: str):
    await record(store, RECEIPT, golden_event("trigger_receipt.issued.v1", {}))
    with connect(database_url, application="test") as connection:
        sequence_all(connection)
    await record(store, RECEIPT, golden_event("trigger_receipt.claimed.v1", {"claim_id": CLAIM}))
    [stream] = (await bundle(store, [(PROJECT, RECEIPT)])).streams
    assert [event.position for event in stream.events] == [1, None]


async def test_every_member_that_names_a_stream_of_the_bundle_is_a_link(store: EventStore):
    """Those of the issue among them: the run names receipt and claim, the grant and the deploy name the run."""
    await record_chain(store)
    proof = await read_proof(store)
    links = {ProofLink(**link) for link in proof["links"]}
    assert links >= {
        ProofLink(RUN, 1, "receipt_id", RECEIPT),
        ProofLink(RUN, 1, "claim_id", CLAIM),
        ProofLink(CLAIM, 1, "receipt_id", RECEIPT),
        ProofLink(CLAIM, 2, "run_id", RUN),
        ProofLink(RECEIPT, 2, "claim_id", CLAIM),
        ProofLink(RECEIPT, 3, "run_id", RUN),
        ProofLink(LAPSED, 1, "run_id", RUN),
        ProofLink(GRANT, 1, "run_id", RUN),
        ProofLink(GRANT, 1, "approval_id", ASKED),
        ProofLink(DEPLOY, 1, "automation_run_id", RUN),
        ProofLink(RUN, 5, "expired.0", LAPSED),
    }
    assert {link.names for link in links if link.stream_id == RUN} == {RECEIPT, CLAIM, LAPSED, ASKED, GRANT, DEPLOY}


async def test_a_stream_without_events_is_named(store: EventStore):
    await record(store, RECEIPT, golden_event("trigger_receipt.issued.v1", {}))
    with pytest.raises(StreamMissing, match="grant_none"):
        await bundle(store, [(PROJECT, RECEIPT), (PROJECT, "grant_none")])
    with pytest.raises(StreamMissing):
        await bundle(store, [("proj_other", RECEIPT)])
    assert await bundle(store, []) == ([], [])


async def test_all_streams_are_of_one_moment(store: EventStore):
    """What commits between two reads of a snapshot is not in it."""
    await record(store, RECEIPT, golden_event("trigger_receipt.issued.v1", {}))
    async with snapshot(store) as connection:
        before = await read_bundle(connection, [(PROJECT, RECEIPT)])
        await record(store, RECEIPT, golden_event("trigger_receipt.claimed.v1", {"claim_id": CLAIM}))
        assert await read_bundle(connection, [(PROJECT, RECEIPT)]) == before
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            await connection.execute(b"update log_state set size = 0")
    [stream] = (await bundle(store, [(PROJECT, RECEIPT)])).streams
    assert stream.head.revision == 2


async def test_proofs_taken_while_a_chain_grows_are_all_whole(store: EventStore):
    """The run's row and the events are of one snapshot, so no proof names a stream that it lacks."""
    for stream_id, topic, named in CHAIN[:4]:
        await record(store, stream_id, golden_event(topic, named))
    writing = asyncio.create_task(_go_on(store))
    taken = []
    while not writing.done():
        taken.append(await read_proof(store))
        verify_proof.check(taken[-1])
    await writing
    verify_proof.check(await read_proof(store))
    assert len({proof["document_sha256"] for proof in taken}) > 1


async def _go_on(store: EventStore) -> None:
    for stream_id, topic, named in CHAIN[4:]:
        await record(store, stream_id, golden_event(topic, named))


async def test_events_of_every_topic_are_verified_without_the_service(store: EventStore):
    """Whatever the product can record, in a legal history that leads to it."""
    by_topic = {topic: machine for machine in machines().values() for topic in machine.table.events}
    assert by_topic.keys() == TOPICS.keys()
    streams = []
    for topic, machine in by_topic.items():
        streams.append((PROJECT, f"{machine.kind}_{topic}"))
        await record(store, streams[-1][1], *(golden_event(name, {}) for name in shortest_history(machine, topic)))
    shown = (await bundle(store, streams)).streams
    assert {event.topic for stream in shown for event in stream.events} == TOPICS.keys()
    for stream in shown:
        verify_proof.check_stream(verify_proof.load(msgspec.json.encode(stream)), PROJECT)


def test_names_are_found_at_any_depth():
    payload = {
        "run_id": "run_1",
        "claim_id": None,
        "deploy": {"deploy_id": "dep_1", "version": "run_1"},
        "follow_ups": [{"grant_id": None}, {"grant_id": "grant_1"}],
        "cancelled": ["appr_1", "appr_2"],
        "expired": True,
    }
    found = [
        ("cancelled.0", "appr_1"),
        ("cancelled.1", "appr_2"),
        ("deploy.deploy_id", "dep_1"),
        ("follow_ups.1.grant_id", "grant_1"),
        ("run_id", "run_1"),
    ]
    assert sorted(names_in(payload)) == sorted(verify_proof.names_in(payload)) == found
