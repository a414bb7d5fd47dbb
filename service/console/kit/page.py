"""Declarations of pages and forms, their fields, and the navigation around them."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Generic, NamedTuple, TypeVar
from urllib.parse import parse_qs

import msgspec

from service.auth.refusals import InvalidPayload
from service.console.kit.visit import Visit
from service.http.edge.answer.errors import UnsupportedMediaType
from service.http.edge.declare.call import Call
from service.http.edge.declare.headers import head_of

# The navigation of a project: its sections in groups, each with its first page.

GROUPS: Sequence[tuple[str, Sequence[tuple[str, str, str]]]] = (
    ("", (("overview", "Overview", ""), ("onboarding", "Onboarding", "onboarding"))),
    (
        "Observe",
        (
            ("cases", "Cases", "cases"),
            ("logs", "Logs", "logs"),
            ("people", "People", "people"),
            ("suppressions", "Suppressions", "suppressions"),
            ("source-maps", "Source maps", "source-maps"),
        ),
    ),
    (
        "Automate",
        (
            ("automation", "Automation", "automation"),
            ("runs", "Runs", "runs"),
            ("reports", "Reports", "reports"),
        ),
    ),
    (
        "Tell",
        (
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
    """An entry: its title, its place, and whether the page shown belongs to it."""

    title: str
    place: str
    current: bool


def sections(project_id: str | None, current: str, may: Callable[[str], bool]) -> list[tuple[str, list[NavEntry]]]:
    """The navigation of a project, in groups, without what the person may not read. Empty outside of a project."""
    if project_id is None:
        return []
    base = f"projects/{project_id}"
    return [
        (
            group,
            [
                NavEntry(title, f"{base}/{address}".rstrip("/"), name == current)
                for name, title, address in entries
                if name not in READS or may(READS[name])
            ],
        )
        for group, entries in GROUPS
    ]


# The fields of a form, and the body of an operation made of them. A name is the place of its value:
# `budgets.max_runs_per_day` is a member of a member, `names[]` one value of several, `paths:lines` a list with an item
# a line, `plan:json` a value in JSON, and `:json` the whole body. A name with an underscore in front is the form's
# own. An empty field is left out.

Json = dict[str, Any]
Fields = Mapping[str, Sequence[str]]

TYPE = "application/x-www-form-urlencoded"
UTF_8 = frozenset({"", "utf-8", "utf8"})
MOST_FIELDS = 500
JSON = ":json"
LINES = ":lines"
SEVERAL = "[]"


def read_form(call: Call[bytes, Any]) -> Fields:
    """The fields of the form in a request. Raises UnsupportedMediaType for another type, and InvalidPayload."""
    kind, _, parameters = head_of(call.scope).headers.get("content-type", "").lower().partition(";")
    charset = parameters.strip().removeprefix("charset=").strip('"')
    if call.body and (kind.strip() != TYPE or charset not in UTF_8):
        raise UnsupportedMediaType("The body must be a form in UTF-8.", next_action=f"Send it as {TYPE}.")
    return read_fields(call.body)


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
