"""The stand-alone verifier passes what was recorded, and finds whatever was changed in it, first things first."""

from __future__ import annotations

import ast
import asyncio
import copy
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from scripts import verify_proof
from service.eventstore.connect.connection import connect
from service.eventstore.log.sequencer import sequence_all
from service.eventstore.read.stored import CHAIN_START, EventEnvelope, hash_chain, hash_leaf, hash_payload
from service.eventstore.store import EventStore
from service.registry import registry
from tests.service.eventstore.test_codec import payloads
from tests.support.cluster import TestCluster
from tests.support.proofs import ASKED, CLAIM, DEPLOY, GRANT, LAPSED, RECEIPT, RUN, read_proof, record_chain

SCRIPT = Path(verify_proof.__file__)
Path_ = tuple[str | int, ...]
Edit = Callable[[dict[str, Any]], None]


@pytest.fixture(scope="module")
def recorded(cluster: TestCluster) -> dict[str, Any]:
    """The proof of a whole chain, all of it numbered."""

    async def make(url: str) -> dict[str, Any]:
        store = EventStore(url, registry())
        await store.start()
        try:
            await record_chain(store)
            with connect(url, application="test") as connection:
                sequence_all(connection)
            return await read_proof(store)
        finally:
            await store.stop()

    with cluster.database() as url:
        return asyncio.run(make(url))


@pytest.fixture
def proof(recorded: dict[str, Any]) -> dict[str, Any]:
    """A copy to spoil."""
    return copy.deepcopy(recorded)


