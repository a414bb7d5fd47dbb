"""Wire contract of the answers to PostHog's SDKs. PostHog describes the requests (G-142)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

MAX_POSTHOG_BYTES = 20 * 1024 * 1024
"""Of a body, as it is sent and once its content coding is taken off."""

MAX_EVENT_BYTES = 1024 * 1024
"""Of one event."""

MAX_EVENTS = 10_000
"""Of one body."""

MAX_QUESTION_BYTES = 1024 * 1024
"""Of a body that asks for flags, as it is sent and once its content coding is taken off."""

Refused = Annotated[int, Meta(ge=1)] | msgspec.UnsetType


class PosthogAccepted(msgspec.Struct, frozen=True):
    """All events are stored, except those `refused`. Do not retry those."""

    status: Annotated[int, Meta(ge=1, le=1)]
    refused: Refused = msgspec.UNSET


class PosthogCaptured(msgspec.Struct, frozen=True):
    """The same, in the form of their newest route."""

    status: Literal["Ok"]
    refused: Refused = msgspec.UNSET


class PosthogFlags(msgspec.Struct, frozen=True, kw_only=True):
    """No flags, no session recording and no configuration: an SDK keeps its defaults."""

    flags: dict[str, Any] = {}
    featureFlags: dict[str, bool] = {}  # noqa: N815 - a name of theirs, as all below
    featureFlagPayloads: dict[str, Any] = {}  # noqa: N815
    errorsWhileComputingFlags: bool = False  # noqa: N815
    sessionRecording: bool = False  # noqa: N815
    surveys: bool = False
    heatmaps: bool = False
    capturePerformance: bool = False  # noqa: N815
    autocaptureExceptions: bool = False  # noqa: N815
    isAuthenticated: bool = False  # noqa: N815
    hasFeatureFlags: bool = False  # noqa: N815
    siteApps: list[str] = []  # noqa: N815
    supportedCompression: tuple[str, ...] = ("gzip", "gzip-js", "base64")  # noqa: N815
