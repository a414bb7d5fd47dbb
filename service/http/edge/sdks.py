"""What the edge knows of SDKs of others: where a body has its sender's key, and how they are told to wait (G-142)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import NamedTuple

from service.auth.sdk_keys import POSTHOG, SENTRY, key_of_dsn
from service.http.edge.errors import Failure
from service.http.edge.headers import Head
from service.http.edge.operations import Operation
from service.ingest.foreign import envelope, posthog

MAX_SAID = 200  # characters of a refusal in a header


QUERY_CODINGS: Mapping[str, tuple[str, ...]] = {POSTHOG: ("compression",), SENTRY: ()}
"""The parameters in which a protocol names the content coding of a body."""

Query = Mapping[str, Sequence[str]]


class Sdk(NamedTuple):
    """`key_in` finds the key in a body whose head had none; `told` is what a refusal says in headers of theirs.

    `coding` is the content coding of a body that is named in the query, where a browser may set no header; "" for none.
    """

    key_in: Callable[[bytes], str | None]
    told: Callable[[Failure], Mapping[str, str]]
    coding: Callable[[Query], str]


def _sentry_key(raw: bytes) -> str | None:
    """The key of the DSN in the headers of an envelope, which is how one comes through a tunnel."""
    try:
        header = envelope.read_header(raw)
    except envelope.Malformed:
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


def _posthog_told(_failure: Failure) -> Mapping[str, str]:
    """Nothing: they go by the status and by Retry-After."""
    return {}


def _posthog_coding(query: Query) -> str:
    return "gzip" if set(query.get("compression", ())) & {"gzip", "gzip-js"} else ""


SDKS: Mapping[str, Sdk] = {
    POSTHOG: Sdk(posthog.key_of, _posthog_told, _posthog_coding),
    SENTRY: Sdk(_sentry_key, _sentry_told, _sentry_coding),
}
"""By the name that operations give (`sdk`)."""


def with_coding(operation: Operation, head: Head, query: Query) -> Head:
    """The head with the content coding that an SDK's query names, unless a header does."""
    coding = SDKS[operation.sdk].coding(query) if operation.sdk and "content-encoding" not in head.headers else ""
    return head._replace(headers={**head.headers, "content-encoding": coding}) if coding else head
