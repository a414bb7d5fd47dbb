"""The stored errors of a case, with the context and the frames of each."""

import json
import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple
from urllib.parse import urlencode

from schemas.kernel.patterns import TRACE_ID
from service.console.kit.page import View, page
from service.console.kit.rendering import pretty, told_duration
from service.console.kit.visit import Visit

# The stack of a stored error for a page: its exceptions, its frames in groups, and all of it as text.

Json = Mapping[str, Any]
_FILES = ("abs_path", "filename", "source_url", "url", "file", "module")
_LINES = ("line", "lineno", "line_number")
_COLUMNS = ("column", "colno", "col", "column_number")
_FUNCTIONS = ("function", "name", "method")
MOST_AROUND = 5
"""Lines before and after that of a frame."""
_NO_MATTER = frozenset({"resolved", "not_mapped_code", "no_location"})
"""Verdicts without anything to do."""


class SourceLine(NamedTuple):
    """A line of source, `at` the frame or around it."""

    number: int | None
    text: str
    at: bool


class ShownFrame(NamedTuple):
    """A frame in words: its function and place, the lines around it, and the reason for a missing source.

    `code` names its module, package and address, where the sender does. `variables` are names with values as text.
    """

    function: str
    place: str
    sent_as: str
    lines: Sequence[SourceLine]
    advice: str
    in_app: bool
    code: Sequence[tuple[str, str]] = ()
    variables: Sequence[tuple[str, str]] = ()

    @property
    def told(self) -> str:
        """The frame as a line of text."""
        return f"    at {self.function or '(anonymous)'} ({self.place or 'unknown'})"


class FrameGroup(NamedTuple):
    """Frames in a row, all of the product or all of others."""

    in_app: bool
    frames: Sequence[ShownFrame]


class Cause(NamedTuple):
    """An exception with its frames."""

    type: str | None
    value: str | None
    groups: Sequence[FrameGroup]


def chain(event: Json) -> list[Cause]:
    """The exceptions of an error, the last one first: its frames are resolved, those of the ones before as sent."""
    sent = event["exception"] or {}
    resolved = event.get("frames", ())
    frames = [_resolved(frame, raw) for frame, raw in zip(resolved, _as_sent(sent, len(resolved)), strict=True)]
    causes = [Cause(sent.get("type"), sent.get("value"), groups_of(frames))]
    return [*causes, *(sent_cause(cause) for cause in sent.get("causes") or ())]


def sent_cause(cause: Json) -> Cause:
    """An exception with its frames as they were sent."""
    return Cause(cause["type"], cause["value"], groups_of([_sent(frame) for frame in cause["frames"]]))


def groups_of(frames: Sequence[ShownFrame]) -> list[FrameGroup]:
    """Frames in groups. Without marks of the product, all count as its own."""
    if not any(frame.in_app for frame in frames):
        frames = [frame._replace(in_app=True) for frame in frames]
    return [FrameGroup(in_app, list(some)) for in_app, some in groupby(frames, key=lambda frame: frame.in_app)]


def as_text(causes: Sequence[Cause]) -> str:
    """The stack as text, to be pasted elsewhere."""
    told = []
    for index, cause in enumerate(causes):
        head = ": ".join(part for part in (cause.type, cause.value) if part) or "Error"
        told.append(f"{'Caused by: ' if index else ''}{head}")
        told += [frame.told for group in cause.groups for frame in group.frames]
    return "\n".join(told)


def _as_sent(exception: Json, count: int) -> list[Json]:
    """So many frames as they were sent, empty ones where another number was."""
    sent = exception.get("frames")
    if not isinstance(sent, list) or len(sent) != count:
        return [{}] * count
    return [frame if isinstance(frame, dict) else {} for frame in sent]


