"""Which errors of an exception decide in version 3, and their identity by their SDK (G-198). Pure functions.

A container stands for the errors inside: a group, an aggregate, the wrapper of a runner of tasks.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from service.ingest.grouping.frames import has_own

MOST_ERRORS = 10
"""Errors of one exception, at most."""

_CONTAINERS = frozenset(
    {
        *("exceptiongroup", "baseexceptiongroup", "aggregateexception", "aggregateerror", "compositeexception"),
        *("multierror", "joinerror", "wraperrors", "wraperror", "withstack", "withmessage", "executionexception"),
        *(
            "uncheckedexecutionexception",
            "completionexception",
            "invocationtargetexception",
            "targetinvocationexception",
        ),
        *("undeclaredthrowableexception", "typeinitializationexception", "exceptionininitializererror"),
        *("privilegedactionexception", "nestedservletexception", "uncheckedioexception", "executionerror"),
        *("withprefix", "withnewmessage", "withsafedetails", "withhint", "withdetail", "withdetails", "withcontext"),
        *("withissuelink", "withassertionfailure", "withsecondaryerror", "withtelemetry", "withdomain", "withmark"),
        *("permanenterror", "oopserror"),
    }
)
"""Types of containers, in lower case and without their module."""
_OF_GO = frozenset({"multierror.error", "errors.error", "errors.err", "retry.error"})
"""Containers of Go by their package, too: many have such a name."""
_TYPE = re.compile(r"[*&]{0,4}[\w$]{1,200}(?:(?:\.|::|\\)[\w$]{1,200}){0,20}\Z")
_OF_JAVASCRIPT = "AggregateError"
_CODES = ("domain", "code", "number", "errno", "hresult", "error_code", "errorcode", "nativeerrorcode", "sqlstate")
_IN_VALUE = re.compile(
    r"\[Errno (?P<number>-?[0-9]{1,9})\] |\[WinError (?P<windows>[0-9]{1,9})\] |"
    r"Error Domain=(?P<domain>[^\s=]{1,100}) Code=(?P<code>-?[0-9]{1,19})\b|"
    r"SQLSTATE\[(?P<state>[0-9A-Z]{5})\](?: \[(?P<driver>[0-9]{1,9})\])?"
)
"""Codes at the beginning of a value, as Python, Apple's systems and PHP write them."""
_FIRST = frozenset("[ES")
"""What these begin with."""
_WINDOWS = {
    code: number
    for number, codes in {
        "2": ("2", "3", "53", "67", "161", "206"),
        "4": ("10004",),
        "9": ("6", "10009"),
        "12": ("8", "14"),
        "13": ("5", "19", "32", "33", "65", "108", "10013"),
        "17": ("80", "183"),
        "18": ("17",),
        "20": ("267",),
        "22": ("10022",),
        "24": ("4", "10024"),
        "28": ("112",),
        "32": ("109", "232"),
        "41": ("145",),
    }.items()
    for code in codes
}
"""The numbers of errors of Windows as Python's errno."""
_INVALID = "22"
_SOCKETS = 10000
_GENERAL, _OF_DOTNET = 0x8000, 0x8013
_OF_TYPES = frozenset(
    {
        *(0x80070002, 0x80070003, 0x80070005, 0x8007000B, 0x8007000E, 0x80070026, 0x80070057, 0x800700CE),
        *(0x80070216, 0x800703E9, 0x80020012),
    }
)
"""What types of .NET always have, such as ArgumentException."""
_CODED = frozenset({"comexception", "externalexception"})
"""Types of .NET with any code."""


