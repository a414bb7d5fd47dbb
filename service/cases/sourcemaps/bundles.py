"""Bundles of source maps as `sentry-cli` makes them: an archive with a manifest (its artifact bundles).

Nothing that an archive says of itself is believed: entries are unpacked up to what a file may be large, all of them up
to what a bundle may, and their names are looked up in the manifest and never used as paths.
"""

from __future__ import annotations

import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO, NamedTuple, cast
from urllib.parse import urljoin

import msgspec

from schemas.cases.source_map import MAX_MAP_BYTES, SourceMapKind
from service.cases.sourcemaps.keeping import Name, normal_debug_id

MOST_BUNDLE = 128 * 1024 * 1024
"""Bytes of a bundle as it is sent."""
MOST_UNPACKED = 512 * 1024 * 1024
"""Bytes of all its files together."""
MOST_ENTRIES = 4000
MOST_MANIFEST = 4 * 1024 * 1024
MOST_NAME = 1000
MOST_RELEASE = 200

_KINDS: Mapping[str, SourceMapKind] = {"minified_source": "minified_source", "source_map": "source_map"}
_DEBUG_ID = re.compile(r"[0-9a-fA-F]{8}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{12}(?:-0)?")


class BadBundle(Exception):
    """What is no bundle, or one with more in it than is taken; the text says why, to whoever sent it."""


class Entry(NamedTuple):
    """A file of a bundle: its name in the archive, and what it will be found by."""

    path: str
    name: Name


class Bundle:
    """An open bundle: what is in it, and its bytes. Raises BadBundle; so do its methods."""

    def __init__(self, file: BinaryIO, release: str | None) -> None:
        try:
            self._archive = zipfile.ZipFile(file)
            members = self._archive.namelist()
        except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError, EOFError) as error:
            raise BadBundle("The bundle is no archive.") from error
        if len(members) > MOST_ENTRIES:
            raise BadBundle(f"The bundle holds more than {MOST_ENTRIES} files.")
        self._left = MOST_UNPACKED
        manifest = b"".join(self.pieces("manifest.json", MOST_MANIFEST))
        try:
            self.entries = read_manifest(manifest, frozenset(members), release)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise BadBundle("The manifest of the bundle is not JSON.") from error

    def pieces(self, path: str, size: int) -> Iterator[bytes]:
        """The bytes of a file in pieces of at most `size` bytes."""
        total = 0
        try:
            with self._archive.open(path) as opened:
                while piece := opened.read(size):
                    total += len(piece)
                    self._left -= len(piece)
                    if total > MAX_MAP_BYTES or (path == "manifest.json" and total > MOST_MANIFEST):
                        raise BadBundle(f"A file of the bundle is larger than {MAX_MAP_BYTES} bytes.")
                    if self._left < 0:
                        raise BadBundle(f"The files of the bundle are larger than {MOST_UNPACKED} bytes together.")
                    yield piece
        except KeyError as error:
            raise BadBundle("The bundle has no manifest.") from error
        except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError, OSError) as error:
            raise BadBundle("A file of the bundle cannot be unpacked.") from error


def read_manifest(text: bytes, members: frozenset[str], release: str | None) -> list[Entry]:
    """The files that are kept of those that a manifest lists; what is found by nothing, or is no map, is left out.

    Raises msgspec.DecodeError.
    """
    document = msgspec.json.decode(text)
    files = document.get("files") if isinstance(document, dict) else None
    listed = {
        path: cast("dict[str, Any]", about)
        for path, about in (files.items() if isinstance(files, dict) else ())
        if path in members and isinstance(about, dict) and about.get("type") in _KINDS
    }
    minified = {
        urljoin(url, reference): url
        for about in listed.values()
        if about["type"] == "minified_source"
        and (url := _text(about.get("url"))) is not None
        and (reference := _header(about, "sourcemap")) is not None
    }
    entries = []
    for path, about in listed.items():
        url = _text(about.get("url"))
        if url is not None and about["type"] == "source_map":
            url = minified.get(url, url.removesuffix(".map"))
        debug_id = _header(about, "debug-id")
        known = debug_id is not None and _DEBUG_ID.fullmatch(debug_id) is not None
        if known or (url is not None and release is not None):
            found = normal_debug_id(cast("str", debug_id)) if known else None
            entries.append(Entry(path, Name(_KINDS[about["type"]], found, release, url)))
    return entries


def _header(about: Mapping[str, Any], name: str) -> str | None:
    headers = about.get("headers")
    pairs = headers.items() if isinstance(headers, dict) else ()
    return next((_text(value) for key, value in pairs if key.lower() == name), None)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and 0 < len(value) <= MOST_NAME and value.isprintable() else None
