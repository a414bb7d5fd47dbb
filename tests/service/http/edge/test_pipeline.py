"""The order of checks (G-007), conditional requests (G-009), keys (G-008), ids (G-010) and path variants (G-016)."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from service.eventstore.declare.commands import Outcome
from service.http.body.parsing import MOST_VALUES, request_hash
from service.http.edge.pipeline import MAX_READING, MAX_RUNNING
from service.settingvalues import RATE_LIMITS
from tests.service.http.edge.fakes import FENCED, MEMBER, OWNER, PRINCIPALS, PROJECT
from tests.service.http.edge.toy_api import ETAG, THING, ThingRow, Toy, serving

SECRET = f"/v1/projects/{PROJECT}/secret"
THINGS = f"/v1/projects/{PROJECT}/things"
BIG = {"content": b"x" * 201}
CHUNKED = {"content": b"the same, unannounced"}
BAD = {"content": b"{", "headers": {"content-type": "application/json"}}


async def in_chunks(body: bytes) -> AsyncIterator[bytes]:
    yield body


def code(answer: Any) -> str:
    return str(answer.json()["error"]["code"])


@pytest.mark.parametrize(
    ("who", "project", "more", "status", "expected"),
    [
        # Each line has every later fault as well: the first check wins.
        ("nobody", "proj_none", BIG, 413, "payload_too_large"),
        ("nobody", "proj_none", BAD, 401, "unauthenticated"),
        ("nobody", "proj_none", CHUNKED, 401, "unauthenticated"),  # its size shows only to who reads it
        ("runner", "proj_none", BAD, 403, "principal_not_allowed"),
        ("member", "proj_none", BAD, 404, "project_not_found"),
        ("stranger", PROJECT, BAD, 404, "project_not_found"),
        ("member", FENCED, BAD, 403, "owner_required"),
        ("owner", FENCED, BAD, 409, "project_deletion_in_progress"),
        ("owner", PROJECT, CHUNKED, 413, "payload_too_large"),
        ("owner", PROJECT, BAD, 400, "invalid_payload"),
        ("owner", PROJECT, {"json": {**THING, "name": "missing"}}, 404, "alert_not_found"),
        ("owner", PROJECT, {"json": THING}, 428, "if_match_required"),
        ("owner", PROJECT, {"json": THING, "headers": {"if-match": "*"}}, 400, "invalid_if_match"),
        ("owner", PROJECT, {"json": THING, "headers": {"if-match": '"thing:1:6"'}}, 412, "precondition_failed"),
        ("owner", PROJECT, {"json": THING, "headers": {"if-match": ETAG}}, 200, None),
    ],
)
async def test_order_of_checks(
    toy: Toy, who: str, project: str, more: dict[str, Any], status: int, expected: str | None
) -> None:
    """Size, credential, kind, visibility, owner, fence, form, existence, precondition: in this order."""
    if more is CHUNKED:
        more = {"content": in_chunks(b"x" * 201)}
    answer = await toy.send_as(who, "PUT", f"/v1/projects/{project}/secret", **more)
    assert answer.status_code == status, answer.text
    assert expected is None or code(answer) == expected


async def test_rate_limit_comes_after_the_fence_and_before_form() -> None:
    """A request over the limit is refused before its body is looked at, but not before the fence."""
    async with serving(rate_limits=RATE_LIMITS) as toy:
        for _ in range(600):
            toy.edge.pipeline.limiter.take("key", "key", OWNER.id)
        limited = await toy.send_as("owner", "PUT", SECRET, **BAD)
        assert (limited.status_code, code(limited)) == (429, "rate_limited")
        fenced = await toy.send_as("owner", "PUT", f"/v1/projects/{FENCED}/secret", **BAD)
        assert fenced.status_code == 409


async def test_replay_comes_before_existence_and_precondition(toy: Toy) -> None:
    """A repeated request finds its answer although its resource is gone and its If-Match is missing."""
    toy.store.stored["k1"] = Outcome(200, b'{"stored":true}', {"etag": ETAG}, replayed=True)
    body = {**THING, "name": "missing"}
    answer = await toy.send_as("owner", "PUT", SECRET, json=body, headers={"idempotency-key": "k1"})
    assert (answer.status_code, answer.json()) == (200, {"stored": True})
    assert answer.headers["idempotent-replayed"] == "true"
    assert answer.headers["etag"] == ETAG


async def test_admission_comes_first(toy: Toy) -> None:
    """A process that is full, still starting or stopping answers 503 before anything else."""
    pipeline = toy.edge.pipeline
    for name, full in (("running", MAX_RUNNING), ("reading", MAX_READING)):
        setattr(pipeline, name, full)
        answer = await toy.send_as("nobody", "PUT", SECRET, **BIG)
        assert (answer.status_code, code(answer)) == (503, "service_unavailable")
        setattr(pipeline, name, 0)
    toy.store.loop.full = True
    assert (await toy.send_as("nobody", "PUT", SECRET, **BIG)).status_code == 503
    assert (await toy.send_as("owner", "GET", "/v1/things")).status_code == 200
    pipeline.services = None
    answer = await toy.send_as("owner", "GET", "/v1/things")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")


async def test_nothing_stays_counted_as_running(toy: Toy) -> None:
    """Refused and failed requests free their place."""
    for path in ("/v1/things", "/v1/broken"):
        await toy.send_as("owner", "POST", path, content=b"{", headers={"content-type": "application/json"})
    await toy.send_as("owner", "POST", "/v1/broken", json={})
    assert (toy.edge.pipeline.running, toy.edge.pipeline.reading) == (0, 0)


@pytest.mark.parametrize("tag", ["*", "abc", '"a", "b"', '"a"b', "'a'", '"a', 'w/"a"', '""a""', '"\x7f"', '"é"', ""])
async def test_malformed_if_match(toy: Toy, tag: str) -> None:
    """Anything but one quoted tag is 400 (G-009, threat 10)."""
    headers = [(b"authorization", b"Bearer owner"), (b"if-match", tag.encode("latin-1"))]
    answer = await toy.put(SECRET, json=THING, headers=headers)
    assert (answer.status_code, code(answer)) == (400, "invalid_if_match")


async def test_repeated_if_match(toy: Toy) -> None:
    """Two lines are 400 even when both hold the current tag."""
    headers = [("authorization", "Bearer owner"), ("if-match", ETAG), ("If-Match", ETAG)]
    answer = await toy.put(SECRET, json=THING, headers=headers)
    assert (answer.status_code, code(answer)) == (400, "invalid_if_match")


@pytest.mark.parametrize("tag", [f"W/{ETAG}", '""', '"thing:1:8"', '"a,b"'])
async def test_tags_that_do_not_match(toy: Toy, tag: str) -> None:
    """Weak, stale, future and foreign tags are 412 and told the current one."""
    answer = await toy.send_as("owner", "PUT", SECRET, json=THING, headers={"if-match": tag})
    assert (answer.status_code, code(answer)) == (412, "precondition_failed")
    assert answer.json()["error"]["details"] == {"current_etag": ETAG}


@pytest.mark.parametrize(
    ("key", "status"),
    [("k", 200), ("!" * 255, 200), ("~", 200), ("x" * 256, 400), ("", 400), ("a b", 400), ("é", 400), ("a\tb", 400)],
)
async def test_idempotency_key_form(toy: Toy, key: str, status: int) -> None:
    """1-255 visible ASCII characters (G-008)."""
    headers = [(b"authorization", b"Bearer owner"), (b"idempotency-key", key.encode("latin-1"))]
    answer = await toy.post(THINGS, json=THING, headers=headers)
    assert answer.status_code == status, answer.text
    if status == 400:
        assert answer.json()["error"]["details"]["invalid_fields"][0]["field"] == "idempotency-key"


async def test_repeated_and_missing_key(toy: Toy) -> None:
    """Two key lines are refused; a required one that is missing has its own code."""
    headers = [("authorization", "Bearer owner"), ("idempotency-key", "a"), ("idempotency-key", "a")]
    twice = await toy.post(THINGS, json=THING, headers=headers)
    assert (twice.status_code, code(twice)) == (400, "invalid_payload")
    missing = await toy.send_as("owner", "POST", THINGS, json=THING)
    assert (missing.status_code, code(missing)) == (400, "idempotency_key_required")


async def test_key_in_the_body_stands_in_for_the_header(toy: Toy) -> None:
    """`command_key` alone, or equal to the header (G-113)."""
    path = f"/v1/projects/{PROJECT}/cancel"
    alone = await toy.send_as("owner", "POST", path, json={"command_key": "k"})
    assert alone.json() == {"key": "k"}
    equal = await toy.send_as("owner", "POST", path, json={"command_key": "k"}, headers={"idempotency-key": "k"})
    assert equal.json() == {"key": "k"}
    differs = await toy.send_as("owner", "POST", path, json={"command_key": "k"}, headers={"idempotency-key": "l"})
    assert (differs.status_code, code(differs)) == (400, "invalid_payload")


async def test_two_credentials_are_none(toy: Toy) -> None:
    """A repeated Authorization is 401, whatever the lines hold."""
    headers = [("authorization", "Bearer owner"), ("authorization", "Bearer owner")]
    assert (await toy.get("/v1/things", headers=headers)).status_code == 401


@pytest.mark.parametrize(
    ("sent", "adopted"),
    [("abc.DEF_1:2-3", True), ("x" * 128, True), ("x" * 129, False), ("a b", False), ("a\x7fb", False), ("", False)],
)
async def test_request_id(toy: Toy, sent: str, adopted: bool) -> None:
    """A well-formed id is adopted, any other replaced; success and error echo it (G-010, threat 24)."""
    for path in ("/", "/nowhere", "/v1/things"):
        answer = await toy.get(path, headers={"x-service-request-id": sent})
        echoed = answer.headers["x-service-request-id"]
        assert (echoed == sent) == adopted
        assert adopted or re.fullmatch(r"req_[0-9a-z]{26}", echoed)
        if answer.is_error:
            assert answer.json()["error"]["request_id"] == echoed


async def test_command_is_built_from_the_request(toy: Toy) -> None:
    """Origin, key, request hash, gates and authority of the command are those of the request."""
    headers = {"idempotency-key": "k", "x-service-request-id": "r-1", "if-match": ETAG}
    await toy.send_as("owner", "PUT", SECRET, json=THING, headers=headers)
    [command] = toy.store.commands
    assert command.origin.operation == f"PUT {SECRET}"
    assert (command.origin.actor_kind, command.origin.actor_id) == ("key", OWNER.id)
    assert (command.origin.request_id, command.origin.correlation_id) == ("r-1", "r-1")
    assert command.key == "k"
    canonical = b'{"items":[{"count":1}],"name":"one"}'
    assert command.request_hash == hashlib.sha256(canonical).hexdigest()
    assert (command.gates, command.exclusive) == ([PROJECT, "usr_1"], ())
    assert command.authorize is not None
    assert command.lookups


async def test_fence_holds_the_gate_exclusively_and_not_twice(toy: Toy) -> None:
    """A fence takes the project's gate exclusively and the account's shared."""
    body = {**THING, "name": "fence"}
    await toy.send_as("owner", "PUT", SECRET, json=body, headers={"if-match": ETAG})
    [command] = toy.store.commands
    assert (command.gates, command.exclusive) == (["usr_1"], (PROJECT,))


def test_request_hash_is_of_the_meaning() -> None:
    """Order of members, white space and the spelling of a number or string do not matter; a value does."""
    one = request_hash(json.loads('{"a": 1, "b": [1.0, "\\u00e9"]}'))
    two = request_hash(json.loads('{"b":[1,"é"],"a":1.0}'))
    other = request_hash(json.loads('{"b":["é",1],"a":1}'))
    assert one == two != other


async def test_request_hash_of_an_absent_body_is_that_of_an_empty_one(toy: Toy) -> None:
    """An absent body equals `{}` (G-003)."""
    path = f"/v1/projects/{PROJECT}/cancel"
    headers = {"idempotency-key": "k"}
    assert (await toy.send_as("owner", "POST", path, headers=headers)).status_code == 200
    assert (await toy.send_as("owner", "POST", path, json={}, headers=headers)).status_code == 200


async def test_subject_leads_to_its_project(toy: Toy) -> None:
    """An object named without its project is found, and one of another project is not, in the same words (R-GEN-14)."""
    toy.store.rows = [ThingRow(project_id=PROJECT, id="run_1", revision=1)]
    found = await toy.send_as("member", "GET", "/v1/runs/run_1")
    assert found.json() == {"run_id": "run_1", "project_id": PROJECT}
    foreign = await toy.send_as("stranger", "GET", "/v1/runs/run_1")
    toy.store.rows = []
    absent = await toy.send_as("member", "GET", "/v1/runs/run_1")
    malformed = await toy.send_as("member", "GET", "/v1/runs/%7B%7D")
    for answer in (foreign, absent, malformed):
        assert (answer.status_code, code(answer)) == (404, "run_not_found")
        assert {k: v for k, v in answer.json()["error"].items() if k != "request_id"} == {
            k: v for k, v in absent.json()["error"].items() if k != "request_id"
        }


async def test_credentials_stay_in_their_project(toy: Toy) -> None:
    """A runner without the scope is told which; with it, another project's object is not found."""
    toy.store.rows = [ThingRow(project_id=FENCED, id="run_1", revision=1)]
    assert (await toy.send_as("runner", "GET", "/v1/runs/run_1")).status_code == 404
    refused = await toy.send_as("ci", "GET", "/v1/runs/run_1")
    assert (refused.status_code, code(refused)) == (403, "principal_not_allowed")


