"""Log records of OpenTelemetry as log events of ours (G-142). Pure functions.

A record comes as protobuf or as JSON, and is read into one form. What its resource and its scope say becomes release,
environment and tags; what an exception's attributes say becomes the exception, so that the error is in the case that it
is in when any other SDK reports it. Its time is that of the event, else that at which a collector observed it.
"""

import math
from abc import ABC, abstractmethod
from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from schemas.onboarding import PROOF_PROPERTY
from service.ingest.foreign import common
from service.ingest.grouping.fingerprint import FirstEvidence
from service.ingest.grouping.first import MAX_TEXT, attribute_of, filled, first_frame, shown
from service.ingest.outcomes import SdkClock, seconds_of
from service.ingest.stacks.reading import read_before, read_trace
from service.ingest.stacks.trace import Trace

MAX_STACK = 12_000
"""Characters of a stack trace that are kept as text: half of what may be its top, and half of what may be its end."""
MOST_OF_RESOURCE = 8 * 1024
"""Bytes of its resource that a record keeps, written as JSON."""
MOST_TAGS = common.MAX_TAGS - 3
"""Attributes of a resource that become tags, beside a record's own ids and name."""
MOST_LEFT_OUT = 20
MAX_LEFT_OUT = 100
"""Attributes that are named as left out, and characters of such a name."""

_encode = msgspec.json.Encoder().encode
_LEVELS = ("debug", "debug", "info", "warning", "error", "fatal")  # each of four severity numbers: trace to fatal
_BY_TEXT = {
    "trace": "debug",
    "verbose": "debug",
    "debug": "debug",
    "info": "info",
    "information": "info",
    "informational": "info",
    "notice": "info",
    "warn": "warning",
    "warning": "warning",
    "err": "error",
    "error": "error",
    "severe": "error",
    "critical": "fatal",
    "crit": "fatal",
    "alert": "fatal",
    "emergency": "fatal",
    "emerg": "fatal",
    "panic": "fatal",
    "fatal": "fatal",
}
SEVERITIES: Mapping[str, int] = {
    "UNSPECIFIED": 0,
    **{
        f"{name}{step if step > 1 else ''}": 4 * place + step
        for place, name in enumerate(("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"))
        for step in range(1, 5)
    },
}
"""Numbers of severities by their names in protobuf."""
_STEPS = "234"  # behind the short name of a severity
_ENVIRONMENTS = ("deployment.environment.name", "deployment.environment")
_USED = frozenset({*_ENVIRONMENTS, "service.version"})
_SEVERITIES = 4
_NANOSECONDS = 1_000_000_000  # of a second
_EXCEPTION = frozenset({"exception.type", "exception.message", "exception.stacktrace"})


class Scope:
    """What all records of one scope have in common: what its resource says, and the scope's name.

    A resource is said once and stored with each record, so a record keeps at most MOST_OF_RESOURCE bytes of it, the
    attributes that come first; `left_out` names the others. `more` is the text of those attributes that are no tags:
    each record gets values of its own of it. `size` is the bytes that a record takes for all of this.
    """

    def __init__(self, resource: Mapping[str, Any], name: str = "") -> None:
        self.environment = next((str(resource[name]) for name in _ENVIRONMENTS if resource.get(name)), None)
        self.release = str(resource["service.version"]) if resource.get("service.version") else None
        self.tags: dict[str, Any] = {"logger": name[: common.MAX_TAG]} if name else {}
        more: dict[str, Any] = {}
        left_out: list[str] = []
        room = MOST_OF_RESOURCE
        for key, value in resource.items():
            kept, attribute = more, value
            if isinstance(value, str | int):
                if key in _USED:
                    continue
                kept, attribute = self.tags, value[: common.MAX_TAG] if isinstance(value, str) else value
            size = len(_encode({key: attribute})) - 1  # without one of its brackets; the other stands for a comma
            fits = size <= room and (kept is more or len(kept) < MOST_TAGS)
            if not fits and key != PROOF_PROPERTY:
                left_out.append(f"resource.{key}"[:MAX_LEFT_OUT])
                continue
            room -= size
            kept[key] = attribute
        self.more = _encode(more) if more else None
        self.left_out = left_out[:MOST_LEFT_OUT]
        if len(left_out) > MOST_LEFT_OUT:
            self.left_out[-1] = f"resource: {len(left_out) - MOST_LEFT_OUT + 1} more"
        self.size = MOST_OF_RESOURCE - room + len(_encode(self.left_out)) + min(len(name), common.MAX_TAG)


