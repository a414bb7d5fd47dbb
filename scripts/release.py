"""What a release consists of, for `.github/workflows/release.yml` and for your own hands.

    python -m scripts.release notes v3.1.0    # checks that the tag fits, and prints its part of CHANGELOG.md
    python -m scripts.release sign dist       # writes dist/SHA256SUMS, signed with RELEASE_SIGNING_KEY
    python -m scripts.release key             # prints the key that verifies it, for you to publish

RELEASE_SIGNING_KEY is 32 bytes in hex or base64, as SERVICE_SIGNING_KEY is (`openssl rand -hex 32`). The signature is a
note, as those of the log are, and `scripts/verify_proof.py sums` checks it without any code from here.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from pathlib import Path

from service.release import VERSION
from service.settingvalues import BadValue, key_32
from service.tlog.notes import KeyPair, Signature, VerifierKey

ROOT = Path(__file__).resolve().parents[1]
SUMS = "SHA256SUMS"
SIGNER = "fencework/release"
"""The name of the key."""
_PART = re.compile(r"^## \[(?P<version>[^]]+)\][^\n]*\n(?P<text>.*?)(?=^## \[|\Z)", re.MULTILINE | re.DOTALL)


class NotReleasable(Exception):
    """Something is missing for a release. The message names what to do."""


def notes(tag: str, version: str, changelog: str) -> str:
    """The notes of a release: its part of the changelog. Raises NotReleasable."""
    if tag != f"v{version}" or re.search("[a-z]", version):
        raise NotReleasable(f"The tag {tag} is not that of version {version}: set VERSION in service/release.py first.")
    parts = {part["version"]: part["text"].strip() for part in _PART.finditer(changelog)}
    if not parts.get(version):
        raise NotReleasable(f"CHANGELOG.md has no part [{version}]: rename Unreleased, with the day.")
    if parts.get("Unreleased"):
        raise NotReleasable("CHANGELOG.md has changes under Unreleased: move them to the release.")
    return parts[version] + "\n"


def keys(secret: str) -> KeyPair:
    """The keys of a secret. Raises NotReleasable."""
    try:
        return KeyPair.derive(key_32(secret), "release")
    except BadValue as error:
        raise NotReleasable(f"RELEASE_SIGNING_KEY: {error}") from error


def public(pair: KeyPair) -> VerifierKey:
    """The key that verifies."""
    return pair.as_log(SIGNER)[0]


def signed_sums(folder: Path, pair: KeyPair) -> str:
    """The sums of the files in a folder, signed. `sha256sum --check` reads them too."""
    files = sorted(file for file in folder.iterdir() if file.is_file() and file.name != SUMS)
    if not files:
        raise NotReleasable(f"There is no file in {folder}.")
    text = "".join(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files)
    key = public(pair)
    return f"{text}\n{Signature(key.name, key.key_id, pair.ed25519.sign(text.encode())).line}"


def main(words: list[str]) -> None:
    """Carry out a command."""
    match words:
        case ["notes", tag]:
            sys.stdout.write(notes(tag, VERSION, (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")))
        case ["key"]:
            sys.stdout.write(public(keys(os.environ.get("RELEASE_SIGNING_KEY", ""))).vkey + "\n")
        case ["sign", folder]:
            sums = signed_sums(Path(folder), keys(os.environ.get("RELEASE_SIGNING_KEY", "")))
            (Path(folder) / SUMS).write_text(sums, encoding="utf-8")
        case _:
            raise NotReleasable(str(__doc__))


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except NotReleasable as error:
        sys.exit(str(error))
