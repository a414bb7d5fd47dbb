"""Crashes as Breakpad, Crashpad and Electron upload them: a minidump with annotations (G-142). Pure functions.

Stacks need symbols, and are not read. A dump is from anybody: each offset and each number in it may be anything. So
each read is bounded by the bytes that are there, lists by a number of entries, and nothing is followed twice. An
unreadable stream is left out, and the others count. Layouts are those of Microsoft's `minidumpapiset.h` and, for other
systems, of Breakpad's `minidump_format.h`.
"""

import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

import msgspec

from service.ingest.foreign.common import FAULTS
from service.ingest.foreign.sentry_event import values_of

# The facts in a minidump: its exception, the place of it, the system and the modules (G-142). Pure functions.

T = TypeVar("T")
Raw = bytes | bytearray

MAX_STREAMS = 256
MAX_MODULES = 2048
MAX_PATH_BYTES = 1024
MAX_DEBUG_RECORD = 1024
MAX_VERSION = 100

_MAGIC = b"MDMP"
_HEADER = struct.Struct("<4sIIIII")  # signature, version, number of streams, their directory, checksum, time
_ENTRY = struct.Struct("<III")  # type, size, place
_MODULES, _EXCEPTION, _SYSTEM = 4, 6, 7
_SYSTEM_INFO = struct.Struct("<HHHBBIIIII")  # processor, level, revision, number, product, version in 3, platform, text
_THROWN = struct.Struct("<IIIIQQII")  # thread, padding, code, flags, record, address, number of parameters, padding
_CONTEXT = struct.Struct("<II")  # size and place of the registers of the thread
_CONTEXT_AT = _THROWN.size + 15 * 8  # behind the parameters
_MODULE = struct.Struct("<QIIII")  # base, size, checksum, time, name
_MODULE_BYTES = 108
_VERSION_AT, _RECORD_AT = 24, 76  # of a module
_FILE_VERSION = struct.Struct("<IIII")  # signature, structure, version in 2
_VERSION_MAGIC = 0xFEEF04BD
_PDB, _ELF = b"RSDS", struct.pack("<I", 0x4270454C)
_ID_AT, _AGE_AT = 4, 20  # of a debug record

_SYSTEMS = {2: "Windows", 0x8101: "macOS", 0x8102: "iOS", 0x8201: "Linux", 0x8202: "Solaris", 0x8203: "Android"}
_PROCESSORS = {0: "x86", 1: "mips", 3: "ppc", 5: "arm", 6: "ia64", 9: "x86_64", 10: "x86", 12: "arm64", 0x8003: "arm64"}
_POINTERS = {"x86": ("<I", 184), "x86_64": ("<Q", 248), "arm": ("<I", 64), "arm64": ("<Q", 264)}
"""Where the registers of a thread have its instruction pointer."""
_UNIX = frozenset({"Linux", "Android", "Solaris"})
_APPLE = frozenset({"macOS", "iOS"})
_CODES = {
    0x40010006: "OUTPUT_DEBUG_STRING",
    0x80000001: "EXCEPTION_GUARD_PAGE",
    0x80000002: "EXCEPTION_DATATYPE_MISALIGNMENT",
    0x80000003: "EXCEPTION_BREAKPOINT",
    0x80000004: "EXCEPTION_SINGLE_STEP",
    0xC0000005: "EXCEPTION_ACCESS_VIOLATION",
    0xC0000006: "EXCEPTION_IN_PAGE_ERROR",
    0xC0000008: "EXCEPTION_INVALID_HANDLE",
    0xC0000017: "STATUS_NO_MEMORY",
    0xC000001D: "EXCEPTION_ILLEGAL_INSTRUCTION",
    0xC0000025: "EXCEPTION_NONCONTINUABLE_EXCEPTION",
    0xC000008C: "EXCEPTION_ARRAY_BOUNDS_EXCEEDED",
    0xC000008E: "EXCEPTION_FLT_DIVIDE_BY_ZERO",
    0xC0000094: "EXCEPTION_INT_DIVIDE_BY_ZERO",
    0xC0000095: "EXCEPTION_INT_OVERFLOW",
    0xC0000096: "EXCEPTION_PRIV_INSTRUCTION",
    0xC00000FD: "EXCEPTION_STACK_OVERFLOW",
    0xC0000374: "STATUS_HEAP_CORRUPTION",
    0xC0000409: "STATUS_STACK_BUFFER_OVERRUN",
    0xE06D7363: "CPP_EXCEPTION",
    0xE0434352: "CLR_EXCEPTION",
}
_SIGNALS = {
    3: "SIGQUIT",
    4: "SIGILL",
    5: "SIGTRAP",
    6: "SIGABRT",
    7: "SIGBUS",
    8: "SIGFPE",
    11: "SIGSEGV",
    13: "SIGPIPE",
    15: "SIGTERM",
    31: "SIGSYS",
    0xFFFFFFFF: "DUMP_REQUESTED",
}
_MACH = {
    1: "EXC_BAD_ACCESS",
    2: "EXC_BAD_INSTRUCTION",
    3: "EXC_ARITHMETIC",
    5: "EXC_SOFTWARE",
    6: "EXC_BREAKPOINT",
    10: "EXC_CRASH",
    11: "EXC_RESOURCE",
    12: "EXC_GUARD",
}
_FAULTS = (struct.error, IndexError)
"""Errors of a read outside of a dump."""


