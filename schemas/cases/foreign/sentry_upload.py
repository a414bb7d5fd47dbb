"""Wire contract of uploads by `sentry-cli`: names and shapes are those of its protocol (G-142)."""

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
