"""A witness by C2SP tlog-witness: every answer in its place, no two histories, races and kills included."""

from __future__ import annotations

import asyncio
import base64
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from service.tlog.hashing import EMPTY, consistency_spans
from service.tlog.notes import (
    Checkpoint,
    KeyPair,
    SignedNote,
    parse_checkpoint,
    parse_note,
    parse_signatures,
    verify_note,
)
from service.witness import serving
from service.witness.server import SIZE, StateInUse, Witness, WitnessAnswer, WitnessState, origin_hash
from service.witness.serving import WitnessServer
from tests.support.trees import naive_leaves, naive_root

ORIGIN, NAME = "log.example/1", "w1.example"
LOG = KeyPair.derive(b"l" * 32, "log")
OTHER = KeyPair.derive(b"o" * 32, "log")
LEAVES = naive_leaves(40)
FORK = [*LEAVES[:10], *naive_leaves(40, mark="fork")[10:]]


def signed(size: int, leaves: list[bytes] = LEAVES, *, origin: str = ORIGIN, pair: KeyPair = LOG) -> str:
    checkpoint = Checkpoint(origin, size, naive_root(leaves[:size]))
    return f"{checkpoint.text}\n{''.join(one.line for one in pair.sign(checkpoint, 1))}"


def request(old: int, size: int, leaves: list[bytes] = LEAVES, *, note: str | None = None) -> bytes:
    spans = consistency_spans(old, size) if old <= size else []
    proof = [naive_root(leaves[span.low : span.high]) for span in spans]
    lines = "".join(f"{base64.b64encode(one).decode()}\n" for one in proof)
    return f"old {old}\n{lines}\n{note or signed(size, leaves)}".encode()


@pytest.fixture
def state(tmp_path: Path) -> Iterator[WitnessState]:
    made = WitnessState(tmp_path / "state")
    yield made
    made.close()


@pytest.fixture
def witness(state: WitnessState) -> Witness:
    return Witness(NAME, state.pair(), state, {ORIGIN: LOG.as_log(ORIGIN)})


def add(witness: Witness, old: int, size: int, leaves: list[bytes] = LEAVES) -> WitnessAnswer:
    return witness.add_checkpoint(request(old, size, leaves), 1_700_000_000)


def test_it_cosigns_growth_with_both_keys(witness: Witness, state: WitnessState) -> None:
    for old, size in ((0, 1), (1, 7), (7, 7), (7, 40)):
        answer = add(witness, old, size)
        assert answer.status == 200
        note = parse_note(signed(size).encode())
        keys = state.pair().as_witness(NAME)
        found = verify_note(SignedNote(note.text, parse_signatures(answer.body)), keys)
        assert found == [(keys[0], 1_700_000_000), (keys[1], 1_700_000_000)]
    kept = parse_note((state.note(ORIGIN) or "").encode())
    assert parse_checkpoint(kept.text).size == 40
    assert len(verify_note(kept, [*LOG.as_log(ORIGIN), *state.pair().as_witness(NAME)])) == 4
    assert witness.monitored(origin_hash(ORIGIN)).body == state.note(ORIGIN)
    assert witness.monitored(origin_hash("x")).status == 404


def test_every_refusal_has_its_status(witness: Witness, state: WitnessState) -> None:
    assert add(witness, 0, 10).status == 200
    note = signed(20)
    signature = parse_note(note.encode()).signatures[0]
    bad = signature._replace(value=signature.value[:-1] + bytes([signature.value[-1] ^ 1]))
    cases = [
        (b"", 400),
        (b"old 10\n", 400),
        (b"new 10\n\n" + note.encode(), 400),
        (b"old 010\n\n" + note.encode(), 400),
        (b"old 10\nAAAA\n\n" + note.encode(), 400),
        (request(10, 20)[:200], 400),
        (b"old 10\n" + (b"A" * 43 + b"=\n") * 64 + b"\n" + note.encode(), 400),
        (request(25, 20), 400),
        (request(10, 20, note=signed(20, origin="log.example/2")), 404),
        (request(10, 20, note=signed(20, pair=OTHER)), 403),
        (request(10, 20, note=note.replace(signature.line, bad.line)), 403),
        (request(0, 20), 409),
        (request(9, 20), 409),
        (request(10, 20, FORK, note=note), 422),
        (request(10, 10, FORK, note=signed(10, naive_leaves(10, mark="x"))), 422),
        (b"old 10\n" + (b"A" * 43 + b"=\n") + request(10, 20)[7:], 422),
    ]
    for body, status in cases:
        assert witness.add_checkpoint(body, 5).status == status, body[:60]
    conflict = witness.add_checkpoint(request(0, 20), 5)
    assert (conflict.body, conflict.content_type) == ("10\n", SIZE)
    newest = state.newest(ORIGIN)
    assert newest is not None
    assert newest.size == 10, "no refusal has changed anything"


def test_the_empty_tree_has_one_root_and_no_proof(witness: Witness) -> None:
    empty = Checkpoint(ORIGIN, 0, b"r" * 32)
    wrong = f"{empty.text}\n{LOG.sign(empty, 1)[0].line}"
    assert witness.add_checkpoint(f"old 0\n\n{wrong}".encode(), 5).status == 422
    assert naive_root([]) == EMPTY
    assert witness.add_checkpoint(request(0, 0), 5).status == 200
    proof = base64.b64encode(bytes(32)).decode()
    assert witness.add_checkpoint(f"old 0\n{proof}\n\n{signed(3)}".encode(), 5).status == 422


