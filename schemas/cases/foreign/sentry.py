"""Wire contract of the answers to Sentry's SDKs. Sentry describes the requests (G-142)."""

from __future__ import annotations

import msgspec

MAX_ENVELOPE_BYTES = 1024 * 1024
"""Of a body as it is sent."""

MAX_UNPACKED_BYTES = 4 * 1024 * 1024
"""Of a body once its content coding is taken off."""


class SentryAccepted(msgspec.Struct, frozen=True, omit_defaults=True):
    """The event with this id is stored and counted in its case. The id is absent for an envelope without event."""

    id: str | msgspec.UnsetType = msgspec.UNSET
