"""Places of the console, the headers of its answers, and preferences in a cookie."""

import asyncio
import base64
import hashlib
import hmac
import re
from collections.abc import Coroutine, Iterable, Mapping
from functools import cache, cached_property
from http import HTTPStatus
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote, unquote
from zoneinfo import available_timezones

import msgspec

from projections.accounts import PEOPLE
from service.auth.authority import permits
from service.auth.refusals import Unauthenticated
from service.auth.secrets import cookie_values, session_secret
from service.console.kit.rendering import Permitted, ShownVisit
from service.eventstore.declare.commands import Answer, Intent
from service.http.answer.page import HTML
from service.http.declare.call import Call
from service.http.declare.headers import Head, head_of
from service.http.edge import inner
from statemachines.accounts.membership import Role
from statemachines.accounts.person import Identity, person_id

# Places of the console in addresses and forms. No text of somebody's leads out of it.

ROOT = "/console"
LONGEST = 4_000
"""Characters of a place that a form may lead to."""
_BAD = re.compile(r"[\x00-\x1f\x7f\\]")


def local(place: str) -> str:
    """A place of the console as a form names it. The first page for anything else."""
    path = place.partition("?")[0]
    plain = unquote(path)
    leaves = plain.startswith("/") or ":" in plain or not {".", "..", ""}.isdisjoint(plain.split("/")[:-1])
    if len(place) > LONGEST or leaves or plain.split("/")[-1] in {".", ".."} or _BAD.search(unquote(place)):
        return ""
    return place


def way_to(place: str) -> str:
    """The address of a place, for the header of an answer that leads there."""
    path, mark, query = place.partition("?")
    return quote(f"{ROOT}/{path}".rstrip("/") + mark + query, safe="/?&=%:.~_-+!*'(),;@")


# The headers of pages and of what leads to them.