async def test_people_read_a_fenced_project(toy: Toy) -> None:
    """The fence closes mutations, and reads of credentials, not the reads of people."""
    assert (await toy.send_as("member", "GET", f"/v1/projects/{FENCED}/things")).status_code == 200
    headers = {"idempotency-key": "k"}
    written = await toy.send_as("member", "POST", f"/v1/projects/{FENCED}/things", json=THING, headers=headers)
    assert (written.status_code, code(written)) == (409, "project_deletion_in_progress")


@pytest.mark.parametrize("project", ["short", "-leading1", ".leading1", "x" * 201, "has space1", "proj%2500x"])
async def test_project_ids_that_cannot_be(toy: Toy, project: str) -> None:
    """A project id that breaks its form is a project that does not exist (R-GEN-10)."""
    answer = await toy.send_as("owner", "GET", f"/v1/projects/{project.replace(' ', '%20')}/things")
    assert (answer.status_code, code(answer)) == (404, "project_not_found")


@pytest.mark.parametrize(
    "path",
    [
        "//v1/things",
        "/v1//things",
        "/v1/things/",
        "/v1/./things",
        "/v1/../v1/things",
        "/v1/%2e%2e/v1/things",
        "/v1/%2E/things",
        "/v1%2fthings",
        "/v1/things;a=b",
        "/v1/things%00",
        "/v1/things%0a",
        "/v1/things%ff",
        "/v1/things%",
        "/V1/things",
        "/v1/Things",
        f"/v1/projects/{PROJECT}%2fthings",
        f"/v1/projects/{PROJECT};x/things",
        f"/v1/projects/{PROJECT}/things/..",
    ],
)
async def test_paths_have_one_reading(toy: Toy, path: str) -> None:
    """Empty, dot and parameter segments, encoded slashes and control characters are no routes (threat 19)."""
    scope_path = path.encode()

    async def raw_path(scope: Any, receive: Any, send: Any) -> None:
        await toy.edge({**scope, "raw_path": scope_path}, receive, send)

    import httpx2

    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(raw_path), base_url="http://toy") as client:
        answer = await client.get(path, headers={"authorization": "Bearer owner"})
    assert (answer.status_code, code(answer)) == (404, "not_found")


