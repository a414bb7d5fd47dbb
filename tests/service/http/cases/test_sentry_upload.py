"""Uploads as `sentry-cli` makes them, over HTTP; the programs themselves are tried in tests/clients (G-141, G-142)."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import zipfile
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.auth.refusals import InvalidPayload
from service.cases.sourcemaps import bundles
from service.multipart import boundary_of, place_of
from tests.service.http.cases.test_acting import project as project  # noqa: PLC0414 (a fixture is found by name)
from tests.service.http.cases.test_source_map import DEBUG_ID, MAP
from tests.service.http.cases.test_unmangle import MINIFIED
from tests.support.api import World, ok, refused
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)

pytestmark = pytest.mark.shares_server

ORGANIZATION = "/api/0/organizations/any"
CHUNKS, ASSEMBLE = f"{ORGANIZATION}/chunk-upload/", f"{ORGANIZATION}/artifactbundle/assemble/"
SCRIPT = {"url": "~/assets/shop.min.js", "type": "minified_source", "headers": {"sourcemap": "maps/shop.min.js.map"}}
MAPPED = {"url": "~/assets/maps/shop.min.js.map", "type": "source_map"}
FILES: dict[str, Any] = {"_/_/shop.min.js": (SCRIPT, MINIFIED), "_/_/shop.min.js.map": (MAPPED, MAP)}


def sha1(content: bytes) -> str:
    return hashlib.sha1(content, usedforsecurity=False).hexdigest()


def archive(
    files: dict[str, tuple[Any, bytes]], manifest: bytes | None = None, method: int = zipfile.ZIP_DEFLATED
) -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", method) as opened:
        listed = {"files": {name: about for name, (about, _) in files.items() if about}}
        opened.writestr("manifest.json", json.dumps(listed) if manifest is None else manifest)
        for name, (_, content) in files.items():
            opened.writestr(name, content)
    return b"SYSB\x02\x00\x00\x00" + written.getvalue()


async def send(owner: Any, *parts: bytes, packed: bool = True, names: list[str] | None = None) -> Any:
    field = "file_gzip" if packed else "file"
    contents = [gzip.compress(part) if packed else part for part in parts]
    named = names or [sha1(part) for part in parts]
    form = [(field, (name, content)) for name, content in zip(named, contents, strict=True)]
    return await owner.call("POST", CHUNKS, files=form)


async def upload(owner: Any, project_id: str, bundle: bytes, parts: int = 1, **more: Any) -> dict[str, Any]:
    """Send a bundle as the program does: ask, send what is missing, ask again."""
    size = -(-len(bundle) // parts)
    bundles = [bundle[first : first + size] for first in range(0, len(bundle), size)]
    wish = {"checksum": sha1(bundle), "chunks": [sha1(chunk) for chunk in bundles], "projects": [project_id], **more}
    asked = ok(await owner.post(ASSEMBLE, wish))
    assert (asked["state"], asked["missingChunks"]) == ("not_found", wish["chunks"])
    ok(await send(owner, *bundles))
    return ok(await owner.post(ASSEMBLE, wish))


async def kept(owner: Any, project_id: str) -> set[tuple[Any, ...]]:
    listed = ok(await owner.get(f"/v1/projects/{project_id}/source-maps"))["source_maps"]
    return {(one["kind"], one["debug_id"], one["release"], one["source_url"], one["size"]) for one in listed}


async def test_a_bundle_is_stored_by_release_or_by_debug_id(world: World, project):
    owner, project_id, _ = project
    told = ok(await owner.get(CHUNKS))
    assert told["url"].endswith(CHUNKS)
    assert (told["hashAlgorithm"], told["chunkSize"] & (told["chunkSize"] - 1)) == ("sha1", 0)
    assert (await upload(owner, project_id, archive(FILES), parts=3, version="1.0"))["state"] == "ok"
    url = "~/assets/shop.min.js"
    by_url = {
        ("minified_source", None, "1.0", url, len(MINIFIED)),
        ("source_map", None, "1.0", url, len(MAP)),
    }
    assert await kept(owner, project_id) == by_url
    known = {name: ({**about, "headers": {"Debug-Id": DEBUG_ID}}, content) for name, (about, content) in FILES.items()}
    assert (await upload(owner, project_id, archive(known)))["state"] == "ok"
    by_id = {(kind, DEBUG_ID) for kind, debug_id, *_ in await kept(owner, project_id) if debug_id}
    assert by_id == {("minified_source", DEBUG_ID), ("source_map", DEBUG_ID)}
    # Again: its parts are gone, and the same bytes change nothing.
    before = ok(await owner.get(f"/v1/projects/{project_id}/source-maps"))
    assert (await upload(owner, project_id, archive(known)))["state"] == "ok"
    assert ok(await owner.get(f"/v1/projects/{project_id}/source-maps")) == before
    in_path = f"/api/0/projects/any/{project_id}/artifactbundle/assemble/"
    missing = ok(await owner.post(in_path, {"checksum": "0" * 40, "chunks": ["1" * 40]}))
    assert (missing["state"], missing["missingChunks"]) == ("not_found", ["1" * 40])


async def test_what_is_no_bundle_is_told_and_not_stored(world: World, project, monkeypatch):
    owner, project_id, _ = project
    bomb = archive({"x": (MAPPED, b" " * (33 * 1024 * 1024))})
    assert len(bomb) < 100_000
    broken = bytearray(archive(FILES))
    broken[60:90] = bytes(30)
    for bundle, word in (
        (b"no archive at all", "archive"),
        (archive({}, b"{"), "manifest"),
        (archive({}, b"[]"), ""),
        (archive({}, b" " * (bundles.MOST_MANIFEST + 1)), "larger"),
        (archive({"x": ({**SCRIPT, "type": ["minified_source"]}, b"")}), "manifest"),
        (archive({"x": ({**SCRIPT, "url": "https://[x"}, b"")}), "manifest"),
        (archive(FILES, method=zipfile.ZIP_BZIP2), "deflated"),
        (bomb, "larger"),
        (bytes(broken), "unpacked"),
    ):
        answer = await upload(owner, project_id, bundle, version="1.0")
        assert answer["state"] == ("error" if word else "ok"), (word, answer)
        assert word in (answer["detail"] or "")
    two = [b"a" * 9, b"b" * 9]
    ok(await send(owner, *two, packed=False))
    wrong = {"checksum": "0" * 40, "chunks": [sha1(part) for part in two], "projects": [project_id]}
    assert ok(await owner.post(ASSEMBLE, wrong))["state"] == "error"
    assert await kept(owner, project_id) == set()
    [[left]] = await world.sql("select count(*) from source_map_blobs where project_id = %s", project_id)
    assert left == 0


async def test_bad_parts_and_bad_bundles_are_refused(world: World, project):
    owner, project_id, _ = project
    refused(await send(owner, b"abc", names=["0" * 40]), 400, "invalid_payload")
    refused(await send(owner, b"x" * (1024 * 1024 + 1)), 400, "invalid_payload")
    refused(await send(owner, b" " * (40 * 1024 * 1024)), 400, "invalid_payload")  # packed it is small
    for content_type, body in (
        ("application/json", b"{}"),
        ("multipart/form-data", b"x"),
        ("multipart/form-data; boundary=x", b"--x\r\n"),
        ("multipart/form-data; boundary=x", b"--x--"),
        (
            "multipart/form-data; boundary=x",
            b'--x\r\ncontent-disposition: form-data; name="file_gzip"; filename="a"\r\n\r\nnot gzip\r\n--x--\r\n',
        ),
    ):
        answer = await owner.call("POST", CHUNKS, content=body, headers={"content-type": content_type})
        refused(answer, 400, "invalid_payload") if body != b"--x--" else None
    good = {"checksum": "0" * 40, "chunks": ["1" * 40], "projects": [project_id]}
    for more in ({"checksum": "x"}, {"chunks": []}, {"chunks": "x"}, {"projects": []}, {"projects": [project_id] * 2}):
        refused(await owner.post(ASSEMBLE, good | more), 400, "invalid_payload")


def form(*headers: bytes) -> bytes:
    """A form of parts with these headers, each of which holds the same."""
    return b"".join(b"--x\r\n" + header + b"\r\n\r\nabc\r\n" for header in headers) + b"--x--\r\n"


FILE = b'Content-Disposition: form-data; name="file"; filename="%s"' % sha1(b"abc").encode()
FORM = "multipart/form-data; boundary=x"


async def test_headers_of_many_parameters_are_refused_and_not_gone_over_again_and_again(world: World, project):
    """`email.message` looks at the rest once more for each semicolon: 0.6 MB of them held everybody up for minutes."""
    owner, _, _ = project
    many = b";" * 600_000
    body = form(b"Content-Disposition: form-data" + many)
    refused(await owner.call("POST", CHUNKS, content=body, headers={"content-type": FORM}), 400, "invalid_payload")
    for value in (FORM + ";" * 2000, "multipart/form-data; boundary=" + "x" * 71, 'multipart/form-data; boundary="x'):
        answer = await owner.call("POST", CHUNKS, content=form(FILE), headers={"content-type": value})
        refused(answer, 400, "invalid_payload")
    for header in (
        FILE + many,
        b"x-more: " + b"x" * bundles.MOST_HEADER + b"\r\n" + FILE,
    ):
        with pytest.raises(InvalidPayload):
            bundles.read_form(FORM, form(header))


def test_headers_are_read_as_programs_write_them():
    odd = (
        b" ; ;",
        b'; x="',
        b"x",
        b"; filename*=utf-8''other",
    )  # What follows the name and is no parameter, says nothing.
    body = form(b"content-type: text/plain\r\n" + FILE, FILE.lower().replace(b'"', b""), *(FILE + one for one in odd))
    for content_type in (FORM, 'Multipart/Form-Data ;BOUNDARY="x";', "multipart/form-data; charset=utf-8;boundary=x"):
        assert [chunk.id for chunk in bundles.read_form(content_type, body)] == [sha1(b"abc")] * 6
    other = b'Content-Disposition: form-data; name="other"; filename="a\\"; name=\\"file"'
    assert bundles.read_form(FORM, form(other)) == []


@pytest.mark.parametrize("boundary", ["----=_Part_1", "a:b/c", '"a b"', "(x)"])
def test_a_boundary_is_read_with_and_without_quotes(boundary):
    body = form(FILE).replace(b"--x", b"--" + boundary.strip('"').encode())
    [chunk] = bundles.read_form(f"multipart/form-data; boundary={boundary}", body)
    assert chunk.id == sha1(b"abc")


SIGNS = ["form-data", "name", "boundary", ";", "=", '"', "\\", "*", "0", "'", "%", " ", "a", "é"]
PARAMETERS = st.lists(st.sampled_from(SIGNS))


@given(parameters=PARAMETERS, rest=st.text(st.characters(max_codepoint=255), max_size=40))
def test_any_header_has_a_place_or_a_fault(parameters, rest):
    text = ("".join(parameters) + rest)[: bundles.MOST_HEADER]
    place_of(b"Content-Disposition: form-data; " + text.encode("latin-1"))
    boundary = boundary_of("multipart/form-data; boundary" + text[:900])
    assert boundary is None or 4 < len(boundary) <= 74


async def test_only_members_and_their_own_parts(world: World, project):
    owner, project_id, dsn = project
    bundle = archive(FILES)
    wish = {"checksum": sha1(bundle), "chunks": [sha1(bundle)], "projects": [project_id], "version": "1"}
    ok(await send(owner, bundle))
    stranger = await world.sign_in()
    refused(await stranger.post(ASSEMBLE, wish), 404, "project_not_found")
    theirs = (await stranger.create_project())["id"]
    answer = ok(await stranger.post(ASSEMBLE, wish | {"projects": [theirs]}))
    assert answer["state"] == "not_found"  # the parts are another's
    refused(await stranger.post(ASSEMBLE, wish | {"projects": [theirs, project_id]}), 404, "project_not_found")
    refused(await dsn.post(ASSEMBLE, wish), 403, "principal_not_allowed")
    refused(await dsn.get(CHUNKS), 403, "principal_not_allowed")
    refused(await world.call("POST", CHUNKS, files=[("file", ("a", b"a"))]), 401, "unauthenticated")
    assert ok(await owner.post(ASSEMBLE, wish))["state"] == "ok"
