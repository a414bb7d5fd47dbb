"""The navigation of a project: its sections in groups, each with its first page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

GROUPS: Sequence[tuple[str, Sequence[tuple[str, str, str]]]] = (
    ("", (("overview", "Overview", ""), ("onboarding", "Onboarding", "onboarding"))),
    (
        "Observe",
        (
            ("cases", "Cases", "cases"),
            ("people", "People", "people"),
            ("suppressions", "Suppressions", "suppressions"),
            ("source-maps", "Source maps", "source-maps"),
        ),
    ),
    (
        "Automate",
        (
            ("automation", "Automation", "automation"),
            ("runs", "Runs", "runs"),
            ("reports", "Reports", "reports"),
        ),
    ),
    (
        "Tell",
        (
            ("webhooks", "Webhooks", "webhooks"),
            ("alerts", "Alerts", "alerts"),
            ("public-queries", "Public queries", "public-queries"),
        ),
    ),
    (
        "Project",
        (
            ("usage", "Usage and billing", "usage"),
            ("members", "Members", "members"),
            ("credentials", "Credentials", "credentials"),
            ("log", "Event log", "log"),
        ),
    ),
)
"""Each group with its sections: their name in the code, their title, and their address within the project."""


class NavEntry(NamedTuple):
    """An entry: its title, its place, and whether the page shown belongs to it."""

    title: str
    place: str
    current: bool


def sections(project_id: str | None, current: str) -> list[tuple[str, list[NavEntry]]]:
    """The navigation of a project, in groups. Empty outside of one."""
    if project_id is None:
        return []
    base = f"projects/{project_id}"
    return [
        (
            group,
            [NavEntry(title, f"{base}/{address}".rstrip("/"), name == current) for name, title, address in entries],
        )
        for group, entries in GROUPS
    ]
