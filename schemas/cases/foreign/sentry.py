"""Wire contract of the answers to Sentry's SDKs. Sentry describes the requests (G-142)."""

from __future__ import annotations

import msgspec

MAX_ENVELOPE_BYTES = 20 * 1024 * 1024
"""Of an envelope as it is sent."""

MAX_UNPACKED_BYTES = 40 * 1024 * 1024
"""Of an envelope once its content coding is taken off."""

MAX_EVENT_BYTES = 1024 * 1024
"""Of an event, in an envelope or alone."""


class SentryAccepted(msgspec.Struct, frozen=True, omit_defaults=True):
    """The event with this id is stored and counted in its case. The id is absent for an envelope without event."""

    id: str | msgspec.UnsetType = msgspec.UNSET
