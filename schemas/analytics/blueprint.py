"""Wire contracts of query blueprints: the catalogue, and a run (G-065, G-152, G-153)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from schemas.analytics.answer import Column, Evidence, Freshness
from schemas.kernel.shape import Closed, SafeEpoch

MAX_LIMIT = 10_000
Limit = Annotated[int, Meta(ge=1, le=MAX_LIMIT, description="Rows at most.")]


class BlueprintEndpoints(msgspec.Struct, frozen=True):
    """The operations that show and run a blueprint."""

    detail: str
    run: str


class QueryBlueprint(msgspec.Struct, frozen=True, kw_only=True):
    """A named question. `required_events` are its parameters that name events: these have to have been received."""

    blueprint_id: str
    title: str
    description: str
    version: Literal["1.0.0"] = "1.0.0"
    params_schema: dict[str, Any]
    columns: tuple[Column, ...]
    required_events: list[str]
    max_rows: int
    endpoints: BlueprintEndpoints
    next_action: str


class BlueprintCatalog(msgspec.Struct, frozen=True):
    """Every blueprint, whole."""

    blueprints: list[QueryBlueprint]
    count: int
    next_action: str


class RunBlueprint(Closed, frozen=True, rename={"since": "from", "until": "to"}):
    """A run. Unknown parameters are ignored. With `from` or `to`, which are half-open, `params.days` must be absent."""

    params: dict[str, Any] = msgspec.field(default_factory=dict)
    since: SafeEpoch | UnsetType = UNSET
    until: SafeEpoch | UnsetType = UNSET
    limit: Limit = 1000


class BlueprintRun(msgspec.Struct, frozen=True, kw_only=True):
    """The rows of a run, with what they rest on. `truncated`: there are more than the limit."""

    project_id: str
    blueprint_id: str
    rows: list[dict[str, Any]]
    columns: tuple[Column, ...]
    row_count: Annotated[int, Meta(ge=0)]
    truncated: bool
    evidence: Evidence
    freshness: Freshness
    next_action: str
