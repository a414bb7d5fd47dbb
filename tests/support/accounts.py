"""People, projects and credentials for tests, made over HTTP as a client makes them."""

from __future__ import annotations

import secrets
from typing import Any

import httpx2


def bearer(secret: str) -> dict[str, str]:
    """The header that presents a secret."""
    return {"authorization": f"Bearer {secret}"}


def identity(subject: str | None = None, **more: Any) -> dict[str, Any]:
    """An identity as the web application sends it; a new person without a subject."""
    subject = subject or f"user-{secrets.token_hex(6)}"
    return {"provider": "example", "subject": subject, "email": f"{subject}@example.com", "name": subject, **more}


def sign_in(client: httpx2.Client, internal_token: str, subject: str | None = None, **more: Any) -> str:
    """Sign a person in by the device flow; returns an API key. `more` are further members of the identity."""
    started = checked(client.post("/v1/auth/device", json={"client_name": "tests"}))
    authorized = {"user_code": started["user_code"], "identity": identity(subject, **more)}
    checked(client.post("/v1/auth/device/authorize", json=authorized, headers=bearer(internal_token)))
    polled = checked(client.post("/v1/auth/device/poll", json={"device_code": started["device_code"]}))
    return str(polled["api_key"])


def create_project(client: httpx2.Client, key: str, name: str = "Test project") -> dict[str, Any]:
    """Create a project; returns the answer, whose `dsn` is shown here only once."""
    return checked(client.post("/v1/projects", json={"name": name}, headers=bearer(key)))


def create_credential(
    client: httpx2.Client, key: str, project_id: str, kind: str = "ci_deploy", **more: Any
) -> dict[str, Any]:
    """Create a credential (`ci_deploy`, or `automation_runner` with an automation_id); returns the answer."""
    body = {"kind": kind, "name": f"{kind} for tests", **more}
    headers = {**bearer(key), "idempotency-key": secrets.token_hex(12)}
    return checked(client.post(f"/v1/projects/{project_id}/credentials", json=body, headers=headers))


def checked(response: httpx2.Response) -> dict[str, Any]:
    """The JSON object of a 2xx answer. Fails with the whole answer otherwise."""
    assert response.is_success, (
        f"{response.request.method} {response.request.url}: {response.status_code} {response.text}"
    )
    answer: dict[str, Any] = response.json()
    return answer
