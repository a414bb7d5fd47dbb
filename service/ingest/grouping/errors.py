"""Which errors of an exception decide in version 3, and their identity by their SDK (G-198). Pure functions.

A container stands for the errors inside: a group, an aggregate, the wrapper of a runner of tasks.
"""

from __future__ import annotations

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
    }
)
"""Types of containers, in lower case and without their module."""
_CODES = ("domain", "code", "number", "errno", "hresult", "error_code", "errorcode", "nativeerrorcode", "sqlstate")


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
    if own is not None:
        children = [other for other in others if _mechanism(other).get("parent_id") == own]
        if children:
            return children
    return [others[0]]


def _has_no_own(error: Mapping[str, Any]) -> bool:
    """Whether libraries alone raised an error: they wrap an error of the product's own code."""
    frames = error.get("frames")
    return isinstance(frames, list) and bool(frames) and not has_own(frames)


def is_container(error: Mapping[str, Any], cause: Mapping[str, Any]) -> bool:
    """Whether an error only holds its cause, by its type, or by its value, the cause as text."""
    kind, value = error.get("type"), error.get("value")
    if not isinstance(kind, str):
        return False
    if bare_type(kind).lower() in _CONTAINERS:
        return True
    inner = cause.get("type")
    if not isinstance(value, str) or not isinstance(inner, str):
        return False
    module, said = cause.get("module"), cause.get("value")
    full = f"{module}.{inner}" if isinstance(module, str) else inner
    return value in {f"{name}: {said}" for name in (inner, full)} or (not said and value in {inner, full})


def bare_type(kind: str) -> str:
    """A type without its module, of any language."""
    return kind.replace("\\", ".").replace("::", ".").rpartition(".")[2].lstrip("*&")


def _mechanism(error: Mapping[str, Any]) -> Mapping[str, Any]:
    found = error.get("mechanism")
    return found if isinstance(found, dict) else {}


def is_synthetic(error: Mapping[str, Any]) -> bool:
    """Whether the type of an error only names how it was caught: a signal of a crash."""
    return _mechanism(error).get("synthetic") is True


def identity_of(error: Mapping[str, Any]) -> str:
    """An error's identity by its SDK: domain and code, an errno, an HRESULT. Empty for nothing."""
    mechanism = _mechanism(error)
    if not mechanism:
        return ""
    found: list[str] = []
    for name in ("meta", "data"):
        holder = mechanism.get(name)
        if not isinstance(holder, dict):
            continue
        for said in (holder, holder.get("ns_error"), holder.get("errno"), holder.get("hresult")):
            if isinstance(said, dict):
                found += _codes_in(said)
    return " ".join(found)


def _codes_in(said: Mapping[str, Any]) -> Iterator[str]:
    """The identifying members, in one order."""
    lowered = {name.lower(): value for name, value in said.items() if isinstance(name, str)}
    for name in _CODES:
        value = lowered.get(name)
        if isinstance(value, str | int) and not isinstance(value, bool) and value != "":
            yield f"{name}={str(value)[:100]}"
