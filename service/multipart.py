"""The headers of a form with files: its boundary, and the place of each part (RFC 7578). Pure functions."""

from __future__ import annotations

import re
from collections.abc import Mapping

FORM = "multipart/form-data"
MOST_BOUNDARY = 70  # characters (RFC 2046)
MOST_HEADER = 1024  # bytes of the headers of one part, and of the Content-Type of a form

# No repetition gives back what it took, so a header is gone over once: a stranger to the form pays for no more (P25).
_PARAMETER = re.compile(
    rb"[ \t]*+;[ \t]*+(?:"
    rb"(?P<name>[!#$%&'*+.^_`|~0-9A-Za-z-]++)[ \t]*+=[ \t]*+"
    rb'(?:"(?P<quoted>(?:[^"\\\r\n]|\\[^\r\n])*+)"|(?P<plain>[^\x00- ";\x7f]++)))?'
)
_ESCAPED = re.compile(rb"\\(.)")


class MalformedForm(ValueError):
    """A form with a fault, as the end of a sentence on its body."""


def boundary_of(content_type: str) -> bytes | None:
    """The delimiter of the parts of a form. None for another media type, or without one. Raises MalformedForm."""
    media, parameters = read_header(content_type.encode("latin-1", "replace"))
    boundary = parameters.get("boundary", "")
    if media != FORM or not 0 < len(boundary) <= MOST_BOUNDARY:
        return None
    return b"\r\n--" + boundary.encode("latin-1")


def place_of(headers: bytes) -> Mapping[str, str]:
    """The parameters of a part's place in its form: `name`, and of a file `filename`. Raises MalformedForm."""
    for line in headers.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-disposition":
            return read_header(value)[1]
    return {}


def read_header(value: bytes) -> tuple[str, Mapping[str, str]]:
    """The value of a header, and its parameters (RFC 9110). Of two of a name the first counts. Raises MalformedForm."""
    if len(value) > MOST_HEADER:
        raise MalformedForm(f"must be described in at most {MOST_HEADER} bytes")
    said, _, _ = value.partition(b";")
    parameters: dict[str, str] = {}
    at = len(said)
    while (found := _PARAMETER.match(value, at)) is not None:
        at = found.end()
        if (name := found["name"]) is not None:
            text = found["plain"] if found["quoted"] is None else _ESCAPED.sub(rb"\1", found["quoted"])
            parameters.setdefault(name.decode("latin-1").lower(), text.decode("latin-1"))
    if value[at:].strip(b" \t"):
        raise MalformedForm("must be described in headers of the form that RFC 7578 gives them")
    return said.strip().decode("latin-1").lower(), parameters
