"""The nine requests of torchwood's litewitness, over HTTP to `service witness`.

One answer differs: by C2SP tlog-witness an unknown log is 404, and litewitness has 403.
"""

from __future__ import annotations

import re
from pathlib import Path

import httpx2

from service.tlog.notes import ED25519, SignedNote, VerifierKey, parse_note, parse_signatures, verify_note
from service.witness.server import Witness, WitnessState
from service.witness.serving import WitnessServer

FILE = Path(__file__).parents[2] / "foreign" / "transparency" / "litewitness.txt"
ORIGIN = "sigsum.org/v1/tree/4d6d8825a6bb689d459628312889dfbb0bcd41b5211d9e1ce768b0ff0309e562"
KEY = VerifierKey(ORIGIN, ED25519, bytes.fromhex("ffdc2d4d98e4124d3feaf788c0c2f9abfd796083d1f0495437f302ec79cf100f"))
REQUEST = re.compile(
    r'POST http://localhost:7380(/\S+)\n```\n(.*?)```\nHTTP (\d+)\n\[Asserts\]\nbody (contains|==) "(.*?)"\n', re.DOTALL
)
NAME = "example.com/witness"


async def test_the_requests_of_litewitness_are_answered_as_there(tmp_path: Path) -> None:
    requests = REQUEST.findall(FILE.read_text(encoding="utf-8"))
    assert len(requests) == 9
    state = WitnessState(tmp_path / "state")
    server = WitnessServer(Witness(NAME, state.pair(), state, {ORIGIN: [KEY]}))
    port = await server.start("127.0.0.1", 0)
    try:
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
            for path, body, status, how, text in requests:
                answer = await client.post(path, content=body.encode())
                wanted = 404 if text == "unknown log" else int(status)
                assert answer.status_code == wanted, answer.text
                said = text.encode().decode("unicode_escape") if how == "==" else text
                assert answer.text == said if how == "==" else said in answer.text
                if wanted == 200:
                    note = parse_note(body.encode().partition(b"\n\n")[2])
                    signed = SignedNote(note.text, parse_signatures(answer.text))
                    assert len(verify_note(signed, state.pair().as_witness(NAME))) == 2
    finally:
        await server.stop()
        state.close()
