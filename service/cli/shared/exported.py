"""A file of exported events and issues: its lines, the states of its issues, and the place of an import in it.

A line is a JSON object. Events come in three forms: as an SDK sent them, as Sentry's and GlitchTip's API shows them (in
`entries`), and as Bugsink's API shows them (in `data`). Issues have an id and a state. Any other line is skipped, and
counted. Nothing of a file stays in memory but the states of its issues and the batch under way.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

MAX_FILE = 2**30
MAX_LINE = 1_000_000
"""Bytes of a line. The service takes no larger event."""
MOST_EVENTS = 100
BATCH_BYTES = 1_000_000
MOST_ISSUES = 500_000
_BEGIN = 65_536  # bytes by which a file is known again

Kind = Literal["event", "issues", "malformed", "skipped"]
Json = dict[str, Any]

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
_STATES = {"resolved": "resolved", "ignored": "ignored", "muted": "ignored", "archived": "ignored"}
_ENTRIES = {
    "exception": "exception",
    "message": "logentry",
    "request": "request",
    "breadcrumbs": "breadcrumbs",
    "threads": "threads",
    "stacktrace": "stacktrace",
}
"""Members of an event by the types of its entries in the API."""
_SAME = ("platform", "contexts", "user", "fingerprint", "extra", "sdk", "dist", "logger", "level", "environment")
_FRAME = {"absPath": "abs_path", "lineNo": "lineno", "colNo": "colno", "inApp": "in_app"}
"""Members of a frame by their names in the API."""


class BadExport(Exception):
    """A file that cannot be imported, with the reason."""


class ExportLine(NamedTuple):
    """A line: what it is, and of an event its text and the state of its issue."""

    kind: Kind
    text: str = ""
    state: str = "unresolved"


class ReadBatch(NamedTuple):
    """Lines that are sent together, and the byte behind them."""

    lines: list[ExportLine]
    end: int


@dataclass
class ImportPlace:
    """Where an import of a file stands: the bytes that are done, and what their lines were."""

    kept_in: Path
    key: str
    size: int
    offset: int = 0
    counts: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, file: Path, project_id: str, url: str) -> ImportPlace:
        """The begin of a file, for one project."""
        with file.open("rb") as opened:
            begin = opened.read(_BEGIN)
        size = file.stat().st_size
        named = _encode((url, project_id, size, hashlib.sha256(begin).hexdigest()))
        return cls(file.with_name(f"{file.name}.progress"), hashlib.sha256(named).hexdigest(), size)

    def resume(self) -> None:
        """Go on where an earlier import of the same file into the same project ended."""
        try:
            kept = _decode(self.kept_in.read_bytes())
        except (FileNotFoundError, msgspec.DecodeError):
            return
        if isinstance(kept, dict) and kept.get("key") == self.key and 0 <= kept["offset"] <= self.size:
            self.offset, self.counts = kept["offset"], Counter(kept["counts"])

    def move(self, end: int, counts: Counter[str], *, keep: bool) -> None:
        """Go on behind a batch, and write that down. A file that is cut short by a crash is as if absent."""
        self.offset = end
        self.counts += counts
        if keep:
            self.kept_in.write_bytes(_encode({"key": self.key, "offset": end, "counts": dict(self.counts)}))

    def forget(self) -> None:
        """Remove what was written down, at the end of the file."""
        self.kept_in.unlink(missing_ok=True)


def states_in(file: Path) -> dict[str, str]:
    """Read the states of all issues by their ids. Raises BadExport for too many."""
    states: dict[str, str] = {}
    with file.open("rb") as opened:
        for raw, _ in _lines(opened):
            value = None if raw is None else _object(raw)
            if value is not None and (issue := _issue_of(value)) is not None:
                states[issue[0]] = issue[1]
                if len(states) > MOST_ISSUES:
                    raise BadExport(f"It has more than {MOST_ISSUES:,} issues. Split it by lines.")
    return states


def batches(file: Path, offset: int, states: Mapping[str, str]) -> Iterator[ReadBatch]:
    """Read the lines from a byte on, as many together as one request takes."""
    lines: list[ExportLine] = []
    size, end = 0, offset
    with file.open("rb") as opened:
        opened.seek(offset)
        for raw, length in _lines(opened):
            line = judge(raw, states)
            if lines and (len(lines) >= MOST_EVENTS or size + len(line.text) > BATCH_BYTES):
                yield ReadBatch(lines, end)
                lines, size = [], 0
            lines.append(line)
            size += len(line.text)
            end += length
    if lines:
        yield ReadBatch(lines, end)


def _lines(opened: Any) -> Iterator[tuple[bytes | None, int]]:
    """Each line with its length. None for one too long, of which no more than a part is ever in memory."""
    while piece := opened.readline(MAX_LINE + 1):
        length, whole = len(piece), piece.endswith(b"\n") or len(piece) <= MAX_LINE
        while not piece.endswith(b"\n") and len(piece) > MAX_LINE:
            piece = opened.readline(MAX_LINE + 1)
            length += len(piece)
        yield (piece if whole else None), length


def judge(raw: bytes | None, states: Mapping[str, str]) -> ExportLine:
    """Tell what a line is. None stands for one too long."""
    if raw is None:
        return ExportLine("malformed")
    if not raw.strip():
        return ExportLine("skipped")
    value = _object(raw)
    if value is None:
        return ExportLine("malformed")
    if _issue_of(value) is not None:
        return ExportLine("issues")
    payload = event_of(value)
    if payload is None:
        return ExportLine("skipped")
    text = raw.decode("utf-8", "replace").strip() if payload is value else _encode(payload).decode()
    return ExportLine("event", text, states.get(_group_of(value) or "", "unresolved"))


def _object(raw: bytes) -> Json | None:
    try:
        value = _decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _issue_of(value: Json) -> tuple[str, str] | None:
    """The id and the state of an issue. None for anything else."""
    if "eventID" in value or "event_id" in value or not isinstance(value.get("id"), str | int):
        return None
    status = value.get("status")
    if isinstance(status, str):
        return str(value["id"]), _STATES.get(status, "unresolved")
    if isinstance(value.get("is_resolved"), bool):
        state = "resolved" if value["is_resolved"] else "ignored" if value.get("is_muted") is True else "unresolved"
        return str(value["id"]), state
    return None


def _group_of(value: Json) -> str | None:
    """The id of the issue of an event."""
    for name in ("groupID", "group_id", "issue_id", "issue"):
        found = value.get(name)
        found = found.get("id") if isinstance(found, dict) else found
        if isinstance(found, str | int):
            return str(found)
    return None


def event_of(value: Json) -> Json | None:
    """An event as an SDK sends it. None for what is no event."""
    data = value.get("data")
    if isinstance(data, dict) and "event_id" in value:
        return {"timestamp": value.get("timestamp"), **data, "event_id": data.get("event_id") or value["event_id"]}
    if isinstance(value.get("entries"), list) and "eventID" in value:
        return _of_api(value)
    return value if "event_id" in value else None


def _of_api(value: Json) -> Json:
    """An event out of its entries."""
    tags = [one for one in value.get("tags") or () if isinstance(one, dict)]
    named = {one["key"]: one.get("value") for one in tags if isinstance(one.get("key"), str)}
    release = value.get("release")
    made: Json = {
        "event_id": value["eventID"],
        "timestamp": value.get("dateCreated") or value.get("dateReceived"),
        "message": value.get("message") or value.get("title"),
        "level": named.get("level"),
        "environment": named.get("environment"),
        "release": release.get("version") if isinstance(release, dict) else named.get("release"),
        "tags": named,
    }
    made |= {name: value[name] for name in _SAME if value.get(name) is not None}
    for entry in value["entries"]:
        if isinstance(entry, dict) and entry.get("type") in _ENTRIES and isinstance(entry.get("data"), dict):
            made[_ENTRIES[entry["type"]]] = _with_frames(entry["data"])
    return {name: inner for name, inner in made.items() if inner is not None}


def _with_frames(value: Any) -> Any:
    """A part of an event with the members of frames as SDKs name them."""
    if isinstance(value, list):
        return [_with_frames(one) for one in value]
    if not isinstance(value, dict):
        return value
    made = {_FRAME.get(name, name): _with_frames(inner) for name, inner in value.items()}
    lines = value.get("context")
    if "lineNo" in value and isinstance(lines, list):
        made.pop("context")
        said = next((one[1] for one in lines if isinstance(one, list) and one[:1] == [value["lineNo"]]), None)
        made |= {"context_line": said} if isinstance(said, str) else {}
    return made
