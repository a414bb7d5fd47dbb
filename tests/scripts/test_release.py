"""A release has a bill of materials of its lock, notes from the changelog, and sums that the verifier checks alone."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from scripts import release, sbom, verify_proof
from scripts.pages.licences import pins
from scripts.release import NotReleasable, keys, notes, public, signed_sums
from service.release import VERSION
from tests.support.distributions import build, copied_checkout
from tests.support.outsiders.signing import signer

ROOT = Path(__file__).parents[2]
LOCK = (ROOT / sbom.LOCK).read_text(encoding="utf-8")
SECRET = "33" * 32
CHANGELOG = """# Changelog

## [Unreleased]

## [4.0.0] - 2027-01-01

### Added

- A thing.

## [3.0.0] - 2026-11-24

- Others.
"""


def test_the_bill_has_every_package_and_every_hash_of_the_lock() -> None:
    """The graph names packages of the bill alone, and all are reached from the service. It is always the same."""
    bill = sbom.document(LOCK, "fencework-core", VERSION)
    assert (bill["bomFormat"], bill["specVersion"], bill["version"]) == ("CycloneDX", "1.6", 1)
    assert {one["name"]: one["version"] for one in bill["components"]} == pins(ROOT / sbom.LOCK)
    digests = [file["content"] for one in bill["components"] for file in one["externalReferences"][0]["hashes"]]
    assert sorted(digests) == sorted(re.findall(r"sha256:([0-9a-f]{64})", LOCK))
    graph = {one["ref"]: one["dependsOn"] for one in bill["dependencies"]}
    root = bill["metadata"]["component"]["bom-ref"]
    reached, waiting = {root}, [root]
    while waiting:
        waiting += (new := set(graph[waiting.pop()]) - reached)
        reached |= new
    assert reached == graph.keys() == {root, *(one["bom-ref"] for one in bill["components"])}
    assert sbom.document(LOCK, "fencework-core", VERSION) == bill
    assert sbom.document(LOCK, "fencework-core", "4.0")["serialNumber"] != bill["serialNumber"]


def test_a_lock_without_a_hash_has_no_bill() -> None:
    with pytest.raises(ValueError, match=r"no hash of click\."):
        sbom.pins_of("click==8.1\nidna==3.0 \\\n    --hash=sha256:" + "a" * 64)


def test_a_wheel_has_its_bill(tmp_path: Path) -> None:
    """Where PEP 770 wants it, listed in RECORD. That of the runner, which needs nothing, has none."""
    checkout = copied_checkout(tmp_path / "checkout")
    wheel = build(checkout, tmp_path / "wheels", "fencework-core")
    with zipfile.ZipFile(wheel) as archive:
        [name] = (name for name in archive.namelist() if "/sboms/" in name)
        assert name == f"fencework_core-{VERSION}.dist-info/sboms/{sbom.NAME}"
        assert archive.read(name).decode() == sbom.text(ROOT, "fencework-core", VERSION)
        assert name in archive.read(f"fencework_core-{VERSION}.dist-info/RECORD").decode()
    with zipfile.ZipFile(build(checkout, tmp_path / "runner", "fencework-runner")) as archive:
        assert [name for name in archive.namelist() if "sboms" in name] == []


def test_the_notes_are_the_part_of_the_changelog() -> None:
    assert notes("v4.0.0", "4.0.0", CHANGELOG) == "### Added\n\n- A thing.\n"


@pytest.mark.parametrize(
    ("tag", "version", "changelog", "why"),
    [
        ("v4.0.1", "4.0.0", CHANGELOG, "set VERSION in service/release.py first"),
        ("v4.0.0.dev0", "4.0.0.dev0", CHANGELOG, "set VERSION in service/release.py first"),
        ("v5.0.0", "5.0.0", CHANGELOG, "has no part [5.0.0]"),
        (
            "v4.0.0",
            "4.0.0",
            CHANGELOG.replace("[Unreleased]\n", "[Unreleased]\n\n- More.\n"),
            "changes under Unreleased",
        ),
    ],
)
def test_what_is_no_release_has_none(tag: str, version: str, changelog: str, why: str) -> None:
    with pytest.raises(NotReleasable) as refused:
        notes(tag, version, changelog)
    assert why in str(refused.value)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """The files of a release with their signed sums."""
    for name in ("one.whl", "two.json"):
        (tmp_path / name).write_text(f"content of {name}")
    (tmp_path / release.SUMS).write_text(signed_sums(tmp_path, keys(SECRET)))
    return tmp_path


def verified(files: Path, *keys_given: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """The exit code and the last line of the verifier."""
    words = [word for key in keys_given for word in ("--key", key)]
    code = verify_proof.main(["sums", str(files / release.SUMS), *words])
    said = capsys.readouterr()
    return code, (said.out or said.err).splitlines()[-1]


def test_the_verifier_checks_the_sums(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It shares no code with what signs. `sha256sum` reads the same file."""
    vkey = public(keys(SECRET)).vkey
    assert verified(files, vkey, capsys=capsys) == (0, "OK: 2 of 2 files are those of the release")
    checked = subprocess.run(
        ["sha256sum", "--check", release.SUMS], cwd=files, capture_output=True, text=True, check=True
    )
    assert checked.stdout == "one.whl: OK\ntwo.json: OK\n"
    (files / "two.json").unlink()
    assert verified(files, vkey, capsys=capsys) == (0, "OK: 1 of 2 files are those of the release")
    (files / "one.whl").unlink()
    assert verified(files, vkey, capsys=capsys)[0] == 3


