"""Independent verifiers accept every delivery, in either order of two signatures, and nothing that was changed (G-091).

Two packages of two languages, and a verifier of twenty lines in each of three more.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from service.webhooks.sending import make_secret
from tests.clients.test_generators import HERE, INSTALLED, MODULES, pytestmark
from tests.service.http.cases.test_acting import act
from tests.service.http.cases.test_case import log
from tests.service.webhooks.test_outbox import listener as listener  # noqa: PLC0414 (fixtures are found by name)
from tests.service.webhooks.test_outbox import register
from tests.service.webhooks.test_outbox import shop as shop  # noqa: PLC0414
from tests.support.api import ok
from tests.support.api import world as world  # noqa: PLC0414
from tests.support.listening import Arrived, Listener

__all__ = ["pytestmark"]

SRC = HERE / "src"
PROGRAMS: dict[str, list[str | Path]] = {
    "svix of PyPI": [INSTALLED / "venv" / "bin" / "python", SRC / "verify.py"],
    "svix of npm": ["node", SRC / "verify.cjs", MODULES / "svix"],
    "standardwebhooks of npm": ["node", SRC / "verify.cjs", MODULES / "standardwebhooks"],
    "Ruby": ["ruby", SRC / "verify.rb"],
    "PHP": ["php", SRC / "verify.php"],
    "Go": ["go", "run", SRC / "verify.go"],
}
SIGNED = ("webhook-id", "webhook-timestamp", "webhook-signature")


class Signed(NamedTuple):
    """A signed request, and whether it is to be accepted."""

    what: str
    secret: str
    headers: dict[str, str]
    body: str
    accepted: bool


def judged(arrived: Arrived, secrets: list[str]) -> list[Signed]:
    """A delivery as it came, its signatures the other way round, and what somebody has made of it."""
    body, headers = arrived.body.decode(), {name: arrived.headers[name] for name in SIGNED}
    signatures = headers["webhook-signature"].split(" ")
    assert len(signatures) == len(secrets)
    turned = {**headers, "webhook-signature": " ".join(signatures[::-1])}
    moved = {**headers, "webhook-timestamp": str(int(headers["webhook-timestamp"]) + 7)}
    found = []
    for secret in secrets:
        old = int(time.time()) - 301
        signed_then = Webhook(secret).sign(headers["webhook-id"], datetime.fromtimestamp(old, UTC), body)
        old_headers = {**headers, "webhook-timestamp": str(old), "webhook-signature": signed_then}
        found += [
            Signed("as it came", secret, headers, body, accepted=True),
            Signed("the other way round", secret, turned, body, accepted=True),
            Signed("a changed body", secret, headers, body[:-1] + " }", accepted=False),
            Signed("a changed id", secret, {**headers, "webhook-id": "whd_other"}, body, accepted=False),
            Signed("an old time", secret, old_headers, body, accepted=False),
            Signed("another time", secret, moved, body, accepted=False),
        ]
    return [*found, Signed("a wrong secret", make_secret(), headers, body, accepted=False)]


@pytest.fixture
async def requests(shop: Any, listener: Listener) -> list[Signed]:
    """What became of deliveries of every kind of signature: before a rotation, and during one."""
    owner, project_id, dsn = shop
    made = await register(owner, project_id, listener.url)
    one = f"/v1/projects/{project_id}/webhooks/{made['id']}"
    case_id = (await log(dsn, "boom é ✓ 😀"))["case_id"]
    await listener.until_arrived(1)
    turned = ok(await owner.post(f"{one}/rotate-secret"))
    ok(await owner.post(f"{one}/test"))
    await act(owner, case_id, "resolve", 1)
    await listener.until_arrived(3)
    before, *during = listener.arrived
    found = judged(before, [made["secret"]])
    for arrived in during:
        found += judged(arrived, [turned["secret"], made["secret"]])
    return found


def test_what_is_judged_is_told_apart_by_the_package_of_the_other_tests(requests: list[Signed]) -> None:
    """So that the rest compares verifiers, and no mistake of this file."""
    assert sum(one.accepted for one in requests) == 2 * (1 + 2 + 2)
    for one in requests:
        if one.accepted:
            Webhook(one.secret).verify(one.body, one.headers)
        else:
            with pytest.raises(WebhookVerificationError):
                Webhook(one.secret).verify(one.body, one.headers)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_verifier_accepts_deliveries_alone(requests: list[Signed], name: str) -> None:
    program = PROGRAMS[name]
    if shutil.which(program[0]) is None:
        pytest.skip(f"there is no {program[0]}")
    given = json.dumps([one._asdict() for one in requests])
    done = subprocess.run(program, input=given, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    verdicts = json.loads(done.stdout)
    wrong = [one.what for one, verdict in zip(requests, verdicts, strict=True) if verdict is not one.accepted]
    assert wrong == []
