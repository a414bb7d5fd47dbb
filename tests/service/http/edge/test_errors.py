"""Every code has its envelope in both variants, and every exception an answer that says nothing of the inside."""

from __future__ import annotations

import gc
import json

import msgspec
import psycopg
import psycopg_pool
import pytest

from schemas.kernel.errors import CATALOGUE, ClosedErrorEnvelope, ErrorEnvelope
from service.auth.refusals import refusal
from service.eventstore.declare.commands import CommandFailed, KeyInProgress, KeyReused, OutcomeUnknown
from service.eventstore.declare.faults import StreamDamaged, StreamIsNewer
from service.fairness.turns import CommandNotDone
from service.http.answer.errors import encode_failure, failure_of
from service.http.declare.call import CheckedCall
from service.http.edge.exchange import HttpExchange
from statemachines.kernel.machine import PreconditionFailed, Rejection
from tests.service.http.edge.toy_api import THING, Toy
from tests.support.toy import toy_stream

RETRYABLE_400 = {"authorization_pending", "slow_down"}


@pytest.mark.parametrize("code", CATALOGUE)
def test_standard_envelope(code: str) -> None:
    """The standard envelope has exactly its six members, none of them empty but the details (R-ERR-01)."""
    failure = failure_of(refusal(code))
    body = encode_failure(failure, "req_1", closed=False)
    error = msgspec.json.decode(body, type=ErrorEnvelope).error
    assert set(json.loads(body)["error"]) == {"code", "message", "next_action", "request_id", "retryable", "details"}
    assert error.code == code
    assert error.message
    assert error.next_action
    assert error.request_id == "req_1"


@pytest.mark.parametrize("code", CATALOGUE)
def test_closed_envelope(code: str) -> None:
    """The closed envelope has no request id and no retryable, and fits its bounds (R-ERR-02, G-018)."""
    body = encode_failure(failure_of(refusal(code)), "req_1", closed=True)
    error = msgspec.json.decode(body, type=ClosedErrorEnvelope).error
    assert set(json.loads(body)["error"]) <= {"code", "message", "next_action", "details"}
    assert error.code == code


@pytest.mark.parametrize("code", CATALOGUE)
def test_retryability_follows_the_status(code: str) -> None:
    """429, 500, 502, 503 and 504 are retryable and say when; of the others only three are (R-ERR-08, R-ERR-09).

    Waiting does not help a release that cannot read what a later one wrote (G-149).
    """
    failure = failure_of(refusal(code))
    transient = failure.status in {429, 500, 502, 503, 504} and code != "stream_is_newer"
    assert CATALOGUE[code].retryable == (transient or code in RETRYABLE_400 | {"idempotency_in_progress"})
    assert ("retry-after" in failure.headers) == (transient or code == "idempotency_in_progress")
    assert (failure.headers.get("www-authenticate") == "Bearer") == (failure.status == 401)


class Unlisted(Rejection):
    code = "of_no_catalogue"


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (CommandNotDone(), 503, "service_unavailable"),
        (OutcomeUnknown(), 503, "service_unavailable"),
        (StreamIsNewer(toy_stream("secret"), "secret"), 503, "stream_is_newer"),
        (KeyInProgress(), 409, "idempotency_in_progress"),
        (KeyReused(), 422, "idempotency_key_reused"),
        (CommandFailed(), 400, "invalid_payload"),
        (psycopg.errors.UntranslatableCharacter("secret"), 400, "invalid_payload"),
        (psycopg.errors.NumericValueOutOfRange("secret"), 400, "invalid_payload"),
        (psycopg.errors.StatementTooComplex("secret"), 400, "invalid_payload"),
        (UnicodeDecodeError("utf-8", b"secret", 0, 1, "secret"), 400, "invalid_payload"),
        (RecursionError("secret"), 400, "invalid_payload"),
        (psycopg_pool.PoolTimeout("secret"), 503, "service_unavailable"),
        (psycopg_pool.TooManyRequests("secret"), 503, "service_unavailable"),
        (psycopg_pool.PoolClosed("secret"), 503, "service_unavailable"),
        (psycopg.OperationalError("secret"), 503, "service_unavailable"),
        (psycopg.errors.QueryCanceled("secret"), 503, "service_unavailable"),
        (psycopg.errors.UniqueViolation("secret"), 500, "internal_error"),
        (PreconditionFailed("Moved.", current_etag='"a"'), 412, "precondition_failed"),
        (StreamDamaged(toy_stream("secret"), "secret"), 500, "stream_damaged"),
        (Unlisted("secret"), 500, "internal_error"),
        (ValueError("secret"), 500, "internal_error"),
        (AssertionError("secret"), 500, "internal_error"),
    ],
)
async def test_exception_becomes_an_envelope(toy: Toy, error: Exception, status: int, code: str) -> None:
    """Whatever a handler raises, the client gets an envelope that tells nothing of the cause."""
    toy.store.error = error
    answer = await toy.send_as("owner", "POST", "/v1/broken", json={})
    body = msgspec.json.decode(answer.content, type=ErrorEnvelope).error
    assert (answer.status_code, body.code) == (status, code)
    assert body.request_id == answer.headers["x-service-request-id"]
    assert body.retryable == ((status in {503, 500} and code != "stream_is_newer") or code == "idempotency_in_progress")
    assert "secret" not in answer.text


