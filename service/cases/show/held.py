"""All that is stored of an error beside its exception, under one name for each thing, whoever reported it (G-142).

Sentry's SDKs name these members themselves. PostHog's have them among the properties of an event, OpenTelemetry's among
the attributes of a record and of its resource, of which the short ones are tags. Nothing is taken away: a property or
an attribute stays in `extra` as well. Pure functions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from schemas.onboarding import PROOF_PROPERTY

_STACK = "exception.stacktrace"  # shown with the exception

Held = dict[str, Any]
"""Members of a stored error, without those that nothing was sent for."""

_TEXTS = ("transaction", "server_name", "logger", "platform", "dist")
_ELSEWHERE = frozenset(
    {
        *_TEXTS,
        *("exception", "breadcrumbs", "request", "contexts", "sdk", "fingerprint", "extra", "left_out"),
        *("debug_meta", "properties", "attributes", "mechanism", PROOF_PROPERTY),
    }
)
"""Members of what is stored that are shown under a name of their own."""

_CONTEXTS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "runtime": {
        "name": ("$python_runtime", "process.runtime.name"),
        "version": ("$python_version", "process.runtime.version"),
        "description": ("process.runtime.description",),
    },
    "os": {
        "name": ("$os", "os.name", "os.type"),
        "version": ("$os_version", "os.version"),
        "description": ("os.description",),
    },
    "browser": {
        "name": ("$browser", "user_agent.name", "browser.brands"),
        "version": ("$browser_version", "user_agent.version"),
        "user_agent": ("$raw_user_agent", "user_agent.original"),
    },
    "device": {
        "name": ("$device", "$device_name", "device.model.name"),
        "type": ("$device_type",),
        "model": ("$device_model", "device.model.identifier"),
        "manufacturer": ("$device_manufacturer", "device.manufacturer"),
        "arch": ("host.arch",),
    },
    "app": {
        "name": ("$app_name", "service.name"),
        "version": ("$app_version",),
        "build": ("$app_build",),
        "namespace": ("$app_namespace", "service.namespace"),
        "instance": ("service.instance.id",),
    },
    "trace": {"trace_id": ("trace_id", "$trace_id"), "span_id": ("span_id",), "session_id": ("$session_id",)},
}
"""Members of contexts by the properties and attributes that say them, the first that is there."""
_PLACES: Mapping[str, tuple[str, ...]] = {
    "transaction": ("http.route",),
    "server_name": ("host.name", "$hostname"),
    "logger": ("logger",),
    "platform": ("telemetry.sdk.language",),
}
_REQUEST: Mapping[str, tuple[str, ...]] = {
    "method": ("http.request.method", "http.method", "$request_method"),
    "url": ("url.full", "http.url", "$current_url"),
}
_SDK: Mapping[str, tuple[str, ...]] = {
    "name": ("telemetry.sdk.name",),
    "version": ("telemetry.sdk.version",),
    "language": ("telemetry.sdk.language",),
}


def held_in(said: Mapping[str, Any], tags: Mapping[str, Any]) -> Held:
    """Take apart what was sent beside the columns of an error; `tags` are its tags."""
    found: Held = {"contexts": {**_contexts(said, tags), **_object(said.get("contexts"))}}
    known = [tags, *_known(said)] if _is_otlp(said) else _known(said)
    for name in _TEXTS:
        sent = said.get(name) or _first(known, _PLACES.get(name, ()))
        found[name] = sent if isinstance(sent, str) else None
    found["sdk"] = _object(said.get("sdk")) or _named(known, _SDK)
    found["fingerprint"] = _texts(said.get("fingerprint"))
    found["extra"] = _extra(said)
    found["left_out"] = _texts(said.get("left_out"))
    return {name: value for name, value in found.items() if value}


def request_of(said: Mapping[str, Any]) -> dict[str, Any]:
    """The request during which an error happened; an empty one for none."""
    return _object(said.get("request")) or _named(_known(said), _REQUEST)


def _is_otlp(said: Mapping[str, Any]) -> bool:
    """Whether it came in an export, which has tags of the resource and names no SDK of its own."""
    return "sdk" not in said


def _known(said: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [_object(said.get(name)) for name in ("properties", "attributes", "resource")]


def _contexts(said: Mapping[str, Any], tags: Mapping[str, Any]) -> dict[str, Any]:
    known = [*_known(said), *([tags] if _is_otlp(said) else [])]
    found = {name: _named(known, members) for name, members in _CONTEXTS.items()} if any(known) else {}
    return {name: members for name, members in found.items() if members}


def _named(known: Iterable[Mapping[str, Any]], members: Mapping[str, tuple[str, ...]]) -> dict[str, Any]:
    told = {name: _first(known, names) for name, names in members.items()}
    return {name: value for name, value in told.items() if value is not None}


def _first(known: Iterable[Mapping[str, Any]], names: Iterable[str]) -> Any:
    values = (holder.get(name) for name in names for holder in known)
    return next((value for value in values if value is not None and value != ""), None)


def _extra(said: Mapping[str, Any]) -> dict[str, Any]:
    """What belongs to no other member: what the product adds, properties and attributes among it."""
    attributes = {name: value for name, value in _object(said.get("attributes")).items() if name != _STACK}
    rest = {name: value for name, value in said.items() if name not in _ELSEWHERE}
    for name in ("extra", "properties", "attributes"):
        if name in said and not isinstance(said[name], dict) and said[name] is not None:
            rest[name] = said[name]
    return {**rest, **_object(said.get("extra")), **_object(said.get("properties")), **attributes}


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _texts(value: Any) -> list[str]:
    listed = value if isinstance(value, list) else [value]
    return [str(one) for one in listed if isinstance(one, (str, int, float)) and one != ""]
