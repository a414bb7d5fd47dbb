"""The files of the pages: the style sheet, the scripts and the icon, and the pictures in the docs.

Names are looked up and lead to no path.
"""

import gzip
import hashlib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import NamedTuple

TYPES = {
    "console.css": "text/css; charset=utf-8",
    "console.js": "text/javascript; charset=utf-8",
    "docs.js": "text/javascript; charset=utf-8",
    "htmx.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}

HEADERS = {
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "cross-origin-resource-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
"""Of each file: no other page shows it, and by itself it loads nothing."""


DOCS, PICTURES = "service_docs", "pictures"
PICTURE, PICTURE_TYPE = ".webp", "image/webp"


class Asset(NamedTuple):
    """A file: its bytes, plain and as gzip (None for a picture), its media type and its quoted tag."""

    body: bytes
    packed: bytes | None
    content_type: str
    etag: str

    @property
    def version(self) -> str:
        """A short text of the bytes, for the address."""
        return self.etag[1:9]


def named(name: str) -> Asset | None:
    """A file by its name. None for any other name."""
    return _read(name) if name in TYPES or name in _pictures() else None


@cache
def _read(name: str) -> Asset:
    if name in TYPES:
        body = resources.files(__name__).joinpath(name).read_bytes()
        return Asset(body, gzip.compress(body, 9, mtime=0), TYPES[name], _tag(body))
    body = _pictures()[name].read_bytes()
    return Asset(body, None, PICTURE_TYPE, _tag(body))


@cache
def _pictures() -> Mapping[str, Traversable]:
    """The pictures by their names."""
    found = (resources.files(DOCS) / PICTURES).iterdir()
    return {file.name: file for file in found if file.name.endswith(PICTURE)}


def _tag(body: bytes) -> str:
    return f'"{hashlib.sha256(body).hexdigest()[:32]}"'


@cache
def version(name: str) -> str:
    """A short text of the bytes of a file, for its address."""
    found = named(name)
    assert found is not None, f"the console has no file {name}"
    return found.version
