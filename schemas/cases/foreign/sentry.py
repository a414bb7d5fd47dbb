"""Wire contract of the answers to Sentry's SDKs. Sentry describes the requests (G-142)."""

from __future__ import annotations

import msgspec

from schemas.cases.foreign.posthog import Refused

MAX_ENVELOPE_BYTES = 20 * 1024 * 1024
"""Of an envelope as it is sent."""

MAX_UNPACKED_BYTES = 40 * 1024 * 1024
"""Of an envelope once its content coding is taken off."""

MAX_EVENT_BYTES = 1024 * 1024
"""Of an event, in an envelope or alone."""


class SentryAccepted(msgspec.Struct, frozen=True, omit_defaults=True):
    """The event with this id is stored and counted in its case. The id is absent for an envelope without event."""

    id: str | msgspec.UnsetType = msgspec.UNSET


class SentryReportQuery(msgspec.Struct, frozen=True):
    """Parameters of the address to which browsers report."""

    sentry_release: str | None = None
    sentry_environment: str | None = None


class SentryReported(msgspec.Struct, frozen=True, omit_defaults=True):
    """All reports are stored or counted, except those `refused`."""

    refused: Refused = msgspec.UNSET


class SentryUserText(msgspec.Struct, frozen=True):
    """A text that a person wrote on an error."""

    event_id: str
    comments: str
    name: str | None = None
    email: str | None = None


class SentryUserReport(msgspec.Struct, frozen=True):
    """The text of a person is stored as it stands here, without secrets."""

    event_id: str = msgspec.field(name="eventID")
    comments: str
    name: str | None
    email: str | None
