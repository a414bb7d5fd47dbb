"""Each check of the verifier is needed: without any one of them some bad file gets another answer, or passes."""

from __future__ import annotations

import ast
import base64
import io
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from scripts import verify_proof
from tests.support.outsiders.logs import Event, canonical, copied_log, inclusion, leaf_of, make_log, rehash, sha256
from tests.support.outsiders.signing import ORIGIN, signed, signer
from tests.support.outsiders.tampering import TAMPERS

SOURCE = Path(verify_proof.__file__).read_text()
LOOKED_AT = {
    "hash_event",
    "read",
    "check_members",
    "check",
    "check_position",
    "check_chain",
    "end",
    "microseconds",
    "lines_of",
    "load_line",
    "whole",
    "unique",
    "from_base64",
    "read_note",
    "read_checkpoint",
    "has_signed",
    "check_inclusion",
    "authenticate",
}
"""The functions whose checks are taken away, one after the other."""
LOG = make_log(8, seed=8, streams=2)
KEY, WITNESS = signer(1), signer(4, "w")
TEXT = LOG.text()


def sites(tree: ast.Module) -> list[ast.Call]:
    """The calls of `require`, and the statements `raise`, in these functions of the export's part."""
    found = []
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef) and function.name in LOOKED_AT and function.lineno < LAST:
            found += [
                node
                for node in ast.walk(function)
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "require"
            ]
    return found


LAST = SOURCE[: SOURCE.index("# ---- proofs of runs")].count("\n") + 1


def without(number: int) -> ModuleType:
    """The verifier without one of its checks; -1 leaves all of them in."""
    tree = ast.parse(SOURCE)
    if number >= 0:
        sites(tree)[number].args[0] = ast.Constant(value=True)
    made = ModuleType(f"verifier_without_{number}")
    sys.modules[made.__name__] = made  # Dataclasses look their module up.
    exec(compile(ast.fix_missing_locations(tree), made.__name__, "exec"), made.__dict__)  # noqa: S102 - our own file
    return made


def lines(events: list[Event]) -> bytes:
    return b"".join(canonical(event) + b"\n" for event in events)


def exports() -> Iterator[tuple[bytes, dict[str, Any]]]:
    """Bad exports, with how they are read."""
    chance = random.Random(8)
    for tamper in TAMPERS:
        yield tamper(LOG, chance)[0], {}
    odd: list[tuple[str, Any]] = [
        *(("position", value) for value in (True, 9, "4")),
        *(("revision", value) for value in (9, "1", True)),
        *(("payload", value) for value in ([1], None, {"a": 1})),
        *(("salt", value) for value in (None, 5, "AB", "abc", "00", LOG.events[3]["salt"].upper())),
        *(("recorded_at", value) for value in (5, "2023", "2023-11-14T22:13:29.000009Z", "2001-09-09T01:46:40+00:00")),
        ("topic", None),
        ("topic", "x"),
        ("kind", "claim"),
        ("leaf", "00" * 32),
        ("chain", "00" * 32),
        ("payload_hash", "00" * 32),
        ("more", 1),
    ]
    for name, value in odd:
        log = copied_log(LOG)
        log.events[3][name] = value
        yield lines(log.events), {}
    forged = copied_log(LOG)
    for event in forged.events[4:]:  # A stream that goes on under another kind, with hashes that fit.
        event["kind"] = "claim"
    rehash(forged.events)
    yield lines(forged.events), {}
    gap = copied_log(LOG)  # A revision is missing, and all hashes fit.
    last = gap.events[-1]
    before = [event for event in gap.events[:-1] if event["stream_id"] == last["stream_id"]][-1]
    last["revision"] += 1
    leaf = leaf_of(last)
    last |= {"leaf": leaf.hex(), "chain": sha256(b"\x02" + bytes.fromhex(before["chain"]) + leaf).hex()}
    yield lines(gap.events), {}
    later = copied_log(LOG)
    later.events[4]["chain"] = "x"
    yield lines(later.events[4:]), {"after": 4}
    one = [event for event in LOG.events if event["project_id"] == LOG.events[0]["project_id"]]
    yield lines([*one[:2], one[0]]), {"project": one[0]["project_id"]}
    yield LOG.export(), {"project": one[0]["project_id"]}
    yield LOG.export(), {"project": "proj_none"}
    good = list(LOG.lines())
    spoilt = [
        b'{"a":1,"a":1}',
        b'{"a":1.5}',
        b'{"a":9007199254740993}',
        b'{"a": 1}',
        good[3][:-1].replace(b":", b": ", 1),
    ]
    spoilt += [good[3][:-1].replace(b'"revision":', b'"revision":9,"revision":', 1), b'"' + b"x" * 3_000 + b'"']
    for line in spoilt:
        yield b"".join([*good[:3], line + b"\n", *good[4:]]), {}
    yield b"".join(good)[:-1], {}
    yield b"".join(good)[:-1] + b" \n", {}


