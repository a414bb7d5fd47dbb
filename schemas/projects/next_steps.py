"""Wire contract of what to do next in a project (R-PROJ-08 to R-PROJ-11, G-024)."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

SignalType = Literal["analytics", "errors", "deploys"]
Count = Annotated[int, Meta(ge=0)]


class ProjectState(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of a project.

    A signal is in scope when the approved signal map names it or some of it has arrived. `signal_types` lists those in
    scope. `answer_ready`: the source or the install is verified, and every question of the signal map has its data.
    """

    signal_types: list[SignalType]
    analytics_scope: bool
    errors_scope: bool
    deploys_scope: bool
    analytics_configured: bool
    has_events: bool
    has_cases: bool
    has_deploys: bool
    install_verified: bool
    minimum_install_complete: bool
    readiness_complete: bool
    answer_ready: bool
    readiness_gaps_count: Count
    blocked_answer_contract_count: Count
    pending_real_data_count: Count


class Suggestion(msgspec.Struct, frozen=True, kw_only=True):
    """One suggestion. `requires` names the members of the state that must be true before it can be followed."""

    id: str
    title: str
    description: str
    prompt_template: str
    uses: list[str]
    estimated_seconds: Count
    requires: list[str]
    status: Literal["available", "preview", "coming_soon"]


class NextSteps(msgspec.Struct, frozen=True, kw_only=True):
    """The state, and the suggestions that follow from it, in the order in which to follow them."""

    project_state: ProjectState
    count: Count
    suggestions: list[Suggestion]
    next_steps: list[str]
    no_error_source: bool
    next_action: str
