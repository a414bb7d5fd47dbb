"""Tokens that a CI system makes for the runs of its workflows: whose they are, and what they prove (G-171).

An issuer says by its kind what its claims mean: those of GitHub Actions, or those of GitLab CI. Two are known. Others
are named by the operator, and may then be private. A token is judged by the machine's own clock, as its issuer made it
by one outside of the service.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

import jwt
import msgspec
import structlog

from schemas.kernel.shape import CiHost
from service.auth.oidc import (
    DISCOVERY,
    LEEWAY,
    MOST_TOKEN,
    OWN,
    BadToken,
    Key,
    KeySet,
    UnknownKey,
    choose_key,
    read_keys,
)
from service.egress.exchange import NotReceived, Request
from service.egress.guard import CALLERS, Guard, Reach
from service.egress.lookups import OF_OPERATOR
from statemachines.credentials.binding import Presented, Workflow

log = structlog.get_logger(__name__)

T = TypeVar("T")

KNOWN: Mapping[str, CiHost] = {
    "https://token.actions.githubusercontent.com": "github",
    "https://gitlab.com": "gitlab",
}
"""The issuers of everybody's repositories at GitHub and GitLab."""
ALGORITHMS = frozenset({"RS256", "ES256"})
BETWEEN = 60.0
"""Seconds between two reads of the keys of an issuer, whatever they ended with."""
KEPT = 3_600.0
"""Seconds for which keys are good."""
CALL_SECONDS = 5.0
MOST_BODY = 128 * 1024
MOST_CLAIM = 400
MOST_NUMBER = 19
_REQUIRED = ("iss", "sub", "aud", "exp", "iat", "jti")
_MERGE_REQUESTS = frozenset({"merge_request_event", "external_pull_request_event"})


class IssuerSilent(Exception):
    """The keys of an issuer cannot be read now. `again` is the number of seconds until they are asked for anew."""

    def __init__(self, again: int) -> None:
        super().__init__("The issuer of the token could not be asked for its keys.")
        self.again = again


class _Discovery(msgspec.Struct, frozen=True):
    issuer: str
    jwks_uri: str


class _Read(NamedTuple):
    """The last read of an issuer's keys: when it was, and what it found. None: it failed."""

    at: float
    keys: Sequence[Key] | None


