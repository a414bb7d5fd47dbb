"""Forms of a telemetry body beside the one record in JSON: many records, or those of another protocol (G-143).

A form is told by the content type, or by how a JSON text begins, so that it is known when the first bytes are here: it
says how many may follow.

Sdk is what the edge has to know of somebody else's SDK: where its key is, and how it is told to wait (G-142).
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, Protocol, TypeVar

from schemas.kernel.shape import MAX_BATCH_BYTES
from service.http.answer.errors import Failure

TOLD_BY = 512
"""Bytes of a body that tell its form."""
REMEMBERED_LENGTH = 64  # characters of the longest content type that is remembered

_JSON = re.compile(r"application/(?:json|[a-z0-9!#$&^_.+-]+\+json)|text/plain")
_PLAIN = frozenset({"", "identity"})


class Export(NamedTuple):
    """How a protocol of others answers: in which media types, the one of JSON first, and the shapes of both answers."""

    media: tuple[str, str]
    answer: type[Any]
    error: type[Any]


class Form(NamedTuple):
    """A form: its name, the bytes that a body of it may have, and how it is told.

    One of the `media` tells it, or `begins`, if it has that: a beginning of a body of JSON. `write_failure` writes an
    error for a request of this media type as its protocol has it, and says in which type; without, it is the envelope.
    `export` describes such answers.
    """

    name: str
    max_body: int
    media: frozenset[str] = frozenset()
    begins: re.Pattern[bytes] | None = None
    write_failure: Callable[[Failure, str], tuple[bytes, str]] | None = None
    export: Export | None = None


ARRAY = Form("array", MAX_BATCH_BYTES, begins=re.compile(rb"[ \t\r\n]*\["))
LINES = Form(
    "lines",
    MAX_BATCH_BYTES,
    frozenset({"application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines"}),
)
BATCHES: Sequence[Form] = (ARRAY, LINES)


def media_of(headers: Mapping[str, str]) -> str:
    """The media type of a body, without its parameters."""
    return _media(headers.get("content-type", ""))


def _media(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def _read_type(content_type: str) -> tuple[str, bool]:
    """A media type, and whether it is one of JSON."""
    media = _media(content_type)
    return media, _JSON.fullmatch(media) is not None


_remembered = lru_cache(maxsize=1024)(_read_type)  # Every record of telemetry asks twice, and nearly all say the same.


def form_of(forms: Sequence[Form], headers: Mapping[str, str], begin: bytes) -> Form | None:
    """Tell the form of a body by its headers and its first bytes, unpacked; None when it is that of one record."""
    if not forms:
        return None
    content_type = headers.get("content-type", "")
    media, is_json = (_remembered if len(content_type) <= REMEMBERED_LENGTH else _read_type)(content_type)
    for form in forms:
        if form.begins is None:
            if media in form.media:
                return form
        elif is_json and form.begins.match(begin):
            return form
    return None


def most_of(forms: Sequence[Form], headers: Mapping[str, str], begin: bytes, otherwise: int) -> int:
    """Bytes that a body may have as it is sent. Of one that is packed the beginning tells nothing yet."""
    if "content-encoding" in headers and headers["content-encoding"].strip().lower() not in _PLAIN:
        return max(otherwise, MAX_BATCH_BYTES)
    form = form_of(forms, headers, begin)
    return otherwise if form is None else form.max_body


Query = Mapping[str, Sequence[str]]


T_co = TypeVar("T_co", covariant=True)


class BodyReader(Protocol[T_co]):
    """Reads a body while its pieces arrive."""

    def feed(self, piece: bytes) -> T_co | None:
        """Read the next piece, an empty one at the end. Returns its finds."""

    def close(self) -> None:
        """Give up the unread rest. Called at the end of the request."""


class KeyFinder(BodyReader[bool], Protocol):
    """A search for the key in a body, when the head has none. `key` is None while there is none."""

    key: str | None

    def feed(self, piece: bytes) -> bool | None:
        """Look at the next piece, an empty one at the end. Returns true once the search is over.

        Raises InvalidPayload for a body in which no key can be looked for (G-175).
        """


class Sdk(NamedTuple):
    """`finder` begins to look for the key in a body. `told` is what a refusal says in headers of theirs.

    `coding` is the content coding of a body that is named in the query, where a browser may set no header; "" for none.
    `parameters` are those of the query that it reads.
    """

    name: str
    finder: Callable[[], KeyFinder]
    told: Callable[[Failure], Mapping[str, str]]
    coding: Callable[[Query], str]
    parameters: tuple[str, ...] = ()
