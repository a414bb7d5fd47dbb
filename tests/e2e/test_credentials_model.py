"""Credentials of a running service against a plain dict: whatever the order of making, using, expiring and ending.

The model holds what each credential must be able to do; the service is asked over HTTP, and every list must show
exactly the model. Time is moved with the service's clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule, run_state_machine_as_test

from tests.support import seen
from tests.support.server import ServerHandle

LIFETIMES = [300, 900, 86_400]


@dataclass
class Modelled:
    """What a credential must look like and be able to do."""

    id: str
    secret: str
    kind: str
    body: dict[str, Any]
    key: str
    expires_at: int
    revoked: tuple[int, str | None] | None = None
    used: bool = False

    def alive(self, now: int) -> bool:
        return self.revoked is None and now < self.expires_at


class Credentials(RuleBasedStateMachine):
    """One project of one owner."""

    server: ServerHandle
    credentials = Bundle("credentials")

    def __init__(self) -> None:
        super().__init__()
        self.client = seen.client(self.server.base_url, timeout=20)
        self.database = psycopg.connect(self.server.database_url or "", autocommit=True)
        started = self.call("POST", "/v1/auth/device", None, {})
        identity = {"provider": "email", "subject": started["user_code"], "email": "model@example.com"}
        body = {"user_code": started["user_code"], "identity": identity}
        self.call("POST", "/v1/auth/device/authorize", self.server.internal_token, body)
        polled = self.call("POST", "/v1/auth/device/poll", None, {"device_code": started["device_code"]})
        self.owner = polled["api_key"]
        self.project = self.call("POST", "/v1/projects", self.owner, {"name": "model"}, status=201)["id"]
        self.path = f"/v1/projects/{self.project}/credentials"
        self.model: dict[str, Modelled] = {}
        self.keys = 0

    def teardown(self) -> None:
        self.client.close()
        self.database.close()

    def call(
        self,
        method: str,
        path: str,
        secret: str | None,
        body: Any = None,
        *,
        status: int | None = 200,
        key: str | None = None,
    ) -> Any:
        headers = {"authorization": f"Bearer {secret}"} if secret else {}
        if key:
            headers["idempotency-key"] = key
        answer = self.client.request(method, path, headers=headers, json=body)
        assert status is None or answer.status_code == status, answer.text
        return answer.json() if status is not None else answer

    @property
    def now(self) -> int:
        """The service's clock."""
        [[now]] = self.database.execute("select floor(extract(epoch from service_now()))::bigint").fetchall()
        return int(now)

    @rule(
        target=credentials,
        kind=st.sampled_from(["ci_deploy", "automation_runner"]),
        lifetime=st.sampled_from([None, *LIFETIMES]),
    )
    def create(self, kind: str, lifetime: int | None) -> Modelled:
        self.keys += 1
        body: dict[str, Any] = {"kind": kind, "name": f"n{self.keys}"}
        if kind == "automation_runner":
            body["automation_id"] = "nightly"
        if lifetime is not None:
            body["expires_in_seconds"] = lifetime
        made = self.call("POST", self.path, self.owner, body, key=f"k{self.keys}")
        assert made["expires_at"] == made["created_at"] + (lifetime or 7_776_000)
        modelled = Modelled(made["id"], made["credential"], kind, body, f"k{self.keys}", made["expires_at"])
        assert made["id"] not in self.model
        self.model[made["id"]] = modelled
        return modelled

    @rule(known=credentials)
    def create_again(self, known: Modelled) -> None:
        """The same request makes nothing and tells what it made."""
        before = self.now
        error = self.call("POST", self.path, self.owner, known.body, status=409, key=known.key)["error"]
        assert error["code"] == "credential_already_created"
        told = error["details"]["credential"]
        assert told["id"] == known.id
        assert "credential" not in told
        self.check(told, known, before, self.now)

    @rule(known=credentials)
    def create_something_else(self, known: Modelled) -> None:
        body = {**known.body, "name": "other"}
        error = self.call("POST", self.path, self.owner, body, status=422, key=known.key)["error"]
        assert error["code"] == "idempotency_key_reused"

    @rule(known=credentials)
    def use(self, known: Modelled) -> None:
        """A live CI credential records a deploy, a live runner reads runs, a dead one is 401."""
        before = self.now
        if known.kind == "ci_deploy":
            answer = self.call("POST", "/v1/deploys/", known.secret, {"version": "1.0.0"}, status=None)
            alive, wrong = 202, ("GET", self.path)
        else:
            # Not its route: 403 while live, 401 afterwards.
            answer = self.call("POST", "/v1/deploys/", known.secret, {"version": "1.0.0"}, status=None)
            alive, wrong = 403, ("GET", self.path)
        refused = self.call(*wrong, known.secret, status=None)
        expected = (alive, 403) if known.alive(before) else (401, 401)
        if known.alive(before) == known.alive(self.now):  # it did not expire in between
            assert (answer.status_code, refused.status_code) == expected, answer.text
            known.used = known.used or known.alive(before)

    @rule(known=credentials, reason=st.sampled_from([None, "leaked", "rotated"]))
    def revoke(self, known: Modelled, reason: str | None) -> None:
        body = {} if reason is None else {"reason": reason}
        before = self.now
        ended = self.call("POST", f"/v1/project-credentials/{known.id}/revoke", self.owner, body)
        if known.revoked is None:
            known.revoked = (ended["revoked_at"], reason)
        assert (ended["revoked_at"], ended["revoke_reason"]) == known.revoked
        self.check(ended, known, before, self.now)

    @rule(known=consumes(credentials))
    def wait_until_it_expires(self, known: Modelled) -> None:
        left = known.expires_at - self.now
        if left > 0:
            self.server.advance(left)
        answer = self.call("POST", "/v1/deploys/", known.secret, {"version": "1.0.0"}, status=None)
        assert answer.status_code == 401

    @rule(seconds=st.sampled_from([1, 60, 299, 600]))
    def wait(self, seconds: int) -> None:
        self.server.advance(seconds)

    def check(self, shown: dict[str, Any], known: Modelled, before: int, after: int) -> None:
        """A credential as shown is as modelled; where it expired between the two times, either is right."""
        assert (shown["kind"], shown["name"]) == (known.kind, known.body["name"])
        assert shown["automation_id"] == known.body.get("automation_id")
        assert (shown["revoked_at"], shown["revoke_reason"]) == (known.revoked or (None, None))
        if known.alive(before) == known.alive(after):
            assert shown["active"] is known.alive(after)
        if known.used:
            assert shown["last_used_at"] is not None

    @invariant()
    def lists(self) -> None:
        before = self.now
        items = self.call("GET", self.path, self.owner)["credentials"]
        after = self.now
        assert {item["id"] for item in items} == set(self.model)
        order = [(item["created_at"], item["id"]) for item in items]
        assert order == sorted(order, reverse=True)
        for item in items:
            assert "credential" not in item
            self.check(item, self.model[item["id"]], before, after)


@pytest.mark.slow
def test_the_service_agrees_with_the_model(server: ServerHandle) -> None:
    """Two hundred and more steps in a dozen projects."""

    class Bound(Credentials):
        pass

    Bound.server = server
    run_state_machine_as_test(
        Bound,
        settings=settings(
            max_examples=5,
            stateful_step_count=25,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        ),
    )
