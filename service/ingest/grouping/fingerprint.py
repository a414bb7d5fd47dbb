"""Which case an error belongs to, and why: evidence, fingerprints of SDKs, versions (G-031, G-174, G-198). Pure."""

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from service.ingest.grouping.errors import compared_type, deciding_errors, identity_of, is_synthetic
from service.ingest.grouping.first import bare_name, bare_symbol, base_name, filled, template_1, template_2, template_of
from service.ingest.grouping.frames import NOTHING_DECIDES, LedBack, deciding_frames
from service.ingest.grouping.symbols import shown_name

# Fingerprints of SDKs, and variables in it such as `{{ transaction }}` (G-174, G-198). Pure.

MAX_ENTRIES = 20
"""Entries of a client's fingerprint."""
MAX_ENTRY = 200
"""Characters of such an entry."""
DEFAULT = "{{ default }}"
"""Stands in a client's fingerprint for the grouping without one."""

_DEFAULT = re.compile(r"\{\{ ?default ?\}\}")
_VARIABLE = re.compile(r"\{\{ {0,5}([\w.-]{1,200}) {0,5}\}\}")
_OF_EVENT = frozenset({"transaction", "logger", "platform", "server_name"})
_OF_NAMES = frozenset({"level", "environment", "release"})
_OF_FRAME = frozenset({"function", "module", "package", "abs_path", "filename"})
_OF_ERROR = {"type": "type", "error.type": "type", "value": "value", "error.value": "value"}
NOTHING = "<none>"
"""Stands for a variable without a value."""


class EventNames(NamedTuple):
    """Members of an event beside its error, for the variables of a fingerprint."""

    level: str | None = None
    environment: str | None = None
    release: str | None = None
    tags: Mapping[str, Any] = {}


NO_NAMES = EventNames()


def fingerprint_of(value: Any) -> tuple[str, ...]:
    """A client's fingerprint (G-174): one text, or a list of texts and numbers. Bounded when it is used."""
    listed = value if isinstance(value, list) else [value]
    return tuple(
        str(entry)
        for entry in listed[:MAX_ENTRIES]
        if isinstance(entry, str | int | float) and not isinstance(entry, bool) and entry != ""
    )


def is_default(entry: str) -> bool:
    """Whether an entry of a client's fingerprint stands for the grouping without one."""
    return _DEFAULT.fullmatch(entry) is not None


def has_variables(client: Sequence[str]) -> bool:
    """Whether there is a variable in a fingerprint, but for the default."""
    return any("{{" in entry and not is_default(entry) for entry in client)


def resolved(
    client: Sequence[str],
    names: EventNames,
    message: str,
    error: Mapping[str, Any],
    extra: Mapping[str, Any],
    see: Callable[[str], str],
) -> tuple[str, ...]:
    """A fingerprint with its variables filled in. Other texts and the default stay as they are."""

    def fill(found: re.Match[str]) -> str:
        value = _value_of(found[1], names, message, error, extra)
        return found[0] if value is None else see(value)[:MAX_ENTRY]

    return tuple([entry if is_default(entry) else _VARIABLE.sub(fill, entry) for entry in client])


def _value_of(
    name: str, names: EventNames, message: str, error: Mapping[str, Any], extra: Mapping[str, Any]
) -> str | None:
    """The value of a variable, None for other texts."""
    if name.startswith("tags."):
        return _told(names.tags.get(name.removeprefix("tags.")))
    if name == "message":
        return message
    name = name.removeprefix("stack.")
    if name in _OF_FRAME:
        return _told(_of_frame(error, name))
    if name in _OF_ERROR:
        return _told(error.get(_OF_ERROR[name]))
    if name in _OF_EVENT:
        return _told(extra.get(name) or names.tags.get(name))
    return _told(getattr(names, name)) if name in _OF_NAMES else None


