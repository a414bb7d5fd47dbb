"""README tells what is true: its settings are the settings, its commands exist."""

import re
import subprocess
import sys
from pathlib import Path

from service.cli import COMMANDS
from service.settings import settings_table

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def test_the_settings_are_those_of_the_code() -> None:
    """The table is the one that the code prints, to the letter."""
    assert settings_table().strip() in README


def test_every_command_that_is_named_exists() -> None:
    """`service NOUN` and `make TARGET` in the text are nouns and targets."""
    nouns = set(re.findall(r"`service ([a-z]+)", README))
    assert nouns, "the README names commands"
    assert nouns <= set(COMMANDS)
    targets = set(re.findall(r"make ([a-z]+)", README))
    assert targets <= set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def test_every_link_leads_somewhere() -> None:
    """Relative links name files that are there."""
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists(), target


def test_the_diagrams_are_those_of_the_tables(tmp_path: Path) -> None:
    """What `make generated` would write is what is there."""
    subprocess.run(
        [sys.executable, "-m", "service", "machines", "diagram", "--all", "--out", str(tmp_path)],
        check=True,
        capture_output=True,
        cwd=ROOT,
    )
    kept = {path.name: path.read_text() for path in (ROOT / "docs" / "reference" / "machines").iterdir()}
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == kept
