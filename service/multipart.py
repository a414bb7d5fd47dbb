"""The headers of a form with files: its boundary, and the place of each part (RFC 7578). Pure functions.

`multipart` reads the place of a part, as it does for Litestar. It cuts an unquoted boundary at its first `/`, `:` or
`=`, which programs send, so `email` reads the Content-Type. Either may go over a header more than once. A header has a
bound, so a stranger to the form pays for no more (P25).
"""

from email.message import Message
from typing import NamedTuple

from multipart import parse_content_disposition

FORM = "multipart/form-data"
MOST_BOUNDARY = 70  # characters (RFC 2046)
MOST_HEADER = 1024  # bytes of the headers of one part, and of the Content-Type of a form


class MalformedForm(ValueError):
    """A form with a fault, as the end of a sentence on its body."""


class PartPlace(NamedTuple):
    """Where a part belongs in its form: `name`, and of a file `filename`. None: not said."""

    name: str | None = None
    filename: str | None = None


def boundary_of(content_type: str) -> bytes | None:
    """The delimiter of the parts of a form. None for another media type, or without one. Raises MalformedForm."""
    header = Message()
    header["content-type"] = _bounded(content_type)
    boundary = (header.get_boundary() or "").encode("latin-1", "replace")
    if header.get_content_type() != FORM or not 0 < len(boundary) <= MOST_BOUNDARY:
        return None
    return b"\r\n--" + boundary


def place_of(headers: bytes) -> PartPlace:
    """The place that a part's headers name. Raises MalformedForm."""
    for line in headers.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-disposition":
            return PartPlace(*parse_content_disposition(_bounded(value.decode("latin-1")).strip())[1:])
    return PartPlace()


def _bounded(value: str) -> str:
    if len(value) > MOST_HEADER:
        raise MalformedForm(f"must be described in at most {MOST_HEADER} bytes")
    return value
