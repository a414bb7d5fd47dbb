"""The verifier over exports and checkpoints: growth passes, and what was changed below a kept checkpoint is found."""

from __future__ import annotations

import io
import json
import random
import subprocess
import sys
from pathlib import Path

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from scripts import verify_proof
from scripts.verify_proof import Checkpoint, Fork, KeptLeaves, Wrong, check_export
from tests.support import few_or_many
from tests.support.outsiders.logs import (
    Log,
    canonical,
    consistency,
    copied_log,
    event_of,
    inclusion,
    make_log,
    rehash,
    root_of,
    sha256,
)
from tests.support.outsiders.signing import ORIGIN, signer
from tests.support.outsiders.tampering import TAMPERS, Tamper

ED, PQ = signer(1), signer(6)
KEYS = verify_proof.Policy(logs=[verify_proof.read_key(ED.vkey), verify_proof.read_key(PQ.vkey)], every=True)
LOG = make_log(300)


def checkpoint(log: Log, size: int | None = None, told: str = "kept") -> Checkpoint:
    """A checkpoint as the verifier has it after it has read a signed one; signing is tested in test_verify_notes."""
    size = len(log.events) if size is None else size
    return Checkpoint(ORIGIN, size, root_of(log.leaves[:size]), told)


def kept(log: Log) -> KeptLeaves:
    return KeptLeaves(b"".join(log.leaves), "the tiles")


def verified(data: bytes, *checkpoints: Checkpoint, **more: object) -> verify_proof.Findings:
    return check_export(io.BytesIO(data), list(checkpoints), **more)  # type: ignore[arg-type]


def complaint(data: bytes, *checkpoints: Checkpoint, **more: object) -> Wrong:
    with pytest.raises(Wrong) as caught:
        verified(data, *checkpoints, **more)
    return caught.value


# ---- trees --------------------------------------------------------------------------------------------------------


@given(st.integers(0, 70))
def test_a_tree_that_grows_has_the_roots_of_the_standard(size: int):
    leaves = [sha256(bytes([number])) for number in range(size)]
    tree = verify_proof.Tree()
    for leaf in leaves:
        tree.append(leaf)
    assert tree.root() == root_of(leaves)


@given(st.data())
def test_inclusion_holds_for_what_is_in_and_for_nothing_else(data: st.DataObject):
    """Another index, size, leaf or hash, one hash more or less: none leads to the root."""
    size = data.draw(st.integers(1, 70))
    index = data.draw(st.integers(0, size - 1))
    leaves = [sha256(bytes([number])) for number in range(size)]
    root, path = root_of(leaves), inclusion(index, leaves)
    assert verify_proof.root_of_path(index, size, leaves[index], path) == root
    assert len(path) <= 2 * max(1, (size - 1).bit_length())
    other = data.draw(st.integers(0, size - 1).filter(lambda number: number != index)) if size > 1 else None
    if other is not None:
        assert verify_proof.root_of_path(other, size, leaves[index], path) != root
        assert verify_proof.root_of_path(index, size, leaves[index], path[1:]) != root
        spoilt = [*path]
        place = data.draw(st.integers(0, len(path) - 1))
        spoilt[place] = sha256(path[place])
        assert verify_proof.root_of_path(index, size, leaves[index], spoilt) != root
    assert verify_proof.root_of_path(index, size, leaves[index], [*path, root]) != root
    assert verify_proof.root_of_path(index, size, sha256(leaves[index]), path) != root
    for index_, size_ in ((size, size), (-1, size), (0, 0)):
        assert verify_proof.root_of_path(index_, size_, leaves[index], path) is None


