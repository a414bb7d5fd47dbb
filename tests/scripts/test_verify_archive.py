"""The verifier over archives: a whole one passes, a changed byte is found where it is, and each check is needed."""

from __future__ import annotations

import ast
import base64
import copy
import hashlib
import io
import random
import sys
import tarfile
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts import verify_proof
from service.archives import making
from service.archives.spool import header
from tests.scripts.test_verify_mutants import SOURCE
from tests.support.outsiders.logs import canonical, make_log, rehash, root_of, sha256
from tests.support.outsiders.signing import ORIGIN, signed, signer

PROJECT, MADE_AT = "proj_1", 1_700_000_000
KEY = signer(1)
POLICY = verify_proof.Policy(logs=[verify_proof.read_key(KEY.vkey)], every=True)
LOG = make_log(40, seed=3, streams=6)
MINE = [event for event in LOG.events if event["project_id"] == PROJECT]
MINE[0] |= {"topic": "project.created.v1"}
rehash(LOG.events)
SIZE = MINE[-1]["position"] - 1
"""The checkpoint lacks the last event of the project."""

Files = dict[str, bytes]


def beside(low: int, high: int, wanted: set[int]) -> Iterator[bytes]:
    """The hashes of what is beside some leaves, from the left: as RFC 6962 halves a tree."""
    if not wanted & set(range(low, high)):
        yield root_of(LOG.leaves[low:high])
    elif high - low > 1:
        middle = low + (1 << (high - low - 1).bit_length() - 1)
        yield from beside(low, middle, wanted)
        yield from beside(middle, high, wanted)


def run_proof(note: bytes) -> dict[str, Any]:
    """The proof of a run of one event, beyond the checkpoint."""
    event = next(dict(event) for event in reversed(MINE) if event["revision"] == 1)
    event |= {"payload": {"a": 1}, "position": None, "revision": 1}
    event["payload_hash"] = sha256(bytes.fromhex(event["salt"]) + canonical(event["payload"])).hex()
    event["recorded_at"] = 1
    envelope = {name: event[name] for name in sorted(verify_proof.ENVELOPE)}
    leaf = sha256(b"\0" + canonical(envelope))
    event |= {"leaf": leaf.hex(), "chain": sha256(b"\x02" + bytes(32) + leaf).hex()}
    head = {"revision": 1, "chain": event["chain"]}
    stream = {"project_id": PROJECT, "stream_id": event["stream_id"], "kind": "run", "head": head, "events": [event]}
    document = {
        "format": "service-run-proof-2",
        "project_id": PROJECT,
        "run_id": event["stream_id"],
        "made_at": MADE_AT,
        "streams": [stream],
        "links": [],
        "checkpoint": note.decode(),
        "inclusion": [],
        "next_action": "",
    }
    return document | {"document_sha256": sha256(canonical(document)).hex()}


def withheld(event: dict[str, Any]) -> dict[str, Any]:
    return event | {"payload": None, "salt": None}


def parts(*, checkpoint: bool = True) -> Files:
    """The parts of an archive of the project."""
    events = [withheld(MINE[0]), *MINE[1:]]
    halves = events[:5], events[5:]
    files = {f"events/{n:06}.jsonl": b"".join(canonical(e) + b"\n" for e in half) for n, half in enumerate(halves, 1)}
    if checkpoint:
        note = signed(LOG.text(SIZE), KEY)
        files["checkpoint"] = note
        inside = {event["position"] - 1 for event in MINE if event["position"] <= SIZE}
        hashes = [base64.b64encode(one) + b"\n" for one in beside(0, SIZE, inside)]
        files["proofs/tree/000001.txt"] = b"".join(hashes)
        files["proofs/run_1.json"] = canonical(run_proof(note))
    return files | {"cases/000001.jsonl": b'{"id":"case_1"}\n', "telemetry/errors/000001.jsonl": b""}


def told(files: Files, **other: Any) -> dict[str, Any]:
    """What the manifest tells of parts, with some members changed."""
    note = files.get("checkpoint")
    root = root_of(LOG.leaves[:SIZE]).hex()
    said = {
        "format": "service-archive-2",
        "project_id": PROJECT,
        "made_at": MADE_AT,
        "log_size": 40,
        "events": len(MINE),
        "first_position": MINE[0]["position"],
        "last_position": MINE[-1]["position"],
        "checkpoint": {"origin": ORIGIN, "size": SIZE, "root": root} if note else None,
        "withheld": {"payloads": 1, "topics": list(verify_proof.WITHHELD)},
        "parts": [
            {"name": name, "sha256": sha256(data).hex(), "bytes": len(data), "lines": data.count(b"\n")}
            for name, data in files.items()
        ],
        "left_out": [{"what": "secrets", "why": "They are secret."}],
    }
    return said | other