def test_the_verifier_refuses_the_rest(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A changed file, a changed sum, another key, a file elsewhere, and a call without the key."""
    vkey, sums = public(keys(SECRET)).vkey, files / release.SUMS
    good = sums.read_text()
    for other in (public(keys("44" * 32)).vkey, signer(1, release.SIGNER).vkey):
        code, said = verified(files, other, capsys=capsys)
        assert (code, "is not signed by the given key" in said) == (1, True)
    assert verified(files, capsys=capsys)[0] == 2
    assert verified(files, signer(6, release.SIGNER).vkey, capsys=capsys)[0] == 2
    sums.write_text(good.replace(good[:8], "00000000"))
    code, said = verified(files, vkey, capsys=capsys)
    assert (code, "does not hold" in said) == (1, True)
    pair = keys(SECRET)
    for text, why in (
        (f"{'0' * 64}  ../one.whl\n", "no sum of a file beside it"),
        (good.partition("\n")[0] + "\n" + good.partition("\n")[0] + "\n", "names a file twice"),
    ):
        key = public(pair)
        line = release.Signature(key.name, key.key_id, pair.ed25519.sign(text.encode())).line
        sums.write_text(f"{text}\n{line}")
        code, said = verified(files, vkey, capsys=capsys)
        assert (code, why in said) == (1, True)
    sums.write_text(good)
    (files / "one.whl").write_text("content of another")
    assert verified(files, vkey, capsys=capsys) == (1, "WRONG: one.whl differs from its sum")


def test_the_commands_sign_and_say_the_key(files: Path) -> None:
    """As the release workflow calls them."""

    def run(*words: str, secret: str = SECRET) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "scripts.release", *words]
        env = {"PATH": "/usr/bin:/bin", "RELEASE_SIGNING_KEY": secret}
        return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)

    (files / release.SUMS).unlink()
    assert run("sign", str(files)).returncode == 0
    assert (files / release.SUMS).read_text() == signed_sums(files, keys(SECRET))
    assert run("key").stdout == public(keys(SECRET)).vkey + "\n"
    assert run("key", secret="").stderr.startswith("RELEASE_SIGNING_KEY: must be exactly 32 bytes")
    assert f"is not that of version {VERSION}" in run("notes", "v0.0.1").stderr
    assert json.loads(subprocess.check_output([sys.executable, "-m", "scripts.sbom"], cwd=ROOT))["components"]