@given(st.data())
def test_growth_holds_for_a_continuation_and_for_nothing_else(data: st.DataObject):
    newer = data.draw(st.integers(1, 70))
    older = data.draw(st.integers(1, newer))
    leaves = [sha256(bytes([number])) for number in range(newer)]
    roots, path = (root_of(leaves[:older]), root_of(leaves)), consistency(older, leaves)
    assert verify_proof.roots_of_growth(older, newer, roots[0], path) == roots
    assert verify_proof.roots_of_growth(older, newer, roots[0], [*path, roots[0]]) != roots
    forged = list(leaves)
    forged[data.draw(st.integers(0, older - 1))] = bytes(32)
    wrong = verify_proof.roots_of_growth(older, newer, roots[0], consistency(older, forged))
    if older < newer:
        assert wrong != (roots[0], root_of(forged))
        assert verify_proof.roots_of_growth(older, newer, roots[0], path[:-1]) != roots
    assert verify_proof.roots_of_growth(newer + 1, newer, roots[0], path) is None


# ---- what is right ------------------------------------------------------------------------------------------------


def test_honest_growth_verifies():
    """Older checkpoints, of the empty log too, fit the export of a log that has grown; what is newer is told apart."""
    found = verified(LOG.export(), *(checkpoint(LOG, size) for size in (0, 1, 2, 3, 64, 255, 256, 299)))
    assert found == (300, 300, 299, [])
    assert verified(LOG.export(), checkpoint(LOG)).covered == 300
    assert verified(LOG.export()).covered == 0


def test_erased_payloads_are_told_with_the_deletion_that_says_so():
    log = copied_log(LOG)
    gone = [event for event in log.events if event["project_id"] == "proj_1"]
    told = event_of(50, 300, random.Random(1), "del_1") | {
        "topic": verify_proof.ERASURE,
        "payload": {"scope_id": "proj_1"},
    }
    log.events.append(told)
    rehash(log.events)
    for event in gone:
        event |= {"payload": None, "salt": None}
    found = verified(log.export(), checkpoint(log))
    [line] = found.said
    assert line.startswith(f"Erased: the payloads of {len(gone)} events of proj_1, by deletion del_1.")
    gone[0]["salt"] = "00"
    error = complaint(log.export(), checkpoint(log))
    assert (error.position, "the payload is missing" in str(error)) == (gone[0]["position"], True)


def test_an_export_of_one_project_is_proven_by_tiles():
    """Its tree cannot be made, but each event has its leaf in a tile; another leaf is found."""
    only = [event for event in LOG.events if event["project_id"] == "proj_1"]
    data, more = Log(only).export(), {"project": "proj_1", "kept": kept(LOG)}
    found = verified(data, checkpoint(LOG, 200), **more)
    assert (found.events, found.covered) == (len(only), 200)
    assert verified(data, checkpoint(LOG, 200), project="proj_1").covered == 0
    other = copied_log(LOG)
    other.events[only[3]["position"] - 1]["actor_id"] = "somebody"
    rehash(other.events)
    forged = Log([event for event in other.events if event["project_id"] == "proj_1"]).export()
    assert complaint(forged, checkpoint(LOG), **more).position == only[3]["position"]
    stranger = next(event for event in LOG.events if event["project_id"] == "proj_0")
    mixed = Log(sorted([*only, stranger], key=lambda event: event["position"])).export()
    assert "is among those of proj_1" in str(complaint(mixed, checkpoint(LOG), **more))
    assert "does not follow" in str(complaint(Log([*only[:3], only[1]]).export(), checkpoint(LOG), **more))


def test_an_export_that_begins_later_is_proven_by_tiles():
    data, more = Log(LOG.events[100:]).export(), {"after": 100, "kept": kept(LOG)}
    assert verified(data, checkpoint(LOG, 250), **more) == (200, 300, 250, [])
    assert complaint(Log(LOG.events[100:240]).export(), checkpoint(LOG, 250), **more).position == 241
    assert complaint(Log(LOG.events[101:]).export(), checkpoint(LOG, 250), **more).position == 101
    bad = dict(LOG.events[100], chain="x")
    if bad["revision"] > 1:
        assert complaint(Log([bad, *LOG.events[101:]]).export(), **more).position == 101


