"""Minidumps and the forms around them, as Crashpad and Breakpad write them."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

WINDOWS, LINUX, MACOS = 2, 0x8201, 0x8101
X86, AMD64, ARM64 = 0, 9, 12
ACCESS_VIOLATION = 0xC0000005
MODULE_LIST, EXCEPTION, SYSTEM_INFO = 4, 6, 7
POINTER_AT = {X86: 184, AMD64: 248, ARM64: 264}
BOUNDARY = "----crashpad"
FORM = f"multipart/form-data; boundary={BOUNDARY}"


class Loaded(NamedTuple):
    """A module of a dump."""

    path: str
    base: int
    size: int = 0x10000
    version: tuple[int, int, int, int] | None = None
    guid: str | None = None
    build_id: bytes | None = None


APP = Loaded("C:\\Program Files\\Shop\\app.exe", 0x140000000, 0x20000, (1, 2, 3, 4), "d" * 32)
NTDLL = Loaded("C:\\Windows\\System32\\ntdll.dll", 0x7FF000000000)


def minidump(
    *,
    platform: int = WINDOWS,
    processor: int = AMD64,
    code: int | None = ACCESS_VIOLATION,
    address: int = 0,
    pointer: int | None = APP.base + 0x1234,
    modules: Sequence[Loaded] = (APP, NTDLL),
    taken_at: int = 0,
    said: str = "",
    aligned: bool = False,
) -> bytes:
    """A dump of these facts. `code` None: without an exception; `pointer` None: without registers."""
    streams: list[tuple[int, bytes]] = []
    tail = bytearray()
    number = 2 + (code is not None)
    begin = 32 + number * 12
    sizes = {SYSTEM_INFO: 56, EXCEPTION: 168, MODULE_LIST: (8 if aligned else 4) + 108 * len(modules)}
    tail_at = begin + sum(size for kind, size in sizes.items() if kind != EXCEPTION or code is not None)

    def put(raw: bytes) -> int:
        place = tail_at + len(tail)
        tail.extend(raw)
        return place

    def text(value: str) -> int:
        raw = value.encode("utf-16-le")
        return put(struct.pack("<I", len(raw)) + raw + b"\0\0")

    told_at = text(said) if said else 0
    system = struct.pack("<HHHBBIIIII", processor, 0, 0, 4, 1, 10, 0, 19045, platform, told_at)
    streams.append((SYSTEM_INFO, system.ljust(56, b"\0")))
    if code is not None:
        registers = (0, 0)
        if pointer is not None:
            width = "<I" if processor == X86 else "<Q"
            raw = b"\0" * POINTER_AT[processor] + struct.pack(width, pointer) + b"\0" * 64
            registers = len(raw), put(raw)
        thrown = struct.pack("<IIIIQQII", 77, 0, code, 0, 0, address, 0, 0) + b"\0" * 120
        streams.append((EXCEPTION, thrown + struct.pack("<II", *registers)))
    listed = struct.pack("<I", len(modules)) + (b"\0" * 4 if aligned else b"")
    for one in modules:
        record = b""
        if one.guid:
            record = b"RSDS" + UUID(one.guid).bytes_le + struct.pack("<I", 1) + b"app.pdb\0"
        elif one.build_id:
            record = struct.pack("<I", 0x4270454C) + one.build_id
        record_at = put(record) if record else 0
        major, minor, build, patch = one.version or (0, 0, 0, 0)
        version = struct.pack(
            "<IIII", 0xFEEF04BD if one.version else 0, 0x10000, major << 16 | minor, build << 16 | patch
        )
        listed += struct.pack("<QIIII", one.base, one.size, 0, 0, text(one.path)) + version.ljust(52, b"\0")
        listed += struct.pack("<II", len(record), record_at) + b"\0" * 24
    streams.append((MODULE_LIST, listed))
    directory, place = b"", begin
    for kind, raw in streams:
        directory += struct.pack("<III", kind, len(raw), place)
        place += len(raw)
    head = struct.pack("<4sIIIIIQ", b"MDMP", 0xA793, len(streams), 32, 0, taken_at, 0)
    dump = head + directory + b"".join(raw for _, raw in streams)
    assert len(dump) == tail_at
    return dump + bytes(tail)


def form(
    dump: bytes | None, fields: Mapping[str, str | bytes] | None = None, files: Mapping[str, bytes] | None = None
) -> bytes:
    """A form with a dump, fields and other files."""
    parts = [_part(f'name="{name}"', value) for name, value in (fields or {}).items()]
    parts += [_part(f'name="{name}"; filename="{name}"', raw) for name, raw in (files or {}).items()]
    if dump is not None:
        parts.append(_part('name="upload_file_minidump"; filename="1.dmp"', dump))
    return b"".join(parts) + f"--{BOUNDARY}--\r\n".encode()


def _part(place: str, content: str | bytes) -> bytes:
    raw = content if isinstance(content, bytes) else content.encode()
    return f"--{BOUNDARY}\r\nContent-Disposition: form-data; {place}\r\n\r\n".encode() + raw + b"\r\n"
