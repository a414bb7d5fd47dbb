"""Bad requests, made from one of each operation that is in order: each has the fault of its name.

A fault that an operation would overlook comes with another one, so that no bad request changes anything. Which of two
faults is answered is the order of G-007.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlencode

import httpx2

from service.auth.authority import PrincipalKind as Kind
from service.http.declare.bound import Bound

JSON = "application/json"
NOBODYS = "0" * 26
DEPTH = 70
LONG = 20_000
FUTURE, PAST = "999999", "1"
DESCRIBED = frozenset(
    {"host", "accept", "accept-encoding", "connection", "user-agent", "content-length", "transfer-encoding"}
)
"""Headers of a request that its sender adds, or that say nothing here."""
ORIGIN = ("origin", "https://other.example")
NOT_JSON = b'{"a":'


class Ask(NamedTuple):
    """A request as it stands on the wire. `announced` is a length other than that of its body."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    body: bytes = b""
    announced: int | None = None

    @classmethod
    def of(cls, request: httpx2.Request) -> Ask:
        headers = tuple((name, value) for name, value in request.headers.items() if name not in DESCRIBED)
        return cls(request.method, request.url.raw_path.decode(), headers, request.read())

    def header(self, name: str) -> str:
        return dict(self.headers).get(name, "")

    def without(self, *names: str) -> Ask:
        return self._replace(headers=tuple(one for one in self.headers if one[0] not in names))

    def having(self, name: str, *values: str) -> Ask:
        """With a header once for each value, whatever it was before."""
        return self._replace(headers=(*self.without(name).headers, *((name, value) for value in values)))

    def by(self, *secrets: str) -> Ask:
        """In the name of others."""
        return self.without("x-service-dsn", "x-sentry-auth").having("authorization", *(f"Bearer {s}" for s in secrets))

    def asking(self, query: str) -> Ask:
        """With a query beside its own."""
        path, _, old = self.target.partition("?")
        return self._replace(target=f"{path}?{old}{'&' if old else ''}{query}")

    def on(self, path: str) -> Ask:
        """With another path."""
        _, mark, query = self.target.partition("?")
        return self._replace(target=f"{path}{mark}{query}")

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    def saying(self, body: bytes, media: str = JSON) -> Ask:
        """With another body."""
        return self._replace(body=body).having("content-type", media)


class Secrets(NamedTuple):
    """Credentials of every kind, and those that open nothing here."""

    owner: str
    member: str
    stranger: str
    ended: str
    runner: str
    ci: str
    dsn: str
    internal: str
    test: str


def bad_requests(bound: Bound, good: Ask, secrets: Secrets) -> Iterator[tuple[str, Ask]]:
    """Every bad request of an operation, by name. A page for everybody has no credential and no body to look at."""
    yield from _methods(bound, good, secrets)
    yield from _paths(bound, good)
    if bound.public and not bound.reads_body:
        yield "unknown parameter", good.asking("unknown_parameter=1")
        yield "unknown credential", good.by("nonsense")
        return
    yield from _callers(bound, good, secrets)
    yield from _headers(bound, good)
    yield from _queries(bound, good)
    if bound.reads_body:
        yield from _bodies(bound, good)
    yield from _two_faults(bound, good, secrets)


def _nobody(good: Ask) -> Ask:
    return good.by()


def _broken(bound: Bound, good: Ask) -> Ask:
    """The same request with a body that is refused, where it has one."""
    return good.saying(NOT_JSON) if bound.reads_body else good


def _elsewhere(bound: Bound, good: Ask) -> Ask:
    """A request that names things of nobody."""
    return good.on(_filled(bound, good, _unknown))


def _unknown(name: str, value: str) -> str:
    known = re.fullmatch(r"([a-z]+)_[0-9a-z]{26}", value)
    return f"{known[1]}_{NOBODYS}" if known else f"no-{name}".replace("_", "-")