class OtlpRecord(msgspec.Struct, frozen=True):
    """A log record in plain values. Times are nanoseconds since 1970, 0 where there is none; ids are hexadecimal."""

    time: int
    observed: int
    severity: int
    severity_text: str
    body: Any
    attributes: Mapping[str, Any]
    trace_id: str = ""
    span_id: str = ""
    name: str = ""


def to_event(record: OtlpRecord, scope: Scope) -> common.ForeignEvent:
    """The event that a record tells of."""
    errors, attributes, before = _errors_of(record.attributes)
    error = errors[0] if errors else None
    level = _level(record, is_error=error is not None)
    told = record.body if isinstance(record.body, str) else None
    said = told or _text(record.body) or record.name
    template = attribute_of(record.attributes) if error is None else None
    # Some export the template as the body, and its parameters as attributes.
    message = filled(template, record.attributes) if template is not None and (not said or said == template) else said
    older = (said, before) if before is not None or message != said else None
    known = attributes.get("user.id") or attributes.get("enduser.id") or None
    user = known and {"id": known, "email": attributes.get("user.email"), "name": attributes.get("user.name")}
    own = {"trace_id": record.trace_id or None, "span_id": record.span_id or None, "event_name": record.name or None}
    more = {
        "body": record.body if error is not None or told is None else None,
        "attributes": attributes or None,
        "severity_text": record.severity_text or None,
        "time_unix_nano": str(record.time) if record.time else None,
        "observed_time_unix_nano": str(record.observed) if record.observed else None,
        "resource": scope.more and msgspec.json.decode(scope.more),
    }
    return common.ForeignEvent(
        level,
        message=message,
        errors=errors,
        environment=scope.environment,
        release=scope.release,
        user=user,
        tags={**own, **scope.tags},
        more=more,
        left_out=scope.left_out,
        first=None if error is None else _first_evidence(record.attributes, message),
        older=older,
        clock=SdkClock(seconds_of((record.time or record.observed) // _NANOSECONDS) or None),
    )


def _errors_of(
    attributes: Mapping[str, Any],
) -> tuple[Sequence[common.ForeignError], Mapping[str, Any], common.ForeignError | None]:
    """The exception of a record with its members or causes, and its attributes with the stack trace cut.

    Last the exception as it was read before version 3 of the grouping, where that differs.
    """
    if attributes.keys().isdisjoint(_EXCEPTION):
        return (), attributes, None
    kind = _text_in(attributes, "exception.type")
    text, stack = _text_in(attributes, "exception.message"), _text_in(attributes, "exception.stacktrace")
    said = attributes.get("exception.message")
    value = shown(said) if said is not None and not isinstance(said, str) else text
    if kind is None and value is None and stack is None:
        return (), attributes, None
    if stack is not None and len(stack) > MAX_STACK:
        cut = f"{stack[: MAX_STACK // 2]}\n[cut]\n{stack[-MAX_STACK // 2 :]}"
        attributes = {**attributes, "exception.stacktrace": cut}
    trace = read_trace(stack) if stack is not None else Trace()
    before = None
    if stack is not None and (trace.newer or value != text):
        before = _error_of(read_before(stack), kind, text)
    elif value != text:
        before = _error_of(Trace(), kind, text)
    reported = _error_of(trace, kind, value)
    if not trace.inside:
        return [reported], attributes, before
    errors = [_numbered(reported, 0)]
    _add_inside(trace, errors, 0)
    return errors, attributes, before


def _add_inside(trace: Trace, errors: list[common.ForeignError], holder: int) -> None:
    """Add the members or the cause of an exception, each with its own."""
    for one in trace.inside:
        if len(errors) > common.MAX_CAUSES:
            return
        number = len(errors)
        errors.append(_numbered(_error_of(one, one.type, one.value), number, holder))
        _add_inside(one, errors, number)


def _numbered(error: common.ForeignError, number: int, holder: int | None = None) -> common.ForeignError:
    """An exception with its number and that of its holder, as SDKs tell them."""
    ids = {"exception_id": number} if holder is None else {"exception_id": number, "parent_id": holder}
    return error._replace(mechanism={**(error.mechanism or {}), **ids})


def _error_of(trace: Trace, kind: str | None, value: str | None) -> common.ForeignError:
    """The exception of a trace, whose attributes say this type and value.

    Type and value of an exact trace beat the attributes; what these lack is that of any trace (G-175).
    """
    frames = [
        common.Frame(call.file, call.function, None, call.module, call.line, call.column, call.in_app)
        for call in trace.calls
    ]
    is_same = kind is None or trace.type is None or _bare(kind) == _bare(trace.type)
    mechanism = {"data": {_code_of(trace.code): trace.code}} if trace.code and is_same else None
    if trace.exact and is_same:  # Python's SDK takes the first argument for the message: a KeyError lacks its quotes.
        return common.ForeignError(trace.type, trace.value, frames, trace.module)
    kind, value = kind or trace.type, value or (trace.value if is_same else None)
    module, _, bare = (kind or "").rpartition(".")
    return common.ForeignError(bare or kind, value, frames, module or None, mechanism)


def _code_of(code: str) -> str:
    """The name of a code behind a type of .NET: its own of 32 bits, or one of the operating system."""
    return "HResult" if code.startswith("0x") else "NativeErrorCode"


def _first_evidence(attributes: Mapping[str, Any], message: str | None) -> FirstEvidence:
    """What version 1 of the grouping sees of an exception: its attributes, and its trace as it was read then."""
    kind, value = _text_in(attributes, "exception.type"), _text_in(attributes, "exception.message")
    stack = _text_in(attributes, "exception.stacktrace")
    bare = ((kind or "").rpartition(".")[2] or kind or "")[:MAX_TEXT]
    said = (value or bare or message or common.NO_MESSAGE)[: common.MAX_MESSAGE]
    return FirstEvidence(bare or None, None if stack is None else first_frame(stack), said)


def _bare(kind: str) -> str:
    """A type without its module, of any language."""
    return kind.replace("\\", ".").replace("::", ".").rpartition(".")[2]


def _text_in(attributes: Mapping[str, Any], name: str) -> str | None:
    """An attribute that is a text and not empty."""
    found = attributes.get(name)
    return found if isinstance(found, str) and found else None


def _level(record: OtlpRecord, *, is_error: bool) -> str:
    """How grave a record is: by its number, else by its text; of one that says neither, an exception is an error."""
    if 1 <= record.severity <= _SEVERITIES * len(_LEVELS):
        return _LEVELS[(record.severity - 1) // _SEVERITIES]
    text = record.severity_text.strip().lower()
    return _BY_TEXT.get(text.rstrip(_STEPS), "error" if is_error else "info")


def _text(body: Any) -> str | None:
    """A body that is no text, as a reader of logs would write it; None for none."""
    if isinstance(body, Mapping):
        return " ".join(f"{name}={value}" for name, value in body.items())
    return None if body is None else str(body)


def plain_number(value: float) -> float | str:
    """A number as JSON can hold it; infinities and what is no number become their names (G-133)."""
    return value if math.isfinite(value) else str(value)


# What an export request is cut into, whatever it is written in (G-142). Nothing is copied for a record until it is
# read: ten thousand pieces would be as much again as the body, as long as its request lasts, and what is freed in such
# small pieces stays with the process.

MAX_RECORD = 256 * 1024
"""Bytes of one record or resource: as many as a log event may have alone."""
MAX_RESOURCE = 128
"""Attributes of a resource that are read: what an SDK keeps unless it is told otherwise."""
MOST_NAMES = 10
LONGEST_NAME = 60
"""Names of members that a sender is told of, and characters of each."""

_NUMBERS = "I"  # of four bytes each


class MalformedExport(ValueError):
    """Bytes that are no such message."""


class TooManyRecords(ValueError):
    """More records, or parts around them, than a request may have."""


def check_size(raw: bytes) -> None:
    """Raise MalformedExport for a part that is larger than a log event may be."""
    if len(raw) > MAX_RECORD:
        raise MalformedExport


class Unread:
    """Members of an export that are not read, and those of an older form that are (G-206): a few names of each."""

    def __init__(self) -> None:
        self._unread: dict[str, None] = {}
        self._older: dict[str, None] = {}

    def add(self, names: Iterable[str]) -> None:
        """Note members that are not read."""
        _note(self._unread, names)

    def add_older(self, name: str) -> None:
        """Note a member of an older form that is read."""
        _note(self._older, [name])

    @property
    def sentence(self) -> str:
        """What the sender is told, empty for nothing."""
        told = [("Members that are not read: ", self._unread), ("Members of an older form: ", self._older)]
        return " ".join(f"{begin}{', '.join(names)}." for begin, names in told if names)


def _note(names: dict[str, None], further: Iterable[str]) -> None:
    for name in further:
        if len(names) < MOST_NAMES:
            plain = len(name) <= LONGEST_NAME and name.isascii() and name.replace("_", "").replace(" ", "").isalnum()
            names[name if plain else "one without a plain name"] = None


class Texts:
    """Texts one behind the other: each takes four bytes beside its own, and all are given back as one piece."""

    def __init__(self) -> None:
        self._all = bytearray()
        self._ends = array(_NUMBERS, [0])

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __getitem__(self, number: int) -> bytes:
        return bytes(self._all[self._ends[number] : self._ends[number + 1]])

    def write(self, part: bytes) -> None:
        """Put a part to the text that has begun."""
        self._all += part

    def end(self) -> None:
        """End the text that has begun; the next one begins."""
        self._ends.append(len(self._all))


class Cut(ABC):
    """A request of at most `most` records, and as many scopes and resources; each has its number.

    `sizes` are the bytes of the records, and `unread` are the members that nobody has read so far.
    """

    def __init__(self, most: int) -> None:
        self.unread = Unread()
        self.resources = Texts()
        self.scopes = Texts()
        self.sizes = array(_NUMBERS)
        self.most = most
        self._resource_of = array(_NUMBERS)  # by scope
        self._scope_of = array(_NUMBERS)  # by record

    def __len__(self) -> int:
        return len(self.sizes)

    def resource_of(self, scope: int) -> int:
        """The resource that a scope is of."""
        return self._resource_of[scope]

    def scope_of(self, record: int) -> int:
        """The scope that a record is of."""
        return self._scope_of[record]

    @abstractmethod
    def record(self, number: int) -> bytes:
        """The text of a record: a copy."""

    def end_resource(self) -> None:
        """End the text of a resource, whose scopes come next. Raises TooManyRecords."""
        self.resources.end()
        self._check(len(self.resources))

    def end_scope(self, records: int) -> None:
        """End the text of a scope of the last resource, which so many records are of. Raises TooManyRecords."""
        self.scopes.end()
        self._check(max(len(self.scopes), len(self) + records))
        self._resource_of.append(len(self.resources) - 1)
        self._scope_of.extend([len(self.scopes) - 1] * records)

    def _check(self, number: int) -> None:
        if number > self.most:
            raise TooManyRecords
