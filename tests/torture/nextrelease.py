"""The release after this one, made from these sources: one more migration, and another version of two topics.

A process of it runs with the same interpreter and packages as one of this release; its own rooms come first on the
path, and with them its version.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from service import release
from service.eventstore.schema import migrations
from service.eventstore.schema.migrations import JOB_SCHEMA as LIBRARY

ROOT = Path(__file__).parents[2]
ROOMS = ("schemas", "statemachines", "projections", "service")
VERSION = "99.0.0"
FUNCTION = "paying_account"

OPENED = "case.opened.v2"
PLANNED = "onboarding.planned.v2"

_MIGRATION = """-- compatible: yes
-- A column that the release before neither reads nor fills.
alter table projects add column next_note text not null default '';
"""
_LIFT = '''

@lifts("{older}")
def lift_{name}_v1(payload: Payload) -> Payload:
    """The first version did not say where it came from."""
    return payload | {{"source": "before"}}
'''
_IMPORT = "from statemachines.kernel.topics import Payload, lifts\n"


def last_migration() -> str:
    """The name of this release's last file of its own."""
    return max(found.name for found in migrations.discover() if found.name != LIBRARY)


def next_migration() -> str:
    """The name of the one that the next release adds."""
    return f"{int(last_migration()[:4]) + 1:04}_next_release"


def make_next_release(directory: Path) -> Path:
    """Copy the rooms into a directory and make them the next release; returns what comes first on its path."""
    for room in ROOMS:
        shutil.copytree(ROOT / room, directory / room)
    _change(
        directory / "service" / "release.py", f'VERSION: Final = "{release.VERSION}"', f'VERSION: Final = "{VERSION}"'
    )
    sql = directory / "service" / "eventstore" / "schema" / "sql"
    (sql / f"{next_migration()}.sql").write_text(_MIGRATION)
    function = sql / "functions" / f"{FUNCTION}.sql"
    function.write_text(f"-- As the release {VERSION} has it.\n{function.read_text()}")
    _raise_version(directory, "statemachines/cases/case.py", "case.opened.v1", "    opened_at: int\n")
    _raise_version(directory, "statemachines/onboarding/lifecycle.py", "onboarding.planned.v1", "    planned_at: int\n")
    _change(directory / "service" / "http" / "edge" / "rendering.py", "onboarding.planned.v1", PLANNED)
    return directory


def _raise_version(directory: Path, module: str, older: str, last_member: str) -> None:
    """Give an event of a module a second version with one more member, and the step that lifts the first to it."""
    path = directory / module
    newer = older.removesuffix("1") + "2"
    head, found, rest = path.read_text().partition(f'    TOPIC = "{older}"\n')
    assert found, f"{module} has no {older}"
    before, member, after = rest.partition(last_member)
    assert member, f"{older} has no {last_member.strip()}"
    assert "class " not in before, f"{older} has no {last_member.strip()}"
    body = f'    TOPIC = "{newer}"\n{before}{member}    source: str = "next"\n{after}'
    lift = _LIFT.format(older=older, name=older.split(".")[1])
    path.write_text(head.replace("import msgspec\n", f"import msgspec\n{_IMPORT}", 1) + body + lift)


def _change(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text, f"{path} has no {old}"
    path.write_text(text.replace(old, new))
