"""Write the bill of materials of the service, in CycloneDX 1.6: `python -m scripts.sbom > sbom.cdx.json`.

It is made from the hashed lock alone, `requirements/runtime.txt`: name, version and hashes of each package, and the
packages that need it. Each build of the wheel puts it into `.dist-info/sboms` (PEP 770), so it is in the image too.
The same lock makes the same bytes. `setup.py` runs this file, which needs the standard library alone.
"""

from __future__ import annotations

import json
import re
import sys
import uuid
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
LOCK = "requirements/runtime.txt"
NAME = "fencework-core.cdx.json"
"""The name of the file in a wheel."""
_PIN = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^ ;\\]+)(?: *; *(?P<marker>[^\\]+))?")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_VIA = re.compile(r"^ {4}# (?:via(?: (?P<one>\S.*))?|  (?P<more>\S.*))$")


class Pin(NamedTuple):
    """A package of the lock: the hashes of its files, and the packages that need it. `wanted`: we name it ourselves."""

    name: str
    version: str
    marker: str
    hashes: list[str]
    needed_by: list[str]
    wanted: bool

    @property
    def purl(self) -> str:
        """Its package URL."""
        return f"pkg:pypi/{re.sub('[-_.]+', '-', self.name).lower()}@{self.version}"


def pins_of(lock: str) -> list[Pin]:
    """Read a lock as pip-compile writes it. Raises ValueError for a package without a hash."""
    found: list[Pin] = []
    for line in lock.splitlines():
        if pin := _PIN.match(line):
            found.append(Pin(pin["name"], pin["version"], (pin["marker"] or "").strip(), [], [], wanted=False))
        elif found and (digest := _HASH.search(line)):
            found[-1].hashes.append(digest[1])
        elif found and (via := _VIA.match(line)) and (by := via["one"] or via["more"]):
            if by.startswith("-r "):
                found[-1] = found[-1]._replace(wanted=True)
            elif not by.startswith("-c "):
                found[-1].needed_by.append(by)
    if bare := [pin.name for pin in found if not pin.hashes]:
        raise ValueError(f"The lock has no hash of {', '.join(bare)}.")
    return found


def document(lock: str, name: str, version: str) -> dict[str, Any]:
    """The bill of a distribution that is installed with a lock."""
    pins = pins_of(lock)
    root = f"pkg:pypi/{name}@{version}"
    needs: dict[str, list[str]] = {root: [pin.purl for pin in pins if pin.wanted]}
    refs = {pin.name: pin.purl for pin in pins}
    for pin in pins:
        needs.setdefault(pin.purl, [])
        for by in pin.needed_by:
            needs.setdefault(refs[by], []).append(pin.purl)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": uuid.uuid5(uuid.NAMESPACE_URL, f"{root}\n{lock}").urn,
        "version": 1,
        "metadata": {"component": {"type": "application", "bom-ref": root, **_named(name, version, root)}},
        "components": [_component(pin) for pin in pins],
        "dependencies": [{"ref": ref, "dependsOn": sorted(others)} for ref, others in sorted(needs.items())],
    }


def _component(pin: Pin) -> dict[str, Any]:
    """A package. Its hashes are those of its files, of which an installation takes one."""
    files = [{"alg": "SHA-256", "content": digest} for digest in sorted(pin.hashes)]
    marker = [{"name": "marker", "value": pin.marker}] if pin.marker else []
    return {
        "type": "library",
        "bom-ref": pin.purl,
        **_named(pin.name, pin.version, pin.purl),
        "externalReferences": [{"type": "distribution", "url": pin.purl, "hashes": files}],
        **({"properties": marker} if marker else {}),
    }


def _named(name: str, version: str, purl: str) -> dict[str, str]:
    return {"name": name, "version": version, "purl": purl}


def text(root: Path, name: str, version: str) -> str:
    """The bill of the distribution in a folder with its lock, as JSON."""
    lock = (root / LOCK).read_text(encoding="utf-8")
    return json.dumps(document(lock, name, version), indent=1) + "\n"


def main() -> None:
    """Write the bill of this checkout."""
    from service.release import VERSION

    sys.stdout.write(text(ROOT, "fencework-core", VERSION))


if __name__ == "__main__":
    main()