# ---- what is wrong ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tamper", TAMPERS, ids=lambda tamper: tamper.__name__)
def test_what_is_changed_below_a_kept_checkpoint_is_found_at_its_position(tamper: Tamper):
    """The long form is `scripts/torture.py outsiders`: 100 of 100 of each kind."""
    chance = random.Random(tamper.__name__)
    for _ in range(3):
        data, position = tamper(LOG, chance)
        error = complaint(data, checkpoint(LOG), kept=kept(LOG))
        assert not isinstance(error, Fork)
        assert error.position == position, error
        error = complaint(data, checkpoint(LOG))  # Without tiles or an older export it is found too.
        assert error.position is None or error.position >= position, error
        between = complaint(data, checkpoint(LOG, position - 1), checkpoint(LOG))
        assert between.position is None or between.position >= position, between


def test_without_kept_leaves_the_checkpoints_narrow_a_rewritten_history_down():
    """What fits together again lies between the last checkpoint that fits and the first that does not."""
    log = copied_log(LOG)
    for event in log.events[149:]:
        event["payload"] = {"forged": True}
    rehash(log.events)
    points = [checkpoint(LOG, size, f"size {size}") for size in (50, 120, 180, 300)]
    error = complaint(log.export(), *points)
    assert "another root than size 180: something between positions 121 and 180 was changed" in str(error)
    assert error.position is None
    older = KeptLeaves(b"".join(LOG.leaves[:130]), "the older export")
    assert "between positions 121 and 180" in str(complaint(log.export(), *points, kept=older))
    assert (
        complaint(log.export(), *points, kept=KeptLeaves(b"".join(LOG.leaves[:180]), "the older export")).position
        == 150
    )


@few_or_many(25, 100)
@given(st.data())
def test_no_byte_below_the_checkpoint_can_be_another(data: st.DataObject):
    """Any single byte, to any other value."""
    log = SMALL
    export = log.export()
    place = data.draw(st.integers(0, len(export) - 1))
    other = data.draw(st.integers(0, 255).filter(lambda value: value != export[place]))
    spoilt = export[:place] + bytes([other]) + export[place + 1 :]
    error = complaint(spoilt, checkpoint(log), kept=kept(log))
    line = export[:place].count(b"\n") + 1
    assert error.position == line or (export[place] == 10 and error.position in (line, line + 1))


SMALL = make_log(6, seed=3, streams=2)


def test_every_byte_of_a_line_counts():
    """Exhaustively, for one event among others."""
    lines = list(SMALL.lines())
    point, leaves = [checkpoint(SMALL)], kept(SMALL)
    for place in range(len(lines[2])):
        line = bytearray(lines[2])
        line[place] ^= 1 << place % 8
        spoilt = b"".join([*lines[:2], bytes(line), *lines[3:]])
        with pytest.raises(Wrong):
            check_export(io.BytesIO(spoilt), point, leaves)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("position", True, "position or revision is no number"),
        ("position", 2**53, "a number is no safe integer"),
        ("revision", "1", "position or revision is no number"),
        ("topic", None, "a member is not text"),
        ("salt", 5, "salt is not text"),
        ("salt", "AB", "the salt is not in hex"),
        ("payload", [1], "the payload is missing"),
        ("recorded_at", 5, "is no time"),
        ("recorded_at", "2023-11-14 22:13:20+00:00", "is no time"),
        ("recorded_at", "2023-11-14T22:13:20Z", "is no time"),
        ("recorded_at", "2023-11-14T22:13:20.000000+00:00", "is no time"),
        ("recorded_at", "2023-11-15T00:13:20+02:00", "is no time"),
        ("kind", "claim", "altered"),
        ("more", 1, "lacks members, or has others"),
    ],
)
def test_what_has_another_type_is_a_finding_at_its_position(name: str, value: object, said: str):
    log = copied_log(SMALL)
    log.events[3][name] = value
    data = b"".join(canonical(event) + b"\n" for event in log.events)
    error = complaint(data, checkpoint(SMALL))
    assert error.position == 4
    assert said in str(error)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"", "this is not a JSON document"),
        (b"null", "this is no event"),
        (b"[]", "this is no event"),
        (b"\xff\xfe", "this is not a JSON document"),
        (b'{"a":1,"a":2}', "an object has a member twice"),
        (b'{"a":NaN}', "no safe integer"),
        (b'{"a":1.5}', "no safe integer"),
        (b'{"a":-0}', "no safe integer"),
        (b'{"a":' + b"9" * 100_000 + b"}", "no safe integer"),
        (b'{"a": 1}', "not in the canonical form"),
        (b'{"b":1,"a":1}', "not in the canonical form"),
        (b'{"a":"\\u0041"}', "not in the canonical form"),
        (b'{"a":"\\ud800"}', "half a surrogate pair"),
        (b"[" * 200_000, "nested too deeply"),
        (b'{"a":' * 100_000, "nested too deeply"),
    ],
)
def test_what_is_no_event_is_told_in_a_sentence(line: bytes, said: str):
    lines = list(SMALL.lines())
    error = complaint(b"".join([*lines[:2], line + b"\n", *lines[3:]]), checkpoint(SMALL))
    assert (error.position, said in str(error)) == (3, True), error


