"""Every route with every kind of caller: the matrix of G-025, deny by default (R-AUTH-12, threats 1 and 2, P19)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from service.auth.authority import PrincipalKind as Kind
from service.http.cases.intake.sdks import POSTHOG
from service.http.declare.bound import TEST_CLOCK_PATH, Bound
from service.http.edge.routes import all_endpoints, bind
from tests.e2e.callers import STRONGEST, Callers, make_callers
from tests.support.server import ServerHandle

pytestmark = pytest.mark.shares_server

ROUTES = [bound for bound in bind(all_endpoints()) if bound.operation.path != TEST_CLOCK_PATH]
SIGNED = {"receive_billing_webhook"}
CLOSED_TO_SOME = [bound for bound in ROUTES if not bound.public]
OF_A_PROJECT = [bound for bound in CLOSED_TO_SOME if "{project_id}" in bound.operation.path]
WRONG = [
    "service_sk_" + "a" * 43,
    "service_ci_" + "a" * 43,
    "service_runner_" + "a" * 43,
    "service_dsn_" + "a" * 43,
    "garbage",
    "",
    "x" * 10_000,
]


@pytest.fixture(scope="module")
def callers(server: ServerHandle) -> Callers:
    return make_callers(server)


@pytest.fixture(scope="module")
def client(server: ServerHandle) -> Iterator[httpx2.Client]:
    with server.client() as anonymous:
        yield anonymous


def send(client: httpx2.Client, bound: Bound, path: str, secret: str | None) -> httpx2.Response:
    """Send a request that is refused for its form at the latest, so that nothing happens even where it is let in."""
    headers = {"idempotency-key": "matrix", "if-match": '"none"', "content-type": "application/json"}
    if secret is not None:
        headers["authorization"] = f"Bearer {secret}".strip()
    # A body that may hold the key has to be read for it: one that cannot be is 400 (G-175), and this one holds none.
    keyed = bound.operation.body.sdk is POSTHOG
    content = (b"{}" if keyed else b"[") if bound.takes_body else None
    return client.request(bound.operation.method, path, content=content, headers=headers)


def meaning(answer: httpx2.Response) -> tuple[int, Any]:
    """The part of a refusal that is equal for indistinguishable ones."""
    error = answer.json()["error"]
    return answer.status_code, {name: value for name, value in error.items() if name != "request_id"}


@pytest.mark.parametrize("bound", CLOSED_TO_SOME, ids=lambda bound: bound.name)
def test_only_declared_kinds_come_in(client: httpx2.Client, callers: Callers, bound: Bound) -> None:
    """A live credential of another kind is 403 `principal_not_allowed`, of an admitted kind never."""
    operation = bound.operation
    for kind, who in STRONGEST:
        answer = send(client, bound, callers.path_of(operation), callers.secrets[who])
        refused = answer.status_code == 403 and answer.json()["error"]["code"] == "principal_not_allowed"
        assert refused == (kind not in operation.who.principals), (who, answer.text)
        assert answer.status_code != 401


@pytest.mark.parametrize("bound", CLOSED_TO_SOME, ids=lambda bound: bound.name)
def test_without_a_live_credential_all_answers_are_one(client: httpx2.Client, callers: Callers, bound: Bound) -> None:
    """Nothing, garbage and well-formed unknown secrets get the same 401 (G-027, threat 5)."""
    path = callers.path_of(bound.operation)
    answers = [send(client, bound, path, secret) for secret in (None, *WRONG)]
    assert {answer.status_code for answer in answers} == {401}
    assert all(answer.headers["www-authenticate"] == "Bearer" for answer in answers)
    assert len({str(meaning(answer)) for answer in answers}) == 1
    assert answers[0].json()["error"]["code"] == "unauthenticated"


@pytest.mark.parametrize("bound", OF_A_PROJECT, ids=lambda bound: bound.name)
def test_a_foreign_project_is_an_absent_one(client: httpx2.Client, callers: Callers, bound: Bound) -> None:
    """The owner of another project, and every credential of another one, see what nobody owns (R-GEN-14)."""
    operation = bound.operation
    absent = send(
        client, bound, callers.path_of(operation, "proj_00000000000000000000000000"), callers.for_operation(operation)
    )
    foreign = send(
        client, bound, callers.path_of(operation, callers.foreign_project_id), callers.for_operation(operation)
    )
    assert absent.status_code == 404
    assert meaning(absent) == meaning(foreign)
    assert absent.json()["error"]["code"] == "project_not_found"
    if Kind.KEY in operation.who.principals:
        stranger = send(client, bound, callers.path_of(operation), callers.secrets["stranger"])
        assert meaning(stranger) == meaning(absent)


@pytest.mark.parametrize("bound", [bound for bound in ROUTES if bound.public], ids=lambda bound: bound.name)
def test_public_routes_ask_for_nothing(client: httpx2.Client, callers: Callers, bound: Bound) -> None:
    """They answer alike with no credential, a live one and a bad one; what has to be signed is not, here."""
    path = callers.path_of(bound.operation)
    statuses = {send(client, bound, path, secret).status_code for secret in (None, callers.secrets["owner"], "garbage")}
    assert len(statuses) == 1
    assert statuses.isdisjoint({401, 403}) or (statuses == {401} and bound.name in SIGNED)


@pytest.mark.parametrize("bound", ROUTES, ids=lambda bound: bound.name)
def test_other_methods_are_refused(client: httpx2.Client, callers: Callers, bound: Bound) -> None:
    """Each method that the path does not have is 405 with the ones it has."""
    path = callers.path_of(bound.operation)
    known = {other.operation.method for other in ROUTES if callers.path_of(other.operation) == path}
    for method in ("GET", "POST", "PUT", "PATCH", "DELETE", "TRACE", "PROPFIND"):
        answer = client.request(method, path)
        if method in known:
            assert answer.status_code != 405
        else:
            assert (answer.status_code, answer.json()["error"]["code"]) == (405, "method_not_allowed")
            assert set(answer.headers["allow"].split(", ")) - {"HEAD", "OPTIONS"} == known
