"""The list of what is not built yet: `python -m scripts.pages.unbuilt` brings it up to date."""

from __future__ import annotations

import re
from pathlib import Path

from service.http.edge.declare.unbuilt import is_unbuilt
from service.http.edge.routes import all_endpoints, bind

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "not-built.md"
HEAD = "| Group | Operations that answer 501 |\n| --- | --- |\n"


def table() -> str:
    """Every group with operations that answer 501, with their names, as a Markdown table."""
    groups: dict[str, list[str]] = {}
    sizes: dict[str, int] = {}
    for bound in bind(all_endpoints()):
        group = bound.operation.group
        sizes[group] = sizes.get(group, 0) + 1
        if is_unbuilt(bound.handler):
            groups.setdefault(group, []).append(f"`{bound.name}`")
    lines = HEAD
    for group, names in sorted(groups.items()):
        few = "all of it" if len(names) == sizes[group] else f"{len(names)} of {sizes[group]}"
        lines += f"| {group} | {few}: {', '.join(sorted(names))} |\n"
    return lines


if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8")
    written = re.sub(re.escape(HEAD) + r"(?:\|.*\n)*", lambda _: table(), text)
    PAGE.write_text(written, encoding="utf-8")
