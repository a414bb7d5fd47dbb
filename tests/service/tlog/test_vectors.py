"""Foreign vectors through our functions: Merkle proofs, a log of Tessera, and signatures of Wycheproof."""

from __future__ import annotations

import base64
import json
import lzma
from pathlib import Path
from typing import Any

from service.tlog.hashing import (
    ProofRefused,
    Span,
    Tile,
    check_consistency,
    check_inclusion,
    hash_leaf,
    hash_span,
    parse_tile_path,
    root_of,
    split_hashes,
    tile_at,
    tiles_of,
)
from service.tlog.notes import (
    COSIGNED_ML_DSA_44,
    ED25519,
    parse_checkpoint,
    parse_note,
    parse_vkey,
    verifies,
    verify_note,
)

FOLDER = Path(__file__).parents[2] / "foreign" / "transparency"
TESSERA = "example.com/log/testdata+33d7b496+AeHTu4Q3hEIMHNqc6fASMsq3rKNx280NI+oO5xCFkkSx"


def read(name: str) -> Any:
    return json.loads((FOLDER / name).read_text())


def unpacked(name: str) -> Any:
    return json.loads(lzma.decompress((FOLDER / f"{name}.json.xz").read_bytes()))


def raw(text: str | None) -> bytes:
    return base64.b64decode(text or "")


def refused(kind: str, case: dict[str, Any]) -> bool:
    proof = [raw(one) for one in case["proof"] or ()]
    try:
        if kind == "inclusion":
            check_inclusion(case["leafIdx"], case["treeSize"], raw(case["leafHash"]), proof, raw(case["root"]))
        else:
            check_consistency(case["size1"], case["size2"], raw(case["root1"]), raw(case["root2"]), proof)
    except ProofRefused:
        return True
    return False


def test_196_proofs_of_transparency_dev_are_judged_as_there() -> None:
    vectors = read("merkle.json")
    cases = [(kind, name, case) for kind in vectors for name, case in vectors[kind].items()]
    assert (len(cases), sum(case["wantErr"] for *_, case in cases)) == (196, 184)
    assert [name for kind, name, case in cases if refused(kind, case) != case["wantErr"]] == []


def test_the_log_of_tessera_has_our_roots_and_tiles() -> None:
    files = {name: base64.b64decode(content) for name, content in read("tessera.json").items()}
    seen = 0
    for size in range(1, 16):
        note = parse_note(files[f"checkpoint.{size}"])
        assert verify_note(note, [parse_vkey(TESSERA)])
        checkpoint = parse_checkpoint(note.text)
        tile = files[f"tile/0/000.p/{size}"]
        assert parse_tile_path("0", f"000.p/{size}") == Tile(0, 0, size) == tile_at(0, 0, size)
        assert tiles_of([Span(0, size)], size) == {Tile(0, 0, size)}
        assert checkpoint.size == size
        assert hash_span(Span(0, size), {(0, 0): tile}) == root_of(split_hashes(tile)) == checkpoint.root
        bundle, leaves = files[f"tile/entries/000.p/{size}"], []
        while bundle:
            length = int.from_bytes(bundle[:2])
            leaves.append(hash_leaf(bundle[2 : 2 + length]))
            bundle = bundle[2 + length :]
        assert leaves == split_hashes(tile)
        seen += 1
    assert seen == 15


def test_signatures_of_ed25519_are_judged_as_by_wycheproof() -> None:
    wrong, count = [], 0
    for group in unpacked("ed25519_test")["testGroups"]:
        key = bytes.fromhex(group["publicKey"]["pk"])
        for case in group["tests"]:
            count += 1
            found = verifies(ED25519, key, bytes.fromhex(case["sig"]), bytes.fromhex(case["msg"]))
            if found != (case["result"] == "valid"):
                wrong.append(case["tcId"])
    assert (count, wrong) == (151, [])


def test_signatures_of_ml_dsa_44_are_judged_as_by_wycheproof() -> None:
    """Cosignatures have no context, so a signature under one is none of ours."""
    wrong, count = [], 0
    for group in unpacked("mldsa_44_verify_test")["testGroups"]:
        for case in group["tests"]:
            count += 1
            key, signature = bytes.fromhex(group["publicKey"]), bytes.fromhex(case["sig"])
            found = verifies(COSIGNED_ML_DSA_44, key, signature, bytes.fromhex(case["msg"]))
            if found != (case["result"] == "valid" and not case.get("ctx")):
                wrong.append(case["tcId"])
    assert (count, wrong) == (180, [])