def test_a_fork_is_not_cosigned_after_a_restart(witness: Witness, state: WitnessState, tmp_path: Path) -> None:
    assert add(witness, 0, 15).status == 200
    with pytest.raises(StateInUse):
        WitnessState(tmp_path / "state")
    state.close()
    again = WitnessState(tmp_path / "state")
    try:
        later = Witness(NAME, again.pair(), again, {ORIGIN: LOG.as_log(ORIGIN)})
        assert later.add_checkpoint(request(15, 20, FORK), 5).status == 422
        assert add(later, 15, 20).status == 200
    finally:
        again.close()


async def test_of_two_requests_at_once_one_wins(witness: Witness) -> None:
    """Over HTTP, for every size: one growth and one fork from the same size."""
    server = WitnessServer(witness)
    port = await server.start("127.0.0.1", 0)
    try:
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:

            async def ask(body: bytes) -> httpx2.Response:
                return await client.post("/add-checkpoint", content=body)

            assert (await ask(request(0, 10))).status_code == 200
            for old in range(10, 36, 4):
                answers = await asyncio.gather(ask(request(old, old + 2)), ask(request(old, old + 4)))
                assert sorted(answer.status_code for answer in answers) == [200, 409]
                rest = await ask(request(old + 2, old + 4))
                assert rest.status_code in {200, 409}
            assert (await client.get("/add-checkpoint")).status_code == 405
            assert (await client.get("/nowhere")).status_code == 404
            kept = await client.get(f"/{origin_hash(ORIGIN)}/checkpoint")
            assert parse_checkpoint(parse_note(kept.content).text).size > 30
            assert (await ask(b"x" * 400_000)).status_code == 413
    finally:
        await server.stop()


async def answered(port: int, sent: bytes) -> tuple[int, str]:
    """Status and text of the answer to some bytes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(sent)
    async with asyncio.timeout(20):
        head = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head)
        body = b"" if length is None or sent.startswith(b"HEAD") else await reader.readexactly(int(length[1]))
    writer.close()
    return int(head.split()[1]), body.decode()


async def test_requests_are_bounded_and_answered_in_words(witness: Witness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a wrong method, address, size or form; a body that stays away ends the request."""
    monkeypatch.setattr(serving, "REQUEST_SECONDS", 0.2)
    server = WitnessServer(witness)
    port = await server.start("127.0.0.1", 0)
    host, add_to = b"host: w\r\n", b"/add-checkpoint HTTP/1.1\r\nhost: w\r\n"
    monitored = b"/%s/checkpoint HTTP/1.1\r\n" % origin_hash(ORIGIN).encode() + host
    try:
        for sent, answer in (
            (b"GET / HTTP/1.1\r\n" + host, (404, "no such address\n")),
            (b"GET " + add_to, (405, "POST only\n")),
            (b"PUT " + monitored, (405, "GET only\n")),
            (b"HEAD " + monitored, (404, "")),
            (b"POST " + add_to + b"content-length: 400000\r\n", (413, "the body is too long\n")),
            (b"POST " + add_to + b"content-length: 10\r\n", (408, "the body came too slowly\n")),
            (b"nonsense\r\n", (400, "")),
            (b"GET / HTTP/1.1\r\nx: " + b"y" * serving.MOST_HEAD * 2 + b"\r\n", (431, "")),
        ):
            assert await answered(port, sent + b"\r\n") == answer, sent[:80]
    finally:
        await server.stop()


def test_a_witness_that_is_killed_stands_by_what_it_has_cosigned(tmp_path: Path) -> None:
    """Kill -9 in the middle of requests: whatever was answered is the beginning of all that is cosigned later."""
    log = [argument for key in LOG.as_log(ORIGIN) for argument in ("--log", key.vkey)]
    command = [sys.executable, "-m", "service", "witness", "serve", "--state", str(tmp_path / "w"), "--name", NAME]
    answered = [0]
    for _ in range(3):
        process = subprocess.Popen([*command, *log, "--port", "0"], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        address = process.stdout.readline().split()[-1]
        killer = threading.Timer(0.3, process.send_signal, [signal.SIGKILL])
        killer.start()
        try:
            with httpx2.Client(base_url=address, timeout=20) as client:
                known = int(client.post("/add-checkpoint", content=request(0, 40)).text or 0) if answered[-1] else 0
                assert known >= answered[-1], "what was answered is remembered"
                while known < 40:
                    answer = client.post("/add-checkpoint", content=request(known, known + 1))
                    assert answer.status_code == 200
                    known += 1
                    answered.append(known)
        except httpx2.HTTPError:
            pass
        process.wait()
        process.stdout.close()
        killer.join()
    state = WitnessState(tmp_path / "w")
    newest = state.newest(ORIGIN)
    state.close()
    assert newest is not None
    assert answered[-1] <= newest.size <= answered[-1] + 1
    assert newest.root == naive_root(LEAVES[: newest.size])