def _filled(bound: Bound, good: Ask, change: Any) -> str:
    names = re.findall(r"\{([a-z_]+)\}", bound.operation.path)
    pattern = re.sub(r"\\\{[a-z_]+\\\}", "(.+)", re.escape(bound.operation.path))
    found = re.fullmatch(pattern, good.path)
    if found is None:
        return good.path
    values = [change(name, value) for name, value in zip(names, found.groups(), strict=True)]
    return re.sub(r"\{[a-z_]+\}", lambda _: values.pop(0), bound.operation.path)


def _methods(bound: Bound, good: Ask, secrets: Secrets) -> Iterator[tuple[str, Ask]]:
    empty = Ask("GET", good.target, (("authorization", f"Bearer {secrets.owner}"),))
    for method in ("DELETE", "PATCH", "PUT", "TRACE", "BREW", "OPTIONS"):
        if method != bound.operation.method:
            yield f"method {method}", _elsewhere(bound, empty)._replace(method=method)
    asked = empty.having(*ORIGIN)
    yield "preflight", asked.having("access-control-request-method", bound.operation.method)._replace(method="OPTIONS")
    yield "HEAD", (good if bound.operation.method == "GET" else empty)._replace(method="HEAD")


def _paths(bound: Bound, good: Ask) -> Iterator[tuple[str, Ask]]:
    nobody, path = _nobody(good), good.path
    yield "path with a slash at its end", nobody.on(f"{path.rstrip('/')}/" if not path.endswith("/") else path[:-1])
    yield "path with a letter encoded", nobody.on(re.sub(r"[a-z](?=[^a-z]*$)", lambda m: f"%{ord(m[0]):02x}", path))
    yield "path with an encoded slash", nobody.on(f"{path}%2f")
    yield "path with an empty segment", nobody.on(f"/{path}")
    yield "path with a dot segment", nobody.on(f"/.{path}")
    yield "path with a parameter", nobody.on(f"{path};a=1")
    yield "path with broken encoding", nobody.on(f"{path}%zz")
    yield "path with broken UTF-8", nobody.on(f"{path}%ff")
    if "{" in bound.operation.path:
        yield "unknown things", _elsewhere(bound, good)
        yield "malformed things", good.on(_filled(bound, good, lambda *_: "~"))
        yield "things with NUL", good.on(_filled(bound, good, lambda *_: "a%00b"))
        yield "things of 300 characters", good.on(_filled(bound, good, lambda *_: "a" * 300))


def _callers(bound: Bound, good: Ask, secrets: Secrets) -> Iterator[tuple[str, Ask]]:
    """Other credentials. A caller who may comes with a body that is refused."""
    broken = _broken(bound, good)
    yield "no credential", _nobody(broken)
    yield "unknown credential", broken.by("nonsense")
    yield "credential of another scheme", broken.having("authorization", "Basic YTpi")
    if bound.public:
        return
    yield "unknown key", broken.by(f"service_sk_{'A' * 43}")
    yield "two credentials", broken.by(secrets.owner, secrets.owner)
    yield "key and DSN", broken.by(secrets.owner).having("x-service-dsn", secrets.dsn)
    yield "ended key", broken.by(secrets.ended)
    yield "key of a stranger", broken.by(secrets.stranger)
    yield "key of a member", broken.by(secrets.member)
    kinds = {Kind.KEY: secrets.owner, Kind.RUNNER: secrets.runner, Kind.CI: secrets.ci, Kind.DSN: secrets.dsn}
    for kind, secret in kinds.items():
        if kind not in bound.operation.who.principals:
            yield f"credential of a {kind.value}", broken.by(secret)
    yield "secret in the query", _nobody(broken).asking(f"dsn={secrets.dsn}")