async def test_slash_variants(toy: Toy) -> None:
    """Ingest works with and without its slash; /v1 and /v1/ are the root (G-016)."""
    for path in ("/v1/logs", "/v1/logs/"):
        answer = await toy.send_as("dsn", "POST", path, json={})
        assert (answer.status_code, answer.json()) == (202, {"project_id": PROJECT, "size": 0})
    for path in ("/", "/v1", "/v1/"):
        assert (await toy.get(path)).json() == {"name": "toy"}


async def test_head_answers_like_get_without_a_body(toy: Toy) -> None:
    """HEAD has the status and headers of GET."""
    for path, who in (("/", None), ("/v1/things", "owner"), ("/v1/things", None)):
        got, head = await toy.send_as(who, "GET", path), await toy.send_as(who, "HEAD", path)
        assert (head.status_code, head.content) == (got.status_code, b"")
        names = {"content-type", "content-length", "cache-control"}
        assert {n: head.headers[n] for n in names} == {n: got.headers[n] for n in names}


async def test_cors_only_where_browsers_call(toy: Toy) -> None:
    """The ingest routes answer preflights and name every origin; others answer 405 and name none (G-016)."""
    preflight = await toy.options("/v1/logs/", headers={"origin": "https://a.example"})
    assert preflight.status_code == 204
    assert preflight.headers["access-control-allow-origin"] == "*"
    assert "POST" in preflight.headers["access-control-allow-methods"]
    assert "x-service-dsn" in preflight.headers["access-control-allow-headers"]
    for answer in (
        await toy.send_as("dsn", "POST", "/v1/logs/", json={}),
        await toy.send_as(None, "POST", "/v1/logs/", json={}),
    ):
        assert answer.headers["access-control-allow-origin"] == "*"
        exposed = set(answer.headers["access-control-expose-headers"].split(", "))
        assert {"ratelimit-limit", "ratelimit-remaining", "ratelimit-reset", "retry-after"} <= exposed
    other = await toy.options("/v1/things")
    assert (other.status_code, code(other)) == (405, "method_not_allowed")
    assert "access-control-allow-origin" not in (await toy.send_as("owner", "GET", "/v1/things")).headers


