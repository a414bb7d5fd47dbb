"""The embedded database goes from PostgreSQL 15 to that of the release whole, or stays as it was."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from service.cli.shared.copies import extent_of
from service.embedded.attach import Attachment, attached
from service.embedded.layout import EmbeddedError, Layout
from service.embedded.programs import programs_for, wheel_programs
from service.eventstore.schema import migrations
from tests.service.cli.test_commands import Console
from tests.service.cli.test_copies import make_project, service_on, settings_for, sign_in
from tests.support.rounds import wait_until


@pytest.fixture
async def old(programs_15: Path, tmp_path: Path) -> Layout:
    """A data directory whose files PostgreSQL 15 has made, with a project."""
    layout = Layout(tmp_path / "data")
    with attached(layout, programs_15):
        migrations.migrate(layout.url)
        async with service_on(settings_for(layout.url)) as client:
            assert (await make_project(client, await sign_in(client)))[0] == 201
    return layout


@pytest.fixture
def console(old: Layout) -> Console:
    console = Console("", old.data_dir.parent)
    del console.env["SERVICE_DATABASE_URL"]
    console.env["SERVICE_DATA_DIR"] = str(old.data_dir)
    return console


def names(layout: Layout) -> set[str]:
    return {path.name for path in layout.data_dir.iterdir() if path.name.startswith(("postgres-", "postgres.u", "upg"))}


def test_the_old_server_copies_and_the_new_one_restores(old: Layout, console: Console, programs_15: Path) -> None:
    """The log is the same, it verifies, a second time there is nothing to do, and the old files stay as they were."""
    refused = console.run("events", "verify", code=4).stderr
    assert "belongs to PostgreSQL 15" in refused
    assert "service db upgrade --from-bin" in refused
    with attached(old, programs_15):
        before = extent_of(settings_for(old.url))
    new = programs_for(old).major()

    said = console.run("db", "upgrade", "--from-bin", str(programs_15)).stdout
    assert f"that of PostgreSQL {new} now" in said
    assert f"Log in it: {before}" in said
    assert names(old) == {"postgres-15"}
    assert (old.cluster / "PG_VERSION").read_text().strip() == str(new)
    console.run("events", "verify")
    console.run("projections", "verify")
    assert "Nothing to do" in console.run("db", "upgrade", "--from-bin", str(programs_15)).stdout
    with attached(old):
        assert extent_of(settings_for(old.url)) == before

    shutil.rmtree(old.cluster)
    (old.data_dir / "postgres-15").rename(old.cluster)
    with attached(old, programs_15):
        assert extent_of(settings_for(old.url)) == before


def test_what_stands_in_the_way_is_named_and_nothing_moves(old: Layout, console: Console, programs_15: Path) -> None:
    """Wrong programs, a name that is taken, and a process that uses the database."""

    def refused(programs: Path) -> str:
        said = console.run("db", "upgrade", "--from-bin", str(programs), code=1).stderr
        assert (old.cluster / "PG_VERSION").read_text() == "15\n"
        return said

    assert f"There is no postgres in {old.data_dir}" in refused(old.data_dir)
    assert f"the programs in {wheel_programs()} to PostgreSQL {programs_for(old).major()}" in refused(wheel_programs())
    (old.data_dir / "postgres-15").mkdir()
    assert "postgres-15 exists already" in refused(programs_15)
    (old.data_dir / "postgres-15").rmdir()
    with attached(old, programs_15):
        assert "Another process uses the database" in refused(programs_15)
    assert names(old) == set()


def test_a_kill_leaves_the_old_files_to_the_next_attempt(old: Layout, console: Console, programs_15: Path) -> None:
    """It ends the servers of the first one, and begins anew."""
    command = [sys.executable, "-m", "service", "db", "upgrade", "--from-bin", str(programs_15)]
    with subprocess.Popen(command, env=console.env, cwd=console.directory) as killed:
        wait_until((old.data_dir / "upgrade" / "postgres").is_dir, 30)
        killed.kill()
    assert (old.cluster / "PG_VERSION").read_text() == "15\n"
    assert "Log in it: " in console.run("db", "upgrade", "--from-bin", str(programs_15)).stdout
    assert names(old) == {"postgres-15"}
    console.run("events", "verify")


def test_a_kill_between_the_last_two_steps_is_completed_by_the_next_start(old: Layout, programs_15: Path) -> None:
    """Before them the old files are in place, and what an attempt left is removed by the next one."""
    with pytest.raises(EmbeddedError, match="belongs to PostgreSQL 15"):
        Attachment(old)
    newer = Layout(old.data_dir / "upgrade")
    with attached(newer):
        migrations.migrate(newer.url)
    newer.cluster.rename(old.upgraded)
    old.cluster.rename(old.data_dir / "postgres-15")
    with attached(old):
        assert extent_of(settings_for(old.url)).events == 0
    assert not old.upgraded.exists()
