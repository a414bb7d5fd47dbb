"""The navigation of a project: its sections in groups, each with its first page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

GROUPS: Sequence[tuple[str, Sequence[tuple[str, str, str]]]] = (
    ("", (("overview", "Overview", ""), ("onboarding", "Onboarding", "onboarding"))),
    (
        "Observe",
        (
            ("cases", "Cases", "cases"),
            ("logs", "Logs", "logs"),
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
            ("settings", "Settings", "settings"),
            ("log", "Event log", "log"),
        ),
    ),
)
"""Each group with its sections: their name in the code, their title, and their address within the project."""
READS: Mapping[str, str] = {"members": "list_members", "credentials": "list_credentials", "log": "list_events"}
"""What a section reads, where not every role of the project may."""


class NavEntry(NamedTuple):
    """An entry: its title, its place, and whether the page shown belongs to it."""

    title: str
    place: str
    current: bool


def sections(project_id: str | None, current: str, may: Callable[[str], bool]) -> list[tuple[str, list[NavEntry]]]:
    """The navigation of a project, in groups, without what the person may not read. Empty outside of a project."""
    if project_id is None:
        return []
    base = f"projects/{project_id}"
    return [
        (
            group,
            [
                NavEntry(title, f"{base}/{address}".rstrip("/"), name == current)
                for name, title, address in entries
                if name not in READS or may(READS[name])
            ],
        )
        for group, entries in GROUPS
    ]