@pytest.mark.parametrize(
    ("content_type", "status"),
    [
        ("application/json", 201),
        ("application/json; charset=utf-8", 201),
        ('Application/JSON; charset="UTF-8"', 201),
        ("application/vnd.api+json", 201),
        ("application/json; charset=latin-1", 415),
        ("text/plain", 415),
        ("application/x-www-form-urlencoded", 415),
        ("application/jsonp", 415),
        ("", 415),
        (None, 415),
    ],
)
async def test_content_type(toy: Toy, content_type: str | None, status: int) -> None:
    """A body is JSON by its own account (G-006)."""
    headers = {} if content_type is None else {"content-type": content_type}
    answer = await toy.send_as("owner", "POST", "/v1/things", content=json.dumps(THING).encode(), headers=headers)
    assert answer.status_code == status


@pytest.mark.parametrize(
    ("content_type", "named"),
    [
        ("text/plain", "text/plain"),
        ("Application/X-WWW-Form-Urlencoded; charset=utf-8", "application/x-www-form-urlencoded"),
        ("application/json; charset=latin-1", "application/json"),
        ("text/<script>", None),
        ("ignore all instructions", None),
        (f"text/{'x' * 100}", None),
        ("", None),
    ],
)
async def test_a_refused_type_is_named(toy: Toy, content_type: str, named: str | None) -> None:
    """In the details, where it is a plain token; no other text of the caller comes back."""
    answer = await toy.send_as("owner", "POST", "/v1/things", content=b"{}", headers={"content-type": content_type})
    assert (answer.status_code, code(answer)) == (415, "unsupported_media_type")
    assert answer.json()["error"]["details"] == ({} if named is None else {"content_type": named})
    assert not {"script", "instructions", "xxx"} & set(re.findall("[a-z]+", answer.text))


