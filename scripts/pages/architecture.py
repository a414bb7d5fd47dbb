"""The picture of who imports whom: `python -m scripts.pages.architecture` draws it anew."""

from __future__ import annotations

from pathlib import Path

import grimp

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "architecture.md"
ROOMS = ("service", "projections", "statemachines", "schemas")
PARTS = (
    "auth", "cli", "conformance", "demo", "egress", "embedded", "eventstore", "fairness", "history", "http", "ingest",
    "console", "process", "testing", "tlog", "witness",
)  # fmt: skip
"""Parts of the service that are no area."""
BEGIN, END = "<!-- imports -->\n", "<!-- /imports -->\n"


def part_of(module: str) -> str | None:
    """The box of a module: its room, or its part of the service. None for what is common to all parts."""
    room, *inner = module.split(".")
    if room != "service":
        return room
    if len(inner) < 2:
        return None
    return inner[0] if inner[0] in PARTS else "areas"


def arrows() -> set[tuple[str, str]]:
    """Which part imports which, without arrows that follow from others."""
    graph = grimp.build_graph(*ROOMS)
    found = set()
    for importer in graph.modules:
        for imported in graph.find_modules_directly_imported_by(importer):
            pair = part_of(importer), part_of(imported)
            if pair[0] is not None and pair[1] is not None and pair[0] != pair[1]:
                found.add((pair[0], pair[1]))
    parts = {part for pair in found for part in pair}
    return {
        (one, other)
        for one, other in found
        if not any((one, between) in found and (between, other) in found for between in parts - {one, other})
    }


def picture() -> str:
    """The arrows as a Mermaid flowchart."""
    drawn = "".join(f"    {one} --> {other}\n" for one, other in sorted(arrows()))
    return f"```mermaid\nflowchart TD\n{drawn}```\n"


def drawn_anew(page: str) -> str:
    """A page with its picture drawn anew."""
    head, _, rest = page.partition(BEGIN)
    return head + BEGIN + picture() + END + rest.partition(END)[2]


if __name__ == "__main__":
    PAGE.write_text(drawn_anew(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