class UnreadableDump(ValueError):
    """A dump without a fact, with the reason."""


class LoadedModule(NamedTuple):
    """A loaded file: its path, the addresses of it, its version and debug id, "" for unknown ones."""

    path: str
    base: int
    size: int
    version: str
    debug_id: str

    @property
    def name(self) -> str:
        """The path without its folders."""
        return self.path.replace("\\", "/").rpartition("/")[2]


class Thrown(NamedTuple):
    """An exception: its name and code, its address, the thread, and the instruction pointer of that. None: unknown."""

    name: str
    code: int
    address: int
    thread: int
    pointer: int | None


class Dump(NamedTuple):
    """The facts of a dump. `time`: epoch seconds. `total`: modules in all. Texts are empty where nothing is known."""

    time: int
    system: str = ""
    version: str = ""
    processor: str = ""
    thrown: Thrown | None = None
    modules: tuple[LoadedModule, ...] = ()
    total: int = 0
    crashed: LoadedModule | None = None


class _Base(NamedTuple):
    """A module before its name is read: the place of its entry, its addresses, and the place of its name."""

    at: int
    base: int
    size: int
    name_at: int


def read_dump(dump: Raw, most_modules: int) -> Dump:
    """Read the facts of a dump, of at most so many modules. Raises UnreadableDump."""
    try:
        magic, _, number, directory, _, taken_at = _HEADER.unpack_from(dump)
    except struct.error:
        raise UnreadableDump("it is too short for its header") from None
    if magic != _MAGIC:
        raise UnreadableDump("it does not begin as a minidump")
    places = dict(_streams(dump, min(number, MAX_STREAMS), directory))
    if not places:
        raise UnreadableDump("its list of streams is not in it")
    system, version, processor = _read(dump, places, _SYSTEM, _system_of) or ("", "", "")
    thrown = _read(dump, places, _EXCEPTION, lambda raw, at, _: _thrown_of(raw, at, system, processor))
    found = _read(dump, places, _MODULES, _bases_of) or (0, [])
    if not (processor or thrown or found[1]):
        raise UnreadableDump("none of its streams can be read")
    total, bases = found
    held = None if thrown is None or thrown.pointer is None else _holder(bases, thrown.pointer)
    listed = [_module_of(dump, base) for base in bases[:most_modules]]
    crashed = None if held is None else _module_of(dump, held)
    return Dump(taken_at, system, version, processor, thrown, tuple(listed), total, crashed)


def _streams(dump: Raw, number: int, directory: int) -> Iterator[tuple[int, tuple[int, int]]]:
    """Size and place of each stream by its type, as far as the list of them is there."""
    for index in range(number):
        try:
            kind, size, place = _ENTRY.unpack_from(dump, directory + index * _ENTRY.size)
        except struct.error:
            return
        yield kind, (size, place)


