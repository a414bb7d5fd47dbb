"""Reading the head of a request strictly: one value where one is meant, and no second reading of a path.

A repeated If-Match, a tag list or an encoded slash are the ways in which two readers of one request come to
different conclusions (threats 10 and 19). They are refused here before anything is decided.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote_to_bytes

from service.auth.refusals import IdempotencyKeyRequired, InvalidPayload, Unauthenticated
from service.http.answer.errors import InvalidIfMatch, UnsupportedMediaType
from service.http.answer.reply import REQUEST_ID_HEADER
from service.http.declare.endpoint import Operation
from service.http.declare.forms import Query
from service.http.declare.operations import Presence
from service.ids import new_id
from statemachines.kernel.machine import IfMatchRequired, Rejection

# Headers that mean nothing when given twice. The others are lists and are joined.
SINGLETONS = frozenset(
    {
        "authorization",
        "content-encoding",
        "content-length",
        "content-type",
        "idempotency-key",
        "if-match",
        "provider-signature",
        "stripe-signature",
        "x-service-dsn",
        "x-service-onboarding-proof",
        "x-service-request-id",
    }
)
_REFUSED_WHEN_REPEATED = ("content-length", "content-type", "content-encoding")

_REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_IDEMPOTENCY_KEY = re.compile(r"[\x21-\x7e]{1,255}")
_ENTITY_TAG = re.compile(r'(?:W/)?"[\x21\x23-\x7e]*"')
_JSON_TYPE = re.compile(r"application/(?:json|[a-z0-9!#$&^_.+-]+\+json)")
_MEDIA_TYPE = re.compile(r"[a-z]{1,20}/[a-z0-9][a-z0-9.+-]{0,79}")
_CHARSET = re.compile(r'charset="?([a-z0-9_-]+)"?')

# Equal to no tag that the service issues, so a comparison that is not to be made fails (see `conditional`).
NO_TAG = '""'


class Head(NamedTuple):
    """The head of one request: its id, and its headers by lower-case name."""

    request_id: str
    headers: Mapping[str, str]
    repeated: frozenset[str]  # singletons that came more than once


_NOTHING: frozenset[str] = frozenset()


def read_head(raw: Iterable[tuple[bytes, bytes]]) -> Head:
    """Collect the headers. Adopts a well-formed request id and replaces any other (G-010)."""
    headers: dict[str, str] = {}
    repeated = _NOTHING
    for name_bytes, value_bytes in raw:
        name, value = name_bytes.decode("latin-1").lower(), value_bytes.decode("latin-1")
        if name not in headers:
            headers[name] = value
        elif name in SINGLETONS:
            repeated |= {name}
        else:
            headers[name] = f"{headers[name]}, {value}"
    sent = headers.get(REQUEST_ID_HEADER)
    adopt = sent is not None and REQUEST_ID_HEADER not in repeated and _REQUEST_ID.fullmatch(sent) is not None
    return Head(sent if adopt and sent is not None else new_id("req"), headers, repeated)


HEAD_KEY = "service.head"


def head_of(scope: Any) -> Head:
    """The head that the edge has read and left in the scope."""
    head = scope[HEAD_KEY]
    assert isinstance(head, Head)
    return head


def matches_tag(if_none_match: str | None, etag: str) -> bool:
    """Whether an If-None-Match field names the tag (weak comparison, RFC 9110 §13.1.2)."""
    sent = [tag.strip().removeprefix("W/") for tag in (if_none_match or "").split(",")]
    return "*" in sent or etag in sent


def check_credential_headers(head: Head) -> None:
    """Refuse two credentials in one request. Raises Unauthenticated."""
    for name in ("authorization", "x-service-dsn"):
        if name in head.repeated:
            raise Unauthenticated(f"The header {name} appears more than once.", next_action=f"Send {name} once.")


def check_repeated_headers(head: Head) -> None:
    """Refuse a repeated header that describes the body. Raises InvalidPayload."""
    twice = [name for name in _REFUSED_WHEN_REPEATED if name in head.repeated]
    if twice:
        raise InvalidPayload(
            "A header that may appear once appears more often.", invalid=[(name, "must come once") for name in twice]
        )


def idempotency_key(head: Head, presence: Presence) -> str | None:
    """The Idempotency-Key of a mutation, 1-255 visible ASCII characters (G-008); None when absent or not read."""
    if presence == "none":
        return None
    key = head.headers.get("idempotency-key")
    if key is None:
        return None
    if "idempotency-key" in head.repeated or not _IDEMPOTENCY_KEY.fullmatch(key):
        reason = "must come once, with 1 to 255 visible ASCII characters"
        raise InvalidPayload("The Idempotency-Key is not well-formed.", invalid=[("idempotency-key", reason)])
    return key


def require_key(key: str | None, presence: Presence) -> None:
    """Raise IdempotencyKeyRequired when the operation needs a key and has none."""
    if presence == "required" and key is None:
        raise IdempotencyKeyRequired


def conditional(head: Head, presence: Presence) -> tuple[str | None, Rejection | None]:
    """The tag of If-Match with its quotes, and what is wrong with it (G-009).

    The fault is returned and not raised, because a replay and a missing resource come before it (G-007). The tag is
    then one that never matches. A weak tag is well-formed and never matches either, so it ends as a 412.
    """
    if presence == "none":
        return None, None
    tag = head.headers.get("if-match")
    if tag is None:
        return (NO_TAG, IfMatchRequired("This operation needs If-Match.")) if presence == "required" else (None, None)
    if "if-match" in head.repeated or not _ENTITY_TAG.fullmatch(tag):
        return NO_TAG, InvalidIfMatch()
    return tag, None


def check_content(head: Head, *, text_plain: bool, packed: bool = False) -> None:
    """Refuse a body that is not UTF-8 JSON by its own account. Raises UnsupportedMediaType (G-006).

    `packed`: its content coding is seen to elsewhere; without, there must be none.
    """
    content_type = head.headers.get("content-type", "")
    if content_type != "application/json" and not _is_json(content_type.lower(), text_plain=text_plain):
        raise _not_json(content_type.lower())
    if not packed and head.headers.get("content-encoding", "identity").strip().lower() not in {"identity", ""}:
        raise UnsupportedMediaType("The body must not have a content coding.")


def _not_json(content_type: str) -> UnsupportedMediaType:
    """The refusal of a type, which its details name where it is a plain token: no other text is repeated."""
    if not content_type.strip():
        return UnsupportedMediaType("The request does not say that its body is JSON.")
    kind = content_type.partition(";")[0].strip()
    if not _MEDIA_TYPE.fullmatch(kind):
        return UnsupportedMediaType("The Content-Type is not a media type.")
    if _JSON_TYPE.fullmatch(kind):
        return UnsupportedMediaType("The body must be in UTF-8.", content_type=kind)
    return UnsupportedMediaType(
        "The body must be JSON. details.content_type names the type you sent.", content_type=kind
    )


def _is_json(content_type: str, *, text_plain: bool) -> bool:
    kind, *parameters = (part.strip() for part in content_type.split(";"))
    if not (_JSON_TYPE.fullmatch(kind) or (text_plain and kind == "text/plain")):
        return False
    charsets = [found.group(1) for parameter in parameters if (found := _CHARSET.fullmatch(parameter))]
    return all(charset in {"utf-8", "utf8", "us-ascii"} for charset in charsets)


# Segments of unreserved characters and sub-delimiters except ";", none of them a dot or two; one slash between them.
_PLAIN_PATH = re.compile(rb"(?:/(?!\.\.?(?:/|\Z))[A-Za-z0-9._~!$&'()*+,:=@-]+)*/?")
_ESCAPED = re.compile(rb"(?:[A-Za-z0-9._~!$&'()*+,:=@-]|%[0-9A-Fa-f]{2})+")
_CONTROL = re.compile(rb"[\x00-\x1f\x7f/]")


def is_plain_path(raw_path: bytes, slash_allowed: frozenset[bytes]) -> bool:
    """Whether a path has only one reading: no empty or dot segment, parameter, encoded slash or control character.

    A trailing slash is part of the few paths in `slash_allowed`, and of no other (G-016).
    """
    if raw_path.endswith(b"/"):
        return raw_path in slash_allowed
    if _PLAIN_PATH.fullmatch(raw_path):
        return True
    return raw_path.startswith(b"/") and all(_is_plain_segment(segment) for segment in raw_path[1:].split(b"/"))


def _is_plain_segment(segment: bytes) -> bool:
    if not _ESCAPED.fullmatch(segment):
        return False
    decoded = unquote_to_bytes(segment)
    try:
        decoded.decode()
    except UnicodeDecodeError:
        return False
    return decoded not in {b".", b".."} and not _CONTROL.search(decoded)


def with_coding(operation: Operation, head: Head, query: Query) -> Head:
    """The head with the content coding that an SDK's query names, unless a header does."""
    protocol = operation.body.sdk
    coding = protocol.coding(query) if protocol is not None and "content-encoding" not in head.headers else ""
    return head._replace(headers={**head.headers, "content-encoding": coding}) if coding else head