async def test_ingest_takes_plain_text(toy: Toy) -> None:
    """A browser beacon cannot name JSON (G-006)."""
    answer = await toy.send_as("dsn", "POST", "/v1/logs/", content=b"{}", headers={"content-type": "text/plain"})
    assert answer.status_code == 202


@pytest.mark.parametrize("coding", ["gzip", "br", "identity, gzip", "x"])
async def test_content_codings_are_refused(toy: Toy, coding: str) -> None:
    """A coded body is 415, not decoded and not taken as plain (finding 14)."""
    answer = await toy.send_as("owner", "POST", "/v1/things", json=THING, headers={"content-encoding": coding})
    assert (answer.status_code, code(answer)) == (415, "unsupported_media_type")


async def test_bodies_of_routes_without_one(toy: Toy) -> None:
    """Where no byte is allowed one byte is 413 (G-003); nothing and `{}` differ there."""
    path = f"/v1/projects/{PROJECT}/empty"
    assert (await toy.send_as("owner", "POST", path)).status_code == 200
    answer = await toy.send_as("owner", "POST", path, json={})
    assert (answer.status_code, answer.json()["error"]["details"]) == (413, {"max_bytes": 0})


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("", 200),
        ("?limit=1&active=true&ratio=1.5&name=null", 200),
        ("?unheard-of=1&unheard-of=2", 200),
        ("?limit=0", 400),
        ("?limit=201", 400),
        ("?limit=abc", 400),
        ("?limit=", 400),
        ("?limit=1.0", 400),
        ("?limit=1&limit=2", 400),
        ("?limit=99999999999999999999", 400),
        ("?active=1", 400),
        ("?ratio=1e400", 400),
        ("?name=%00", 400),
        ("?name=%ff", 400),
        ("?name=%F0%9F%98%80", 200),
    ],
)
async def test_query_parameters(toy: Toy, query: str, status: int) -> None:
    """A known parameter with a bad value is `invalid_payload` with its name; unknown ones are ignored (G-005)."""
    answer = await toy.send_as("owner", "GET", f"/v1/things{query}")
    assert answer.status_code == status, answer.text
    if status == 400:
        details = answer.json()["error"]["details"]
        assert code(answer) == "invalid_payload"
        assert details["request_body_schema"] is None
        assert set(details) == {"missing_fields", "invalid_fields", "unknown_fields", "request_body_schema"}


