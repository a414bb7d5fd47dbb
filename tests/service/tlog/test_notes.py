"""Signed notes, checkpoints and keys: the examples of C2SP, and everything that is none."""

from __future__ import annotations

import base64
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.tlog.hashing import EMPTY
from service.tlog.notes import (
    BadSignature,
    Checkpoint,
    KeyPair,
    MalformedNote,
    SignedNote,
    parse_checkpoint,
    parse_note,
    parse_vkey,
    verify_note,
)

VKEY = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k"
NOTE = """This is an example message.

— example.com/foo Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=
"""
PAIR = KeyPair.derive(b"a" * 32, "log")
PINNED = "68940f59864631b492676059491f43371d3355e12940d45039a366e355d686d3"
CHECKPOINT = Checkpoint("example.com/log", 0, EMPTY)


def test_the_note_of_the_document_verifies() -> None:
    note = parse_note(NOTE.encode())
    [(key, at)] = verify_note(note, [parse_vkey(VKEY)])
    assert (key.vkey, at, note.text) == (VKEY, 0, "This is an example message.\n")
    with pytest.raises(BadSignature):
        verify_note(SignedNote("This is another message.\n", note.signatures), [key])
    with pytest.raises(BadSignature):
        verify_note(note, PAIR.as_log("example.com/foo"))


def test_a_log_and_a_witness_sign_what_their_types_say() -> None:
    log, witness = PAIR.as_log(CHECKPOINT.origin), PAIR.as_witness("w.example")
    signatures = (*PAIR.sign(CHECKPOINT, 7), *PAIR.cosign("w.example", CHECKPOINT, 9))
    note = parse_note(f"{CHECKPOINT.text}\n{''.join(found.line for found in signatures)}".encode())
    assert parse_checkpoint(note.text) == CHECKPOINT
    assert verify_note(note, [*log, *witness]) == [(log[0], 0), (log[1], 7), (witness[0], 9), (witness[1], 9)]
    assert [len(found.value) for found in signatures] == [64, 2428, 72, 2428]
    assert all(parse_vkey(key.vkey) == key for key in (*log, *witness))
    for changed in (CHECKPOINT._replace(size=1), CHECKPOINT._replace(root=b"r" * 32)):
        for key in (*log, *witness):
            with pytest.raises(BadSignature):
                verify_note(SignedNote(changed.text, note.signatures), [key])


def test_each_installation_and_each_use_has_keys_of_its_own() -> None:
    pairs = [KeyPair.derive(secret, domain) for secret in (b"a" * 32, b"b" * 32) for domain in ("log", "witness")]
    assert len({key.public_key for pair in pairs for key in pair.as_log("x")}) == 8
    again = KeyPair.derive(b"a" * 32, "log").as_log("x")
    assert again == PAIR.as_log("x")
    # Written down once: a key that is derived otherwise is another key.
    assert again[0].public_key.hex() == PINNED


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"text\n",
        b"text\n\n",
        b"\n\n\xe2\x80\x94 a AAAAAAA=\n",
        b"text\n\n- a AAAAAAA=\n",
        "text\n\n— a AAAAAAA=".encode(),
        "text\n\n— a\u00a0b AAAAAAA=\n".encode(),
        "text\n\n— a+b AAAAAAA=\n".encode(),
        "text\n\n— a AAAA\n".encode(),
        "text\n\n— a AAAAAAA\n".encode(),
        "te\txt\n\n— a AAAAAAA=\n".encode(),
        b"text\n\n" + "— a AAAAAAA=\n".encode() * 65,
        b"te\xffxt\n\n\xe2\x80\x94 a AAAAAAA=\n",
        b"x" * 300_000,
    ],
)
def test_what_is_no_note_is_refused(raw: bytes) -> None:
    with pytest.raises(MalformedNote):
        parse_note(raw)


@pytest.mark.parametrize(
    "lines",
    [
        ["o", "1"],
        ["", "1", "ROOT"],
        ["o", "01", "ROOT"],
        ["o", "-1", "ROOT"],
        ["o", "+1", "ROOT"],
        ["o", "٣", "ROOT"],
        ["o", "9223372036854775808", "ROOT"],
        ["o", "1", "AAAA"],
        ["o", "1", "ROOT", ""],
    ],
)
def test_what_is_no_checkpoint_is_refused(lines: list[str]) -> None:
    text = "".join(f"{line}\n" for line in lines).replace("ROOT", base64.b64encode(b"r" * 32).decode())
    with pytest.raises(MalformedNote):
        parse_checkpoint(text)


@pytest.mark.parametrize(
    "vkey",
    [
        "",
        "a+b",
        f"{VKEY}x",
        f"x{VKEY}",
        VKEY.replace("530d903a", "530d903b"),
        VKEY.replace("530d903a", "530D903A"),
        "example.com/foo+530d903a+" + base64.b64encode(b"\x02" + b"k" * 32).decode(),
        "a+00000000+",
    ],
)
def test_what_is_no_key_is_refused(vkey: str) -> None:
    with pytest.raises(MalformedNote):
        parse_vkey(vkey)


@given(st.binary(max_size=400) | st.text(max_size=200).map(str.encode))
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    for read in (parse_note, lambda given: parse_checkpoint(given.decode()), lambda given: parse_vkey(given.decode())):
        with suppress(MalformedNote, UnicodeDecodeError):
            read(raw)