def test_lines_are_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(verify_proof, "MAX_LINE", 2_000)
    lines = list(SMALL.lines())
    error = complaint(b"".join([*lines[:2], b'"' + b"x" * 3_000 + b'"\n']), checkpoint(SMALL))
    assert (error.position, str(error)) == (3, "a line is longer than 2000 bytes")
    assert str(complaint(b"".join(lines)[:-1])) == "the last line is cut off"


# ---- forks --------------------------------------------------------------------------------------------------------


def forked(chance: random.Random) -> tuple[Log, Log, int]:
    """Two logs that part somewhere, each with something behind."""
    size = chance.randrange(1, 40)
    first = make_log(size, seed=chance.randrange(10**6), streams=3)
    second, place = copied_log(first), chance.randrange(size)
    second.events[place]["payload"] = {"another": True}
    for log in (first, second):
        log.events += [event_of(1, number, chance) for number in range(chance.randrange(5))]
        rehash(log.events)
    return first, second, place + 1


def test_forks_are_named():
    """Two signed checkpoints, of the same size or not, each with the position where they part.

    The long form is `scripts/torture.py outsiders`: 1,000 of 1,000.
    """
    chance = random.Random(33)
    for _ in range(100):
        shown, hidden, position = forked(chance)
        size = chance.randrange(position, len(hidden.events) + 1)
        size = min(size, len(shown.events))
        other = checkpoint(hidden, size, "the other")
        with pytest.raises(Fork) as caught:
            verified(
                shown.export(), checkpoint(shown), other, kept=KeptLeaves(b"".join(hidden.leaves[:size]), "the tiles")
            )
        if size < len(shown.events):
            assert caught.value.position == position, caught.value
        with pytest.raises(Fork):
            verified(shown.export(), other, checkpoint(shown))


def test_a_changed_export_is_no_fork():
    """A checkpoint below the change fits, one above does not: the export is wrong, and the log signed one history."""
    data, _ = TAMPERS[5](LOG, random.Random(5))
    assert type(complaint(data, checkpoint(LOG, 1), checkpoint(LOG))) is Wrong


def test_kept_hashes_that_fit_no_checkpoint_are_not_believed():
    other = copied_log(LOG)
    other.events[0]["actor_id"] = "somebody"
    rehash(other.events)
    error = complaint(LOG.export(), checkpoint(LOG), kept=kept(other))
    assert "the tiles has another root than kept" in str(error) or "have another root" in str(error)
    with pytest.raises(Fork):
        verified(LOG.export(), checkpoint(LOG, 200), checkpoint(other), kept=kept(other))


# ---- the command --------------------------------------------------------------------------------------------------