def _headers(bound: Bound, good: Ask) -> Iterator[tuple[str, Ask]]:
    operation = bound.operation
    broken = _broken(bound, good)
    tag = good.header("if-match") or '"thing:thing_1:7"'
    if operation.fencing.if_match != "none":
        good = good.having("idempotency-key", "for-a-tag") if operation.fencing.idempotency != "none" else good
        if operation.fencing.if_match == "required":
            yield "no If-Match", good.without("if-match")
        yield "stale If-Match", good.having("if-match", re.sub(r"\d+(?=\"$)", PAST, tag))
        yield "future If-Match", good.having("if-match", re.sub(r"\d+(?=\"$)", FUTURE, tag))
        yield "weak If-Match", good.having("if-match", f"W/{tag}")
        yield "If-Match of anything", good.having("if-match", "*")
        yield "If-Match without quotes", good.having("if-match", "7")
        yield "two If-Match", good.having("if-match", tag, tag)
        yield "If-Match of something else", good.having("if-match", '"thing:thing_1:7"')
    if operation.fencing.idempotency == "required":
        yield "no Idempotency-Key", good.without("idempotency-key")
    if operation.fencing.idempotency != "none":
        yield "odd Idempotency-Key", good.having("idempotency-key", "a b")
        yield "long Idempotency-Key", good.having("idempotency-key", "a" * 256)
        yield "empty Idempotency-Key", good.having("idempotency-key", "")
        yield "two Idempotency-Keys", good.having("idempotency-key", "a", "a")
        if key := good.header("idempotency-key"):
            yield "used Idempotency-Key", _with(good, '"used":1').having("idempotency-key", key)
    yield "other origin", _nobody(broken).having(*ORIGIN)
    yield "other site", broken.having("sec-fetch-site", "cross-site").by("nonsense")
    yield "odd Host", _nobody(broken).having("host", "a b")
    yield "request id", _nobody(broken).having("x-service-request-id", "of-the-caller")
    yield "odd request id", _nobody(broken).having("x-service-request-id", "ü")
    yield "two request ids", _nobody(broken).having("x-service-request-id", "one", "two")
    if bound.reads_body:
        said = good if good.body else good.saying(b"{}")
        yield "content of another type", said.having("content-type", "text/html")
        yield "content of an odd type", said.having("content-type", "html")
        yield "content of no type", said.without("content-type")
        yield "two content types", broken.having("content-type", JSON, JSON)
        yield "content of another charset", said.having("content-type", f"{JSON}; charset=latin-1")
        yield "content of another coding", broken.having("content-encoding", "br")
        yield "content that is not packed", said.having("content-encoding", "gzip")
        yield "two codings", broken.having("content-encoding", "gzip", "gzip")
        yield "length above any limit", good._replace(body=b"", announced=1 << 30)


def _queries(bound: Bound, good: Ask) -> Iterator[tuple[str, Ask]]:
    seen = good if bound.operation.method == "GET" else _nobody(_broken(bound, good))
    yield "unknown parameter", seen.asking("unknown_parameter=1")
    yield "odd unknown parameter", seen.asking("%3Cscript%3E=1")
    yield "150 unknown parameters", seen.asking("&".join(f"p{number}=1" for number in range(150)))
    yield "as_of", _broken(bound, good).asking("as_of=yesterday")
    yield "parameter with broken encoding", _broken(bound, good).asking("as_of=%ff")
    query = bound.operation.query
    if query is None:
        return
    path, _, old = good.target.partition("?")
    values = dict(parse_qsl(old))
    for value in ("\x00", "x" * 3000, "-1"):
        odd = urlencode(values | dict.fromkeys(query.__struct_encode_fields__, value))
        yield f"every parameter {value[:3]!r}", _broken(bound, good)._replace(target=f"{path}?{odd}")
    name = query.__struct_encode_fields__[0]
    yield "parameter twice", _broken(bound, good).asking(f"{name}=1&{name}=1")
    yield "no parameter", _broken(bound, good)._replace(target=path)


def _with(good: Ask, member: str) -> Ask:
    """The same request with a member before those of its body."""
    rest = good.body.strip() or b"{}"
    if not rest.startswith(b"{"):
        rest = b"{}"
    return good.saying(b"{" + member.encode() + (b"" if rest[1:].lstrip() == b"}" else b",") + rest[1:])


