"""The frames of a JavaScript error, innermost first, as they are found in what was stored of it. Pure.

Frames that came as objects count before the text of a stack: `extra.exception.frames`, each with `file`, `line`,
`column`, `function` and `debug_id` or the names that others give these. A stack is text as V8, Firefox or Safari write
it. Whatever does not fit is as if absent: nothing here is trusted, and no pattern runs longer than a text is long.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from service.cases.sourcemaps.keeping import normal_debug_id

MOST_FRAMES = 200
MOST_STACK = 64 * 1024  # characters
MOST_NAME = 1000
MOST_NUMBER = 2**31
MOST_AROUND = 5  # lines before that of a frame, and after it

_DEBUG_ID = re.compile(r"[0-9a-fA-F]{8}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{12}")
# What says most first: `file` may be a base name where another name stands beside it.
_FILES = ("abs_path", "filename", "source_url", "url", "file")
_LINES = ("line", "lineno", "line_number")
_COLUMNS = ("column", "colno", "col", "column_number")
_FUNCTIONS = ("function", "name", "method")
_CONTEXTS = ("context_line",)
_STACKS = ("stack", "stacktrace", "stack_trace", "raw_stack")
_SCRIPTS = frozenset({
    "js", "mjs", "cjs", "jsx", "ts", "mts", "cts", "tsx", "vue", "svelte", "css", "scss", "sass", "less", "wasm",
    "bundle", "jsbundle", "hbc",
})  # fmt: skip
"""Extensions of files that source maps describe, and of those that they lead to."""
_RUNTIMES = ("node:", "internal/")
_V8 = "at "
_NOWHERE = ("native", "<anonymous>", "[native code]", "native code", "index 0")


class RecordedFrame(NamedTuple):
    """A frame as it was recorded; line and column begin at 1, None where they are not known.

    `in_app` and `context_line`, the code at the line, are what the sender says of it. So are `before` and `after`, the
    lines around that one, the code that the frame is of (`module`, `package`, `instruction_addr`), and its `variables`.
    """

    source_url: str | None
    line: int | None
    column: int | None
    function: str | None
    debug_id: str | None = None
    in_app: bool | None = None
    context_line: str | None = None
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    module: str | None = None
    package: str | None = None
    instruction_addr: str | None = None
    variables: Mapping[str, Any] | None = None


def frames_of(extra: Mapping[str, Any], message: str) -> list[RecordedFrame]:
    """Find the frames of an error."""
    exception = extra.get("exception")
    holders = [exception, extra, extra.get("error")]
    debug_ids = {url: name for holder in holders for url, name in _images(holder)}
    for holder in holders:
        if found := list(_objects(holder)):
            return [_identified(frame, debug_ids) for frame in found[:MOST_FRAMES]]
    for text in [*_stacks(holders), message]:
        if found := parse_stack(text):
            return [_identified(frame, debug_ids) for frame in found]
    return []


def recorded(frame: Mapping[str, Any], extra: Mapping[str, Any]) -> RecordedFrame:
    """One frame of an error, with the debug id that the error tells of its file."""
    debug_ids = {url: name for holder in (extra.get("exception"), extra) for url, name in _images(holder)}
    return _identified(_recorded(frame), debug_ids)


def may_be_mapped(source_url: str) -> bool:
    """Whether source maps describe such a file: a script, a style or WebAssembly, or the URL of a page with scripts.

    A file of Python, Ruby, Java or Go is none (G-176).
    """
    if source_url.startswith(_RUNTIMES):
        return False
    bare = source_url.partition("#")[0].partition("?")[0]
    scheme, separator, _ = bare.partition("://")
    if separator and scheme.lower() in {"http", "https"}:
        return True
    base = bare[max(bare.rfind("/"), bare.rfind("\\")) + 1 :]
    _, stop, extension = base.rpartition(".")
    return extension.lower() in _SCRIPTS if stop else bool(separator)


def parse_stack(text: str) -> list[RecordedFrame]:
    """Read a stack as V8, Firefox or Safari write one; lines of any other form are passed over."""
    found: list[RecordedFrame] = []
    for line in text[:MOST_STACK].splitlines():
        stripped = line.strip()
        frame = _v8(stripped[len(_V8) :]) if stripped.startswith(_V8) else _gecko(stripped)
        if frame is not None:
            found.append(frame)
            if len(found) == MOST_FRAMES:
                break
    return found


def _v8(text: str) -> RecordedFrame | None:
    """`function (url:line:column)` or `url:line:column`; of code that was evaluated, the place that did so."""
    opening = text.find(" (")
    if text.endswith(")") and opening >= 0:
        function, place = text[:opening], text[opening + 2 : -1]
    else:
        function, place = "", text.removeprefix("async ")
    for _ in range(MOST_FRAMES):
        if not place.startswith("eval at "):
            break
        # `eval at f (url:1:2), <anonymous>:3:4`: what is inside may itself be evaluated code.
        inner = place.find(" (")
        closing = place.rfind("), ")
        if inner < 0 or closing < inner:
            break
        place = place[inner + 2 : closing]
    function = function.removeprefix("async ").removeprefix("new ").partition(" [as ")[0].strip()
    return _placed(place, function)


def _gecko(text: str) -> RecordedFrame | None:
    """`function@url:line:column`, in Safari also `url:line:column` and `[native code]`; ` > eval` names its caller."""
    function, at, place = text.rpartition("@") if "@" in text else ("", "", text)
    if "://" in function:  # the @ is part of the URL
        name, _, rest = text.partition("@")
        function, place = (name, rest) if "://" not in name else ("", text)
    evaluated = place.find(" line ")
    if evaluated >= 0 and (" > eval" in place or " > Function" in place):
        number = place[evaluated + len(" line ") :].partition(" ")[0]
        return _frame(place[:evaluated], number, None, function)
    frame = _placed(place, function.removeprefix("async*"))
    if frame is None or frame.line is None:
        # Without a place a line is a frame only where it says that it is one; else it is somebody's prose.
        return frame if at and place in _NOWHERE else None
    # So are `Error: 12:30` and a URL in a sentence.
    return frame if at or ("/" in place and " " not in place) else None


def _placed(place: str, function: str) -> RecordedFrame | None:
    """Take a place apart from its end: a URL has colons of its own."""
    if place in _NOWHERE:
        return RecordedFrame(None, None, None, _text(function))
    head, _, last = place.rpartition(":")
    url, _, line = head.rpartition(":")
    if url and _is_number(line) and _is_number(last):
        return _frame(url, line, last, function)
    if head and _is_number(last):
        return _frame(head, last, None, function)
    return None


def _frame(url: str, line: str, column: str | None, function: str) -> RecordedFrame | None:
    if not url or not _is_number(line):
        return None
    return RecordedFrame(_text(url), int(line), None if column is None else int(column), _text(function))


def _is_number(text: str) -> bool:
    return 0 < len(text) < len(str(MOST_NUMBER)) and text.isascii() and text.isdigit()


def _objects(holder: Any) -> Iterator[RecordedFrame]:
    """The frames in a holder's list of objects."""
    for one in listed_frames(holder) if isinstance(holder, Mapping) else ():
        yield _recorded(one)