def _of_frame(error: Mapping[str, Any], name: str) -> Any:
    """A member of the innermost own frame, else of the innermost one."""
    frames = error.get("frames")
    listed = [frame for frame in frames if isinstance(frame, dict)] if isinstance(frames, list) else []
    frame = next((frame for frame in listed if frame.get("in_app") is True), listed[0] if listed else {})
    if name == "function":
        return frame.get("symbol") or frame.get("function")
    if name == "abs_path":
        return frame.get("abs_path") or frame.get("filename") or frame.get("file")
    return frame.get(name) or (frame.get("file") if name == "filename" else None)


def _told(value: Any) -> str:
    return (
        str(value) if isinstance(value, str | int | float) and not isinstance(value, bool) and value != "" else NOTHING
    )


# What grouping looks at in an error, found in the free form of `extra` (G-031, G-174, G-198). Pure functions. Frames
# come with the latest call first. Whatever does not fit is as if absent.

RAISING = frozenset(
    {
        *("abort", "raise", "throw", "panic", "gsignal", "pthread_kill", "kill", "terminate", "exit", "fatalerror"),
        *("gi_raise", "gi_abort", "assert_fail", "assert_rtn", "assert", "assertion_failure", "assertionfailure"),
        *("+[nsexception raise:format:]", "-[nsexception raise]", "+[nsexception raise:format:arguments:]"),
        *("objc_exception_throw", "objc_exception_rethrow", "objc_terminate", "exceptionpreprocess"),
        *("raiseexception", "rtlraiseexception", "kiuserexceptiondispatcher", "cxxthrowexception"),
        *("cxa_throw", "cxa_rethrow", "unwind_resume", "unwind_raiseexception", "sigtramp", "pthread_kill_internal"),
        *("rust_panic", "rust_begin_unwind", "begin_panic", "begin_panic_handler", "begin_panic_fmt", "panic_fmt"),
        *("panic_display", "panic_bounds_check", "unwrap_failed", "expect_failed", "rust_panic_with_hook"),
        *("malloc_vreport", "malloc_report", "malloc_zone_error", "malloc_error_break", "szone_error", "os_crash"),
        *("gopanic", "sigpanic", "panicmem", "goexit", "trigger_error", "swift_runtime_on_report"),
    }
)
"""Functions that only raise: bare names in lower case, without the underscores around them."""


_NOTHING: Mapping[str, Any] = {}
NO_PLACES: Mapping[int, LedBack] = {}


class DecidingFrame(NamedTuple):
    """The frame that decides: the base name of its file (else its module), and the bare name of its function."""

    file: str
    function: str


class FirstEvidence(NamedTuple):
    """What version 1 looks at: the exception's type, its top in-app frame as `file:function`, and the message."""

    exception_type: str | None
    frame: str | None
    message: str


class SecondEvidence(NamedTuple):
    """The evidence of version 2 where a door has learnt to read more since."""

    exception_type: str | None
    deciding: DecidingFrame | None
    message: str


class Before(NamedTuple):
    """The message and the exception for versions 1 and 2, where more is read since."""

    message: str
    exception: Mapping[str, Any] | None


class ThirdError(NamedTuple):
    """One error in version 3. Texts are empty where there is nothing."""

    type: str
    identity: str
    frames: tuple[str, ...]
    message: str


class ThirdEvidence(NamedTuple):
    """The evidence of version 3: the deciding errors, in one order, and the fingerprint with its variables filled in.

    `template` is of a logged message. `inside`: the errors are inside of a container. `minified`: a frame
    counts by its place in a minified file. `title` names the case: type and value.
    """

    errors: tuple[ThirdError, ...]
    client: tuple[str, ...] = ()
    template: str = ""
    inside: bool = False
    minified: bool = False
    late: bool = False
    title: tuple[str, str] = ("", "")


class GroupingEvidence(NamedTuple):
    """The exception's type, its top in-app frame as version 1 names it, the message, and what later versions add.

    `client` is the fingerprint of an SDK. `late`: no source map was ready in time for the deciding frame. `first` and
    `second` are the evidence of versions 1 and 2 where a door has learnt to read more since.
    """

    exception_type: str | None
    frame: str | None
    message: str
    deciding: DecidingFrame | None = None
    client: tuple[str, ...] = ()
    late: bool = False
    first: FirstEvidence | None = None
    second: SecondEvidence | None = None
    third: ThirdEvidence | None = None