def _bodies(bound: Bound, good: Ask) -> Iterator[tuple[str, Ask]]:
    yield "not JSON", good.saying(NOT_JSON)
    yield "two texts of JSON", good.saying(b"{} {}")
    yield "broken UTF-8", good.saying(b'{"a":"\xff"}')
    yield "byte order mark", good.saying(b"\xef\xbb\xbf{}")
    yield "a member twice", _with(good, '"twice":1,"twice":2')
    yield "too deep", _with(good, f'"deep":{"[" * DEPTH}{"]" * DEPTH}')
    yield "NUL", _with(good, r'"nul":"\u0000"')
    yield "half a surrogate pair", _with(good, r'"half":"\ud800"')
    yield "NaN", _with(good, '"number":NaN')
    yield "an integer of 30 digits", _with(good, f'"number":{"9" * 30}')
    yield "a number without bounds", _with(good, '"number":1e999')
    yield "a long name", _with(good, f'"{"n" * 3000}":1e999')
    if bound.operation.body.strict or bound.operation.rate == "ingest":
        yield "an unknown member", _with(good, '"unknown_member":1')
    if bound.needs_body:
        yield "no body", good.saying(b"")
        yield "an empty object", good.saying(b"{}")
        yield "a body without its type", good.saying(b"").without("content-type")
    for name, text in (("null", b"null"), ("a list", b"[1]"), ("a text", b'"a"'), ("a number", b"1")):
        yield name, good.saying(text)
    members = _members(good)
    if members:
        wrong = {name: _other_kind(value) for name, value in members.items()}
        yield "members of other kinds", good.saying(json.dumps(wrong).encode())
    texts = {name for name, value in members.items() if isinstance(value, str)}
    if texts and bound.operation.body.strict:
        long = members | dict.fromkeys(texts, "a" * LONG)
        yield "texts too long", good.saying(json.dumps(long).encode())
        yield (
            "texts that are empty",
            _with(good.saying(json.dumps(members | dict.fromkeys(texts, "")).encode()), '"e":1'),
        )
    if bound.operation.body.media_type == JSON and bound.operation.body.max_body:
        most = max(bound.operation.body.max_body, bound.operation.body.largest_form, bound.operation.body.unpacked)
        if most <= 262_144:
            yield "a body too large", good.saying(b'{"a":"' + b"a" * most + b'"}')


def _members(good: Ask) -> Mapping[str, Any]:
    try:
        value = json.loads(good.body)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _other_kind(value: Any) -> Any:
    return {"not": "this"} if isinstance(value, str | int | float | list) or value is None else "not this"


def _two_faults(bound: Bound, good: Ask, secrets: Secrets) -> Iterator[tuple[str, Ask]]:
    broken = _broken(bound, good)
    elsewhere = _elsewhere(bound, broken)
    yield "unknown things, unknown credential", elsewhere.by("nonsense")
    yield "unknown things, key of a stranger", elsewhere.by(secrets.stranger)
    yield "unknown things, odd If-Match", elsewhere.having("if-match", "7")
    yield "unknown things, odd Idempotency-Key", elsewhere.having("idempotency-key", "a b")
    yield "unknown things, odd parameter", elsewhere.asking("as_of=yesterday")
    yield "other method, no credential", _nobody(elsewhere)._replace(method="TRACE")
    if bound.reads_body:
        large = good._replace(body=b"", announced=1 << 30)
        yield "large, unknown credential", large.by("nonsense")
        yield "large, unknown things", _elsewhere(bound, large)
        yield "another type, unknown credential", good.saying(NOT_JSON, "text/html").by("nonsense")
        yield "another type, not JSON", good.saying(NOT_JSON, "text/html")
        yield "not JSON, odd If-Match", broken.having("if-match", "7")
        yield "not JSON, odd Idempotency-Key", broken.having("idempotency-key", "a b")
        yield "not JSON, odd parameter", broken.asking("as_of=yesterday")
        yield "an unknown member, odd If-Match", _with(good, '"unknown_member":1e999').having("if-match", "7")
        yield "two content types, unknown credential", broken.having("content-type", JSON, JSON).by("nonsense")