def call(*words: object, data: bytes = b"") -> tuple[int, str, str]:
    command = [sys.executable, "-I", verify_proof.__file__, *map(str, words)]
    done = subprocess.run(command, input=data, capture_output=True, check=False)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def test_the_command_ends_with_the_code_of_what_it_found(tmp_path: Path):
    """0 to 5, from files as an outsider keeps them."""
    (tmp_path / "kept").write_bytes(LOG.checkpoint(ED, PQ, size=280))
    (tmp_path / "log.jsonl").write_bytes(LOG.export())
    (tmp_path / "keys").write_text(f"{ED.vkey}\n{PQ.vkey}\n")
    keys = ("--key", f"@{tmp_path / 'keys'}", "--checkpoint", tmp_path / "kept")
    LOG.save_tiles(tmp_path)
    code, said, _ = call(tmp_path / "log.jsonl", *keys)
    assert (code, said.splitlines()[-1]) == (
        0,
        "OK: 300 events of the log, up to position 300, as signed up to position 280",
    )
    assert "NOT PROVEN: the part above position 280" in said
    data, position = TAMPERS[1](LOG, random.Random(1))
    code, said, _ = call(*keys, "--tiles", tmp_path, data=data)
    assert (code, said.startswith(f"WRONG: position {position}: another event stands here")) == (1, True), said
    code, said, _ = call(*keys, "--older", tmp_path / "log.jsonl", data=data)
    assert (code, said.startswith(f"WRONG: position {position}: another event stands here")) == (1, True), said
    assert call(tmp_path / "log.jsonl")[0] == 3
    code, said, wrong = call("--checkpoint", tmp_path / "kept", data=data)
    assert (code, said, wrong.startswith("The call is wrong: checkpoints need the key")) == (2, "", True)
    other = copied_log(LOG)
    other.events[7]["payload"] = {"other": 1}
    rehash(other.events)
    (tmp_path / "other").write_bytes(other.checkpoint(ED, PQ, size=100))
    code, said, _ = call(tmp_path / "log.jsonl", *keys, "--checkpoint", tmp_path / "other")
    assert (code, said.startswith("FORK: ")) == (5, True)
    (tmp_path / "twin").write_bytes(other.checkpoint(ED, PQ, size=280))
    code, said, _ = call("--compare", *keys, "--checkpoint", tmp_path / "twin")
    assert (code, "both of size 280" in said) == (5, True)
    assert call("--compare", *keys)[0] == 0
    assert call(tmp_path / "none.jsonl", *keys)[0] == 1


def test_checkpoints_are_compared_by_a_proof_of_growth_or_by_tiles(tmp_path: Path):
    import base64

    for size in (100, 280):
        (tmp_path / str(size)).write_bytes(LOG.checkpoint(ED, size=size))
    path = [base64.b64encode(hash_).decode() for hash_ in consistency(100, LOG.leaves[:280])]
    (tmp_path / "proof").write_text(json.dumps({"from": 100, "to": 280, "hashes": path}))
    words = ["--key", ED.vkey, "--checkpoint", tmp_path / "280", "--checkpoint", tmp_path / "100"]
    code, said, _ = call(*words, "--consistency", tmp_path / "proof")
    assert (code, said.startswith("OK: ")) == (0, True)
    (tmp_path / "proof").write_text(json.dumps({"hashes": path[1:]}))
    assert call(*words, "--consistency", tmp_path / "proof")[0] == 1
    assert call(*words, "--compare")[0] == 3
    LOG.save_tiles(tmp_path)
    assert call(*words, "--compare", "--tiles", tmp_path)[0] == 0


def test_the_verifier_needs_cryptography_for_signatures_alone(tmp_path: Path):
    """Without any installed package an export is read, and a checkpoint is refused with a sentence."""
    (tmp_path / "kept").write_bytes(LOG.checkpoint(ED))
    words = [sys.executable, "-I", "-S", verify_proof.__file__]
    done = subprocess.run([*words], input=LOG.export(), capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (3, b"")
    words += ["--key", ED.vkey, "--checkpoint", str(tmp_path / "kept")]
    done = subprocess.run(words, input=LOG.export(), capture_output=True, check=False)
    assert (done.returncode, b"need the package `cryptography`" in done.stderr) == (4, True)


def test_exports_are_in_the_form_of_the_standard():
    """What the tests make up is what `service events export` writes: canonical lines."""
    for line in SMALL.lines():
        assert line[:-1] == rfc8785.dumps(json.loads(line))