def gather(
    message: str,
    extra: Mapping[str, Any] | None,
    see: Callable[[str], str] = str,
    client: Sequence[str] = (),
    *,
    names: EventNames = NO_NAMES,
    before: Before | None = None,
    places: Mapping[int, LedBack] = NO_PLACES,
) -> GroupingEvidence:
    """Find the evidence in a log event; `see` says how each text is seen.

    `client` is the fingerprint of an SDK, of which a bounded part counts, and `names` are for its variables.
    `before` is for older versions where more is read since, and `places` has frames led back by source maps.
    """
    given = tuple([see(entry[:MAX_ENTRY]) for entry in client[:MAX_ENTRIES]])
    found = extra.get("exception") if extra else None
    exception = found if isinstance(found, dict) else None
    third = _third(message, extra or _NOTHING, exception, see, given, names, places)
    told, sent = (message, exception) if before is None else before
    seen, top, deciding = _older(sent, see)
    return GroupingEvidence(seen, top, see(told), deciding, given, third=third)


def _older(
    exception: Mapping[str, Any] | None, see: Callable[[str], str]
) -> tuple[str | None, str | None, DecidingFrame | None]:
    """The type and the deciding frames in versions 1 and 2."""
    if exception is None:
        return None, None, None
    kind = exception.get("type")
    seen = see(kind) if isinstance(kind, str) and kind else None
    frames = exception.get("frames")
    if not isinstance(frames, list):
        return seen, None, None
    top, deciding = _own(frames, see)
    if deciding is None:
        deciding = next((found for frame in frames if (found := _decides(frame, see, passing_over=RAISING))), None)
    return seen, top, deciding


def _third(
    message: str,
    extra: Mapping[str, Any],
    exception: Mapping[str, Any] | None,
    see: Callable[[str], str],
    client: tuple[str, ...],
    names: EventNames,
    places: Mapping[int, LedBack],
) -> ThirdEvidence:
    """The evidence of version 3."""
    listed = [_NOTHING] if exception is None else deciding_errors(exception)
    inside = exception is not None and listed[0] is not exception
    errors: list[ThirdError] = []
    minified = False
    for error in listed:
        kind = error.get("type")
        said = _said(error, inside=inside) or message
        frames = error.get("frames")
        found = NOTHING_DECIDES
        if frames and isinstance(frames, list):
            is_led_back = places and exception is not None and frames is exception.get("frames")
            found = deciding_frames(frames, see, places if is_led_back else NO_PLACES)
            minified = minified or found.minified
        named = see(compared_type(kind)) if isinstance(kind, str) else ""
        identity = "" if exception is None else identity_of(error, said)
        if "mechanism" in error and found.keys and is_synthetic(error):
            named = ""
        errors.append(ThirdError(named, identity and see(identity), found.keys, see(said)))
    template = template_of(extra)
    first = listed[0]
    kind = first.get("type")
    said = errors[0].message
    if template and said == template:
        said = filled(template, None)  # Nobody reads a placeholder.
    title = (see(kind) if isinstance(kind, str) else "", said)
    asked = resolved(client, names, message, first, extra, see) if client and has_variables(client) else client
    return ThirdEvidence(tuple(errors), asked, template and see(template), inside, minified, title=title)


def _said(error: Mapping[str, Any], *, inside: bool) -> str:
    """The value of an error inside of a container: the message of the event is the container's."""
    value = error.get("value") if inside else None
    return value if isinstance(value, str) else ""


def _own(frames: Iterable[Any], see: Callable[[str], str]) -> tuple[str | None, DecidingFrame | None]:
    """The first in-app frame as version 1 names it, and the first deciding one. Later frames are not read."""
    top: str | None = None
    deciding: DecidingFrame | None = None
    for frame in frames:
        if isinstance(frame, dict) and frame.get("in_app") is True:
            top = top or _named(frame, see)
            deciding = deciding or _decides(frame, see)
            if top and deciding:
                break
    return top, deciding


