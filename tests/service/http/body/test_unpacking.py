"""Bodies with a content coding are unpacked within bounds, and counted (threat 20, G-142)."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from io import BytesIO
from tempfile import TemporaryFile
from types import SimpleNamespace
from typing import Any, cast

import brotli
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.auth.refusals import InvalidPayload
from service.fairness.offload import LARGE
from service.http.answer.errors import PayloadTooLarge, UnsupportedMediaType
from service.http.body import unpacking
from service.http.body.read_limited import body_room
from service.http.body.unpacking import MAX_MEMBERS, PIECE, WINDOW_LOG, Unpacked, decompress
from service.http.body.upload import Upload, read_pieces
from service.packing import zstd
from tests.service.http.edge.toy_api import Toy

MOST = 1000


def raw_deflate(text: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(text) + packer.flush()


def zstd_stream(text: bytes) -> bytes:
    """A frame that does not say how large its content is, as streams are packed."""
    packer = zstd.ZstdCompressor()
    return packer.compress(text) + packer.flush()


PACKERS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "gzip": ("gzip", gzip.compress),
    "x-gzip": (" X-GZIP ", gzip.compress),
    "zlib": ("deflate", zlib.compress),
    "raw deflate": ("Deflate", raw_deflate),
    "zstd": ("zstd", zstd.compress),
    "zstd of unknown size": ("zstd", zstd_stream),
    "zstd with a checksum": ("zstd", partial(zstd.compress, options={zstd.CompressionParameter.checksum_flag: 1})),
    "brotli": ("br", brotli.compress),
    "quick brotli": ("BR", lambda text: brotli.compress(text, quality=1, lgwin=24)),
    "none": ("", bytes),
    "identity": ("identity", bytes),
}
PACKED = {name: packer for name, packer in PACKERS.items() if name not in {"none", "identity"}}


@pytest.mark.parametrize("packer", PACKERS)
@given(text=st.binary(max_size=MOST))
def test_what_was_packed_comes_out(packer: str, text: bytes) -> None:
    """Of every coding, up to the limit and including it."""
    coding, pack = PACKERS[packer]
    assert decompress(pack(text), coding, MOST) == text
    assert decompress(pack(text), coding, max(1, len(text))) == text


@pytest.mark.parametrize("packer", PACKERS)
@pytest.mark.parametrize("size", [MOST + 1, 2_000_000])
def test_one_byte_too_many(packer: str, size: int) -> None:
    """Is the end of it, however little was sent."""
    coding, pack = PACKERS[packer]
    with pytest.raises(PayloadTooLarge) as refused:
        decompress(pack(b"a" * size), coding, MOST)
    assert refused.value.details == {"max_bytes": MOST}


@pytest.mark.parametrize("packer", PACKED)
@given(text=st.binary(max_size=200), data=st.data())
def test_what_is_broken_is_refused(packer: str, text: bytes, data: st.DataObject) -> None:
    """Cut short anywhere, or followed by something else: 400, and never anything but a refusal."""
    coding, pack = PACKED[packer]
    packed = pack(text)
    for broken in (packed[: data.draw(st.integers(0, len(packed) - 1))], packed + b"\x00"):
        with pytest.raises(InvalidPayload):
            decompress(broken, coding, MOST)


@given(noise=st.binary(max_size=300), packer=st.sampled_from(sorted(PACKED)), data=st.data())
def test_any_bytes_get_an_answer(noise: bytes, packer: str, data: st.DataObject) -> None:
    """Noise, and packed bodies with bytes changed: either unpacked within the limit, or refused."""
    coding, pack = PACKED[packer]
    packed = bytearray(pack(b"some text " * 20))
    packed[data.draw(st.integers(0, len(packed) - 1))] ^= data.draw(st.integers(1, 255))
    for body in (noise, bytes(packed)):
        with suppress(InvalidPayload, PayloadTooLarge):
            assert len(decompress(body, coding, MOST)) <= MOST


@pytest.mark.parametrize(("coding", "pack"), [("gzip", gzip.compress), ("zstd", zstd.compress)])
def test_a_body_of_several_members(coding: str, pack: Callable[[bytes], bytes]) -> None:
    """Is their contents together, within one limit; a crowd of empty ones, which would take long, is refused."""
    assert decompress(pack(b"one ") + pack(b"two"), coding, MOST) == b"one two"
    with pytest.raises(PayloadTooLarge):
        decompress(pack(b"a" * 600) + pack(b"b" * 600), coding, MOST)
    assert decompress(pack(b"") * MAX_MEMBERS, coding, MOST) == b""
    with pytest.raises(InvalidPayload):
        decompress(pack(b"") * (MAX_MEMBERS + 1), coding, MOST)


@pytest.mark.parametrize("packer", PACKED)
def test_a_bomb_comes_out_in_pieces(packer: str) -> None:
    """However much a few bytes become, no more than a piece is there at once; what is beyond the limit never is."""
    coding, pack = PACKED[packer]
    unpacked = Unpacked(BytesIO(pack(b" " * 3_000_000)), coding, 2_000_000)
    sizes: list[int] = []
    with suppress(PayloadTooLarge):
        while True:
            sizes.append(len(unpacked.read()))
    assert max(sizes) <= 2 * PIECE < sum(sizes) <= 2_000_000


@pytest.mark.parametrize("packer", PACKED)
def test_what_would_take_long_is_read_in_pieces(packer: str) -> None:
    """Of noise, which hardly packs, as of what packs well."""
    coding, pack = PACKED[packer]
    text = os.urandom(700_000) + b"a line\n" * 100_000
    unpacked = Unpacked(BytesIO(pack(text)), coding, len(text))
    pieces: list[bytes] = []
    while not unpacked.ended:
        pieces.append(unpacked.read())
    assert b"".join(pieces) == text
    assert max(map(len, pieces)) <= 2 * PIECE


@pytest.mark.parametrize("packer", PACKERS)
def test_the_end_is_seen_at_once(packer: str) -> None:
    """A body that has ended is not asked again and again for its next piece."""
    coding, pack = PACKERS[packer]
    unpacked, asked = Unpacked(BytesIO(pack(b"text")), coding, MOST), 0
    pieces = unpacked._pieces

    class Counting:
        def __iter__(self) -> Iterator[bytes]:
            return self

        def __next__(self) -> bytes:
            nonlocal asked
            asked += 1
            return next(pieces)

    unpacked._pieces = Counting()
    while not unpacked.ended:
        unpacked.read()
    assert asked < 10


@given(text=st.binary(max_size=LARGE))
async def test_a_small_upload_is_one_piece(text: bytes) -> None:
    """It takes no turn apart. The end is told by an empty piece, as of any other."""
    seen: list[bytes] = []
    async for _ in read_pieces(
        Upload(text), cast("Any", None), "tenant", cast("Any", SimpleNamespace(feed=seen.append))
    ):
        pass
    assert seen == [text, b""][not text :]


async def test_the_file_of_a_request_that_ends_meanwhile_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that makes the file cannot be stopped; what it has made by then goes as well."""
    begun, go_on = threading.Event(), threading.Event()
    made: list[Any] = []

    def make() -> Any:
        begun.set()
        assert go_on.wait(10)
        made.append(TemporaryFile())  # noqa: SIM115
        return made[0]

    monkeypatch.setattr("tempfile.TemporaryFile", make)
    upload = Upload()
    adding = asyncio.create_task(upload.add(b"piece"))
    assert await asyncio.to_thread(begun.wait, 10)
    adding.cancel()
    with suppress(asyncio.CancelledError):
        await adding
    upload.close()
    go_on.set()
    async with asyncio.timeout(10):
        while not (made and made[0].closed):  # noqa: ASYNC110 - closed by a callback
            await asyncio.sleep(0)