HEADERS: Mapping[str, str] = {
    "content-type": HTML,
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "same-origin",  # "no-referrer" would have browsers send the origin "null" with forms
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
FRAMELESS: Mapping[str, str] = {name: value for name, value in HEADERS.items() if name != "content-type"}
"""The same for answers without a page: ways to another place, files and streams."""


# What a person prefers in this browser, kept in a cookie: a theme, and the zone of times.

COOKIE = "service_console"
THEMES = ("light", "dark")
LIFE = 400 * 86_400


@cache
def zones() -> tuple[str, ...]:
    """The names of all zones, in order."""
    return tuple(sorted(available_timezones() - {"localtime", "Factory"}))


@cache
def _known() -> frozenset[str]:
    return frozenset(zones())


def is_known(name: str, value: str) -> bool:
    """Whether a preference may have this value."""
    return (name == "theme" and value in THEMES) or (name == "zone" and value in _known())


def read_preferences(cookie: str) -> Mapping[str, str]:
    """The preferences of a cookie. What is unknown is left out: anybody can write a cookie."""
    pairs = (pair.partition(":") for pair in cookie.split("|"))
    return {name: value for name, _, value in pairs if is_known(name, value)}


def written(preferences: Mapping[str, str], *, secure: bool) -> str:
    """The header that sets the cookie."""
    value = "|".join(f"{name}:{value}" for name, value in preferences.items() if is_known(name, value))
    return f"{COOKIE}={value}; Path=/console; Max-Age={LIFE}; HttpOnly; SameSite=Lax{'; Secure' if secure else ''}"


# One request to a page, and its calls of operations in the name of its person.

Json = dict[str, Any]
KEPT = ("user-agent", "x-forwarded-for", "forwarded", "host")
"""Headers handed on to operations."""


NAMED = 200
"""Members, credentials, keys and sessions whose names are read."""


class Said(NamedTuple):
    """The answer of an operation: status, body and headers, and the body as it was sent."""

    status: int
    body: Any
    headers: Mapping[str, str]
    raw: bytes = b""

    @property
    def ok(self) -> bool:
        """Whether it was carried out."""
        return self.status < HTTPStatus.BAD_REQUEST

    @property
    def error(self) -> Json:
        """The error in its envelope."""
        found: Json = self.body["error"]
        return found


class ReadRefused(Exception):
    """A read refused by its operation. The page cannot be without it."""

    def __init__(self, said: Said) -> None:
        super().__init__(said.error["code"])
        self.said = said


class Visit:
    """A request to a page. `values` are those of its address, `query` the first value of each parameter.

    `weight` is the number of bytes that its operations have answered.
    """

    def __init__(self, call: Call, place: str, values: Mapping[str, str], query: Mapping[str, str]) -> None:
        self.call = call
        self.place = place
        self.values = values
        self.query = query
        self.entered: Mapping[str, str] = {}
        self.weight = 0
        self._controls: dict[str, Json | None] = {}
        self._names: dict[str, Mapping[str, str]] = {}

    @cached_property
    def secret(self) -> str:
        """The secret of the session, as its cookie has it. Raises Unauthenticated without one."""
        secret = session_secret(head_of(self.call.scope).headers, self.call.services.settings.base_url)
        if secret is None:
            raise Unauthenticated
        return secret

    @cached_property
    def of_operator(self) -> bool:
        """Whether the person is an operator of the installation (SERVICE_OPERATORS)."""
        services, user_id = self.call.services, self.call.user_id
        salt, named = services.store.installation_salt, services.settings.operators or ()
        return any(user_id in {one, person_id(salt, Identity("email", one, one))} for one in named)

    @cached_property
    def csrf(self) -> str:
        """The token in each form. No page of another origin can know it."""
        digest = hmac.digest(self.secret.encode(), b"console form", hashlib.sha256)
        return base64.urlsafe_b64encode(digest).decode().rstrip("=")

    @cached_property
    def preferences(self) -> Mapping[str, str]:
        """What the person saved in this browser: `zone` of times and `theme`."""
        [saved, *_] = [*cookie_values(head_of(self.call.scope).headers, {COOKIE}), ""]
        return read_preferences(saved)

    async def who(self) -> str:
        """The name of the person, else the address. Empty once the account is gone."""
        found = await self.call.services.store.find(PEOPLE, "t.id = %s", self.call.user_id, limit=1)
        return next((one.name or one.email for one in found), "")

    @property
    def shown(self) -> ShownVisit:
        """The visit as templates see it."""
        base_url = self.call.services.settings.base_url
        return ShownVisit(self.place, self.query, self.entered, self.csrf, base_url, of_operator=self.of_operator)

    def permitted(self, role: str | None) -> Permitted:
        """The operations that are open to people with a role in a project. None without one."""
        if role is None:
            return Permitted(())
        bound = inner.pipeline_of(self.call).bound
        return Permitted([name for name, one in bound.items() if permits(one.operation, Role(role))])

    async def control(self, project_id: str) -> Json | None:
        """The control of a project's automation, read once for a page and its frame. None for a refusal."""
        if project_id not in self._controls:
            self._controls[project_id] = await self.try_read("get_automation_control", project_id=project_id)
        return self._controls[project_id]

    async def names(self, project_id: str) -> Mapping[str, str]:
        """The names of who acts in a project, by their ids, as far as the person may see them.

        Members have addresses, and credentials their own names. The person's sessions and keys have that person's.
        """
        if project_id not in self._names:
            most = {"limit": NAMED}
            members, credentials, keys, sessions = await together(
                [
                    self.try_read("list_members", project_id=project_id, query=most),
                    self.try_read("list_credentials", project_id=project_id, query=most),
                    self.try_read("list_keys", query=most),
                    self.try_read("list_sessions", query=most),
                ]
            )
            found = {one["user_id"]: one["email"] for one in members["members"] if one["email"]} if members else {}
            own = found.get(self.call.user_id, "you")
            found |= {one["id"]: own for one in keys["keys"]} if keys else {}
            found |= {one["session_id"]: own for one in sessions["sessions"]} if sessions else {}
            found |= {one["id"]: one["name"] for one in credentials["credentials"]} if credentials else {}
            self._names[project_id] = {**found, self.call.principal.id: own}
        return self._names[project_id]

    async def read(self, operation_id: str, *, query: Mapping[str, Any] | None = None, **path: str) -> Json:
        """The body of a read. Raises ReadRefused."""
        said = await self.ask(operation_id, path, query=query)
        if not said.ok:
            raise ReadRefused(said)
        found: Json = said.body
        return found

    async def try_read(self, operation_id: str, *, query: Mapping[str, Any] | None = None, **path: str) -> Json | None:
        """The body of an optional read. None for a refusal."""
        said = await self.ask(operation_id, path, query=query)
        return said.body if said.ok else None

    async def ask(
        self,
        operation_id: str,
        path: Mapping[str, str],
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Said:
        """Carry out an operation as the person. Empty parameters are left out."""
        bound = inner.pipeline_of(self.call).bound[operation_id]
        outer = head_of(self.call.scope)
        kept = {name: outer.headers[name] for name in KEPT if name in outer.headers}
        shown = {"authorization": f"Bearer {self.secret}", "accept": "application/json"}
        head = Head(outer.request_id, {**kept, **shown, **(headers or {})}, frozenset())
        parameters = {name: str(value) for name, value in (query or {}).items() if value not in {None, ""}}
        sent = b"" if body is None or not bound.takes_body else msgspec.json.encode(body)
        reply = await inner.ask(self.call, bound, inner.InnerRequest(path, parameters, head, sent))
        self.weight += len(reply.body)
        said = msgspec.json.decode(reply.body) if reply.body and "json" in reply.headers["content-type"] else reply.body
        return Said(reply.status, said, reply.headers, reply.body)


# Several reads of one page at a time, a few of them at once.

AT_ONCE = 4
T = TypeVar("T")


async def together(reads: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """The results of reads in their order, AT_ONCE of them at a time."""
    free = asyncio.Semaphore(AT_ONCE)

    async def one(read: Coroutine[Any, Any, T]) -> T:
        async with free:
            return await read

    return await asyncio.gather(*(one(read) for read in reads))


# Commands with a secret in their result.


async def carry_out_unstored(call: Call, intent: Intent[T]) -> T:
    """Carry out an intent, and keep its result out of the stored answer. Raises as `Call.carry_out`."""
    made: list[T] = []

    def keep(result: T) -> Answer:
        made.append(result)
        return Answer(HTTPStatus.NO_CONTENT, None, pending=True)

    await call.carry_out(intent, keep)
    return made[-1]