def _recorded(frame: Mapping[str, Any]) -> RecordedFrame:
    return RecordedFrame(
        _text(_first(frame, _FILES, str)),
        _number(_first(frame, _LINES, int)),
        _number(_first(frame, _COLUMNS, int)),
        _text(_first(frame, _FUNCTIONS, str)),
        _debug_id(frame.get("debug_id")),
        frame["in_app"] if isinstance(frame.get("in_app"), bool) else None,
        _text(_first(frame, _CONTEXTS, str)),
        tuple(_lines(frame.get("pre_context"))[-MOST_AROUND:]),
        tuple(_lines(frame.get("post_context"))[:MOST_AROUND]),
        _text(_first(frame, ("module",), str)),
        _text(_first(frame, ("package",), str)),
        _text(_first(frame, ("instruction_addr",), str)),
        held if isinstance(held := frame.get("vars"), dict) else None,
    )


def _lines(value: Any) -> list[str]:
    """Lines of source. None unless all are texts."""
    if not isinstance(value, list) or not all(isinstance(line, str) for line in value):
        return []
    return [line[:MOST_NAME] for line in value]


def listed_frames(holder: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The frames of an exception, as they are."""
    listed = holder.get("frames")
    if not isinstance(listed, list) and isinstance(holder.get("stacktrace"), Mapping):
        listed = holder["stacktrace"].get("frames")
    return [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []


def stack_of(extra: Mapping[str, Any]) -> str | None:
    """The trace of an error as text: native reports have it with the exception, and OpenTelemetry as an attribute."""
    attributes = extra.get("attributes")
    written = attributes.get("exception.stacktrace") if isinstance(attributes, Mapping) else None
    texts = (*_stacks([extra.get("exception"), extra, extra.get("error")]), written)
    return next((text for text in texts if isinstance(text, str) and text), None)


def _stacks(holders: Iterable[Any]) -> Iterator[str]:
    for holder in holders:
        if isinstance(holder, Mapping):
            yield from (value for name in _STACKS if isinstance(value := holder.get(name), str))


def _images(holder: Any) -> Iterator[tuple[str, str]]:
    """Which file has which debug id, as `debug_meta.images` or `debug_ids` say."""
    if not isinstance(holder, Mapping):
        return
    meta, named = holder.get("debug_meta"), holder.get("debug_ids")
    images = meta.get("images") if isinstance(meta, Mapping) else None
    pairs: list[tuple[Any, Any]] = [
        (image.get("code_file"), image.get("debug_id")) for image in images or () if isinstance(image, Mapping)
    ] if isinstance(images, list) else []  # fmt: skip
    pairs += list(named.items()) if isinstance(named, Mapping) else []
    for url, name in pairs[:MOST_FRAMES]:
        debug_id = _debug_id(name)
        if isinstance(url, str) and debug_id is not None:
            yield url, debug_id


def _identified(frame: RecordedFrame, debug_ids: Mapping[str, str]) -> RecordedFrame:
    if frame.debug_id is not None or frame.source_url is None:
        return frame
    return frame._replace(debug_id=debug_ids.get(frame.source_url))


def _first(holder: Mapping[str, Any], names: Iterable[str], kind: type) -> Any:
    """The first member of a kind. `true` is no number."""
    values = (holder.get(name) for name in names)
    return next((value for value in values if isinstance(value, kind) and not isinstance(value, bool)), None)


def _number(value: int | None) -> int | None:
    return value if value is not None and 0 < value < MOST_NUMBER else None


def _text(value: str | None) -> str | None:
    return value[:MOST_NAME] if value else None


def _debug_id(value: Any) -> str | None:
    if not isinstance(value, str) or not _DEBUG_ID.fullmatch(value):
        return None
    return normal_debug_id(value)
