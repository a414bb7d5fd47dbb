"""What the edge knows of SDKs of others: where a body has its sender's key, and how they are told to wait (G-142)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import NamedTuple

from service.auth.sdk_keys import SENTRY, key_of_dsn
from service.http.edge.errors import Failure
from service.ingest.foreign import envelope

MAX_SAID = 200  # characters of a refusal in a header


class Sdk(NamedTuple):
    """`key_in` finds the key in a body whose head had none; `told` is what a refusal says in headers of theirs."""

    key_in: Callable[[bytes], str | None]
    told: Callable[[Failure], Mapping[str, str]]


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


SDKS: Mapping[str, Sdk] = {SENTRY: Sdk(_sentry_key, _sentry_told)}
"""By the name that operations give (`sdk`)."""
