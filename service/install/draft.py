"""A skeleton of a plan, in which each null is a place to fill (G-061, G-156).

Of the members of a plan only `historical_evidence` and `git_head_sha` may be null. So a skeleton with another place
left never passes as a plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

BROWSER: Final = frozenset({"browser", "web", "frontend", "client"})
SERVER: Final = frozenset({"server", "backend", "api", "worker"})

CHECKLIST: Final = (
    "Read the source of the product, and find each durable success and each failure exit that bear on the question.",
    "Name an event for each success in milestones. Capture it after the success, at one of its targets.",
    "Name a marker for each failure in failures. Exactly one has safe_live_proof true: it can be provoked safely.",
    "Leave out properties that name a person or a secret. PUT …/signal-map refuses them.",
    "Take source_snapshot from GET /v1/onboarding/source-snapshot.mjs, run in the repository.",
    "Write all of it as text for a person into plan_markdown, and fill the nulls: only historical_evidence may stay.",
    "Show the exact plan to the responsible person, and wait until they approve it.",
)


def skeleton(question: str, surfaces: Sequence[str]) -> dict[str, Any]:
    """Draft a plan for a question, with a milestone for each surface, at least two of them."""
    boundaries = [_boundary(surface) for surface in dict.fromkeys(surfaces)]
    boundaries += [None] * (2 - len(boundaries))
    targets = [{"file": None, "anchor": None}]
    failure = {"marker": None, "meaning": None, "provider_boundary": None, "context": [], "targets": targets}
    return {
        "business_question": question,
        "plan_markdown": None,
        "source_snapshot": {
            "git_head_sha": None,
            "source_fingerprint_sha256": None,
            "source_fingerprint_algorithm": "service-source-tree-sha256-v1",
        },
        "historical_evidence": None,
        "milestones": [
            {"event": None, "meaning": None, "provider_boundary": boundary, "properties": [], "targets": targets}
            for boundary in boundaries
        ],
        "failures": [failure | {"safe_live_proof": True}, failure | {"safe_live_proof": False}],
        "deploy": {"environment": None, "sha_source": "git_head", "targets": targets},
    }


def _boundary(surface: str) -> str | None:
    named = surface.lower()
    if named in BROWSER:
        return "browser_provider"
    return "server_provider" if named in SERVER else None
