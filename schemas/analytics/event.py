"""Wire contract of `POST /v1/analytics/` and of the browser configuration (R-ING-02, R-ING-05, G-030)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta


class AnalyticsEvent(msgspec.Struct, frozen=True):
    """A product event. Names are opaque. Unknown keys are ignored (R-ONB-10).

    Invalid numbers and characters, deep nesting and more than 5000 values are adjusted, not rejected (G-133).
    """

    event: Annotated[str, Meta(min_length=1, max_length=200)]
    distinct_id: Annotated[str, Meta(min_length=1, max_length=200)]
    properties: Annotated[dict[str, Any], Meta(max_length=200)] | None = None


class AnalyticsAccepted(msgspec.Struct, frozen=True):
    """The event is stored. `adjusted` is the number of members that were changed before it was stored (G-133)."""

    id: str
    project_id: str
    received_at: int
    event: str
    next_action: str
    adjusted: Annotated[int, Meta(ge=1)] | msgspec.UnsetType = msgspec.UNSET
    ok: Literal[True] = True
    accepted: Literal[True] = True


class BrowserReplay(msgspec.Struct, frozen=True, omit_defaults=True):
    """The session recording setting of a browser. `reason` is set when recording is off."""

    enabled: bool
    provider: str
    token: str | msgspec.UnsetType = msgspec.UNSET
    api_host: str | msgspec.UnsetType = msgspec.UNSET
    reason: str | msgspec.UnsetType = msgspec.UNSET


class BrowserConfig(msgspec.Struct, frozen=True):
    """The settings that a browser reads before it captures."""

    ok: bool
    replay: BrowserReplay
    next_action: str