def sealed(said: dict[str, Any]) -> bytes:
    return canonical(said | {"manifest_sha256": sha256(canonical(said)).hex()})


def packed(files: Files, *, mtime: int = MADE_AT) -> bytes:
    """Files as the tar program of the standard library has them."""
    made = io.BytesIO()
    for name, data in files.items():
        info = tarfile.TarInfo(name)
        info.size, info.mtime = len(data), mtime
        made.write(header(name, len(data), mtime) + data + bytes(-len(data) % 512))
        known = tarfile.TarInfo.frombuf(header(name, len(data), mtime), "ascii", "strict")
        assert (known.name, known.size, known.mtime, known.mode) == (name, len(data), mtime, 0o644)
    return made.getvalue() + bytes(1024)


def archive(files: Files | None = None, **other: Any) -> bytes:
    files = parts() if files is None else files
    return packed(files | {"manifest.json": sealed(told(files, **other))})


def judged(data: bytes, policy: verify_proof.Policy | None = POLICY) -> verify_proof.Findings:
    read = verify_proof.Archive(policy)
    read.read(io.BytesIO(data))
    return read.end()


GOOD = archive()


def test_a_whole_archive_passes() -> None:
    found = judged(GOOD)
    assert (found.events, found.last, found.covered) == (len(MINE), MINE[-1]["position"], SIZE)
    assert found.said == ["Withheld: 1 payloads with hashes of secrets. Their own hashes hold."]
    assert judged(GOOD, None).covered == SIZE
    alone = parts(checkpoint=False)
    assert judged(archive(alone)).covered == 0
    with tarfile.open(fileobj=io.BytesIO(GOOD)) as tar:
        assert [member.name for member in tar] == [*parts(), "manifest.json"]


@pytest.mark.parametrize("form", verify_proof.ARCHIVES)
def test_archives_of_each_form_pass(form: str) -> None:
    """Those that were made before comments and runs were lines of their own stay verifiable."""
    topics = verify_proof.WITHHELD if form == making.FORMAT else verify_proof.WITHHELD_BEFORE
    made = archive(format=form, withheld={"payloads": 1, "topics": list(topics)})
    assert judged(made).covered == SIZE
    assert verify_proof.ARCHIVES[-1] == making.FORMAT


def test_the_service_withholds_what_the_verifier_lets_pass() -> None:
    """And every payload with a member that is the hash of a secret."""
    from service.registry import machines
    from statemachines.kernel.topics import schemas

    assert making.WITHHELD == verify_proof.WITHHELD
    machines()
    secret = ("dsn_hash", "secret_hash", "key_hash")
    holding = {topic for topic, schema in schemas().items() if any(f"'{name}'" in str(schema) for name in secret)}
    in_projects = {topic for topic in holding if not topic.startswith(("key.", "session.", "sign_in.", "toy"))}
    assert in_projects == {topic for topic in schemas() if making.is_withheld(topic)}


def places(data: bytes) -> Iterator[tuple[str, int, int]]:
    """The name of each part, where its header begins, and where it ends."""
    start, number = 0, 0
    while data[start : start + 512] != bytes(512):
        number += 1
        name = data[start : start + 100].rstrip(b"\0").decode()
        size = int(data[start + 124 : start + 135], 8)
        end = start + 512 + size + -size % 512
        yield name, start, end
        start = end


@pytest.mark.parametrize(("name", "start", "end"), list(places(GOOD)), ids=[name for name, _, _ in places(GOOD)])
def test_each_flipped_byte_is_found_in_its_part(name: str, start: int, end: int) -> None:
    """Of its content, its padding and its header, which says which part it is."""
    chance = random.Random(start)
    number = [first for _, first, _ in places(GOOD)].index(start) + 1
    content = range(start + 512, end)
    chosen = [*chance.sample(range(start, start + 512), 40), *chance.sample(content, min(len(content), 80))]
    for place in chosen:
        spoilt = bytearray(GOOD)
        spoilt[place] ^= 1 << chance.randrange(8)
        with pytest.raises(verify_proof.Wrong) as caught:
            judged(bytes(spoilt))
        where = f"part {number} of the archive" if place < start + 512 else name
        assert str(caught.value).startswith(where), (place - start, str(caught.value))