def _read(dump: Raw, places: Mapping[int, tuple[int, int]], kind: int, read: Callable[[Raw, int, int], T]) -> T | None:
    """Read a stream by its place and size. None for one outside of the dump, and without one."""
    if kind not in places:
        return None
    size, place = places[kind]
    try:
        return read(dump, place, size)
    except _FAULTS:
        return None


def _system_of(dump: Raw, at: int, _: int) -> tuple[str, str, str]:
    """The system, its version, and the processor."""
    processor, _, _, _, _, major, minor, build, platform, text_at = _SYSTEM_INFO.unpack_from(dump, at)
    version = f"{major}.{minor}.{build}" + (f" {said}" if (said := _text(dump, text_at)) else "")
    known = _PROCESSORS.get(processor, f"processor {processor}")
    return _SYSTEMS.get(platform, f"system 0x{platform:x}"), version[:MAX_VERSION], known


def _thrown_of(dump: Raw, at: int, system: str, processor: str) -> Thrown:
    thread, _, code, _, _, address, _, _ = _THROWN.unpack_from(dump, at)
    names = _SIGNALS if system in _UNIX else _MACH if system in _APPLE else _CODES
    pointer = None
    try:
        _, registers = _CONTEXT.unpack_from(dump, at + _CONTEXT_AT)
        form, place = _POINTERS[processor]
        [pointer] = struct.unpack_from(form, dump, registers + place) if registers else [None]
    except (*_FAULTS, KeyError):
        pointer = None
    if pointer is None and names is _CODES:
        pointer = address  # Elsewhere it is the address that could not be reached.
    return Thrown(names.get(code, f"exception 0x{code:x}"), code, address, thread, pointer)


def _bases_of(dump: Raw, at: int, size: int) -> tuple[int, list[_Base]]:
    """The number of modules, and those that are there."""
    [number] = struct.unpack_from("<I", dump, at)
    begin = at + (8 if size == 8 + number * _MODULE_BYTES else 4)  # Some writers align the list.
    found: list[_Base] = []
    for place in range(begin, begin + min(number, MAX_MODULES) * _MODULE_BYTES, _MODULE_BYTES):
        if place + _MODULE_BYTES > len(dump):
            break
        base, extent, _, _, name_at = _MODULE.unpack_from(dump, place)
        found.append(_Base(place, base, extent, name_at))
    return number, found


def _holder(bases: list[_Base], pointer: int) -> _Base | None:
    """The module with an address in it."""
    return next((one for one in bases if one.base <= pointer < one.base + one.size), None)


def _module_of(dump: Raw, one: _Base) -> LoadedModule:
    path = _text(dump, one.name_at) or "(no name)"
    version = ""
    magic, _, high, low = _FILE_VERSION.unpack_from(dump, one.at + _VERSION_AT)
    if magic == _VERSION_MAGIC:
        version = f"{high >> 16}.{high & 0xFFFF}.{low >> 16}.{low & 0xFFFF}"
    size, place = _CONTEXT.unpack_from(dump, one.at + _RECORD_AT)
    return LoadedModule(path, one.base, one.size, version, _debug_id(dump[place : place + min(size, MAX_DEBUG_RECORD)]))


def _debug_id(record: Raw) -> str:
    """The debug id in the record of a module: a UUID, and for files of Windows its age in hexadecimal."""
    told = bytes(record[_ID_AT:_AGE_AT])
    if record.startswith(_PDB) and len(record) >= _AGE_AT + 4:
        [age] = struct.unpack_from("<I", record, _AGE_AT)
        return f"{UUID(bytes_le=told)}{f'-{age:x}' if age else ''}"
    return str(UUID(bytes_le=told.ljust(_AGE_AT - _ID_AT, b"\0"))) if told and record.startswith(_ELF) else ""