def notes() -> Iterator[bytes]:
    """Bad checkpoints."""
    good = signed(TEXT, KEY, WITNESS)
    root = TEXT.split("\n")[2]
    yield from (b"", b"text\n", b"x" * (1 << 20) + b"\n\n" + KEY.line(TEXT).encode(), b"\xff" + good)
    yield from (good[:-1], good.replace(b"\n", b"\t\n", 1), good + b"name AAAA\n", good + "— w AAAA\n".encode())
    yield good + KEY.line(TEXT).encode() * 120
    yield good + "— w AAAAAAB=\n".encode()
    for text in (
        f"{ORIGIN}\n08\n{root}\n",
        f"{ORIGIN}\n8\n{base64.b64encode(bytes(31)).decode()}\n",
        f"{ORIGIN}\n8\n{root[:-2]}B=\n",
        f"{ORIGIN}\n8\n{root}\n\nmore\n",
        f"other\n8\n{root}\n",
    ):
        yield signed(text, KEY, WITNESS)
    yield signed(TEXT, signer(1, seed=2), WITNESS)
    yield signed(TEXT, KEY)
    yield signed(TEXT, KEY, WITNESS).replace(b"\n8\n", b"\n9\n", 1)
    yield (TEXT + "\n" + KEY.line(TEXT + "more\n") + WITNESS.line(TEXT)).encode()
    yield (TEXT + f"\n— {KEY.name} {base64.b64encode(KEY.id + bytes(9)).decode()}\n" + WITNESS.line(TEXT)).encode()


def proofs() -> Iterator[tuple[int, Any]]:
    """Bad proofs of inclusion."""
    path = [base64.b64encode(hash_).decode() for hash_ in inclusion(2, LOG.leaves)]
    yield from ((3, "x"), (3, [1]), (3, ["x"]), (3, [*path[:-1], base64.b64encode(bytes(31)).decode()]))
    yield from ((3, path[:-1]), (4, path), (3, [*path, path[0]]), (3, [path[0]] * 65), (3, [path[0][:-2] + "B="]))


EXPORTS, NOTES, PROOFS = list(exports()), list(notes()), list(proofs())


def answers(verifier: ModuleType) -> list[str]:
    """What a verifier says of every bad file."""
    said = []
    verifier.MAX_LINE = 2_000  # type: ignore[attr-defined]
    root = verifier.Tree()
    for leaf in LOG.leaves:
        root.append(leaf)
    point = verifier.Checkpoint(ORIGIN, 8, root.root(), "kept")
    log = verifier.read_key(KEY.vkey)
    policy = verifier.Policy(logs=[log], witnesses={"w": verifier.read_key(WITNESS.vkey)}, quorum="w", every=True)

    def note(call: Any, *arguments: Any, **more: Any) -> None:
        try:
            said.append(str(call(*arguments, **more)))
        except Exception as error:  # noqa: BLE001 - without a check anything may go wrong
            said.append(f"{type(error).__name__} {getattr(error, 'position', None)} {error}")

    for data, more in EXPORTS:
        note(verifier.check_export, io.BytesIO(data), [point], **more)
        note(verifier.check_export, io.BytesIO(data), [], **more)
    for data in NOTES:
        note(verifier.read_checkpoint, data, policy, "it")
    for position, path in PROOFS:
        note(verifier.check_inclusion, LOG.leaves[2], position, path, point)
    other = verifier.KeptLeaves(bytes(32) * 8, "the tiles")
    note(verifier.check_export, io.BytesIO(LOG.export()), [point], other)
    return said


WHOLE = answers(without(-1))


def test_every_bad_file_is_refused_by_the_whole_verifier() -> None:
    passed = [answer for answer in WHOLE if not answer.startswith("Wrong ")]
    others = [answer[:300] for answer in passed if not answer.startswith("Findings(")]
    assert others == []  # Without a checkpoint a forged export may hang together.
    assert len(WHOLE) - len(passed) > 80


@pytest.mark.parametrize("number", range(len(sites(ast.parse(SOURCE)))))
def test_without_a_check_a_bad_file_gets_another_answer(number: int) -> None:
    """A check that nobody would miss is none."""
    assert answers(without(number)) != WHOLE, ast.unparse(sites(ast.parse(SOURCE))[number])