async def test_details_of_a_rejection_are_shown(toy: Toy) -> None:
    """A rejection's message, next action and details are the answer's."""
    toy.store.error = PreconditionFailed("It moved.", next_action="Read it.", current_etag='"a:2"')
    answer = await toy.send_as("owner", "POST", "/v1/broken", json={})
    error = answer.json()["error"]
    assert (error["message"], error["next_action"]) == ("It moved.", "Read it.")
    assert error["details"] == {"current_etag": '"a:2"'}


async def test_routing_errors_have_the_envelope_of_their_path(toy: Toy) -> None:
    """404 is standard; 405 has the variant of its path and lists its methods (G-018)."""
    unknown = await toy.send_as("owner", "GET", "/v1/unheard-of")
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "not_found")
    closed = await toy.send_as("owner", "GET", "/v1/projects/proj_one1/secret")
    assert (closed.status_code, closed.headers["allow"]) == (405, "PUT")
    assert "request_id" not in closed.json()["error"]
    standard = await toy.send_as("owner", "DELETE", "/v1/things")
    assert (standard.status_code, standard.headers["allow"]) == (405, "GET, HEAD, POST")
    assert standard.json()["error"]["request_id"] == standard.headers["x-service-request-id"]
    unreadable = await toy.send_as("owner", "PUT", "/v1/projects/proj%2Fone1/secret")
    assert (unreadable.status_code, set(unreadable.json()["error"])) == (404, {"code", "message", "next_action"})
    exotic = await toy.request("TRACE", "/v1/logs/")
    assert (exotic.status_code, exotic.headers["allow"]) == (405, "OPTIONS, POST")


@pytest.mark.parametrize(
    ("method", "path", "who", "more"),
    [
        ("PUT", "/v1/projects/proj_one1/secret", None, {"json": THING}),
        ("PUT", "/v1/projects/proj_one1/secret", "runner", {"json": THING}),
        ("PUT", "/v1/projects/proj_none/secret", "owner", {"json": THING}),
        ("PUT", "/v1/projects/proj_one1/secret", "owner", {"content": b"x" * 201}),
        ("PUT", "/v1/projects/proj_one1/secret", "owner", {"content": b"{"}),
        ("PUT", "/v1/projects/proj_one1/secret", "owner", {"json": THING}),
    ],
)
async def test_early_failures_of_closed_routes_are_closed(
    toy: Toy, method: str, path: str, who: str, more: dict
) -> None:
    """401, 403, 404, 413, 400 and 428 of a closed route have its variant too (R-ERR-18)."""
    answer = await toy.send_as(who, method, path, **more)
    assert answer.status_code >= 400
    msgspec.json.decode(answer.content, type=ClosedErrorEnvelope)
    assert answer.headers["x-service-request-id"]


async def test_what_failed_leaves_nothing_of_its_request(toy: Toy) -> None:
    """Without the collector of cycles, and though somebody holds the exception: also what it came from is let go."""
    gc.collect()
    gc.disable()
    try:
        try:
            raise KeyError  # noqa: TRY301 - for its traceback
        except KeyError as first:
            toy.store.error = CommandNotDone()
            toy.store.error.__cause__ = first
        answer = await toy.send_as("owner", "POST", "/v1/broken", json={"note": "x"})
        assert answer.status_code == 503
        assert not [held for held in gc.get_objects() if isinstance(held, CheckedCall)]
        assert toy.store.error.__cause__.__traceback__ is None
    finally:
        gc.enable()


@pytest.mark.parametrize(("secret", "status"), [("owner", 200), ("nobody", 401)])
async def test_an_answered_request_is_gone_without_the_collector(toy: Toy, secret: str, status: int) -> None:
    """Refused or not: a flood of requests would otherwise stay until the collector passes over the whole heap (P25)."""
    gc.collect()
    gc.disable()
    try:
        answer = await toy.send_as(secret, "GET", "/v1/things")
        assert answer.status_code == status
        assert not [held for held in gc.get_objects() if isinstance(held, HttpExchange)]
    finally:
        gc.enable()