@given(st.integers(0, len(GOOD) - 1))
def test_a_cut_off_archive_is_none(length: int) -> None:
    with pytest.raises(verify_proof.Wrong):
        judged(GOOD[:length])


def with_run(edit: Callable[[dict[str, Any]], None]) -> Files:
    files = parts()
    document = verify_proof.load(files["proofs/run_1.json"])
    edit(document)
    del document["document_sha256"]
    files["proofs/run_1.json"] = canonical(document | {"document_sha256": sha256(canonical(document)).hex()})
    return files


def without_checkpoint() -> Files:
    return {name: data for name, data in parts().items() if name not in {"checkpoint", "proofs/run_1.json"}}


def bad_archives() -> Iterator[bytes]:
    """Archives whose manifests fit, and which are wrong."""
    tree = "proofs/tree/000001.txt"
    for name, value in (
        *(("format", "x"), ("project_id", "proj_2"), ("made_at", [1]), ("made_at", 5), ("log_size", "40")),
        *(("log_size", MINE[-1]["position"] - 1), ("log_size", True), ("events", 1), ("first_position", None)),
        *(("last_position", 1), ("checkpoint", None), ("checkpoint", 5), ("withheld", {}), ("parts", {})),
        *(("parts", []), ("left_out", {}), ("left_out", [{"what": "x"}]), ("more", 1)),
    ):
        yield archive(**{name: value})
    files = parts()
    manifest = sealed(told(files))
    yield packed(files)
    yield packed(files | {"manifest.json": manifest.replace(b'":', b'": ', 1)})
    yield packed(files | {"manifest.json": manifest.replace(b"They are", b"They arf")})
    yield packed(files | {"manifest.json": b"[]"})
    yield packed({"manifest.json": manifest} | files)
    yield packed(files | {"manifest.json": manifest}, mtime=1)
    yield packed(files | {"manifest.json": sealed(told(files)), "more": b""})
    yield packed(files | {"cases/000001.jsonl": b"{}\n", "manifest.json": manifest})
    yield GOOD[:105] + b"7" + GOOD[106:]
    yield GOOD[: next(end for name, _, end in places(GOOD) if name.startswith("cases")) - 510]
    yield GOOD + b"\0"
    yield GOOD[:-1]
    yield GOOD[:-512]
    yield b""
    for more in (b"x", base64.b64encode(bytes(31)) + b"\n", base64.b64encode(bytes(32)) + b"\n", b"not base64\n"):
        yield archive({**files, tree: files[tree] + more})
    yield archive({**files, tree: files[tree][:-45]})
    yield archive({**files, tree: files[tree][45:] + files[tree][:45]})
    yield archive({name: data for name, data in files.items() if name != tree})
    yield archive(without_checkpoint(), checkpoint=None)
    other = copy.deepcopy(MINE[3])
    other["payload"] = None
    other["salt"] = None
    swapped = files["events/000001.jsonl"].splitlines(keepends=True)
    yield archive({**files, "events/000001.jsonl": b"".join([*swapped[:3], canonical(other) + b"\n", *swapped[4:]])})
    yield archive({**files, "events/000001.jsonl": b"".join([swapped[1], swapped[0], *swapped[2:]])})
    yield archive({**files, "events/000001.jsonl": b"".join(swapped[:-1])})
    yield archive({**files, "events/000001.jsonl": b"[]\n" + b"".join(swapped)})
    yield archive({**files, "events/000001.jsonl": b'{"project_id":5}\n' + b"".join(swapped)})
    yield archive({**files, "checkpoint": signed(LOG.text(SIZE), signer(1, seed=9))})
    yield archive({**files, "checkpoint": signed(LOG.text(SIZE - 1), KEY)})
    twice = {**files, "checkpoint": files["checkpoint"]}
    data = packed(twice | {"manifest.json": manifest})
    [_, start, end] = next(place for place in places(data) if place[0] == "checkpoint")
    yield data[:end] + data[start:end] + data[end:]
    yield data[:start] + data[end:]
    yield archive(with_run(lambda document: document.update(project_id="proj_2")))
    yield archive(with_run(lambda document: document.update(checkpoint=signed(LOG.text(3), KEY).decode())))
    yield archive(with_run(lambda document: document.update(inclusion=[{"position": 1, "hashes": []}])))
    yield archive(with_run(lambda document: document["streams"][0].update(project_id="proj_2")))
    yield archive({**files, "proofs/run_1.json": b"{}"})
    elsewhere = with_run(_move_elsewhere)
    yield archive(elsewhere)
    yield archive({**files, "Cases/x": b""})
    yield packed({**files, "cases/" + "x" * 90: b"", "manifest.json": manifest})
    double = {"cases/000001.jsonl": files["cases/000001.jsonl"]}
    listed = told(files)
    listed["parts"] = [*listed["parts"], listed["parts"][-2]]
    yield packed(files)[:-1024] + packed(double)[:-1024] + packed({"manifest.json": sealed(listed)})
    long = verify_proof.PartHeader("manifest.json", verify_proof.MAX_DOCUMENT + 1, MADE_AT)
    yield packed(files)[:-1024] + verify_proof.header_of(long)


