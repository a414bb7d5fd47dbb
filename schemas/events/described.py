"""Wire contracts of the forms of events: JSON Schemas by topic."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta


class TopicQuery(msgspec.Struct, frozen=True):
    """One topic, or all of them."""

    topic: Annotated[str, Meta(min_length=1, max_length=200)] | None = None


class TopicSchemas(msgspec.Struct, frozen=True):
    """The JSON Schema of the payload of each topic. Within a version a topic only gains optional members."""

    schemas: dict[str, dict[str, Any]]