def _resolved(frame: Json, raw: Json) -> ShownFrame:
    """A frame as the API resolves it. What its sender wrote of the lines around it is in `raw`."""
    sent = _place(frame["source_url"], frame["line"], frame["column"])
    if not frame["resolved"]:
        lines = _around(frame["line"], _texts(raw, "pre_context"), frame["context_line"], _texts(raw, "post_context"))
        advice = "" if frame["verdict"] in _NO_MATTER else frame["advice"]
        return ShownFrame(
            frame["function"] or "", sent, "", lines, advice, frame["in_app"] is True, _code(frame), _variables(frame)
        )
    place = _place(frame["original_source"], frame["original_line"], frame["original_column"])
    lines = _around(frame["original_line"], frame["context_before"], frame["context_line"], frame["context_after"])
    function = frame["original_function"] or frame["function"] or ""
    return ShownFrame(function, place, sent, lines, "", frame["in_app"] is not False, _code(frame), _variables(frame))


def _sent(frame: Json) -> ShownFrame:
    """A frame as its sender wrote it: anything may be in it."""
    line = _first(frame, _LINES)
    number = int(line) if line.isascii() and line.isdigit() and len(line) < len(str(2**31)) else None
    place = _place(_first(frame, _FILES), line, _first(frame, _COLUMNS))
    context = frame.get("context_line")
    at = context if isinstance(context, str) else None
    lines = _around(number, _texts(frame, "pre_context"), at, _texts(frame, "post_context"))
    return ShownFrame(
        _first(frame, _FUNCTIONS), place, "", lines, "", frame.get("in_app") is True, _code(frame), _variables(frame)
    )


def _code(frame: Json) -> list[tuple[str, str]]:
    named = {"module": "module", "package": "package", "instruction_addr": "address"}
    return [(title, value) for name, title in named.items() if isinstance(value := frame.get(name), str) and value]


def _variables(frame: Json) -> list[tuple[str, str]]:
    held = frame.get("vars")
    if not isinstance(held, dict):
        return []
    return [(name, value if isinstance(value, str) else json.dumps(value)) for name, value in held.items()]


def _texts(frame: Json, name: str) -> list[str]:
    """Lines as a sender wrote them, as many as are shown. None unless all are texts."""
    found = frame.get(name)
    if not isinstance(found, list) or not all(isinstance(line, str) for line in found):
        return []
    return found[-MOST_AROUND:] if name == "pre_context" else found[:MOST_AROUND]


def _first(frame: Json, names: Sequence[str]) -> str:
    return next((str(frame[name]) for name in names if isinstance(frame.get(name), (str, int))), "")


def _place(source: str | None, line: Any, column: Any) -> str:
    return ":".join(str(part) for part in (source or "unknown file", line, column) if part not in {None, ""})


def _around(number: int | None, before: Sequence[str], at: str | None, after: Sequence[str]) -> list[SourceLine]:
    if at is None:
        return []
    first = None if number is None else number - len(before)
    texts = [*before, at, *after]
    return [
        SourceLine(None if first is None else first + index, text, index == len(before))
        for index, text in enumerate(texts)
    ]


# A stored error for a page: its stack, its breadcrumbs, its request, its contexts. Senders may send anything.

_LATEST = 4_102_444_800  # a moment after this one is no time of an error
_HEADS = ("method", "url")
_NEAR, _NEAR_OF_TRACE = 300, 3_600  # seconds before and after an error to look for its logs
_LONGEST_ID, _LONGEST_TRACE = 200, 64
_FACTS = {
    "transaction": "Transaction",
    "server_name": "Server",
    "logger": "Logger",
    "platform": "Platform",
    "dist": "Distribution",
    "fingerprint": "Fingerprint of the sender",
    "left_out": "Cut or left out for its size",
}
_TITLES = {
    "runtime": "Runtime",
    "os": "Operating system",
    "browser": "Browser",
    "device": "Device",
    "app": "App",
    "trace": "Trace",
}


class Crumb(NamedTuple):
    """A breadcrumb. `at` in epoch seconds, None for any other text. `before` is that as seen from the error."""

    at: int | None
    before: str
    when: str
    category: str
    level: str
    message: str
    data: str


class RequestPart(NamedTuple):
    """A part of a request: pairs, or a text."""

    name: str
    pairs: Sequence[tuple[str, str]]
    text: str


