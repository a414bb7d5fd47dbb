"""Declarations of pages and forms, their fields, and the navigation around them."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from http import HTTPStatus
from typing import Any, Generic, NamedTuple, TypeVar
from urllib.parse import parse_qs, urlencode

import msgspec

from service.auth.authority import streams_of
from service.auth.refusals import InvalidPayload, NotFound
from service.console.kit.rendering import LEADING_ON, SECRETS
from service.console.kit.visit import FRAMELESS, Json, Said, Visit, local
from service.http.answer.errors import UnsupportedMediaType
from service.http.answer.reply import Streamed
from service.http.declare.call import Call
from service.http.declare.endpoint import Operation
from service.http.declare.headers import head_of
from service.http.declare.operations import KEY
from service.http.edge import inner
from statemachines.kernel.machine import Rejection

# The navigation of a project: its sections in groups, each with its first page.

GROUPS: Sequence[tuple[str, Sequence[tuple[str, str, str]]]] = (
    ("", (("overview", "Overview", ""), ("onboarding", "Onboarding", "onboarding"))),
    (
        "Observe",
        (
            ("cases", "Cases", "cases"),
            ("views", "Views", "views"),
            ("analytics", "Analytics", "analytics"),
            ("deploys", "Deploys", "deploys"),
            ("logs", "Logs", "logs"),
            ("people", "People", "people"),
            ("suppressions", "Suppressions", "suppressions"),
            ("source-maps", "Source maps", "source-maps"),
        ),
    ),
    (
        "Automate",
        (
            ("approvals", "Approvals", "approvals"),
            ("automation", "Automation", "automation"),
            ("runs", "Runs", "runs"),
            ("reports", "Reports", "reports"),
        ),
    ),
    (
        "Tell",
        (
            ("notifications", "Notifications", "notifications"),
            ("webhooks", "Webhooks", "webhooks"),
            ("alerts", "Alerts", "alerts"),
            ("public-queries", "Public queries", "public-queries"),
        ),
    ),
    (
        "Project",
        (
            ("usage", "Usage and billing", "usage"),
            ("members", "Members", "members"),
            ("credentials", "Credentials", "credentials"),
            ("settings", "Settings", "settings"),
            ("log", "Event log", "log"),
        ),
    ),
)
"""Each group with its sections: their name in the code, their title, and their address within the project."""
READS: Mapping[str, str] = {"members": "list_members", "credentials": "list_credentials", "log": "list_events"}
"""What a section reads, where not every role of the project may."""


class NavEntry(NamedTuple):
    """An entry: its section, title and place, whether the page belongs to it, and how much waits there, if any."""

    name: str
    title: str
    place: str
    current: bool
    waiting: str


def sections(
    project_id: str | None, current: str, may: Callable[[str], bool], waiting: Mapping[str, str]
) -> list[tuple[str, list[NavEntry]]]:
    """The navigation of a project, in groups, without what the person may not read. Empty outside of a project.

    `waiting` is how much waits in a section, by its name.
    """
    if project_id is None:
        return []
    base = f"projects/{project_id}"
    return [
        (
            group,
            [
                NavEntry(name, title, f"{base}/{address}".rstrip("/"), name == current, waiting.get(name, ""))
                for name, title, address in entries
                if name not in READS or may(READS[name])
            ],
        )
        for group, entries in GROUPS
    ]


APPROVAL = "approval_pending"
"""The exception of a run that waits for a person."""


def waiting_in(control: Json | None) -> Mapping[str, str]:
    """How many decisions of a project wait for a person, by the section where they are made. Nothing for none."""
    found = sum(one["kind"] == APPROVAL for one in control["exceptions"]) if control else 0
    more = "+" if control and control["truncation"]["exceptions"] else ""
    return {"approvals": f"{found}{more}"} if found else {}


# The fields of a form, and the body of an operation made of them. A name is the place of its value:
# `budgets.max_runs_per_day` is a member of a member, `names[]` one value of several, `paths:lines` a list with an item
# a line, `plan:json` a value in JSON, and `:json` the whole body. A name with an underscore in front is the form's
# own. An empty field is left out.

Fields = Mapping[str, Sequence[str]]

TYPE = "application/x-www-form-urlencoded"
UTF_8 = frozenset({"", "utf-8", "utf8"})
MOST_FIELDS = 500
JSON = ":json"
LINES = ":lines"
SEVERAL = "[]"


def read_form(call: Call, data: bytes) -> Fields:
    """The fields of the form in a request. Raises UnsupportedMediaType for another type, and InvalidPayload."""
    kind, _, parameters = head_of(call.scope).headers.get("content-type", "").lower().partition(";")
    charset = parameters.strip().removeprefix("charset=").strip('"')
    if data and (kind.strip() != TYPE or charset not in UTF_8):
        raise UnsupportedMediaType("The body must be a form in UTF-8.", next_action=f"Send it as {TYPE}.")
    return read_fields(data)


def read_fields(raw: bytes) -> Fields:
    """The fields of a form as sent. Raises InvalidPayload."""
    try:
        found = parse_qs(
            raw.decode(), keep_blank_values=True, strict_parsing=bool(raw), errors="strict", max_num_fields=MOST_FIELDS
        )
    except ValueError:
        raise InvalidPayload("The form is not well-formed.") from None
    bad = [
        (name, "must not hold the character NUL") for name, values in found.items() if "\x00" in name + "".join(values)
    ]
    if bad:
        raise InvalidPayload("A field is not acceptable.", invalid=bad)
    return {name: [value.replace("\r\n", "\n") for value in values] for name, values in found.items()}


def first(fields: Fields, name: str) -> str:
    """The value of a field. Empty without one."""
    return fields[name][0] if fields.get(name) else ""


def body_of(fields: Fields, body_type: Any) -> Any:
    """The body of an operation, with its texts converted to their types. Raises InvalidPayload for bad JSON.

    Anything without the form of its type stays a text, for the operation to refuse with its reason.
    """
    plain: Json = {}
    for name, values in fields.items():
        if name.startswith("_") or (len(values) == 1 and not values[0].strip()):
            continue
        target, value = _valued(name, values)
        if not target:
            return value
        _put(plain, target.split("."), value)
    try:
        typed = msgspec.convert(plain, body_type, strict=False)
    except (msgspec.ValidationError, TypeError):
        return plain
    return _as_sent(plain, msgspec.to_builtins(typed))


def _valued(name: str, values: Sequence[str]) -> tuple[str, Any]:
    """Where a field goes, and its value. Raises InvalidPayload."""
    if name.endswith(JSON):
        try:
            return name.removesuffix(JSON), msgspec.json.decode(values[0])
        except (msgspec.DecodeError, RecursionError) as error:
            raise InvalidPayload("A field is not acceptable.", invalid=[(name, f"is no JSON: {error}")]) from None
    if name.endswith(LINES):
        return name.removesuffix(LINES), [line.strip() for line in values[0].split("\n") if line.strip()]
    if name.endswith(SEVERAL):
        return name.removesuffix(SEVERAL), list(values)
    return name, values[0]


def _put(into: Json, path: Sequence[str], value: Any) -> None:
    for name in path[:-1]:
        inner = into.setdefault(name, {})
        if not isinstance(inner, dict):
            raise InvalidPayload("Two fields of the form are in each other's place.")
        into = inner
    into[path[-1]] = value


def _as_sent(plain: Any, typed: Any) -> Any:
    """The typed value, with the members of the form alone."""
    if isinstance(plain, dict) and isinstance(typed, dict):
        return {name: _as_sent(value, typed[name]) if name in typed else value for name, value in plain.items()}
    return typed


# Declarations of pages and forms, and their answers.


@dataclass(frozen=True, slots=True)
class View:
    """A page: a template with facts for it.

    `state` is the ground of a person's decision, as label and text. Forms carry it along, so a stale one shows the
    changes since. `project_id` puts the page into the frame of a project. `follows` are streams: the page shows their
    changes by itself. What is in no stream is read anew every so many seconds, 0 for never. `status` is that of HTTP.
    """

    template: str
    title: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    project_id: str | None = None
    state: Mapping[str, str] = field(default_factory=dict)
    follows: Sequence[str] = ()
    every: int = 0
    status: int = 200


@dataclass(frozen=True, slots=True)
class Redirect:
    """Leads to another page of the console. `done` is the id of the operation carried out."""

    place: str
    done: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Download:
    """A file for the person to keep, in place of a page."""

    body: bytes
    name: str


Show = Callable[[Visit], Awaitable[View | Download]]
Take = Callable[[Visit, Fields], Awaitable[View | Redirect]]
F = TypeVar("F", Show, Take)


@dataclass(frozen=True, slots=True)
class Answerer(Generic[F]):
    """A function for an address below `/console`, such as `projects/{project_id}/cases`.

    `section` is its entry in the navigation of a project.
    """

    address: str
    section: str
    answer: F

    def match(self, place: str) -> Mapping[str, str] | None:
        """The values of the address in a place. None for another place."""
        found = _pattern(self.address).fullmatch(place)
        return None if found is None else found.groupdict()


@cache
def _pattern(address: str) -> re.Pattern[str]:
    """The pattern of the places of an address."""
    return re.compile(re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", re.escape(address)))


Page = Answerer[Show]
Form = Answerer[Take]


def page(address: str, *, section: str = "") -> Callable[[Show], Page]:
    """Declare a function as a page."""
    return lambda show: Answerer(address, section, show)


def form(address: str, *, section: str = "") -> Callable[[Take], Form]:
    """Declare a function as the taker of a form."""
    return lambda take: Answerer(address, section, take)


# The one form handler behind nearly all buttons: it carries out an operation as the form says it. A form names the
# operation in its address, the values of its path as `_path.<name>`, its If-Match as `_if_match`, its
# Idempotency-Key as `_key`, and the rest is the body (see `fields`). So no rule of any operation is written here. A
# form sent twice is carried out once.

PATH = "_path."
CHANGED = frozenset({HTTPStatus.CONFLICT, HTTPStatus.PRECONDITION_FAILED})


class ShownProblem(NamedTuple):
    """A problem as templates see it. `stale`: the page had been overtaken."""

    status: int
    code: str
    message: str
    next_action: str
    invalid: Mapping[str, str]
    stale: bool


class FormProblem(Exception):
    """The error of an operation, for its form to show beside the values entered."""

    def __init__(self, status: int, error: Mapping[str, Any]) -> None:
        super().__init__(error["code"])
        self.status = status
        self.code: str = error["code"]
        self.message: str = error["message"]
        self.next_action: str = error.get("next_action", "")
        details: Mapping[str, Any] = error.get("details") or {}
        self.allowed_next: Sequence[Any] = details.get("allowed_next") or ()
        self.invalid: Mapping[str, str] = _invalid(details)

    @classmethod
    def of_form(cls) -> FormProblem:
        """The problem of a form from another session."""
        message = "This form belongs to another sign-in. Look at the page once more, then send it again."
        return cls(HTTPStatus.FORBIDDEN, {"code": "form_of_another_session", "message": message})

    @classmethod
    def of_field(cls, name: str, reason: str) -> FormProblem:
        """The problem of one field, found by the form itself."""
        details = {"invalid_fields": [{"field": name, "reason": reason}]}
        error = {"code": "invalid_payload", "message": "A field is not acceptable.", "details": details}
        return cls(HTTPStatus.BAD_REQUEST, error)

    @property
    def stale(self) -> bool:
        """Whether the page had been overtaken."""
        return self.status in CHANGED

    @property
    def shown(self) -> ShownProblem:
        """The problem as templates see it."""
        return ShownProblem(self.status, self.code, self.message, self.next_action, self.invalid, self.stale)

    def changed(self, entered: Mapping[str, str], state: Mapping[str, str]) -> list[tuple[str, str, str]]:
        """What is otherwise than when the form was shown: label, text then and text now."""
        try:
            before = msgspec.json.decode(entered.get("_state", "{}"), type=dict[str, str])
        except msgspec.DecodeError:
            return []
        names = [name for name in {**before, **state} if before.get(name) != state.get(name)]
        return [(name, before.get(name, "–"), state.get(name, "–")) for name in names if before]


def _invalid(details: Mapping[str, Any]) -> Mapping[str, str]:
    """The refused fields, each with the reason."""
    refused = {one["field"]: one["reason"] for one in details.get("invalid_fields") or ()}
    unknown = dict.fromkeys(details.get("unknown_fields") or (), "is not taken")
    return {**refused, **unknown, **dict.fromkeys(details.get("missing_fields") or (), "is missing")}


def takes(operation: Operation) -> bool:
    """Whether a form may carry an operation out: one of people that changes something, with a body that has fields.

    Files, and the messages of MCP, are for programs.
    """
    return operation.method != "GET" and bool(operation.who.principals & KEY) and operation.takes is not bytes


@form("do/{operation_id}")
async def carry_out(visit: Visit, fields: Fields) -> View | Redirect:
    """Carry out an operation of people. Raises FormProblem when it is refused, and NotFound for any other."""
    operation_id = visit.values["operation_id"]
    bound = inner.pipeline_of(visit.call).bound.get(operation_id)
    if bound is None or not takes(bound.operation):
        raise NotFound
    path = {name.removeprefix(PATH): values[0] for name, values in fields.items() if name.startswith(PATH)}
    headers = {"if-match": first(fields, "_if_match"), "idempotency-key": first(fields, "_key")}
    body = body_of(fields, bound.body_type)
    said = await visit.ask(
        operation_id, path, body=body, headers={name: value for name, value in headers.items() if value}
    )
    if not said.ok:
        raise FormProblem(said.status, said.error)
    if operation_id in SECRETS:
        return _shown_once(visit, operation_id, said, first(fields, "_next"))
    return Redirect(local(first(fields, "_next")), operation_id)


def _shown_once(visit: Visit, operation_id: str, said: Said, after: str) -> View:
    """The page of a secret shown once."""
    shown = [(label, said.body[member]) for label, member in SECRETS[operation_id] if said.body.get(member)]
    facts = {"shown": shown, "after": local(after), "answer": said.body}
    template = LEADING_ON.get(operation_id, "kit/secret.html")
    return View(template, "Keep this now", facts, visit.entered.get(f"{PATH}project_id", said.body.get("project_id")))


COMMANDS = [carry_out]


# Live pages: a page says which streams it shows, and its browser hears of each change to them. The address to listen
# at is signed with the session that was shown the page, so nobody listens to anything else. What is heard is a
# position of the log, no more: the page is then read anew, with all of its checks.

ALL = "*"
"""Stands among the streams for all of the page's project; on a page without one, for all of the person."""
SENT = "text/event-stream"
HEARTBEAT_SECONDS = 15.0
TOGETHER_SECONDS = 0.25  # within which several changes are told as one
RETRY_MS = 2000
MOST_STREAMS = 50