def _move_elsewhere(document: dict[str, Any]) -> None:
    """Make it the whole proof of a run of another project."""
    stream = document["streams"][0]
    event = stream["events"][0]
    for one in (document, stream, event):
        one["project_id"] = "proj_2"
    envelope = {name: event[name] for name in sorted(verify_proof.ENVELOPE)}
    leaf = sha256(b"\0" + canonical(envelope))
    event |= {"leaf": leaf.hex(), "chain": sha256(b"\x02" + bytes(32) + leaf).hex()}
    stream["head"]["chain"] = event["chain"]


BAD = list(bad_archives())


class Site(NamedTuple):
    """A check, and the function that it stands in."""

    function: str
    call: ast.Call


def sites(tree: ast.Module) -> list[Site]:
    """The calls of `require` in the part of the verifier that reads archives."""
    first = SOURCE[: SOURCE.index("# ---- archives of projects")].count("\n")
    last = SOURCE[: SOURCE.index("# ---- the command")].count("\n")
    return [
        Site(function.name, node)
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef) and first < function.lineno < last
        for node in ast.walk(function)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "require"
    ]


TREE = ast.parse(SOURCE)
SITES = sites(TREE)


def without(number: int) -> ModuleType:
    """The verifier without one of these checks; -1 leaves all of them in."""
    made = ModuleType(f"archive_verifier_without_{number}")
    sys.modules[made.__name__] = made  # Dataclasses look their module up.
    arguments = SITES[number].call.args if number >= 0 else [TREE]
    kept = arguments[0]
    arguments[0] = ast.fix_missing_locations(ast.copy_location(ast.Constant(value=True), kept)) if number >= 0 else kept
    try:
        exec(compile(TREE, made.__name__, "exec"), made.__dict__)  # noqa: S102 - our own file
    finally:
        arguments[0] = kept
    return made


def answers(verifier: ModuleType) -> list[str]:
    """What a verifier says of every bad archive."""
    policy = verifier.Policy(logs=[verifier.read_key(KEY.vkey)], every=True)
    said = []
    for data in BAD:
        read = verifier.Archive(policy)
        try:
            read.read(io.BytesIO(data))
            said.append(str(read.end()))
        except Exception as error:  # noqa: BLE001 - without a check anything may go wrong
            said.append(f"{type(error).__name__} {error}")
    return said


WHOLE = answers(without(-1))


def test_every_bad_archive_is_refused() -> None:
    assert [(number, said) for number, said in enumerate(WHOLE) if not said.startswith("Wrong ")] == []


@pytest.mark.parametrize("number", range(len(SITES)))
def test_without_a_check_a_bad_archive_gets_another_answer(number: int) -> None:
    """A check that nobody would miss is none."""
    site = SITES[number]
    assert answers(without(number)) != WHOLE, f"{site.function}: {ast.unparse(site.call)}"


def test_the_command_knows_the_word_and_the_form(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit codes are those of exports; what is spoilt beyond recognition is an archive by the word alone."""
    place, key = tmp_path / "a.tar", ["--key", KEY.vkey]
    place.write_bytes(GOOD)
    assert verify_proof.main([str(place), *key]) == verify_proof.main(["archive", str(place), *key]) == 0
    assert f"OK: {len(MINE)} events of project {PROJECT}" in capsys.readouterr().out
    assert verify_proof.main(["archive", str(place)]) == 3
    assert verify_proof.main(["archive", str(place), "--key", signer(1, seed=4).vkey]) == 1
    kept = tmp_path / "kept"
    kept.write_bytes(signed(f"{ORIGIN}\n{SIZE}\n{base64.b64encode(hashlib.sha256().digest()).decode()}\n", KEY))
    assert verify_proof.main(["archive", str(place), *key, "--checkpoint", str(kept)]) == 5
    place.write_bytes(b"x" * 600)
    capsys.readouterr()
    assert verify_proof.main(["archive", str(place), *key]) == 1
    assert "WRONG: part 1 of the archive" in capsys.readouterr().out
