"""Write service/eventstore/schema/sql/guards.txt: the triggers and constraints of a freshly migrated database.

To be run after a migration that makes or changes one. A test compares the file with every supported server.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import psycopg

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from service.embedded.attach import attached  # noqa: E402
from service.embedded.layout import Layout, temporary_directory  # noqa: E402
from service.eventstore.schema import guards, migrations  # noqa: E402


def main() -> None:
    """Make a database, migrate it, describe it."""
    directory = temporary_directory("service-guards-")
    layout = Layout(directory / "data")
    try:
        with attached(layout):
            migrations.migrate(layout.url)
            with psycopg.connect(layout.url) as connection:
                lines = guards.described(connection)
    finally:
        shutil.rmtree(directory)
    file = ROOT / "service" / "eventstore" / "schema" / "sql" / guards.FILE
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    print(f"{file.relative_to(ROOT)}: {len(lines)} lines")


if __name__ == "__main__":
    main()
