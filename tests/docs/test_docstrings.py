"""Docstrings get no harder to read: no folder's figures rise above its ceilings (CONTRIBUTING, Words)."""

from __future__ import annotations

import pytest

from scripts.docstrings import GOAL, Density, ceilings, figure, folders, lowered, measure

FOLDERS, CEILINGS = folders(), ceilings()


@pytest.mark.parametrize("folder", sorted(FOLDERS))
def test_no_figure_of_a_folder_rises(folder: str) -> None:
    """A folder without ceilings meets the goals. One above them only falls, and `make generated` lowers its line."""
    now, most = figure(FOLDERS[folder]), CEILINGS.get(folder, GOAL)
    assert now.semicolons <= most.semicolons, "use full stops: a semicolon is two sentences"
    assert now.clauses <= most.clauses, "name things by nouns, without that, which, what and who"


def test_ceilings_are_those_of_folders() -> None:
    """A folder that went, or was renamed, leaves no line behind."""
    assert sorted(set(CEILINGS) - set(FOLDERS)) == []


def test_a_text_is_measured() -> None:
    """Ten words, one semicolon, two clauses."""
    assert measure("One; what two three four five that six seven eight.") == Density(100.0, 200.0)


@pytest.mark.parametrize(
    ("recorded", "measured", "kept"),
    [
        pytest.param(Density(9.0, 40.0), Density(8.0, 41.0), Density(8.0, 40.0), id="each falls by itself"),
        pytest.param(Density(9.0, 40.0), Density(1.0, 39.0), Density(6.0, 39.0), id="not below the goal"),
        pytest.param(Density(9.0, 40.0), Density(1.0, 2.0), None, id="met"),
        pytest.param(None, Density(9.0, 40.0), None, id="a new folder gets no ceiling above the goal"),
    ],
)
def test_a_ceiling_only_falls(recorded: Density | None, measured: Density, kept: Density | None) -> None:
    old = {} if recorded is None else {"service/x": recorded}
    assert lowered(old, {"service/x": measured}).get("service/x") == kept
