"""What is installed to run is part of what is tested, and comes with its licences."""

from pathlib import Path

from scripts.pages.licences import TARGET, document, pins

ROOT = Path(__file__).parent.parent
RUNTIME = ROOT / "requirements" / "runtime.txt"


def test_what_runs_is_what_is_tested() -> None:
    """Each package of the runtime lock has the version of the whole lock, and no tool of the tests is among them."""
    runtime, whole = pins(RUNTIME), pins(ROOT / "requirements" / "lock.txt")
    assert runtime.items() <= whole.items()
    assert not {"pytest", "mypy", "ruff", "schemathesis", "dbos", "sqlalchemy", "hypothesis"} & runtime.keys()


def test_locks_name_no_index() -> None:
    """A lock pins by hash; where the files come from is the installer's choice."""
    locks = sorted(RUNTIME.parent.glob("*.txt"))
    assert {lock.stem for lock in locks} == {"bugsink", "chdb", "clients", "lock", "redbot", "runtime", "sentry"}
    assert [lock.name for lock in locks if "://" in lock.read_text()] == []


def test_the_licences_are_told() -> None:
    """The table names each package with its version and licence, as the packages themselves state it."""
    assert TARGET.read_text() == document()
    assert "Apache License" in (ROOT / "LICENSE").read_text()
