"""Results of tools: the body of an answer or a part of it, the way to go on, and the origin of each member (G-168)."""

import hashlib
import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, NamedTuple

import msgspec

from schemas.kernel.origins import SERVER, Origins
from service.auth.refusals import InvalidPayload
from service.http.answer.reply import JSON
from service.http.mcp.origins import least_trusted

Json = dict[str, Any]

MOST_CHARACTERS = 24_000
"""Characters of one part of an answer."""
ORIGINS_KEY = "service/origins"
LONGEST_CURSOR = 700
_PART = re.compile(r"part\.(\d{1,9})\.([0-9a-f]{12})\.(.*)", re.ASCII)
_PAGE = re.compile(r"page\.(.+)", re.ASCII)


class Cursor(NamedTuple):
    """Where an answer goes on: the page of a list, and the place in the text of that page."""

    page: str = ""
    offset: int = 0
    digest: str = ""

    def __str__(self) -> str:
        return f"part.{self.offset}.{self.digest}.{self.page}" if self.digest else f"page.{self.page}"


class Found(NamedTuple):
    """An answer of an operation: its status, its body as sent, and its headers."""

    operation: str
    status: int
    body: bytes
    headers: Mapping[str, str]
    origins: Origins


def read_cursor(text: Any) -> Cursor:
    """Read the cursor of a tool's answer. Raises InvalidPayload for any other text."""
    if text is None:
        return Cursor()
    if isinstance(text, str) and len(text) <= LONGEST_CURSOR:
        if part := _PART.fullmatch(text):
            return Cursor(part[3], int(part[1]), part[2])
        if page := _PAGE.fullmatch(text):
            return Cursor(page[1])
    raise InvalidPayload("The cursor is not acceptable.", invalid=[("cursor", "must be the cursor of an answer")])


def shown(found: Found, cursor: Cursor) -> Json:
    """The result of a tool. Raises InvalidPayload for a cursor into a changed answer."""
    refused = found.status >= HTTPStatus.BAD_REQUEST
    origins = {"": SERVER} if refused else found.origins
    content: Json = {"operation": found.operation, "status": found.status}
    if refused:
        content["next_step"] = _next_step(found)
    content |= {name: found.headers[header] for header, name in _TOLD.items() if header in found.headers}
    text = found.body.decode()
    value = _value(found, text)
    rest = _next_page(value)
    if cursor.offset == 0 and len(text) <= MOST_CHARACTERS:
        content["answer"] = value
    else:
        part, offset = _part(text, cursor)
        content["part"] = part
        if offset < len(text):
            rest = Cursor(cursor.page, offset, _digest(text))
    content |= {"truncated": rest is not None, "cursor": None if rest is None else str(rest)}
    result: Json = {
        "content": [{"type": "text", "text": msgspec.json.encode(content).decode()}],
        "structuredContent": content,
        "_meta": {ORIGINS_KEY: _placed(origins, "part" if "part" in content else "answer")},
    }
    return {**result, "isError": True} if refused else result


_TOLD = {"etag": "etag", "retry-after": "retry_after", "idempotent-replayed": "replayed"}
"""Headers with their names in a result."""


_LISTED = {
    "project_not_found": "list_projects",
    "case_not_found": "list_cases",
    "run_not_found": "list_automation_runs",
    "automation_not_found": "get_automation_control",
}
"""The tools with the ids of what was not found."""
_STEPS = {
    HTTPStatus.PRECONDITION_FAILED: "Read the object again, and call this tool with its present etag.",
    HTTPStatus.PRECONDITION_REQUIRED: "Read the object, and call this tool with its etag.",
    HTTPStatus.TOO_MANY_REQUESTS: "Wait retry_after seconds, then call this tool with the same arguments.",
    HTTPStatus.UNAUTHORIZED: "Ask the person who gave you this credential. No tool changes what it may do.",
    HTTPStatus.FORBIDDEN: "Ask the person who gave you this credential. No tool changes what it may do.",
    HTTPStatus.CONFLICT: "Read the object again with a tool, and decide anew. The same call is refused again.",
}


def _next_step(found: Found) -> str:
    """What to do with the tools after a refusal. `next_action` of the error is for programs that call the API."""
    error = msgspec.json.decode(found.body)["error"]
    if error["code"] == "idempotency_key_required":
        return "Call this tool with an idempotency_key of your own."
    if tool := _LISTED.get(error["code"]):
        return f"Call {tool} for the ids that this credential can see."
    if step := _STEPS.get(HTTPStatus(found.status)):
        return step
    if found.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return "Call this tool again with the same arguments, and the same idempotency_key if it had one."
    faults = error.get("details", {}).get("invalid_fields", [])
    unknown = any(one.get("field") == "operation" for one in faults)
    if unknown or found.status == HTTPStatus.NOT_FOUND:
        return "Call find_operation for the reads there are."
    return f"Call describe with operation {found.operation} if it is a read, and correct the arguments."


def _value(found: Found, text: str) -> Any:
    """The body as a value: JSON decoded, any other text as it is."""
    if not text:
        return None
    return msgspec.json.decode(text) if found.headers.get("content-type", JSON).startswith(JSON) else text


def _next_page(value: Any) -> Cursor | None:
    if isinstance(value, dict) and isinstance(value.get("next_cursor"), str):
        return Cursor(value["next_cursor"])
    return None


def _part(text: str, cursor: Cursor) -> tuple[str, int]:
    """The part of a text at a cursor, and its end. Raises InvalidPayload for a changed text."""
    if cursor.digest and (cursor.digest != _digest(text) or cursor.offset >= len(text)):
        reason = "is of an answer that has changed; call again without a cursor, and a query with an idempotency_key"
        raise InvalidPayload("The answer has changed.", invalid=[("cursor", reason)])
    end = cursor.offset + MOST_CHARACTERS
    return text[cursor.offset : end], min(end, len(text))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _placed(origins: Origins, member: str) -> Origins:
    """The map for a result. A part of a text has the least trusted of all origins."""
    placed: Origins = {"": SERVER}
    if member == "part":
        placed["/part"] = least_trusted(origins)
    return placed | {f"/answer{pointer}": origin for pointer, origin in origins.items() if pointer or origin != SERVER}
