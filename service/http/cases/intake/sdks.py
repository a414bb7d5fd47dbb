"""SDKs of others as the edge has to know them: where a body has the key, and how they are told to wait (G-142)."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus

from service.auth import sdk_keys
from service.auth.refusals import InvalidPayload
from service.auth.sdk_keys import key_of_dsn
from service.http.edge.answer.errors import Failure
from service.http.edge.declare.sdk import Query, Sdk
from service.ingest.foreign import envelope, posthog

MAX_SAID = 200  # characters of a refusal in a header


def _sentry_key(raw: bytes) -> str | None:
    """The key of the DSN in the headers of an envelope, which is how one comes through a tunnel."""
    try:
        header = envelope.read_header(raw)
    except envelope.MalformedEnvelope:
        return None
    return None if header.dsn is None else key_of_dsn(header.dsn)


def _sentry_told(failure: Failure) -> Mapping[str, str]:
    """Why, and while too much comes how long every kind of item has to wait."""
    told = {"x-sentry-error": failure.message[:MAX_SAID]}
    if failure.status == HTTPStatus.TOO_MANY_REQUESTS:
        told["x-sentry-rate-limits"] = f"{failure.headers['retry-after']}::key:{failure.code}"
    return told


def _sentry_coding(_query: Query) -> str:
    return ""


def _posthog_key(raw: bytes) -> str | None:
    """The key of a body, for a key only there. Raises InvalidPayload for a body without JSON (G-175)."""
    try:
        return posthog.key_of(raw)
    except posthog.MalformedEvents as fault:
        raise malformed_events(fault) from None


def malformed_events(fault: posthog.MalformedEvents) -> InvalidPayload:
    """The refusal of a body, or an event, of a PostHog SDK."""
    return InvalidPayload("The body is not in the format of PostHog's SDKs.", invalid=[("", str(fault))])


def _posthog_told(_failure: Failure) -> Mapping[str, str]:
    """Nothing: they go by the status and by Retry-After."""
    return {}


def _posthog_coding(query: Query) -> str:
    return "gzip" if set(query.get("compression", ())) & {"gzip", "gzip-js"} else ""


POSTHOG = Sdk(sdk_keys.POSTHOG, _posthog_key, _posthog_told, _posthog_coding, ("compression",))
SENTRY = Sdk(sdk_keys.SENTRY, _sentry_key, _sentry_told, _sentry_coding, ("sentry_key",))