def _named(frame: Mapping[str, Any], see: Callable[[str], str]) -> str | None:
    """A frame as `file:function`; None when it has neither.

    Version 1 cut a function at its last stop. Where it is read better since, its symbol tells the old name.
    """
    file, function, symbol = frame.get("file"), frame.get("function"), frame.get("symbol")
    if isinstance(symbol, str) and isinstance(function, str) and shown_name(symbol) == function:
        function = bare_name(symbol)
    if isinstance(file, str) or isinstance(function, str):
        return f"{see(file) if isinstance(file, str) else ''}:{see(function) if isinstance(function, str) else ''}"
    return None


def _decides(
    frame: Any, see: Callable[[str], str], passing_over: AbstractSet[str] = frozenset()
) -> DecidingFrame | None:
    """A frame with a function, but for some functions; None for any other."""
    function = (frame.get("symbol") or frame.get("function")) if isinstance(frame, dict) else None
    bare = bare_symbol(function) if isinstance(function, str) else ""
    if not bare or bare.strip("_").lower() in passing_over:
        return None
    return DecidingFrame(see(_file(frame)), see(bare))


def _file(frame: Mapping[str, Any]) -> str:
    for name in ("file", "module"):
        value = frame.get(name)
        if isinstance(value, str) and value:
            return base_name(value) if name == "file" else value
    return ""


# Which case an error belongs to, and why (G-031, G-174). Pure functions. Grouping sees an event before secrets are
# cut out of its texts (G-135): only a hash of what it sees is kept, and no case falls apart because another form of
# secret is known. A text with a secret of this service it sees hidden as a whole. A grouping is a version: a way to
# turn an event into a fingerprint. Versions are only ever added. An event is offered the fingerprint of every
# version; the oldest one that already has a case wins, and only an event that no version knows opens a case under
# the newest. So a new version can merge what is new, but never tears an old case apart.

TITLE_LENGTH = 200
LONGEST_LINE = 1000
"""Characters of a message for its title."""
REMEMBERED_LENGTH = 2048
"""Characters of the texts whose assignments are remembered: what is kept is bounded, whatever is sent."""


class Grouping(NamedTuple):
    """An assignment: the version that made it, the fingerprint, and what it rests on."""

    version: int
    fingerprint: str
    why: str


class Seen(NamedTuple):
    """What a version makes of an error: the text whose hash is the fingerprint, and what that rests on."""

    text: str
    rests_on: str


Versions = Mapping[int, Callable[[GroupingEvidence], Seen]]


_RESTS_ON = {
    (False, False): "message",
    (False, True): "frame+message",
    (True, False): "type+message",
    (True, True): "type+frame+message",
}
"""What an assignment of version 1 rests on, by whether there is a type and a frame."""


def _version_1(evidence: GroupingEvidence) -> Seen:
    seen = evidence.first or evidence
    kind, frame, message = seen.exception_type or "", seen.frame or "", seen.message
    return Seen(f"{kind}|{frame}|{template_1(message)}", _RESTS_ON[bool(kind), bool(frame)])


def _version_2(evidence: GroupingEvidence) -> Seen:
    """A client's fingerprint, else type and frame, else type and template. With a frame no message joins in."""
    return _by_client(evidence, evidence.client, 2, _default_2)


def _by_client(
    evidence: GroupingEvidence, client: Sequence[str], version: int, default: Callable[[GroupingEvidence], Seen]
) -> Seen:
    """The fingerprint of a client, with the grouping without it for a default."""
    if not client or all(map(is_default, client)):
        return default(evidence)
    if not any(map(is_default, client)):
        return Seen(f"v{version}c|{_listed(client)}", "client")
    seen = default(evidence)
    entries = [DEFAULT if is_default(entry) else entry for entry in client]
    return Seen(f"v{version}c|{_listed(entries)}|{seen.text}", f"client+{seen.rests_on}")


def _listed(entries: Sequence[str]) -> str:
    return msgspec.json.encode(entries).decode()


