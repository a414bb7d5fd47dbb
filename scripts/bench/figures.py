"""The table of a run: each figure beside its yardstick, and what was promised of their ratio."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

console = Console(width=118)


class Figures:
    """The table: name, measured, yardstick, ratio, what was promised."""

    def __init__(self) -> None:
        self.table = Table(title="make bench")
        for column in ("figure", "measured", "yardstick", "ratio", "promised", ""):
            self.table.add_column(column, justify="left" if column in {"figure", "promised"} else "right")
        self.short = 0
        self.plain: list[dict[str, Any]] = []

    def add(
        self, name: str, measured: float, unit: str, *, yardstick: float, promised: float, most: bool = False
    ) -> None:
        """Compare a figure's ratio to the yardstick with `promised`: at least that, or at most when `most`."""
        ratio = measured / yardstick
        good = ratio <= promised if most else ratio >= promised
        self.short += not good
        sign = "<=" if most else ">="
        self.table.add_row(
            name,
            f"{measured:,.1f} {unit}",
            f"{yardstick:,.1f} {unit}",
            f"{ratio:.2f}",
            f"{sign} {promised:g} x",
            "[green]ok[/green]" if good else "[red]short[/red]",
        )
        self.plain.append({"figure": name, "measured": measured, "yardstick": yardstick, "ratio": ratio, "ok": good})
        console.print(f"  {name}: {measured:,.1f} {unit}, ratio {ratio:.2f} ({sign} {promised:g})")