def _text(dump: Raw, at: int) -> str:
    """A text with its length before it, the begin of a long one. "" outside of the dump."""
    if not at:
        return ""
    try:
        [size] = struct.unpack_from("<I", dump, at)
    except struct.error:
        return ""
    raw = bytes(dump[at + 4 : at + 4 + min(size, MAX_PATH_BYTES)])
    return raw.decode("utf-16-le", "replace").partition("\0")[0]


# Crashes as Breakpad, Crashpad and Electron upload them: a minidump with annotations (G-142). Pure functions. The
# annotations are an event as Sentry's SDKs for native programs write it: as JSON in `sentry` or in the pieces
# `sentry__1`, `sentry__2`, as MessagePack in `__sentry-event`, or a member each in `sentry[release]` or
# `sentry___release`. Other fields are the program's own. An event without an exception gets that of the dump.

DUMP = "upload_file_minidump"
EVENT = "sentry"
PACKED_EVENT = "__sentry-event"
MAX_FIELDS = 100
MAX_FIELD = 8 * 1024
MAX_PACKED = 256 * 1024
"""Bytes of an event as MessagePack: of it each may become a value."""
MAX_DEPTH = 5
MAX_LISTED = 60
"""Modules of a dump in an event, the crashed one and those of the program first."""
MAX_NAME = 100

_PIECE = "sentry__"
_MEMBERS = ("sentry[", "sentry___")
_PRODUCT = ("prod", "_productName", "product")
_VERSION = ("ver", "_version", "version")
_SYSTEM_FOLDERS = ("/usr/lib", "/lib", "/system/", "/usr/libexec/", "/apex/", "/vendor/", "linux-gate", "[vdso]")
_WINDOWS = ":/windows/"


class CrashForm(NamedTuple):
    """The parts of an upload: fields by name, the event as MessagePack, the dump; and how many found no room."""

    fields: Mapping[str, str]
    packed: Raw | None
    dump: Raw
    left_out: int = 0


class _Exception(NamedTuple):
    """A dump as an exception: its text, and the facts that make its case."""

    value: str
    known_by: list[str]
    frames: list[dict[str, Any]]


def event_text(form: CrashForm) -> bytes | None:
    """The event of the annotations as JSON, as it was sent. None without one, and for an unreadable one."""
    numbered = [form.fields.get(f"{_PIECE}{number}", "") for number in range(1, MAX_FIELDS)]
    text = "".join(numbered) or form.fields.get(EVENT, "")
    if text:
        return text.encode()
    if form.packed is None:
        return None
    try:
        return msgspec.json.encode(msgspec.msgpack.decode(form.packed))
    except (*FAULTS, TypeError, OverflowError):
        return None


def to_payload(event: Mapping[str, Any], form: CrashForm, *, unread: bool) -> dict[str, Any]:
    """The event of a crash as a Sentry SDK would send it. `unread`: its own event could not be read."""
    payload, own = _with_members(event, form.fields)
    product = next((own[name] for name in _PRODUCT if own.get(name)), "")
    version = next((own[name] for name in _VERSION if own.get(name)), "")
    if product and version:
        payload.setdefault("release", f"{product}@{version}")
    if form.left_out or unread:
        own["fields_left_out"] = str(form.left_out + unread)
    if own:
        payload["extra"] = {**own, **_object(payload.get("extra"))}
    return with_dump(payload, form.dump)


def with_dump(event: Mapping[str, Any], raw: Raw) -> dict[str, Any]:
    """An event with the facts of its dump. Its own members win, its exception first of all.

    So does its message, where the dump is unreadable.
    """
    payload = dict(event)
    tells = any(values_of(event.get("exception")))
    try:
        dump = read_dump(raw, MAX_LISTED)
    except UnreadableDump as fault:
        contexts: dict[str, Any] = {"minidump": {"bytes": len(raw), "unreadable": str(fault)}}
        found = _Exception("Minidump, unreadable", ["unreadable"], [])
        tells = tells or bool(event.get("message") or event.get("logentry"))
    else:
        contexts = _contexts_of(dump, len(raw))
        found = _exception_of(dump)
        if dump.time:
            payload.setdefault("timestamp", dump.time)
    if not tells:
        error = {"value": found.value, "mechanism": {"type": "minidump", "handled": False}}
        payload["exception"] = {"values": [{**error, "stacktrace": {"frames": found.frames}}]}
        if not payload.get("fingerprint"):
            payload["fingerprint"] = ["minidump", *found.known_by]
    payload["contexts"] = {**contexts, **_object(payload.get("contexts"))}
    return {"level": "fatal", "platform": "native", **payload}


