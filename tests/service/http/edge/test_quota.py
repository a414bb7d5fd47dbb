"""The quota's lock in the pipeline: what it closes, and what goes before it (G-007, G-072, R-ERR-07)."""

from __future__ import annotations

from typing import Any, cast

import pytest

from service.eventstore.declare.commands import Outcome
from service.http.edge.routes import all_endpoints, bind
from tests.service.http.edge.fakes import FENCED, PROJECT, FakeNotices
from tests.service.http.edge.toy_api import THING, Toy

FRAMES = f"/v1/projects/{PROJECT}/frames"
# What the document locks by name: source map contents, and raw replay data. It lists what stays open, and of the rest
# G-072 says that it does.
LOCKED = {
    ("POST", "/v1/cases/{case_id}/unmangle"),
    ("GET", "/v1/projects/{project_id}/session-recordings"),
}


def test_what_is_locked_is_what_the_document_locks() -> None:
    """Of all operations, those two and no other one."""
    for operation in (bound.operation for bound in bind(all_endpoints())):
        assert operation.fencing.quota_locked == ((operation.method, operation.path) in LOCKED), operation.path


def locked(toy: Toy) -> None:
    services = toy.edge.pipeline.services
    assert services is not None
    cast("FakeNotices", services.notices).locked = True


@pytest.mark.parametrize("key", [None, "k"])
@pytest.mark.parametrize("name", ["one", "plain"])
async def test_a_locked_operation_answers_402(toy: Toy, key: str | None, name: str) -> None:
    """With and without a key, whether it is carried out by a command or not; unlocked it answers as ever."""
    headers = {} if key is None else {"idempotency-key": key}
    body = {**THING, "name": name}
    assert (await toy.send_as("owner", "POST", FRAMES, json=body, headers=headers)).status_code == 200
    locked(toy)
    answer = await toy.send_as("owner", "POST", FRAMES, json=body, headers=headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (402, "quota_exceeded")
    assert answer.json()["error"]["retryable"] is False
    assert (await toy.send_as("owner", "GET", f"/v1/projects/{PROJECT}/things")).status_code == 200


@pytest.mark.parametrize(
    ("who", "project", "body", "status"),
    [
        ("nobody", PROJECT, THING, 401),
        ("runner", PROJECT, THING, 403),
        ("stranger", PROJECT, THING, 404),
        ("owner", FENCED, THING, 409),
        ("owner", PROJECT, {}, 400),
        ("owner", PROJECT, {**THING, "name": "missing"}, 404),
        ("owner", PROJECT, THING, 402),
    ],
)
async def test_every_earlier_check_wins(toy: Toy, who: str, project: str, body: Any, status: int) -> None:
    """Credential, kind, visibility, fence, form and existence are judged before the quota is."""
    locked(toy)
    path = f"/v1/projects/{project}/frames"
    answer = await toy.send_as(who, "POST", path, json=body, headers={"idempotency-key": "k"})
    assert answer.status_code == status, answer.text


async def test_what_was_answered_before_is_answered_again(toy: Toy) -> None:
    """A replay is no new read (G-008)."""
    locked(toy)
    toy.store.stored["k1"] = Outcome(200, b'{"stored":true}', {}, replayed=True)
    answer = await toy.send_as("owner", "POST", FRAMES, json=THING, headers={"idempotency-key": "k1"})
    assert (answer.status_code, answer.json()) == (200, {"stored": True})
