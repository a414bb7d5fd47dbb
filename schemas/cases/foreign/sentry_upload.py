"""Wire contract of uploads, releases and deploys by `sentry-cli`: names and shapes of its protocol (G-142)."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from schemas.kernel import patterns

Sha1 = Annotated[str, Meta(pattern=patterns.SHA1)]


class ChunkUpload(msgspec.Struct, frozen=True, kw_only=True):
    """The settings for uploading parts of bundles. Sizes are in bytes."""

    url: str
    chunkSize: int  # noqa: N815 - so the protocol calls it
    chunksPerRequest: int  # noqa: N815
    maxFileSize: int  # noqa: N815
    maxRequestSize: int  # noqa: N815
    concurrency: int = 1
    hashAlgorithm: str = "sha1"  # noqa: N815
    compression: tuple[str, ...] = ("gzip",)
    accept: tuple[str, ...] = ("release_files", "artifact_bundles", "artifact_bundles_v2")


class ChunksStored(msgspec.Struct, frozen=True):
    """The SHA-1 of each part that is kept now."""

    stored: list[str]


class AssembleBundle(msgspec.Struct, frozen=True, kw_only=True):
    """A bundle: the SHA-1 of the whole and of its parts in order. Unknown keys are ignored.

    `projects` are ids of projects and `version` is the release.
    """

    checksum: Sha1
    chunks: Annotated[list[Sha1], Meta(min_length=1, max_length=200)]
    projects: Annotated[list[str], Meta(max_length=10)] = []
    version: Annotated[str, Meta(min_length=1, max_length=200, pattern=patterns.LABEL)] | None = None


class Assembled(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a bundle: parts missing, stored, or failed with a reason."""

    state: Literal["not_found", "ok", "error"]
    missingChunks: list[str]  # noqa: N815 - so the protocol calls it
    detail: str | None


_Moment = Annotated[str, Meta(min_length=1, max_length=40)] | None
_Projects = Annotated[list[str], Meta(max_length=10)]
_Release = Annotated[str, Meta(min_length=1, max_length=200)]


class SentryNewRelease(msgspec.Struct, frozen=True, kw_only=True):
    """A release that begins. `projects` are ids of projects. Unknown keys are ignored."""

    version: _Release
    projects: _Projects = []
    dateReleased: _Moment = None  # noqa: N815


class SentryReleaseChange(msgspec.Struct, frozen=True, kw_only=True):
    """A release that is finished or gets its commits. Commits and unknown keys are ignored."""

    projects: _Projects = []
    dateReleased: _Moment = None  # noqa: N815


class SentryProject(msgspec.Struct, frozen=True):
    """A project by its id."""

    slug: str
    name: str


class SentryRelease(msgspec.Struct, frozen=True, kw_only=True):
    """The release as it was sent. None of it is stored. Times are ISO 8601."""

    version: str
    dateCreated: str  # noqa: N815
    dateReleased: str | None  # noqa: N815
    projects: list[SentryProject]
    newGroups: int = 0  # noqa: N815


class SentryNoRelease(msgspec.Struct, frozen=True):
    """No release."""


class SentryNewDeploy(msgspec.Struct, frozen=True, kw_only=True):
    """A deploy that happened. `projects` are ids of projects, and may be left out with a CI credential."""

    environment: Annotated[str, Meta(min_length=1, max_length=160)]
    name: Annotated[str, Meta(max_length=2000)] | None = None
    url: Annotated[str, Meta(max_length=2000)] | None = None
    dateStarted: _Moment = None  # noqa: N815
    dateFinished: _Moment = None  # noqa: N815
    projects: _Projects | None = None


class SentryDeploy(msgspec.Struct, frozen=True, kw_only=True):
    """The deploy, as it is recorded. Address and times are those of the request, and are not stored."""

    environment: str
    name: str | None
    url: str | None
    dateStarted: str | None  # noqa: N815
    dateFinished: str | None  # noqa: N815
