"""The embedded database on the next major version of PostgreSQL, whose server cannot read the files of the last one.

The old server writes a copy, and the new one restores it into a directory beside the old files. A kill at any moment
leaves one of them in place. Until the copy is restored and compared, nothing of the old files has moved. Then two
renames exchange them. Between these the next start completes the second (`Cluster.ensure`).
"""

import os
import shutil
from pathlib import Path
from typing import NamedTuple

import click
import msgspec

from service.cli.shared.common import progress, require_database
from service.cli.shared.copies import back_up, bring_back, extent_of
from service.embedded.attach import alone, sole_supervisor
from service.embedded.cluster import Cluster
from service.embedded.layout import Layout
from service.embedded.programs import Programs, programs_for
from service.eventstore.schema import roles
from service.history.bundle import Extent
from service.settings import Settings

NEEDED = ("postgres", "pg_dump")


class Upgraded(NamedTuple):
    """The major versions of PostgreSQL before and after, where the old files are, and how far the log goes."""

    before: int
    after: int
    kept: Path
    extent: Extent


def upgrade_embedded(settings: Settings, programs: Path) -> Upgraded | None:
    """Move the embedded database from the server in the directory `programs` to that of this release.

    Returns None when it is there already. Raises ClickException, or EmbeddedError while another process uses the
    database. Each leaves the old files as they were.
    """
    if not settings.embedded:
        raise click.ClickException(
            "`service db upgrade` is for the embedded database. Your own PostgreSQL, SERVICE_DATABASE_URL, is upgraded "
            "by its own tools."
        )
    require_database(settings)
    layout = Layout(settings.data_dir)
    with sole_supervisor(layout, settings.base_url):
        if layout.cluster.is_dir():
            return _upgrade(settings, layout, programs)
        with alone(layout):  # it completes an upgrade that was killed
            return None


def _upgrade(settings: Settings, layout: Layout, directory: Path) -> Upgraded | None:
    old, new = programs_for(layout, directory), programs_for(layout)
    before, after = int((layout.cluster / "PG_VERSION").read_text(encoding="ascii")), new.major()
    if before == after:
        return None
    kept = layout.data_dir / f"postgres-{before}"
    _refuse_unfit(old, before, after, kept)
    draft = Layout(layout.data_dir / "upgrade")
    _discard(draft)
    shutil.rmtree(layout.upgraded, ignore_errors=True)  # of an attempt that was killed before the first rename
    try:
        extent = _copy(settings, layout, directory, draft)
        draft.cluster.rename(layout.upgraded)
    finally:
        _discard(draft)
    _sync(layout.data_dir)
    layout.cluster.rename(kept)
    layout.upgraded.rename(layout.cluster)
    _sync(layout.data_dir)
    return Upgraded(before, after, kept, extent)


def _refuse_unfit(old: Programs, before: int, after: int, kept: Path) -> None:
    """Raise ClickException for other programs than the old server's, a later server, and a name that is taken."""
    if missing := [name for name in NEEDED if not (old.directory / name).is_file()]:
        raise click.ClickException(f"There is no {missing[0]} in {old.directory}.")
    old.require_reach()
    if old.major() != before:
        raise click.ClickException(
            f"The files belong to PostgreSQL {before}, and the programs in {old.directory} to PostgreSQL {old.major()}."
        )
    if before > after:
        raise click.ClickException(f"The files belong to PostgreSQL {before}, which is later than {after}.")
    if kept.exists():
        raise click.ClickException(f"{kept} exists already. Move it away first: the old files get this name.")


def _copy(settings: Settings, layout: Layout, directory: Path, draft: Layout) -> Extent:
    """Restore a copy of the database into new files in `draft`, and compare both logs. Raises ClickException."""
    user = layout.user
    draft.make()
    if os.geteuid() == 0:
        os.chown(draft.data_dir, user.pw_uid, user.pw_gid)  # the new server runs as the user of the old one
    file = draft.data_dir / "copy.dump"
    with alone(layout, directory), progress("Tables copied") as report:
        extent = back_up(settings, file, report, programs=directory)
    target = msgspec.structs.replace(settings, data_dir=draft.data_dir, database_url=draft.url)
    with alone(draft), progress("Tables restored") as report:
        bring_back(target, file, report)
        restored = extent_of(target)
        if restored != extent:
            raise click.ClickException(f"The restored database differs from the old one: {restored}, not {extent}.")
        roles.bring_forward(target.database_url, None)
    return extent


def _discard(draft: Layout) -> None:
    """Remove an attempt. After a kill its server may still run."""
    if draft.data_dir.is_dir():
        Cluster(draft).stop()
        shutil.rmtree(draft.data_dir)


def _sync(directory: Path) -> None:
    """Bring new names in a directory to disk."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
