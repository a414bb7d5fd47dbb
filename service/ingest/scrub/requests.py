"""The tidying of an event before its scrubbing (G-033, G-135). Pure.

Cookies, credentials in headers and the values of variables are dropped, and not only hidden. Names and values in one
text, as in a query or the form of a body, become members. Only members are hidden by their names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from service.ingest.scrub.bounds import bounded_variables
from service.ingest.stacks.reading import read_trace

MOST_PARAMETERS = 200
LEFT_OUT = "[left out]"
"""Stands for a text of names and values in no readable form."""
_DROPPED = frozenset({"cookie", "cookie2", "cookies", "setcookie", "authorization", "proxyauthorization"})
_VARIABLES = ("vars", "code_variables", "local_variables", "locals")
_ERRORS = ("error", "err")
_OF_ERROR = ("exception", "stack", "stacktrace", "stack_trace", "raw_stack", "traceback", "frames")
_NAME_AND_VALUE = 2
_ABOVE = 4
"""Levels that a body stands below in its event: both together must not be too deep to be written."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


def drop_variables(extra: Mapping[str, Any]) -> None:
    """Drop the values of variables from the frames of an error and of its causes, in place."""
    for frame in _frames(extra):
        for name in _VARIABLES:
            if name in frame:
                del frame[name]


def keep_variables(extra: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Keep the variables of frames as their member `vars`, within the bounds, in place. Returns these."""
    kept = []
    for frame in _frames(extra):
        sent = [frame.pop(name) for name in _VARIABLES if name in frame]
        if held := next((one for one in sent if isinstance(one, dict) and one), None):
            frame.update(bounded_variables(held))
            kept.append(frame["vars"])
    return kept


def tells_of_error(message: str, extra: Mapping[str, Any] | None) -> bool:
    """Whether a record carries an exception or a stack, in `extra` or as lines of its message."""
    if extra and (any(map(extra.get, _OF_ERROR)) or any(isinstance(extra.get(name), dict) for name in _ERRORS)):
        return True
    return "\n" in message and bool(read_trace(message).calls)


def _frames(extra: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The frames of an error and of its causes, at all their places."""
    exception = extra.get("exception")
    holders = [extra, exception, extra.get("error")]
    if isinstance(exception, dict) and isinstance(causes := exception.get("causes"), list):
        holders += causes
    for holder in holders:
        if not isinstance(holder, dict):
            continue
        stacktrace = holder.get("stacktrace")
        for listed in (holder.get("frames"), stacktrace.get("frames") if isinstance(stacktrace, dict) else None):
            yield from (frame for frame in listed if isinstance(frame, dict)) if isinstance(listed, list) else ()


def tidy(extra: dict[str, Any]) -> bytes:
    """Tidy the request of an event, and the response among its contexts, in place.

    Returns the JSON text of the members read from a text. It was no part of the event's own text.
    """
    if "request" not in extra and "contexts" not in extra:
        return b""
    request, contexts = extra.get("request"), extra.get("contexts")
    response = contexts.get("response") if isinstance(contexts, dict) else None
    texts = [_tidy(one) for one in (request, response) if isinstance(one, dict)]
    return b",".join(text for text in texts if text)


def _tidy(told: dict[str, Any]) -> bytes:
    made: dict[str, Any] = {}
    for name in [name for name in told if _is_dropped(name)]:
        del told[name]
    for name in ("headers", "env"):
        if name in told:
            held = told[name]
            told[name] = {key: value for key, value in _members(held).items() if not _is_dropped(key)}
            if not isinstance(held, dict):
                made[name] = told[name]
    if isinstance(url := told.get("url"), str) and ("?" in url or "#" in url):
        told["url"], query = without_query(url)
        if query and not told.get("query_string"):
            told["query_string"] = query
    for name, read in (("query_string", _query), ("data", _body), ("body", _body)):
        held = told.get(name)
        if isinstance(held, (str, list)) and held:
            made[name] = told[name] = read(held)
    return _encode(made) if made else b""


def _is_dropped(name: str) -> bool:
    folded = name.lower().replace("-", "").replace("_", "")
    return folded.removeprefix("http") in _DROPPED


def _members(held: Any) -> Mapping[str, Any]:
    """An object, or the pairs of a list as one."""
    if isinstance(held, dict):
        return held
    return _of_pairs(held) if isinstance(held, list) else {}


def _of_pairs(pairs: Iterable[Any]) -> dict[str, Any]:
    """Names with their values, with a list of them where a name comes again."""
    found: dict[str, list[Any]] = {}
    for pair in pairs:
        if isinstance(pair, (list, tuple)) and len(pair) == _NAME_AND_VALUE and isinstance(pair[0], str):
            found.setdefault(pair[0], []).append(pair[1])
    return {name: values[0] if len(values) == 1 else values for name, values in found.items()}


def without_query(url: str) -> tuple[str, str]:
    """An address without its query, and that. A fragment stays unless it has values."""
    plain, mark, fragment = url.partition("#")
    address, _, query = plain.partition("?")
    return address + (mark + fragment if fragment and "=" not in fragment and "?" not in fragment else ""), query


def _query(held: str | list[Any]) -> Any:
    if isinstance(held, list):
        return _of_pairs(held) or LEFT_OUT
    return _parameters(held.removeprefix("?"))


def _parameters(text: str) -> Any:
    if "=" not in text:
        return text
    try:
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=MOST_PARAMETERS)
    except ValueError:
        return LEFT_OUT
    return _of_pairs([(name.replace("\0", ""), value.replace("\0", "")) for name, value in pairs])


def _body(held: str | list[Any]) -> Any:
    """The body of a request: as it is in JSON, the members of a form, or a text."""
    if isinstance(held, list):
        return held
    text = held.strip()
    if text[:1] in {"{", "["}:
        if "\\u0000" in text:
            return LEFT_OUT
        try:
            return _decode("[" * _ABOVE + text + "]" * _ABOVE)[0][0][0][0]
        except (msgspec.DecodeError, ValueError, RecursionError):  # as one that an SDK has cut
            return LEFT_OUT
    name, is_form, _ = text.partition("=")
    return _parameters(text) if is_form and name and not any(map(str.isspace, text)) else held