def run_script(data: bytes, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Run the script as a stranger would: isolated, without any installed package."""
    command = [sys.executable, "-I", "-S", str(SCRIPT), *arguments]
    return subprocess.run(command, input=data, capture_output=True, check=False, cwd="/")


def complaint(document: Any) -> str:
    """What the verifier says of a document that it must not pass."""
    with pytest.raises(verify_proof.Wrong) as caught:
        verify_proof.check(document)
    return str(caught.value)


def resealed(document: dict[str, Any]) -> dict[str, Any]:
    """The document with its own hash made to fit, as somebody would who changes more than one thing."""
    document.pop("document_sha256")
    return {**document, "document_sha256": verify_proof.sha256(verify_proof.canonical(document)).hex()}


def stream_of(document: dict[str, Any], name: str) -> dict[str, Any]:
    return next(stream for stream in document["streams"] if stream["stream_id"] == name)


# ---- what is right ------------------------------------------------------------------------------------------------


def test_a_recorded_chain_is_told_stream_by_stream_and_never_called_proven(recorded: dict[str, Any], tmp_path: Path):
    """From a file or from standard input, however the JSON is spaced; exit code 3, as nothing signed says more."""
    path = tmp_path / "proof.json"
    path.write_bytes(msgspec.json.format(msgspec.json.encode(recorded)))
    for done in (run_script(b"", str(path)), run_script(msgspec.json.encode(recorded))):
        assert (done.returncode, done.stderr) == (3, b"")
        *lines, last = done.stdout.decode().splitlines()
        heads = [(s["stream_id"], s["head"]["revision"], s["head"]["chain"]) for s in recorded["streams"]]
        assert lines == [f"{name}  revision {revision}  chain {chain}" for name, revision, chain in heads]
        assert last == f"HEADS NOT AUTHENTICATED: {RUN}, 7 streams that hang together"
    assert {name for name, *_ in heads} == {RECEIPT, CLAIM, RUN, LAPSED, ASKED, GRANT, DEPLOY}


def test_a_tail_cut_whole_and_invented_positions_are_not_called_proven(proof: dict[str, Any]):
    """Whoever makes a document may leave off what ends a run, and number it as he likes: all hashes fit.

    Only a checkpoint signed by the service could tell; until there are any, such a document gets the code of every
    other one, which says so.
    """
    run = stream_of(proof, RUN)
    cut = run["events"].pop()
    run["head"] = {"revision": run["events"][-1]["revision"], "chain": run["events"][-1]["chain"]}
    proof["links"] = [
        link for link in proof["links"] if (link["stream_id"], link["revision"]) != (RUN, cut["revision"])
    ]
    for stream in proof["streams"]:
        for number, event in enumerate(stream["events"], 1):
            event["position"] = 1_000_000 + number
    done = run_script(json.dumps(resealed(proof)).encode())
    assert (done.returncode, done.stderr) == (3, b""), done.stdout
    assert done.stdout.splitlines()[-1].startswith(b"HEADS NOT AUTHENTICATED: ")


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        (("streams", 0, "events", 0, "salt"), 12, "salt is not text"),
        (("streams", 0, "events", 0, "revision"), True, "revision is not a number"),
        (("streams", 0, "events", 0, "recorded_at"), "1", "recorded_at is not a number"),
        (("streams", 0, "events", 0, "topic"), 5, "topic is not text"),
        (("streams", 0, "events", 0, "position"), True, "its position does not follow"),
        (("streams", 0, "head", "revision"), "1", "its head: revision is not a number"),
        (("streams", 0, "stream_id"), ["x"], "a stream: stream_id is not text"),
        (("run_id",), 1, "the document: run_id is not text"),
        (("made_at",), False, "the document: made_at is not a number"),
    ],
)
def test_what_has_another_type_is_a_finding_and_no_traceback(
    proof: dict[str, Any], place: Path_, value: Any, said: str
):
    container, key = inside(proof, place)
    container[key] = value
    done = run_script(json.dumps(resealed(proof)).encode())
    assert (done.returncode, done.stderr) == (1, b"")
    assert said in done.stdout.decode()


def test_the_script_stands_alone():
    """One file that imports the standard library, and `cryptography` where it checks a signature; nothing of ours."""
    tree = ast.parse(SCRIPT.read_text())
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    assert not [node for node in found if isinstance(node, ast.ImportFrom) and node.level]
    named = [node.module or "" if isinstance(node, ast.ImportFrom) else node.names[0].name for node in found]
    imported = {name.partition(".")[0] for name in named}
    assert imported - sys.stdlib_module_names == {"cryptography"}
    outside = {name for node, name in zip(found, named, strict=True) if node in tree.body}
    assert {name.partition(".")[0] for name in outside} <= sys.stdlib_module_names


@given(payloads)
def test_its_canonical_form_is_that_of_the_standard(payload: dict[str, Any]):
    """Over the domain of payloads, byte for byte."""
    assert verify_proof.canonical(payload) == rfc8785.dumps(payload)


texts = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=20)


@given(st.lists(st.tuples(payloads, texts), min_size=1, max_size=4), st.binary(max_size=32))
def test_any_stream_that_the_service_can_write_passes(written: list[tuple[dict[str, Any], str]], salt: bytes):
    """Whatever its payloads hold, and whatever text its envelopes carry."""
    events, chain = [], CHAIN_START
    for revision, (payload, text) in enumerate(written, 1):
        payload_hash = hash_payload(salt, rfc8785.dumps(payload))
        named = [text] * 8
        envelope = EventEnvelope("proj", "x_1", revision, "x", *named, revision, payload_hash.hex())
        leaf = hash_leaf(envelope)
        chain = hash_chain(chain, leaf)
        more = {"position": None, "payload": payload, "salt": salt.hex(), "leaf": leaf.hex(), "chain": chain.hex()}
        events.append({**msgspec.to_builtins(envelope), **more})
    head = {"revision": len(events), "chain": chain.hex()}
    stream = {"project_id": "proj", "stream_id": "x_1", "kind": "x", "head": head, "events": events}
    verify_proof.check_stream(verify_proof.load(msgspec.json.encode(stream)), "proj")


# ---- what is wrong ------------------------------------------------------------------------------------------------


def places(value: Any, path: Path_ = ()) -> Iterator[Path_]:
    """The path of everything in a document."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, item in items:
        yield (*path, name)
        yield from places(item, (*path, name))


def changed(value: Any) -> list[Any]:
    """Other values in the place of one: close to it, of another type, and none."""
    match value:
        case bool():
            others: list[Any] = [not value, int(value)]
        case int():
            others = [value + 1, -value - 1, str(value)]
        case str():
            flipped = value[:-1] + chr(ord(value[-1]) ^ 1) if value else "0"
            others = [flipped, value + "0", value[:-1] or "0", [value]]
            others += [value.upper()] if value.upper() != value else []
        case None:
            others = ["", 0, False]
        case list():
            others = [[*value, value[-1] if value else 0], value[1:] if value else {}]
        case _:
            others = [{**value, "more": 0}]
    return [*others, *([] if value is None else [None])]


def inside(document: Any, path: Path_) -> tuple[Any, Any]:
    """The container of a place, and its key there."""
    for key in path[:-1]:
        document = document[key]
    return document, path[-1]


def spoilt(document: Any, path: Path_, ways: int | None = None) -> Iterator[None]:
    """Change the document at a place in one way after another, take the place away, and put all back at the end."""
    container, key = inside(document, path)
    right = container[key]
    for other in changed(right)[:ways]:
        container[key] = other
        yield
    container[key] = right
    if isinstance(container, dict):
        del container[key]
        yield
        container[key] = right


def test_no_part_of_a_document_can_be_changed_or_taken_away(proof: dict[str, Any]):
    """Everything, one after the other; what is wrong in an event is told by its stream and revision."""
    original, tried = verify_proof.canonical(proof), 0
    for path in list(places(proof)):
        for _ in spoilt(proof, path, ways=3):
            tried += 1
            said = complaint(proof)
            match path:
                # Only the document's own hash covers a position that is still in order.
                case ("streams", int(number), "events", int(index), str(member), *_) if member != "position":
                    name = proof["streams"][number]["stream_id"]
                    assert said.startswith(f"{name} revision {index + 1}"), (path, said)
    assert verify_proof.canonical(proof) == original
    assert tried > 3000


def test_no_event_can_be_altered_even_by_who_seals_the_document_anew(proof: dict[str, Any]):
    """Every member of every event in every way; only the position is outside of what the chains prove."""
    tried = 0
    for stream in proof["streams"]:
        for path in list(places(stream["events"], ("events",))):
            for _ in spoilt(stream, path):
                tried += 1
                try:
                    verify_proof.check_stream(stream, proof["project_id"])
                except verify_proof.Wrong:
                    continue
                assert path[2:] == ("position",), path
    verify_proof.check(proof)
    assert tried > 3000


def forge_first(stream: dict[str, Any]) -> None:
    """Alter a fact of the first event and make its own hashes fit."""
    event = stream["events"][0]
    event["actor_id"] = "somebody"
    envelope = {name: event[name] for name in verify_proof.ENVELOPE}
    leaf = verify_proof.sha256(b"\0", verify_proof.canonical(envelope))
    event |= {"leaf": leaf.hex(), "chain": verify_proof.sha256(b"\x02", verify_proof.START, leaf).hex()}


def cut_tail(document: dict[str, Any]) -> None:
    stream_of(document, RUN)["events"].pop()


def drop(name: str) -> Edit:
    def edit(document: dict[str, Any]) -> None:
        document["streams"] = [stream for stream in document["streams"] if stream["stream_id"] != name]
        document["links"] = [link for link in document["links"] if name not in (link["stream_id"], link["names"])]

    return edit


def swap_events(document: dict[str, Any]) -> None:
    events = stream_of(document, RUN)["events"]
    events[2], events[3] = events[3], events[2]


def swap_payloads(document: dict[str, Any]) -> None:
    first, second = stream_of(document, ASKED)["events"][0], stream_of(document, LAPSED)["events"][0]
    for name in ("payload", "salt"):
        first[name], second[name] = second[name], first[name]


def swap_streams_events(document: dict[str, Any]) -> None:
    first, second = stream_of(document, ASKED), stream_of(document, LAPSED)
    first["events"], second["events"] = second["events"], first["events"]


def repeat_event(document: dict[str, Any]) -> None:
    events = stream_of(document, CLAIM)["events"]
    events.insert(1, events[1])


def lose_event(document: dict[str, Any]) -> None:
    del stream_of(document, RUN)["events"][4]


def add_stranger(document: dict[str, Any]) -> None:
    """A stream that is sound in itself, and has nothing to do with the run."""
    payload_hash = verify_proof.sha256(b"", b"{}")
    event = dict.fromkeys(verify_proof.ENVELOPE, "") | {"project_id": document["project_id"], "revision": 1}
    event["recorded_at"] = 0
    event |= {"stream_id": "grant_other", "kind": "grant", "payload_hash": payload_hash.hex()}
    leaf = verify_proof.sha256(b"\0", verify_proof.canonical(event))
    chain = verify_proof.sha256(b"\x02", verify_proof.START, leaf).hex()
    event |= {"leaf": leaf.hex(), "chain": chain, "payload": {}, "salt": "", "position": None}
    stream = {"project_id": document["project_id"], "stream_id": "grant_other", "kind": "grant"}
    document["streams"].append({**stream, "head": {"revision": 1, "chain": chain}, "events": [event]})


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (cut_tail, f"{RUN} revision 12: this is not its head"),
        (lose_event, f"{RUN} revision 5: another revision"),
        (swap_events, f"{RUN} revision 3: another revision"),
        (swap_payloads, f"{LAPSED} revision 1: payload, salt"),
        (swap_streams_events, f"{LAPSED} revision 1: stream_id"),
        (repeat_event, f"{CLAIM} revision 3: another revision"),
        (lambda document: forge_first(stream_of(document, GRANT)), f"{GRANT} revision 2: the chain is broken"),
        (drop(RECEIPT), f"{CLAIM} revision 1: receipt_id names {RECEIPT}, which is missing"),
        (drop(CLAIM), f"{RECEIPT} revision 2: claim_id names {CLAIM}, which is missing"),
        (drop(LAPSED), f"{RUN} revision 4: approval_id names {LAPSED}, which is missing"),
        (drop(GRANT), f"{RUN} revision 9: grant_id names {GRANT}, which is missing"),
        (drop(DEPLOY), f"{RUN} revision 12: deploy.deploy_id names {DEPLOY}, which is missing"),
        (drop(RUN), "the run itself is missing"),
        (add_stranger, "grant_other revision 1: nothing ties this stream to the run"),
        (lambda document: document["streams"].append(document["streams"][0]), "a stream is there twice"),
        (lambda document: document["links"].pop(3), "is not listed among the links"),
        (lambda document: document["links"].append(document["links"][0]), "is not listed among the links, or twice"),
        (lambda document: document["links"].append({}), "a link is listed that no event makes"),
    ],
)
def test_what_is_missing_moved_or_added_is_told_however_well_the_document_is_sealed(
    proof: dict[str, Any], edit: Edit, said: str
):
    """Truncated tails, dropped streams, swapped and repeated events, a forged first event, a stream smuggled in."""
    edit(proof)
    assert said in complaint(resealed(proof))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b"\xff",
        b'{"format":"service-run-proof-1"',
        b"[" * 100_000,
        b'{"a":' * 50_000,
        b'{"a":1,"a":1}',
        b"1.0",
        b"NaN",
        b"9007199254740992",
        b'"\\ud800"',
    ],
)
def test_what_is_no_proof_is_refused_in_one_line(data: bytes):
    """Exit code 1 and a sentence, never a traceback."""
    done = run_script(data)
    assert (done.returncode, done.stderr) == (1, b"")
    assert done.stdout.startswith(b"WRONG: ")
    assert done.stdout.count(b"\n") == 1


def test_a_wrong_document_and_a_missing_file_end_with_1(proof: dict[str, Any]):
    proof["streams"][0]["events"][0]["payload"]["automation_id"] = "another"
    done = run_script(json.dumps(proof).encode())
    assert done.returncode == 1
    assert done.stdout.startswith(f"WRONG: {RECEIPT} revision 1: payload".encode())
    missing = run_script(b"", "/nowhere/proof.json")
    assert (missing.returncode, missing.stderr) == (1, b"")


@pytest.mark.parametrize("text", ['{"a": 1.0}', '{"a": 1e2}', '{"a": -0}', '{"a": Infinity}', '{"a": 1, "a": 1}'])
def test_what_readers_could_read_differently_is_not_read(text: str):
    """Floats, the other zero, numbers beyond 2**53 and members that come twice."""
    with pytest.raises(verify_proof.Wrong):
        verify_proof.load(text.encode())