class CiIssuers:
    """The issuers of an installation, with their keys as one process knows them. `named` are those of the operator."""

    def __init__(
        self, named: Mapping[str, CiHost] | None, guard: Guard, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._named = named or {}
        self._hosts: Mapping[str, CiHost] = {**KNOWN, **self._named}
        self._guard = guard
        self._clock = clock
        self._reads: dict[str, _Read] = {}
        self._good: dict[str, _Read] = {}
        self._asking = {issuer: asyncio.Lock() for issuer in self._hosts}

    @property
    def accepted(self) -> list[str]:
        """The issuers that may be bound, in order."""
        return sorted(self._hosts)

    def issuer_of(self, token: str) -> str:
        """The issuer that a token names, before anything of it is proven. Raises BadToken for none of ours."""
        if len(token) > MOST_TOKEN:
            raise BadToken("The token is too large.")
        try:
            claims = jwt.decode(token, options={"verify_signature": False})
        except (jwt.PyJWTError, ValueError, RecursionError):
            raise BadToken("The token is malformed.") from None
        issuer = claims.get("iss")
        if not isinstance(issuer, str) or issuer not in self._hosts:
            raise BadToken("The token names no issuer that is accepted here.")
        return issuer

    async def verify(self, token: str, issuer: str, audience: str) -> Presented:
        """Judge a token of an accepted issuer. Raises BadToken, and IssuerSilent when its keys cannot be read."""
        read = await self._keys(issuer, None)
        try:
            chosen = choose_key(token, read.keys or ())
        except UnknownKey:
            read = await self._keys(issuer, read.at)
            chosen = choose_key(token, read.keys or ())
        claims = _decode(token, chosen, issuer, audience)
        return _READERS[self._hosts[issuer]](issuer, claims)

    async def _keys(self, issuer: str, but: float | None) -> _Read:
        """The keys of an issuer. Those read at the moment `but` are read anew, if that was long enough ago."""
        async with self._asking[issuer]:
            good, last, now = self._good.get(issuer), self._reads.get(issuer), self._clock()
            fresh = good is not None and now - good.at <= KEPT
            wanted = not fresh or (good is not None and good.at == but)
            if wanted and (last is None or now - last.at >= BETWEEN):
                keys = await self._ask(issuer)
                last = self._reads[issuer] = _Read(now, keys)
                if keys is not None:
                    good, fresh = last, True
                    self._good[issuer] = last
            failed = last is not None and last.keys is None
            if good is None or not fresh or (wanted and failed):
                assert last is not None, "somebody has asked by now"
                raise IssuerSilent(max(1, int(BETWEEN - (now - last.at)) + 1))
            return good

    async def _ask(self, issuer: str) -> Sequence[Key] | None:
        """Read the keys by the issuer's discovery document. None, and a line in the log, when that does not work."""
        document = await self._get(issuer, issuer.rstrip("/") + DISCOVERY, _Discovery)
        if document is None or document.issuer != issuer:
            log.warning("ci_issuer_failed", issuer=issuer, read="discovery")
            return None
        found = await self._get(issuer, document.jwks_uri, KeySet)
        keys = [] if found is None else [key for key in read_keys(found.keys) if key.algorithm in ALGORITHMS]
        if not keys:
            log.warning("ci_issuer_failed", issuer=issuer, read="keys")
        return keys or None

    async def _get(self, issuer: str, url: str, shape: type[T]) -> T | None:
        received = await self._guard.call(
            url,
            Request("GET", {"accept": "application/json"}),
            account=OF_OPERATOR,
            reach=self._reach(issuer, url),
            max_body=MOST_BODY,
            seconds=CALL_SECONDS,
        )
        if isinstance(received, NotReceived) or received.cut or received.status != HTTPStatus.OK:
            return None
        try:
            return msgspec.json.decode(received.body, type=shape)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None

    def _reach(self, issuer: str, url: str) -> Reach:
        """An issuer that the operator named is reached wherever it is; all else has to be public."""
        own = issuer in self._named and urlsplit(url)[:2] == urlsplit(issuer)[:2]
        return OWN if own else CALLERS


def _decode(token: str, chosen: Key, issuer: str, audience: str) -> Mapping[str, Any]:
    """Check signature, times, issuer and audience. Raises BadToken."""
    try:
        claims: dict[str, Any] = jwt.decode(
            token,
            chosen.key,
            algorithms=[chosen.algorithm],
            audience=audience,
            issuer=issuer,
            leeway=LEEWAY,
            options={"require": list(_REQUIRED)},
        )
    except jwt.PyJWTError as error:
        raise BadToken(f"The token was refused: {type(error).__name__}.") from None
    except (ValueError, TypeError, ArithmeticError, RecursionError):
        raise BadToken("A claim of the token is wrong.") from None
    if claims["aud"] not in (audience, [audience]):
        raise BadToken("The token is for others as well.")
    return claims


class _Claims:
    """The claims of a token, each asked for by name. Raises BadToken for one that is missing or no short text."""

    def __init__(self, claims: Mapping[str, Any]) -> None:
        self._claims = claims

    def text(self, name: str) -> str:
        value = self._claims.get(name)
        if not isinstance(value, str) or not 0 < len(value) <= MOST_CLAIM or not value.isprintable():
            raise BadToken(f"The claim {name} is missing or wrong.")
        return value

    def optional(self, name: str) -> str | None:
        return None if self._claims.get(name) in (None, "") else self.text(name)

    def number(self, name: str) -> str:
        value = self.text(name)
        if not value.isascii() or not value.isdecimal() or len(value) > MOST_NUMBER:
            raise BadToken(f"The claim {name} is no number.")
        return value


def _of_github(issuer: str, claims: Mapping[str, Any]) -> Presented:
    """Read the claims of GitHub Actions.

    Events of pull requests are refused: no claim tells those of a fork apart. A called workflow is not the one that
    was bound, and has a `job_workflow_ref` of its own.
    """
    of = _Claims(claims)
    repository, ref = of.text("repository"), of.text("ref")
    if of.text("event_name").startswith("pull_request"):
        raise BadToken("The run is one of a pull request.")
    workflow = of.text("workflow_ref")
    if of.optional("job_workflow_ref") not in (None, workflow):
        raise BadToken("The job is one of a called workflow.")
    ran = Workflow(
        issuer,
        of.number("repository_id"),
        of.number("repository_owner_id"),
        ref,
        _between(workflow, f"{repository}/", f"@{ref}"),
        of.optional("environment"),
    )
    return Presented(of.text("jti"), repository, of.text("run_id"), ran)


def _of_gitlab(issuer: str, claims: Mapping[str, Any]) -> Presented:
    """Read the claims of GitLab CI.

    Pipelines of merge requests are refused: for one of a fork, the ref is that of the fork.
    """
    of = _Claims(claims)
    if of.text("pipeline_source") in _MERGE_REQUESTS:
        raise BadToken("The pipeline is one of a merge request.")
    repository = of.text("project_path")
    ref = of.optional("ref_path") or f"refs/{'tags' if of.text('ref_type') == 'tag' else 'heads'}/{of.text('ref')}"
    _, _, place = of.text("ci_config_ref_uri").partition("/")  # behind the name of the host
    ran = Workflow(
        issuer,
        of.number("project_id"),
        of.number("namespace_id"),
        ref,
        _between(place, f"{repository}//", f"@{ref}"),
        of.optional("environment"),
    )
    return Presented(of.text("jti"), repository, of.text("pipeline_id"), ran)


def _between(text: str, before: str, after: str) -> str:
    """What stands between two texts. Raises BadToken when the workflow is that of another place."""
    path = text.removeprefix(before).removesuffix(after)
    if f"{before}{path}{after}" != text or not path:
        raise BadToken("The workflow is not one of its own repository and ref.")
    return path


_READERS: Mapping[CiHost, Callable[[str, Mapping[str, Any]], Presented]] = {"github": _of_github, "gitlab": _of_gitlab}
