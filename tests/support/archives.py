"""A project with something of everything, its archive over HTTP, and the verifier over that."""

from __future__ import annotations

import asyncio
import io
import json
import tarfile
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from scripts import verify_proof
from service.tlog.notes import KeyPair, parse_checkpoint, parse_note
from tests.support import proofs
from tests.support.api import Person, World, ok
from tests.support.server import SIGNING_KEY

PAIR = KeyPair.derive(bytes.fromhex(SIGNING_KEY), "log")
LARGE = {"context": {"text": "large " * 1000, "number": 1.5}}
REPORT = (
    "insert into reports (project_id, id, revision, run_id, automation_id, status, period_start, period_end, "
    "recorded_at, report_json, state) values (%s, 'rep_1', 1, 'run_1', 'weekly', 'recorded', 1, 2, 3, "
    "'{\"summary\": \"a\\nb\"}', '{}')"
)

UNSIGNED = (
    "select from unsequenced union all "
    "select from log_state where size > (select coalesce(max(c.size), 0) from log_checkpoints c)"
)
"""A row where events are not numbered, or not yet under a signed checkpoint: an archive ends at the last one."""


class Filled(NamedTuple):
    """An owner with a filled project; `secrets` are all that were made for it."""

    owner: Person
    project: dict[str, Any]
    secrets: list[str]

    @property
    def path(self) -> str:
        return f"/v1/projects/{self.project['id']}/archive"


async def fill(world: World, patch: pytest.MonkeyPatch) -> Filled:
    """Make a project with cases, errors small and large, analytics, deploys, a run with its proof, and a report."""
    owner = await world.sign_in()
    project = await owner.create_project()
    project_id = project["id"]
    made = await owner.create_credential(project_id, "ci")
    dsn = {"x-service-dsn": project["dsn"]}
    for body in (
        {"level": "error", "message": "small", "user": {"id": "u1"}},
        {"level": "error", "message": "large", "extra": LARGE},
    ):
        ok(await world.post("/v1/logs/", body, headers=dsn), 202)
    ok(await world.post("/v1/analytics/", {"event": "paid", "distinct_id": "u1"}, headers=dsn), 202)
    ci = world.having(made["credential"])
    deploy = await ci.post("/v1/deploys", {"version": "1", "environment": "production", "message": "first"}, key="d")
    assert deploy.is_success, deploy.text
    [case, *_] = ok(await owner.get(f"/v1/projects/{project_id}/cases"))["cases"]
    commented = await owner.post(
        f"/v1/cases/{case['id']}/comments", {"text": "seen", "case_revision": case["revision"]}, key="c"
    )
    assert commented.is_success, commented.text
    rotated = ok(await owner.post(f"/v1/projects/{project_id}/dsn/rotate", {}, key="rotate"))
    await world.sql(REPORT, project_id)
    patch.setattr(proofs, "PROJECT", project_id)
    await world.operate(proofs.record_chain)
    async with asyncio.timeout(10):
        while await world.sql(UNSIGNED):  # noqa: ASYNC110 - another process numbers and signs
            await asyncio.sleep(0.01)
    return Filled(owner, project, [project["dsn"], rotated["dsn"], made["credential"], owner.secret or ""])


def members(data: bytes) -> dict[str, bytes]:
    """The files of an archive, as a tar program has them."""
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        return {found.name: tar.extractfile(found).read() for found in tar}  # type: ignore[union-attr]


def lines(files: dict[str, bytes], kind: str) -> list[Any]:
    """The lines of a kind of files, in order."""
    return [json.loads(line) for name in sorted(files) if name.startswith(kind) for line in files[name].splitlines()]


def keys_of(files: dict[str, bytes]) -> list[str]:
    """The options that name the keys of the log, by the origin of the archive's checkpoint."""
    origin = parse_checkpoint(parse_note(files["checkpoint"]).text).origin
    return [word for key in PAIR.as_log(origin) for word in ("--key", key.vkey)]


def verify(data: bytes, place: Path, *options: str) -> int:
    """The exit code of the verifier over an archive."""
    place.write_bytes(data)
    return verify_proof.main(["archive", str(place), *options])


async def add(world: World, project_id: str, person: Person, role: str) -> None:
    """Give a person a role in a project."""
    from service.accounts.membership import set_member
    from statemachines.accounts.membership import Role

    await world.operate(lambda store: set_member(store, project_id, person.user_id, Role(role)))