async def test_malformed_query_does_not_come_before_the_credential(toy: Toy) -> None:
    """Parameters are form: 401 first."""
    assert (await toy.send_as(None, "GET", "/v1/things?name=%ff")).status_code == 401


async def test_answers_to_credentials_are_not_cached(toy: Toy) -> None:
    """`no-store` unless the handler says otherwise, errors included (G-014)."""
    for answer in (await toy.send_as("owner", "GET", "/v1/things"), await toy.send_as(None, "GET", "/v1/things")):
        assert answer.headers["cache-control"] == "no-store"


async def test_a_body_of_a_mebibyte_passes_and_one_byte_more_does_not(toy: Toy) -> None:
    """The general limit, where an operation declares none of its own (G-004)."""
    body = b"x" * 1_048_576
    headers = {"content-type": "application/json"}
    answer = await toy.post("/v1/raw", content=body, headers=headers)
    assert (answer.status_code, answer.content) == (200, body)
    answer = await toy.post("/v1/raw", content=body + b"x", headers=headers)
    assert (code(answer), answer.json()["error"]["details"]) == ("payload_too_large", {"max_bytes": 1_048_576})


async def test_raw_bodies_pass_untouched(toy: Toy) -> None:
    """A route that verifies bytes gets them as they were sent."""
    answer = await toy.post("/v1/raw", content=b"\x00\xff not json", headers={"content-type": "application/json"})
    assert answer.content == b"\x00\xff not json"
    assert answer.headers["content-type"] == "application/octet-stream"


async def test_member_of_the_project_writes(toy: Toy) -> None:
    """A member passes where no owner is asked for."""
    answer = await toy.send_as("member", "POST", THINGS, json=THING, headers={"idempotency-key": "k"})
    assert answer.status_code == 200
    assert toy.store.commands[0].origin.actor_id == MEMBER.id


@pytest.mark.parametrize(("values", "refused"), [(MOST_VALUES - 2, False), (MOST_VALUES + 1, True)])
async def test_a_body_is_not_taken_apart_for_too_many_values(toy: Toy, values: int, refused: bool) -> None:
    """Half a million values in a mebibyte would hold the event loop for half a second: it is not even decoded."""
    answer = await toy.send_as("owner", "POST", "/v1/broken", json={"unknown": [0] * values})
    assert (f"must hold at most {MOST_VALUES} values" in answer.text) == refused


async def test_bodies_in_flight_are_an_accounts(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two credentials of one account, whatever projects they are for, have one share of the room and one line (P25)."""
    for name in ("owner", "member"):
        monkeypatch.setitem(PRINCIPALS, name, replace(PRINCIPALS[name], account="usr_pays"))
    pipeline = toy.edge.pipeline
    holders, lines = [], []
    of, take = pipeline.bodies.of, pipeline.turns.take
    monkeypatch.setattr(pipeline.bodies, "of", lambda holder: holders.append(holder) or of(holder))
    monkeypatch.setattr(pipeline.turns, "take", lambda line, size: lines.append(line) or take(line, size))
    for name in ("owner", "member"):
        assert (await toy.send_as(name, "POST", "/v1/things", json=THING)).status_code == 201
    assert holders == lines == ["usr_pays"] * 2
