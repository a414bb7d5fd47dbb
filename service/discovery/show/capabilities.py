"""The capabilities of this installation, made from its operations and settings (R-DISC-06).

Each operation belongs to one capability. Without its setting, a capability is shown as not available, with the reason
and without its operations.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Final, NamedTuple

from schemas.discovery.manifest import AuthType, Capabilities, Capability, Surface, Surfaces
from service.discovery.installation import Installation

TITLES: Final[Mapping[str, str]] = {
    "alerts": "Watch a number, and be told when it leaves its bounds",
    "analytics": "Answer questions with evidence",
    "auth": "Sign people in, and manage their keys",
    "automation": "Coordinate bounded automation under an approved contract",
    "cases": "Group errors into cases, and work on them",
    "credentials": "Give CI and runners credentials of their own",
    "deletion": "Delete a project or an account",
    "discovery": "Explain the service to people, agents and tools",
    "events": "Show and stream what was recorded",
    "ingest": "Take errors, events and deploys",
    "install": "Install in the older way",
    "log": "Sign the log of all events, and prove what is in it",
    "mcp": "Give agents tools over the same operations",
    "onboarding": "Prove an instrumentation by real execution",
    "operations": "Show whether the service is healthy",
    "payments": "Buy plans",
    "projects": "Manage projects, members and DSNs",
    "provider": "Read the analytics of a connected provider",
    "public_queries": "Publish numbers",
    "signal_map": "Show what a product was approved to send",
    "usage_billing": "Show usage and plan",
    "webhooks": "Tell other systems what happened",
}
"""Every capability by its id: the groups of the document, and their parts that depend on settings."""

APART: Final[Mapping[str, str]] = {
    "connect_provider": "provider",
    "poll_provider": "provider",
    "start_billing_checkout": "payments",
    "open_billing_portal": "payments",
    "receive_billing_webhook": "payments",
}
"""Operations of another capability than that of their group, because settings decide them."""


class OfferedOperation(NamedTuple):
    """An operation: id, group, method and path."""

    id: str
    group: str
    name: str


def missing(at: Installation) -> Mapping[str, str]:
    """The capabilities without their setting, with the reason."""
    reasons = {
        "provider": (at.provider, "No analytics provider is configured in this installation."),
        "payments": (at.payments, "No payment provider is configured in this installation."),
        "webhooks": (at.sealing, "Secrets cannot be kept in this installation: it has no encryption key."),
    }
    return {name: reason for name, (there, reason) in reasons.items() if not there}


@cache
def _generated_at() -> int:
    """When this process first described itself, in epoch seconds."""
    return int(time.time())


def capabilities(at: Installation, offered: Sequence[OfferedOperation]) -> Capabilities:
    """Describe the capabilities of the operations of this installation."""
    without = missing(at)
    by_id: dict[str, list[str]] = {}
    for one in offered:
        by_id.setdefault(APART.get(one.id, one.group), []).append(one.name)
    base = at.base_url
    return Capabilities(
        schema_version=1,
        generated_at=_generated_at(),
        principle="What is not available here is not offered. Every answer names its evidence.",
        discovery={
            "root": f"{base}/",
            "schema": f"{base}/v1/openapi.json",
            "guide": f"{base}/service.md",
            "install": f"{base}/install.md",
            "setup_manifest": f"{base}/v1/setup/manifest",
            "errors": f"{base}/v1/errors",
        },
        auth_types=_auth_types(),
        surfaces=_surfaces(base, without),
        capabilities=[
            Capability(
                id=name,
                title=TITLES[name],
                available=name not in without,
                reason=without.get(name),
                operations=[] if name in without else names,
                docs=f"{base}{_DOCS.get(name, '/service.md')}",
            )
            for name, names in sorted(by_id.items())
        ],
        next_action="Choose a capability, and read its docs.",
    )


_DOCS: Final[Mapping[str, str]] = {
    "alerts": "/v1/docs/query",
    "analytics": "/v1/docs/query",
    "auth": "/install.md",
    "automation": "/v1/docs/automation",
    "credentials": "/v1/docs/automation",
    "ingest": "/install.md",
    "install": "/install.md",
    "onboarding": "/install.md",
    "provider": "/install.md",
    "public_queries": "/v1/docs/query",
    "signal_map": "/install.md",
}


def _auth_types() -> list[AuthType]:
    kinds = (
        ("api_key", "SERVICE_API_KEY", "Every project of its person, as owner or member."),
        ("dsn", "SERVICE_DSN", "Sending errors, events and deploys into one project."),
        ("ci_credential", "SERVICE_CI_API_KEY", "Trusted deploys and proofs of one project."),
        ("runner_credential", "SERVICE_RUNNER_API_KEY", "One automation of one project."),
    )
    return [AuthType(kind=kind, env_var=variable, reaches=reaches) for kind, variable, reaches in kinds]


def _surfaces(base: str, without: Mapping[str, str]) -> Surfaces:
    def surface(path: str, description: str, available: bool = True) -> Surface:
        return Surface(available=available, url=f"{base}{path}", description=description)

    return Surfaces(
        api=surface("/v1/openapi.json", "JSON over HTTP, described by a schema."),
        guides=surface("/service.md", "Markdown for people and agents."),
        mcp=surface("/mcp", "Tools for agents that speak the Model Context Protocol."),
        ingest=surface("/v1/logs/", "Errors and logs by DSN. Events and deploys have routes of their own."),
        webhooks=surface(
            "/v1/projects/{project_id}/webhooks", "Signed deliveries of what happened.", "webhooks" not in without
        ),
        public_queries=surface("/v1/public/q/{publication_id}", "Published numbers, by publishable key."),
    )
