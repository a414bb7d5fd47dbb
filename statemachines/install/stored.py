"""Shapes of the events of an install: an implementation report as an owner sent it (G-061, G-156)."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from statemachines.onboarding.stored import Sha256, Shape, SourceSnapshot, SourceTarget


class RunTest(Shape, frozen=True):
    """A test command and its result."""

    command: Annotated[str, Meta(min_length=1, max_length=1000)]
    passed: bool


class ImplementationReport(Shape, frozen=True, kw_only=True):
    """The places where a plan is implemented in a source tree, with tests."""

    plan_sha256: Sha256
    source_snapshot: SourceSnapshot
    files: Annotated[tuple[SourceTarget, ...], Meta(min_length=1, max_length=500)]
    summary_md: Annotated[str, Meta(max_length=16384)] | None = None
    tests: Annotated[tuple[RunTest, ...], Meta(max_length=100)] = ()
