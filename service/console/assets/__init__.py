"""The files of the pages: the style sheet, the scripts and the icon. Names are looked up and lead to no path."""

from __future__ import annotations

import gzip
import hashlib
from functools import cache
from importlib import resources
from typing import NamedTuple

TYPES = {
    "console.css": "text/css; charset=utf-8",
    "console.js": "text/javascript; charset=utf-8",
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


class Asset(NamedTuple):
    """A file: its bytes, plain and as gzip, its media type and its quoted tag."""

    body: bytes
    packed: bytes
    content_type: str
    etag: str

    @property
    def version(self) -> str:
        """A short text of the bytes, for the address."""
        return self.etag[1:9]


@cache
def named(name: str) -> Asset | None:
    """A file by its name. None for any other name."""
    if name not in TYPES:
        return None
    body = resources.files(__name__).joinpath(name).read_bytes()
    tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    return Asset(body, gzip.compress(body, 9, mtime=0), TYPES[name], tag)


@cache
def version(name: str) -> str:
    """A short text of the bytes of a file, for its address."""
    found = named(name)
    assert found is not None, f"the console has no file {name}"
    return found.version