def _with_members(event: Mapping[str, Any], fields: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
    """The event with the members of fields of their own, and the other fields."""
    payload, own = dict(event), dict[str, str]()
    for name, text in fields.items():
        if name == EVENT or name.removeprefix(_PIECE).isdecimal():
            continue
        if name.startswith(_MEMBERS) and name not in _MEMBERS:
            path = name.removeprefix(EVENT).replace("]", "").replace("[", "___").strip("_").split("___")
            _put(payload, path[:MAX_DEPTH], text)
        else:
            own[name] = text
    return payload, own


def _put(holder: dict[str, Any], path: list[str], text: str) -> None:
    """Put a text at a path, unless something else stands there."""
    *above, last = path
    for name in above:
        inner = holder.setdefault(name, {})
        if not isinstance(inner, dict):
            return
        holder = inner
    holder.setdefault(last, text)


def _contexts_of(dump: Dump, size: int) -> dict[str, Any]:
    """The facts of a dump as contexts of an event."""
    thrown, crashed = dump.thrown, dump.crashed
    told: dict[str, Any] = {"bytes": size, "modules": dump.total}
    if thrown is not None:
        told |= {"exception": thrown.name, "code": f"0x{thrown.code:x}", "address": f"0x{thrown.address:x}"}
        told["thread"] = thrown.thread
        if thrown.pointer is not None:
            told["instruction_addr"] = f"0x{thrown.pointer:x}"
    if crashed is not None:
        told |= {"module": crashed.path, "debug_id": crashed.debug_id, "version": crashed.version}
    contexts: dict[str, Any] = {"minidump": {name: value for name, value in told.items() if value != ""}}
    if dump.system:
        contexts["os"] = {"name": dump.system, "version": dump.version}
        contexts["device"] = {"arch": dump.processor}
    listed = [*([crashed] if crashed is not None else []), *sorted(dump.modules, key=_is_of_system)]
    modules = {one.name[:MAX_NAME]: f"{one.version} {one.debug_id}".strip() for one in listed}
    return {**contexts, "modules": modules} if modules else contexts


def _exception_of(dump: Dump) -> _Exception:
    """The exception of a dump. It is known by module and offset, or by its name and the program."""
    thrown, crashed = dump.thrown, dump.crashed
    program = dump.modules[0].name[:MAX_NAME] if dump.modules else ""
    if thrown is None:
        where = f" of {program}" if program else ""
        return _Exception(f"Minidump{where} without an exception", ["no exception", program], [])
    if crashed is None or thrown.pointer is None:
        where = f" in {program}, outside of any module" if program else ", no module is known"
        return _Exception(f"{thrown.name}{where}", [thrown.name, program], _frames(thrown, None))
    offset = f"+0x{thrown.pointer - crashed.base:x}"
    name = crashed.name[:MAX_NAME]
    return _Exception(f"{thrown.name} in {name}{offset}", [name, offset], _frames(thrown, crashed))


def _frames(thrown: Thrown, crashed: LoadedModule | None) -> list[dict[str, Any]]:
    """The one known call: the innermost of the crashed thread."""
    if thrown.pointer is None:
        return []
    frame: dict[str, Any] = {"instruction_addr": f"0x{thrown.pointer:x}", "in_app": False}
    if crashed is not None:
        frame |= {"package": crashed.path, "in_app": not _is_of_system(crashed)}
    return [frame]


def _is_of_system(module: LoadedModule) -> bool:
    """Whether a module is a library of the system, by its folder."""
    path = module.path.replace("\\", "/").lower()
    return path.startswith(_SYSTEM_FOLDERS) or _WINDOWS in path


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
