"""Bundles of source maps as `sentry-cli` makes them: an archive with a manifest (its artifact bundles).

Nothing that an archive says of itself is believed: its directory is read up to a bound, entries are unpacked step by
step up to what a file may be large, all of them up to what a bundle may, and their names are looked up in the manifest
and never used as paths.
"""

from __future__ import annotations

import re
import struct
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
MOST_DIRECTORY = 1024 * 1024
"""Bytes of the directory of a bundle, which is read as a whole: its entries take hundreds of times as much memory."""
STEP = 64 * 1024
"""Bytes that are unpacked at once."""
MOST_MANIFEST = 4 * 1024 * 1024
MOST_NAME = 1000

_KINDS: Mapping[str, SourceMapKind] = {"minified_source": "minified_source", "source_map": "source_map"}
_METHODS: Mapping[int, str] = {zipfile.ZIP_STORED: "stored", zipfile.ZIP_DEFLATED: "deflated"}
"""Ways in which a file may be packed. Of the others some unpack a few hundred bytes to a gigabyte in one step."""
_BROKEN = (
    zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, ValueError, RuntimeError, OverflowError,
)  # fmt: skip
"""What an archive that is broken raises when it is read."""
_DEBUG_ID = re.compile(r"[0-9a-fA-F]{8}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{12}(?:-0)?")


class BadBundle(Exception):
    """What is no bundle, or one with more in it than is taken; the text says why, to whoever sent it."""


class BundleFile(NamedTuple):
    """A file of a bundle: its name in the archive, and what it will be found by."""

    path: str
    name: Name


class _Directory:
    """A file while the directory of its archive is read: no more of it at once than a directory may take.

    An archive says at its end how large its directory is, and that is what is read, whatever it says of the number of
    entries.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.seek, self.tell, self.seekable = file.seek, file.tell, file.seekable

    def read(self, size: int = -1) -> bytes:
        if size > MOST_DIRECTORY:
            raise BadBundle(f"The directory of the bundle is larger than {MOST_DIRECTORY} bytes.")
        return self._file.read(MOST_DIRECTORY if size < 0 else size)


class OpenBundle:
    """An open bundle: what is in it, and its bytes. Raises BadBundle; so do its methods."""

    def __init__(self, file: BinaryIO, release: str | None) -> None:
        try:
            self._archive = zipfile.ZipFile(cast("BinaryIO", _Directory(file)))
        except _BROKEN as error:
            raise BadBundle("The bundle is not a zip archive.") from error
        members = self._archive.namelist()
        if len(members) > MOST_ENTRIES:
            raise BadBundle(f"The bundle holds more than {MOST_ENTRIES} files.")
        self._left = MOST_UNPACKED
        manifest = b"".join(self.pieces("manifest.json", STEP))
        try:
            self.entries = read_manifest(manifest, frozenset(members), release)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise BadBundle("The manifest of the bundle is not JSON.") from error

    def pieces(self, path: str, size: int) -> Iterator[bytes]:
        """The bytes of a file in pieces of at most `size` bytes."""
        total = 0
        try:
            about = self._archive.getinfo(path)
        except KeyError as error:
            raise BadBundle("The bundle has no manifest.") from error
        if about.compress_type not in _METHODS:
            raise BadBundle(f"A file of the bundle is packed otherwise than {' or '.join(_METHODS.values())}.")
        try:
            with self._archive.open(about) as opened:
                while piece := opened.read(size):
                    total += len(piece)
                    self._left -= len(piece)
                    if total > MAX_MAP_BYTES or (path == "manifest.json" and total > MOST_MANIFEST):
                        raise BadBundle(f"A file of the bundle is larger than {MAX_MAP_BYTES} bytes.")
                    if self._left < 0:
                        raise BadBundle(f"The files of the bundle are larger than {MOST_UNPACKED} bytes together.")
                    yield piece
        except _BROKEN as error:
            raise BadBundle("A file of the bundle cannot be unpacked.") from error


def read_manifest(text: bytes, members: frozenset[str], release: str | None) -> list[BundleFile]:
    """The files that are kept of those that a manifest lists; what is found by nothing, or is no map, is left out.

    Raises msgspec.DecodeError, and BadBundle for a type that is no text or an address that is none.
    """
    document = msgspec.json.decode(text)
    files = document.get("files") if isinstance(document, dict) else None
    listed = {
        path: cast("dict[str, Any]", about)
        for path, about in (files.items() if isinstance(files, dict) else ())
        if path in members and isinstance(about, dict) and _type(about) in _KINDS
    }
    minified = {
        _joined(url, reference): url
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
            entries.append(BundleFile(path, Name(_KINDS[about["type"]], found, release, url)))
    return entries


def _type(about: Mapping[str, Any]) -> str:
    found = about.get("type", "")
    if not isinstance(found, str):
        raise BadBundle("A type in the manifest of the bundle is not text.")
    return found


def _joined(url: str, reference: str) -> str:
    try:
        return urljoin(url, reference)
    except ValueError as error:
        raise BadBundle("An address in the manifest of the bundle is not valid.") from error


def _header(about: Mapping[str, Any], name: str) -> str | None:
    headers = about.get("headers")
    pairs = headers.items() if isinstance(headers, dict) else ()
    return next((_text(value) for key, value in pairs if key.lower() == name), None)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and 0 < len(value) <= MOST_NAME and value.isprintable() else None
