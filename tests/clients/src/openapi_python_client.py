"""The path with a client that openapi-python-client made; runs in the generators' own environment."""

from __future__ import annotations

import os
from http import HTTPStatus
from typing import TypeVar

from generated import AuthenticatedClient, Client
from generated.api.auth import authorize_device, poll_device, start_device
from generated.api.cases import list_cases, read_case
from generated.api.credentials import create_credential
from generated.api.ingest import record_log
from generated.api.projects import create_project
from generated.models import (
    AuthorizeDevice,
    CaseList,
    CaseRecord,
    ClosedErrorEnvelope,
    CreateCredential,
    CreateCredentialKind,
    CreateProject,
    CredentialCreatedBody,
    DeviceAuthorized,
    DeviceStarted,
    IdentityBody,
    LogAccepted,
    LogEvent,
    PollDevice,
    ProjectCreatedBody,
    SignInAuthorizedBody,
    StartDevice,
)

T = TypeVar("T")
BASE_URL = os.environ["CLIENT_BASE_URL"]
SUBJECT = os.environ["CLIENT_SUBJECT"]


def client_of(secret: str) -> AuthenticatedClient:
    return AuthenticatedClient(base_url=BASE_URL, token=secret, raise_on_unexpected_status=True)


def must(kind: type[T], answer: object) -> T:
    """The answer as the type that it has to have."""
    assert isinstance(answer, kind), answer
    return answer


def main() -> None:
    anyone = Client(base_url=BASE_URL, raise_on_unexpected_status=True)
    started = must(DeviceStarted, start_device.sync(client=anyone, body=StartDevice(client_name="python")))
    identity = IdentityBody(provider="example", subject=SUBJECT, email=f"{SUBJECT}@example.com")
    stood = AuthorizeDevice(user_code=started.user_code, identity=identity)
    internal = client_of(os.environ["CLIENT_INTERNAL_TOKEN"])
    must(SignInAuthorizedBody, authorize_device.sync(client=internal, body=stood))
    polled = poll_device.sync(client=anyone, body=PollDevice(device_code=started.device_code))
    owner = client_of(must(DeviceAuthorized, polled).api_key)

    key, wish = f"{SUBJECT}-project", CreateProject(name="Shop")
    project = must(ProjectCreatedBody, create_project.sync(client=owner, body=wish, idempotency_key=key))
    replay = create_project.sync_detailed(client=owner, body=wish, idempotency_key=key)
    assert must(ProjectCreatedBody, replay.parsed).id == project.id
    assert replay.headers["idempotent-replayed"] == "true"
    assert project.dsn is not None

    event = LogEvent.from_dict({"message": "Order 4711 failed", "level": "error"})
    accepted = must(LogAccepted, record_log.sync(client=client_of(project.dsn), body=event))
    assert accepted.ok is True
    assert accepted.accepted is True

    cases = must(CaseList, list_cases.sync(project.id, client=owner, limit=10))
    assert [case.id for case in cases.cases] == [accepted.case_id]
    found = must(CaseRecord, read_case.sync(cases.cases[0].id, client=owner))
    assert found.title == "Order 4711 failed"

    asked = CreateCredential(kind=CreateCredentialKind.CI_DEPLOY, name="CI")
    key = f"{SUBJECT}-ci"
    made = create_credential.sync(project.id, client=owner, body=asked, idempotency_key=key)
    assert "deploys:write" in must(CredentialCreatedBody, made).scopes
    again = create_credential.sync_detailed(project.id, client=owner, body=asked, idempotency_key=key)
    assert again.status_code == HTTPStatus.CONFLICT
    assert must(ClosedErrorEnvelope, again.parsed).error.code == "credential_already_created"


main()