def test_a_crowd_of_empty_blocks() -> None:
    """Does not keep its reader: nothing comes out for now, and all that follows does."""
    frame = zstd.compress(b"")[:4] + b"\x20\x01" + b"\0\0\0" * 2_000_000 + b"\x09\0\0x"
    unpacked = Unpacked(BytesIO(frame), "zstd", MOST)
    pieces = [unpacked.read() for _ in range(3)]
    assert pieces == [b"", b"", b""]
    assert not unpacked.ended
    assert decompress(frame, "zstd", MOST) == b"x"


def test_a_frame_without_content() -> None:
    """Is passed over, and counts as a piece of the body."""
    empty = b"\x5a\x2a\x4d\x18" + (9).to_bytes(4, "little") + b"no matter"
    assert decompress(empty + zstd.compress(b"some") + empty, "zstd", MOST) == b"some"
    for broken in (empty[:-1], zstd.compress(b"some") + empty[:6], empty * (MAX_MEMBERS + 1)):
        with pytest.raises(InvalidPayload):
            decompress(broken, "zstd", MOST)


@pytest.mark.parametrize("log", [WINDOW_LOG, WINDOW_LOG + 1, 27, 31])
@pytest.mark.parametrize("told", [False, True])
def test_a_window_beyond_reason(log: int, told: bool) -> None:
    """A few bytes of zstd may ask for a look back on gigabytes, also by the size of their content alone."""
    begin = zstd.compress(b"")[:4]
    frame = begin + (b"\xa0" + (1 << log).to_bytes(4, "little") if told else bytes([0, (log - 10) << 3]))
    if not told and log == WINDOW_LOG:
        assert decompress(frame + b"\x09\0\0x", "zstd", MOST) == b"x"
    else:
        with pytest.raises(InvalidPayload):
            decompress(frame + b"\x09\0\0x", "zstd", MOST)