class SentRequest(NamedTuple):
    """A request: its first lines, and its parts."""

    heads: Sequence[tuple[str, str]]
    parts: Sequence[RequestPart]


class Evidence(NamedTuple):
    """All of an error for its page.

    `culprit` is the call of the product in which it happened. `handled` is None where the sender does not say. `stack`
    is its stack as text. `logs` are the words and queries of links to the logs around it.
    """

    event: Json
    culprit: str
    handled: bool | None
    causes: Sequence[Cause]
    stack: str
    breadcrumbs: Sequence[Crumb]
    request: SentRequest | None
    user: Sequence[tuple[str, str]]
    tags: Sequence[tuple[str, str]]
    heads: Sequence[tuple[str, str]]
    contexts: Sequence[tuple[str, Sequence[tuple[str, str]]]]
    extra: Sequence[tuple[str, str]]
    logs: Sequence[tuple[str, str]]


def evidence_of(event: Json) -> Evidence:
    """An error of get_case_event, taken apart for a page."""
    causes = chain(event)
    return Evidence(
        event,
        culprit_of(causes),
        (event["exception"] or {}).get("handled"),
        causes,
        as_text(causes),
        breadcrumbs(event),
        request(event),
        _pairs(event["user"] or {}),
        _pairs(event["tags"]),
        facts_of(event),
        contexts(event),
        _pairs(event.get("extra") or {}),
        _logs_around(event),
    )


def culprit_of(causes: Sequence[Cause]) -> str:
    """The first call of the product in the stack of an error, else the first of all. Empty without frames."""
    groups = causes[0].groups if causes else ()
    frames = [one for group in sorted(groups, key=lambda group: not group.in_app) for one in group.frames]
    if not frames:
        return ""
    return f"{frames[0].function} in {frames[0].place}" if frames[0].function else frames[0].place


def facts_of(event: Json) -> list[tuple[str, str]]:
    """The facts of an error that have one value each, those that were sent."""
    return [(title, told(event[name])) for name, title in _FACTS.items() if event.get(name)]


def person_of(event: Json) -> str:
    """The id of the person whom an error names, as lists take it. Empty for none."""
    person = str((event["user"] or {}).get("id") or "")
    return person if len(person) <= _LONGEST_ID else ""


def trace_of(event: Json) -> str:
    """The id of the trace of an error, as lists take it. Empty for none."""
    trace = (event.get("contexts") or {}).get("trace")
    found = trace.get("trace_id") if isinstance(trace, dict) else None
    is_id = isinstance(found, str) and len(found) <= _LONGEST_TRACE and re.match(TRACE_ID, found)
    return str(found) if is_id else ""


def _logs_around(event: Json) -> list[tuple[str, str]]:
    """Links to the logs around an error: of its trace, of its person, and of everybody."""
    near = [
        ("of the same trace", {"trace": trace_of(event)}, _NEAR_OF_TRACE),
        ("of the same person", {"user": person_of(event)}, _NEAR),
        ("of everybody", {}, _NEAR),
    ]
    at = event["occurred_at"]
    return [
        (words, urlencode({**by, "from": max(at - seconds, 0), "to": at + seconds}))
        for words, by, seconds in near
        if all(by.values())
    ]


def contexts(event: Json) -> list[tuple[str, list[tuple[str, str]]]]:
    """The contexts of an error, each with its members, and the SDK that sent it."""
    found = {_TITLES.get(name, name): value for name, value in (event.get("contexts") or {}).items()}
    if sdk := event.get("sdk"):
        found["SDK"] = sdk
    return [
        (title, _pairs(value) if isinstance(value, dict) else [("value", told(value))])
        for title, value in found.items()
        if value
    ]


def breadcrumbs(event: Json) -> list[Crumb]:
    """The breadcrumbs of an error."""
    return [_crumb(crumb, event["occurred_at"]) for crumb in event.get("breadcrumbs") or ()]