class ShownStreams(NamedTuple):
    """What a page shows: streams by their ids, within a project or without one."""

    streams: Sequence[str]
    project_id: str


def address(visit: Visit, streams: Sequence[str], project_id: str | None) -> str:
    """Where the browser of a visit hears of changes to streams."""
    followed = ShownStreams(sorted(set(streams))[:MOST_STREAMS], project_id or "")
    said = {"streams": " ".join(followed.streams), "project": followed.project_id}
    return f"/console/follow?{urlencode({**said, 'token': _token(visit.secret, followed)})}"


async def follow(call: Call, visit: Visit) -> Streamed:
    """Tell of changes until the session or its right to the project ends.

    Raises NotFound for what no page has shown to this session, and ProjectNotFound.
    """
    followed = ShownStreams(visit.query.get("streams", "").split(), visit.query.get("project", ""))
    if not hmac.compare_digest(_token(visit.secret, followed).encode(), visit.query.get("token", "").encode()):
        raise NotFound
    await _admit(call, followed.project_id)
    return Streamed(_changes(call, followed), headers=FRAMELESS, endless=True)


async def _changes(call: Call, followed: ShownStreams) -> AsyncIterator[bytes]:
    follower, wake = call.services.follower, asyncio.Event()
    streams = [stream for stream in followed.streams if stream != ALL]
    all_of = [followed.project_id or call.user_id] if ALL in followed.streams else []
    rights = (
        streams_of(call.principal, followed.project_id) if followed.project_id else (call.principal.id, call.user_id)
    )
    with (
        await follower.listen(streams=streams, projects=all_of, tell=wake.set) as shown,
        await follower.listen(streams=rights, tell=wake.set) as authority,
    ):
        yield b"retry: %d\nevent: begun\ndata: 0\n\n" % RETRY_MS
        told, admitted = 0, -1  # The session may have ended before the listening began.
        while True:
            wake.clear()
            if authority.heard != admitted:
                admitted = authority.heard
                try:
                    await _admit(call, followed.project_id)
                except Rejection:
                    return
            if shown.heard != told:
                told = shown.heard
                yield b"event: changed\ndata: %d\n\n" % shown.position
                await asyncio.sleep(TOGETHER_SECONDS)
                continue
            try:
                async with asyncio.timeout(HEARTBEAT_SECONDS):
                    await wake.wait()
            except TimeoutError:
                admitted = -1
                yield b": still there\n\n"


async def _admit(call: Call, project_id: str) -> None:
    await call.readmit()
    if project_id:
        await call.services.authenticator.standing(call.principal, project_id)


def _token(secret: str, followed: ShownStreams) -> str:
    said = "\n".join([followed.project_id, *followed.streams])
    digest = hmac.digest(secret.encode(), f"console follow\n{said}".encode(), hashlib.sha256)
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")
