"""Crashes as Breakpad, Crashpad and Electron upload them: a minidump with annotations (G-142). Pure functions.

The annotations are an event as Sentry's SDKs for native programs write it: as JSON in `sentry` or in the pieces
`sentry__1`, `sentry__2`, as MessagePack in `__sentry-event`, or a member each in `sentry[release]` or
`sentry___release`. Other fields are the program's own. An event without an exception gets that of the dump.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from service.ingest.foreign.members import FAULTS
from service.ingest.foreign.minidump import Dump, LoadedModule, Raw, Thrown, UnreadableDump, read_dump
from service.ingest.foreign.sentry_event import values_of

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