def request(event: Json) -> SentRequest | None:
    """The request of an error."""
    sent = event.get("request")
    if not sent:
        return None
    heads = [(name, told(sent[name])) for name in _HEADS if sent.get(name)]
    return SentRequest(heads, [_part(name, value) for name, value in sent.items() if name not in _HEADS and value])


def told(value: Any) -> str:
    """A value as text, a list of texts with commas."""
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return ", ".join(value)
    return value if isinstance(value, str) else pretty(value)


def _crumb(crumb: Json, of_error: int) -> Crumb:
    at = crumb.get("timestamp")
    known = isinstance(at, (int, float)) and 0 < at < _LATEST
    category = crumb.get("category") or crumb.get("type") or ""
    return Crumb(
        int(at) if known and at is not None else None,
        _before(of_error - int(at)) if known and at is not None else "",
        "" if at is None or known else told(at),
        told(category),
        told(crumb.get("level") or ""),
        told(crumb.get("message") or ""),
        told(crumb["data"]) if crumb.get("data") else "",
    )


def _before(seconds: int) -> str:
    """Seconds from a breadcrumb to its error, as words. Both have whole seconds."""
    if seconds == 0:
        return "with it"
    return f"{told_duration(abs(seconds))} {'before' if seconds > 0 else 'after'}"


def _part(name: str, value: Any) -> RequestPart:
    if isinstance(value, dict):
        return RequestPart(name, _pairs(value), "")
    return RequestPart(name, (), told(value))


def _pairs(values: Json) -> list[tuple[str, str]]:
    return [(name, told(value)) for name, value in values.items()]


# The stored errors of a case: the list, newest first, one of them in full, and the people affected.

PAGE = 25
NEWEST = 10_000
"""Errors that are counted for the shared tags on the list of them."""
BESIDE_CASE = 1_000
"""The same on the page of the case, which has more to read."""


@page("cases/{case_id}/errors", section="cases")
async def show_errors(visit: Visit) -> View:
    """Show the stored errors of a case, a page of them, and what all of them share."""
    case_id = visit.values["case_id"]
    query = {"cursor": visit.query.get("cursor"), "limit": PAGE}
    found = await visit.read("list_case_events", case_id=case_id, query=query)
    common = await common_of(visit, case_id, NEWEST) if found["events"] else None
    facts = {"found": found, "case_id": case_id, "common": common}
    return View("cases/errors.html", "Errors of a case", facts, found["project_id"])


@page("cases/{case_id}/errors/{event_id}", section="cases")
async def show_error(visit: Visit) -> View:
    """Show one stored error with its sources."""
    case_id = visit.values["case_id"]
    event = await visit.read("get_case_event", case_id=case_id, event_id=visit.values["event_id"])
    beside = {"newer": event["newer_event_id"], "older": event["older_event_id"]}
    facts = {"shown": evidence_of(event), "case_id": case_id, **beside}
    return View("cases/error.html", event["message"].partition("\n")[0][:200], facts, event["project_id"])


@page("cases/{case_id}/errors/{event_id}/json", section="cases")
async def show_raw(visit: Visit) -> View:
    """Show one stored error as the API answers it."""
    case_id, event_id = visit.values["case_id"], visit.values["event_id"]
    event = await visit.read("get_case_event", case_id=case_id, event_id=event_id)
    facts = {"event": event, "case_id": case_id, "event_id": event_id}
    return View("cases/raw.html", "An error as JSON", facts, event["project_id"])


async def common_of(visit: Visit, case_id: str, newest: int) -> Json | None:
    """The tags of the newest errors of a case with their most frequent values. None where they were not counted."""
    return await visit.try_read("get_case_common", case_id=case_id, query={"newest": newest})


@page("cases/{case_id}/people", section="cases")
async def show_people(visit: Visit) -> View:
    """Show the people affected by a case, most errors first."""
    case_id = visit.values["case_id"]
    case = await visit.read("read_case", case_id=case_id)
    found = await visit.read("list_case_users", case_id=case_id)
    facts = {"found": found, "case_id": case_id}
    return View("cases/people.html", "People affected by a case", facts, case["project_id"])


PAGES = [show_errors, show_error, show_raw, show_people]