@pytest.mark.parametrize("coding", ["br, gzip", "gzip, br", "gzip, gzip", "identity, gzip", "compress", "x"])
def test_other_codings(coding: str) -> None:
    """Are 415, and the answer names those that are taken."""
    with pytest.raises(UnsupportedMediaType) as refused:
        decompress(b"x", coding, MOST)
    assert refused.value.details == {"content_codings": ("br", "deflate", "gzip", "x-gzip", "zstd")}
    assert refused.value.headers == {"accept-encoding": "br, deflate, gzip, x-gzip, zstd"}


# ---- in the pipeline ----------------------------------------------------------------------------------------------


async def send(toy: Toy, body: bytes, coding: str) -> Any:
    headers = {"content-encoding": coding, "content-type": "application/json"}
    return await toy.send_as("dsn", "POST", "/v1/logs/", content=body, headers=headers)


@pytest.mark.parametrize("packer", PACKERS)
async def test_telemetry_may_come_packed(toy: Toy, packer: str) -> None:
    """In every coding that is taken."""
    coding, pack = PACKERS[packer]
    answer = await send(toy, pack(json.dumps({"size": 1}).encode()), coding)
    assert (answer.status_code, answer.json()["size"]) == (202, 1)


async def test_what_is_refused_of_packed_telemetry(toy: Toy) -> None:
    """Another coding 415, a broken body 400, one that is too large once unpacked 413; all of it before it is parsed."""
    for body, coding, status in (
        (b"{}", "compress", 415),
        (b"{}", "gzip", 400),
        (b"{}", "br", 400),
        (brotli.compress(b'{"a":1}')[:-1], "br", 400),
        (brotli.compress(b'{"a":1}') + b"{}", "br", 400),
        (brotli.compress(b" " * 262_145), "br", 413),
        (gzip.compress(b'{"a":', mtime=0), "gzip", 400),
        (gzip.compress(b" " * 262_145, mtime=0), "gzip", 413),
    ):
        answer = await send(toy, body, coding)
        assert answer.status_code == status, (body[:20], answer.text)


async def test_what_comes_out_counts_as_held(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    """A body that was small on the wire has the place of what it has become, and gives it back."""
    room = body_room(total=10_000_000, share=150_000)
    monkeypatch.setattr(toy.edge.pipeline, "bodies", room)
    assert (await send(toy, gzip.compress(b'{"a":"' + b"x" * 100_000 + b'"}'), "gzip")).status_code == 202
    assert (await send(toy, gzip.compress(b'{"a":"' + b"x" * 200_000 + b'"}'), "gzip")).status_code == 429
    assert room.held == 0


async def test_large_ones_are_unpacked_apart(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only those that turn out to be large leave the event loop."""
    ran: list[tuple[bool, int]] = []

    def watched(body: bytes, encoding: str, most: int) -> bytes:
        ran.append((threading.current_thread() is threading.main_thread(), most))
        return decompress(body, encoding, most)

    monkeypatch.setattr(unpacking, "decompress", watched)
    assert (await send(toy, gzip.compress(b'{"size":1}'), "gzip")).status_code == 202
    assert ran == [(True, LARGE)]
    assert (await send(toy, gzip.compress(b'{"a":"' + b"x" * LARGE + b'"}'), "gzip")).status_code == 202
    assert ran[1:] == [(True, LARGE), (False, 262_144)]
