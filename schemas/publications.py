"""Wire contracts of publications: published by members, answered to anybody (R-PUB-01, R-PUB-02, G-093, G-163)."""

from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from schemas.analytics import Column, Evidence, Freshness
from schemas.kernel import patterns
from schemas.kernel.origins import Origins, origins
from schemas.kernel.shape import Closed, Epoch

MAX_PUBLIC_ROWS = 1_000
DEFAULT_CACHE_SECONDS = 300
MAX_CACHE_SECONDS = 86_400

Title = Annotated[str, Meta(min_length=1, max_length=200, pattern=patterns.LABEL)]
CacheSeconds = Annotated[
    int, Meta(ge=0, le=MAX_CACHE_SECONDS, description="Age up to which rows are served again. 0: each time anew.")
]


class PublishQuery(Closed, frozen=True):
    """A query to publish. Its parameters are checked and frozen. Unknown ones are ignored."""

    blueprint_id: Annotated[str, Meta(min_length=1, max_length=100)]
    params: dict[str, Any] = msgspec.field(default_factory=dict)
    title: Title | UnsetType = UNSET
    cache_seconds: CacheSeconds = DEFAULT_CACHE_SECONDS


class Publication(msgspec.Struct, frozen=True, kw_only=True):
    """A published query, without its key."""

    publication_id: str
    project_id: str
    blueprint_id: str
    params: dict[str, Any]
    title: str | None
    cache_seconds: int
    status: Literal["published"] = "published"
    public_url: str
    publishable_key_prefix: str
    created_at: Epoch


class PublicationCreated(Publication, frozen=True, kw_only=True):
    """A new publication. No other answer holds its key: a replay has null."""

    publishable_key: Annotated[str, Meta(pattern="^agp_[0-9A-Za-z_-]{32}$")] | None
    next_action: str


class PublicationList(msgspec.Struct, frozen=True, kw_only=True):
    """The published queries of a project, newest first. Revoked ones are left out."""

    project_id: str
    publications: list[Publication]
    count: int
    next_action: str


class PublicationRevoked(msgspec.Struct, frozen=True, kw_only=True):
    """A publication as it ended. A repeat has the same time."""

    publication_id: str
    status: Literal["revoked"] = "revoked"
    revoked_at: Epoch
    next_action: str


class PublicAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of a published query, for anybody. `truncated`: there are more rows than these."""

    PROVENANCE: ClassVar[Origins] = origins(telemetry="rows")

    publication_id: str
    blueprint_id: str
    title: str | None
    params: dict[str, Any]
    rows: list[dict[str, Any]]
    columns: tuple[Column, ...]
    truncated: bool
    evidence: Evidence
    freshness: Freshness
    next_action: str


class PublicQuery(msgspec.Struct, frozen=True):
    """The one parameter of a public query. Others are ignored."""

    key: Annotated[str, Meta(description="The publishable key. You may leave it out.")] | None = None