def _default_2(evidence: GroupingEvidence) -> Seen:
    kind, deciding, message = evidence.second or SecondEvidence(
        evidence.exception_type, evidence.deciding, evidence.message
    )
    decided_by = f"{'type+' if kind else ''}{'frame' if deciding else 'message'}{'+map_late' if evidence.late else ''}"
    if deciding is not None:
        return Seen(f"v2f|{kind or ''}|{deciding.file}|{deciding.function}", decided_by)
    return Seen(f"v2t|{kind or ''}|{template_2(message)}", decided_by)


def _version_3(evidence: GroupingEvidence) -> Seen:
    """A client's fingerprint with its variables, else identity, type and frames of each deciding error (G-198)."""
    return _by_client(evidence, (evidence.third or NO_EVIDENCE).client, 3, _default_3)


def _default_3(evidence: GroupingEvidence) -> Seen:
    third = evidence.third or NO_EVIDENCE
    template = third.template
    seen = [_of_error(error, template) for error in third.errors]
    if len(seen) > 1:
        seen = sorted(set(seen))
    text, parts = seen[0]
    text = f"v3|{text}" if len(seen) == 1 else f"v3s|{_listed([one.text for one in seen])}"
    if third.inside or third.minified or third.late:
        parts += f"{'+inside' * third.inside}{'+minified' * third.minified}{'+map_late' * third.late}"
    return Seen(text, parts)


def _of_error(error: ThirdError, template: str) -> Seen:
    """The compared parts of one error: with a frame no message joins in, but for the template of a logged one."""
    kind, identity, frames, message = error
    if not frames:
        if template and not kind:
            return Seen(f"t|{template_2(template)}", "template")
        return Seen(f"m|{kind}|{identity}|{template_2(message)}", _PARTS[bool(kind), bool(identity)] + "message")
    parts = _PARTS[bool(kind), bool(identity)] + "frames"
    text = f"f|{kind}|{identity}|{_UNIT.join(frames)}"
    return Seen(f"{text}|t|{template_2(template)}", f"{parts}+template") if template and not kind else Seen(text, parts)


_UNIT = "\x1f"  # the separator of units in ASCII
_PARTS = {(False, False): "", (True, False): "type+", (False, True): "identity+", (True, True): "type+identity+"}
NO_EVIDENCE = ThirdEvidence((ThirdError("", "", (), ""),))
GROUPINGS: Versions = {1: _version_1, 2: _version_2, 3: _version_3}
"""Every version ever released, oldest first."""


def group(evidence: GroupingEvidence, groupings: Versions = GROUPINGS) -> tuple[Grouping, ...]:
    """Offer the assignment of every version, oldest first."""
    seen = tuple([(version, *see(evidence)) for version, see in groupings.items()])
    return (_remembered if sum([len(one[1]) for one in seen]) <= REMEMBERED_LENGTH else _assign)(seen)


def _assign(seen: tuple[tuple[int, str, str], ...]) -> tuple[Grouping, ...]:
    """The assignments that the texts of versions stand for."""
    return tuple(
        Grouping(version, hashlib.sha256(text.encode()).hexdigest()[:32], f"v{version}:{rests_on}")
        for version, text, rests_on in seen
    )


_remembered = lru_cache(maxsize=4096)(_assign)  # Errors repeat themselves.


def title(evidence: GroupingEvidence) -> str:
    """Name a case after its first error: the type, and the first line of its message. The type stands there once."""
    kind, said = (evidence.exception_type or "", evidence.message) if evidence.third is None else evidence.third.title
    lines = said.strip().splitlines()
    line = lines[0][:LONGEST_LINE].strip() if lines else ""
    if not kind:
        return line[:TITLE_LENGTH]
    return f"{kind}: {_without_type(line, kind)}".removesuffix(": ")[:TITLE_LENGTH]


def _without_type(line: str, kind: str) -> str:
    """A message without the type before it, with or without its module."""
    while True:
        head, stop, rest = line.partition(":")
        named = head.removeprefix("Uncaught ").strip()
        if not stop or not (named == kind or named.endswith((f".{kind}", f"\\{kind}", f"::{kind}"))):
            break
        line = rest.strip()
    return "" if line == kind else line