def deciding_errors(exception: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The deciding errors: the reported one, or those inside of a container."""
    listed = exception.get("causes")
    causes = [cause for cause in listed[:MOST_ERRORS] if isinstance(cause, dict)] if isinstance(listed, list) else []
    if not causes:
        return [exception]
    return list(_inside(exception, causes, MOST_ERRORS)) or [exception]


def _inside(error: Mapping[str, Any], others: Sequence[Mapping[str, Any]], depth: int) -> Iterator[Mapping[str, Any]]:
    held = _held(error, others) if depth else []
    if not held:
        yield error
    for one in held:
        rest = [other for other in others if other is not one]
        for found in _inside(one, rest, depth - 1):
            # An error that was never raised itself has no frames: those of what holds it lead there.
            yield found if found.get("frames") else {**found, "frames": error.get("frames")}


def _held(error: Mapping[str, Any], others: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The errors in a container; none for any other error."""
    mechanism = _mechanism(error)
    if not others:
        return []
    if not (mechanism.get("is_exception_group") is True or is_container(error, others[0]) or _has_no_own(error)):
        return []
    own = mechanism.get("exception_id")
    children = [other for other in others if own is not None and _mechanism(other).get("parent_id") == own]
    held = children or [others[0]]
    if error.get("type") == _OF_JAVASCRIPT and all(_made_beside(error, one) for one in held):
        return []
    return held


def _made_beside(error: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether the same calls made two errors. Engines note them where an error is made, and print no other in it."""
    one, two = _calls(error), _calls(other)
    common = min(len(one), len(two))
    return common > 0 and one[:common] == two[:common]


def _calls(error: Mapping[str, Any]) -> list[tuple[Any, Any]]:
    """The functions of frames with their files."""
    frames = error.get("frames")
    listed = frames if isinstance(frames, list) else []
    return [
        (frame.get("file"), frame.get("symbol") or frame.get("function")) for frame in listed if isinstance(frame, dict)
    ]


def _has_no_own(error: Mapping[str, Any]) -> bool:
    """Whether libraries alone raised an error: they wrap an error of the product's own code."""
    frames = error.get("frames")
    return isinstance(frames, list) and bool(frames) and not has_own(frames)


def is_container(error: Mapping[str, Any], cause: Mapping[str, Any]) -> bool:
    """Whether an error only holds its cause, by its type, or by its value, the cause as text."""
    kind, value = error.get("type"), error.get("value")
    if not isinstance(kind, str):
        return False
    if bare_type(kind).lower() in _CONTAINERS or kind.lstrip("*&").lower() in _OF_GO:
        return True
    inner = cause.get("type")
    if not isinstance(value, str) or not isinstance(inner, str):
        return False
    module, said = cause.get("module"), cause.get("value")
    full = f"{module}.{inner}" if isinstance(module, str) else inner
    return value in {f"{name}: {said}" for name in (inner, full)} or (not said and value in {inner, full})


def compared_type(kind: str) -> str:
    """A type in the form of all SDKs: some tell its module apart, and some before it."""
    return bare_type(kind) if _TYPE.match(kind) is not None else kind


def bare_type(kind: str) -> str:
    """A type without its module, of any language."""
    return kind.replace("\\", ".").replace("::", ".").rpartition(".")[2].lstrip("*&")


def _mechanism(error: Mapping[str, Any]) -> Mapping[str, Any]:
    found = error.get("mechanism")
    return found if isinstance(found, dict) else {}


def is_synthetic(error: Mapping[str, Any]) -> bool:
    """Whether the type of an error only names how it was caught: a signal of a crash."""
    return _mechanism(error).get("synthetic") is True


def identity_of(error: Mapping[str, Any], value: str) -> str:
    """An error's identity by its SDK, else by its value: domain and code, an errno, an HRESULT. Empty for nothing."""
    found: list[str] = []
    if mechanism := _mechanism(error):
        kind = error.get("type")
        for name in ("meta", "data"):
            holder = mechanism.get(name)
            if not isinstance(holder, dict):
                continue
            for said in (holder, holder.get("ns_error"), holder.get("errno"), holder.get("hresult")):
                if isinstance(said, dict):
                    found += _codes_in(said, kind if isinstance(kind, str) else "")
    if found:
        return " ".join(found)
    return _code_in(value) if value[:1] in _FIRST else ""


def _code_in(value: str) -> str:
    """The code at the beginning of a value, as SDKs tell it beside the value."""
    found = _IN_VALUE.match(value)
    if found is None:
        return ""
    match found.lastgroup:
        case "number":
            return f"number={found['number']}"
        case "windows":
            number = found["windows"]
            return f"number={_WINDOWS.get(number, number if int(number) > _SOCKETS else _INVALID)}"
        case "code":
            return f"domain={found['domain']} code={found['code']}"
        case "state" | "driver":
            return f"code={found['driver'] or found['state']}"
    return ""


def _codes_in(said: Mapping[str, Any], kind: str) -> Iterator[str]:
    """The identifying members, in one order. A code of 0 is none, but for one of a domain."""
    lowered = {name.lower(): value for name, value in said.items() if isinstance(name, str)}
    for name in _CODES:
        value = lowered.get(name)
        if not isinstance(value, str | int) or isinstance(value, bool) or value == "":
            continue
        told = _hresult(value, kind) if name == "hresult" else str(value)[:100]
        if told and (told != "0" or "domain" in lowered):
            yield f"{name}={told}"


def _hresult(value: str | int, kind: str) -> str:
    """A code of .NET in one form. Empty for one that says what the type says, or nothing."""
    try:
        code = (int(value, 0) if isinstance(value, str) else value) & 0xFFFFFFFF
    except ValueError:
        return ""
    facility = code >> 16
    says_type = facility in {_GENERAL, _OF_DOTNET} or code in _OF_TYPES
    if code == 0 or (says_type and bare_type(kind).lower() not in _CODED):
        return ""
    return f"0x{code:08X}"
