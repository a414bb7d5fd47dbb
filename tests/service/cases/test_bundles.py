"""Bundles that lie, are broken, or are larger than they look: each is refused within bounded memory."""

from __future__ import annotations

import io
import json
import tracemalloc
import zipfile
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from service.cases.sourcemaps import bundles
from service.cases.sourcemaps.bundles import BadBundle, OpenBundle, read_manifest
from tests.service.http.cases.test_sentry_upload import FILES, MAPPED, SCRIPT, archive

MOST_MEMORY = 12 * 1024 * 1024


def opened(content: bytes) -> list[bytes]:
    """All that a bundle holds, unpacked as it is when it is stored."""
    bundle = OpenBundle(io.BytesIO(content), "1.0")
    return [b"".join(bundle.pieces(entry.path, 512 * 1024)) for entry in bundle.entries]


def peak(work: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        with pytest.raises(BadBundle):
            work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
@pytest.mark.parametrize("packed", ["manifest.json", "_/_/shop.min.js"])
def test_only_stored_and_deflated_files_are_unpacked(method: int, packed: str) -> None:
    """By another method a few hundred bytes become a gigabyte in one step."""
    written = io.BytesIO()
    manifest = json.dumps({"files": {"_/_/shop.min.js": SCRIPT}}).encode()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_STORED) as made:
        for name, content in (("manifest.json", manifest), ("_/_/shop.min.js", b"x")):
            large = content + b" " * 50_000_000 if name == packed else content
            made.writestr(name, large, method if name == packed else zipfile.ZIP_DEFLATED)
    assert len(written.getvalue()) < 20_000
    with pytest.raises(BadBundle, match="otherwise than stored or deflated"):
        opened(written.getvalue())
    assert peak(lambda: opened(written.getvalue())) < MOST_MEMORY


def test_a_file_is_unpacked_step_by_step() -> None:
    content = archive({}, b" " * (bundles.MOST_MANIFEST + 1))
    assert peak(lambda: opened(content)) < MOST_MEMORY


@pytest.mark.parametrize("count", [0, 1, 65535])
def test_a_directory_is_weighed_before_it_is_read(count: int) -> None:
    """Whatever its end record says of the number of entries: what counts is what is read."""
    content = bytearray(wide(30_000))
    content[-14:-10] = count.to_bytes(2, "little") * 2
    with pytest.raises(BadBundle, match="directory"):
        opened(bytes(content))
    assert peak(lambda: opened(bytes(content))) < MOST_MEMORY


def test_files_are_counted() -> None:
    with pytest.raises(BadBundle, match="4000 files"):
        opened(wide(5_000))


def wide(entries: int) -> bytes:
    """An archive with a directory of many entries, all of one file, and an end record as large archives have it."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as made:
        made.writestr("x", b"")
        for _ in range(entries):
            made.filelist.append(made.filelist[0])
    return written.getvalue()


@pytest.mark.parametrize(
    "about",
    [
        {**SCRIPT, "type": ["minified_source"]},
        {**SCRIPT, "type": {"minified_source": 1}},
        {**SCRIPT, "type": 1},
        {**SCRIPT, "url": "https://[x/shop.js"},
        {**SCRIPT, "headers": {"sourcemap": "//["}},
    ],
)
def test_a_manifest_that_names_what_is_none_is_refused(about: dict[str, Any]) -> None:
    with pytest.raises(BadBundle, match="manifest"):
        opened(archive({"_/_/shop.min.js": (about, b"x")}))


TEXTS = st.text("ab[]:/~\\?#@%\x00é", max_size=12)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
ABOUT = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["minified_source", "source_map"]) | JSON,
        "url": st.sampled_from(["~/a.js", "https://[", "//[::1]/a", "~/[slug].js"]) | JSON,
        "headers": st.dictionaries(st.sampled_from(["Sourcemap", "debug-id", "x"]), JSON) | JSON,
    },
)


@given(st.dictionaries(st.sampled_from(["a", "b", "c"]), ABOUT | JSON) | JSON)
def test_any_manifest_is_read_or_refused(files: Any) -> None:
    with suppress(BadBundle):
        read_manifest(json.dumps({"files": files}).encode(), frozenset("ab"), "1")


WHOLE = archive(FILES)


@given(
    st.lists(st.tuples(st.integers(0, len(WHOLE) - 1), st.integers(0, 255)), max_size=6),
    st.integers(0, len(WHOLE)),
    st.booleans(),
)
@example([(WHOLE.rfind(b"PK\x05\x06") + 16 + place, 255) for place in range(4)], 0, False)  # where the directory begins
@example([(WHOLE.rfind(b"PK\x05\x06") + 12 + place, 255) for place in range(4)], 0, False)  # how large it is
@example([(WHOLE.find(b"PK\x01\x02") + 8, 1)], 0, False)  # encrypted
@example([(WHOLE.find(b"PK\x01\x02") + 8, 0x20)], 0, False)  # patched
@example([(WHOLE.find(b"PK\x01\x02") + 6, 255)], 0, False)  # of a later version
@example([(WHOLE.find(b"PK\x01\x02") + 16, 1)], 0, False)  # another checksum
@example([(WHOLE.find(b"PK\x01\x02") + 30, 255)], 0, False)  # a field that goes on past the end
def test_any_damaged_bundle_is_read_or_refused(changes: list[tuple[int, int]], cut: int, ends: bool) -> None:
    """Bytes changed, and some left out at an end: what is left of it, or one kind of refusal."""
    content = bytearray(WHOLE)
    for place, value in changes:
        content[place] = value
    kept = content[cut:] if ends else content[: len(content) - cut]
    with suppress(BadBundle):
        opened(bytes(kept))


def test_a_bundle_with_a_large_end_record_is_read() -> None:
    """As archives of more than four gigabytes have it; its numbers may lie, too."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as made:
        made.writestr("manifest.json", json.dumps({"files": {"m": MAPPED}}))
        made.writestr("m", b"{}")
    content = written.getvalue()
    end = content.rfind(b"PK\x05\x06")
    size, start = content[end + 12 : end + 16], content[end + 16 : end + 20]
    for lie, fine in ((0, True), (2**62, False), (2**64 - 1, False)):
        said = [lie.to_bytes(8, "little") if lie else field + bytes(4) for field in (size, start)]
        record = b"PK\x06\x06" + (44).to_bytes(8, "little") + bytes(12) + (2).to_bytes(8, "little") * 2 + b"".join(said)
        locator = b"PK\x06\x07" + bytes(4) + end.to_bytes(8, "little") + (1).to_bytes(4, "little")
        large = content[:end] + record + locator + content[end:]
        if fine:
            assert opened(large) == [b"{}"]
        else:
            with pytest.raises(BadBundle):
                opened(large)
