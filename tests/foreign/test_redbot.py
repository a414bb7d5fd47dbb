"""REDbot, a lint of HTTP, finds no fault in the caching of public queries (G-163)."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.support.accounts import sign_in
from tests.support.server import ServerHandle

pytestmark = pytest.mark.foreign

PROGRAM = Path(__file__).parents[2] / ".redbot" / "venv" / "bin" / "redbot"
FINE = {"GOOD", "INFO"}


def notes_on(url: str) -> dict[str, str]:
    """The notes of REDbot on an address, as levels by their names, after its conditional requests."""
    done = subprocess.run([PROGRAM, "-o", "har", url], check=True, capture_output=True, timeout=120)
    [entry] = msgspec.json.decode(done.stdout)["log"]["entries"]
    notes: list[dict[str, Any]] = entry["_red_messages"]
    return {note["note_id"]: note["level"] for note in notes}


def test_public_queries_are_cached_without_fault(server: ServerHandle) -> None:
    """Stored, never served without being validated, and validated by the tag. What is gone is not stored."""
    with server.client() as client:
        owner = {"authorization": f"Bearer {sign_in(client, server.internal_token, 'redbot')}"}
        project = client.post("/v1/projects", json={"name": "redbot"}, headers=owner).json()["id"]
        home = f"/v1/projects/{project}/public-queries"
        made = client.post(home, json={"blueprint_id": "top-events"}, headers=owner).json()
        url = f"{server.base_url}/v1/public/q/{made['publication_id']}"
        found = notes_on(url)
        assert {name: level for name, level in found.items() if level not in FINE} == {}
        assert {"STORE_STORABLE", "FRESHNESS_NO_CACHE", "INM_304", "CL_CORRECT"} <= set(found)
        client.delete(f"{home}/{made['publication_id']}", headers=owner).raise_for_status()
    found = notes_on(url)
    assert {name: level for name, level in found.items() if level not in FINE} == {}
    assert {"STORE_NO_STORE", "STATUS_NOT_FOUND"} <= set(found)
