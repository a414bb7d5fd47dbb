"""Forms of a telemetry body beside the one record in JSON: many records, or those of another protocol (G-143).

A form is told by the content type, or by how a JSON text begins, so that it is known when the first bytes are here: it
says how many may follow.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from schemas.kernel.shape import MAX_BATCH_BYTES
from service.http.edge.answer.errors import Failure

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
