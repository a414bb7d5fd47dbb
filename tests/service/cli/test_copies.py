"""A backup is proven before it is kept, and brings everything back on each supported server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import click
import httpx2
import psycopg
import pytest

from service.cli.shared import copies
from service.cli.shared.copies import CopyTally, back_up, bring_back, extent_of
from service.history.audit import check_history, check_projection
from service.http.app import create_app
from service.process.assembly import make_services
from service.registry import read_models
from service.settings import Settings, load_settings
from service.tlog.notes import Checkpoint
from service.tlog.tree import check_tree, latest_checkpoint
from tests.service.http.edge.toy_api import running
from tests.support import seen
from tests.support.accounts import bearer, identity
from tests.support.cluster import TestCluster
from tests.support.server import ENCRYPTION_KEY, SIGNING_KEY
from tests.support.trees import fill, naive_leaves, naive_root, sign_all, signer_at

INTERNAL_TOKEN = "an-internal-token-of-length"


def settings_for(url: str) -> Settings:
    return load_settings(
        {
            "SERVICE_DATABASE_URL": url,
            "SERVICE_INTERNAL_TOKEN": INTERNAL_TOKEN,
            "SERVICE_ENCRYPTION_KEY": ENCRYPTION_KEY,
            "SERVICE_SIGNING_KEY": SIGNING_KEY,
        }
    )


def quiet(_: int, __: int) -> None:
    """Report nothing."""


@asynccontextmanager
async def service_on(settings: Settings) -> AsyncIterator[httpx2.AsyncClient]:
    """The whole API in this process."""
    edge = create_app(lambda: make_services(settings))
    transport = httpx2.ASGITransport(edge)
    async with running(edge), seen.async_client("http://service", transport=transport) as client:
        yield client


async def sign_in(client: httpx2.AsyncClient) -> str:
    """Sign somebody in; returns an API key."""
    started = (await client.post("/v1/auth/device", json={})).json()
    confirmed = {"user_code": started["user_code"], "identity": identity()}
    await client.post("/v1/auth/device/authorize", json=confirmed, headers=bearer(INTERNAL_TOKEN))
    return str(
        (await client.post("/v1/auth/device/poll", json={"device_code": started["device_code"]})).json()["api_key"]
    )


async def make_project(client: httpx2.AsyncClient, key: str) -> tuple[int, dict[str, Any]]:
    """Ask for a project, each time by the same Idempotency-Key."""
    headers = {**bearer(key), "idempotency-key": "the-first-project"}
    answer = await client.post("/v1/projects", json={"name": "Shop"}, headers=headers)
    return answer.status_code, answer.json()


def count(url: str, table: str) -> int:
    with psycopg.connect(url) as connection:
        [[rows]] = connection.execute(f"select count(*) from {table}".encode()).fetchall()
        return int(rows)


async def test_a_restored_service_is_the_one_that_was_copied(any_cluster: TestCluster, tmp_path: Path):
    """P21: its history verifies, its read models are those of the history, and old keys replay their answers."""
    file = tmp_path / "copy.dump"
    with any_cluster.database() as url, any_cluster.database("template0") as other:
        before, after = settings_for(url), settings_for(other)
        async with service_on(before) as client:
            key = await sign_in(client)
            first = await make_project(client, key)
            again = await make_project(client, key)
            assert first[0] == again[0] == 201
        written: list[tuple[int, int]] = []
        copied = back_up(before, file, lambda *report: written.append(report))
        assert copied == extent_of(before)
        assert copied.events == count(url, "events") > 0
        read: list[tuple[int, int]] = []
        bring_back(after, file, lambda *report: read.append(report))
        for reports in (written, read):
            [total] = {total for _, total in reports}
            assert sorted({done for done, _ in reports}) == list(range(total + 1))[-len({*reports}) :]
            assert reports[-1] == (total, total)
        assert extent_of(after) == copied
        with psycopg.connect(other, autocommit=True) as connection:
            assert list(check_history(connection)) == []
            assert [found for model in read_models().values() for found in check_projection(connection, model)] == []
        async with service_on(after) as client:
            assert await make_project(client, key) == again
        assert count(other, "projects") == 1


async def test_the_tree_of_a_copy_is_served_as_before(cluster: TestCluster, tmp_path: Path):
    """Full tiles, partial ones, the checkpoint with its cosignatures, and proofs; and the log is signed on."""
    file, signer = tmp_path / "copy.dump", signer_at(tmp_path)
    paths = [
        *("checkpoint", "tile/0/000", "tile/0/001", "tile/0/002.p/88", "tile/1/000.p/2"),
        *("proof/inclusion?position=300", "proof/consistency?from=257"),
    ]

    async def served(url: str) -> list[bytes]:
        async with service_on(settings_for(url)) as client:
            answers = [await client.get(f"/v1/log/{path}") for path in paths]
            assert [answer.status_code for answer in answers] == [200] * len(paths)
            return [answer.content for answer in answers]

    with cluster.database() as url, cluster.database("template0") as other:
        with psycopg.connect(url, autocommit=True) as sql:
            fill(sql, 600)
            sign_all(sql, signer)
            kept = latest_checkpoint(sql)
            assert kept is not None
            line = signer.pair.cosign("w.example", Checkpoint(kept.origin, kept.size, kept.root), 5)[0].line
            sql.execute(
                "insert into log_cosignatures values (%s, 600, 'w.example', %s, clock_timestamp())", (kept.origin, line)
            )
        before = await served(url)
        assert line.encode() in before[0]
        back_up(settings_for(url), file, quiet)
        bring_back(settings_for(other), file, quiet)
        assert await served(other) == before
        with psycopg.connect(other, autocommit=True) as sql:
            assert list(check_tree(sql)) == []
            fill(sql, 7)
            standing = sign_all(sql, signer)
            assert standing is None or standing.signs
            later = latest_checkpoint(sql)
            assert later is not None
            assert (later.origin, later.size, later.root) == (kept.origin, 607, naive_root(naive_leaves(607)))


def test_a_copy_from_a_new_server_comes_back_on_the_oldest(
    cluster: TestCluster, cluster_15: TestCluster, tmp_path: Path
):
    """Also the other way round: the form of a copy is the one that every supported server reads."""
    for one, other in ((cluster, cluster_15), (cluster_15, cluster)):
        file = tmp_path / f"{id(one)}.dump"
        with one.database() as url, other.database("template0") as empty:
            copied = back_up(settings_for(url), file, quiet)
            bring_back(settings_for(empty), file, quiet)
            assert extent_of(settings_for(empty)) == copied
            assert count(empty, "schema_migrations") == count(url, "schema_migrations")


def test_a_file_that_is_there_is_not_written_over(database_url: str, tmp_path: Path):
    file = tmp_path / "copy.dump"
    file.write_text("precious")
    with pytest.raises(click.ClickException, match="--force"):
        back_up(settings_for(database_url), file, quiet)
    assert file.read_text() == "precious"
    back_up(settings_for(database_url), file, quiet, force=True)
    assert file.read_bytes().startswith(b"PGDMP")
    assert file.stat().st_mode & 0o077 == 0, "a copy is for its owner alone"


def test_what_reads_back_otherwise_is_not_kept(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A table short of a row, and a head that differs, are found before anybody relies on the file."""
    file = tmp_path / "copy.dump"
    take = CopyTally.count

    def lose_one(tally: CopyTally, table: str, columns: list[str], line: bytes) -> None:
        if table != "schema_migrations" or tally.rows[table]:
            take(tally, table, columns, line)
        else:
            tally.rows[table] += 0
            monkeypatch.setattr(CopyTally, "count", take)

    monkeypatch.setattr(CopyTally, "count", lose_one)
    with pytest.raises(click.ClickException, match="differs from the database"):
        back_up(settings_for(database_url), file, quiet)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_breaks_off_leaves_the_database_empty(cluster: TestCluster, database_url: str, tmp_path: Path):
    file = tmp_path / "copy.dump"
    back_up(settings_for(database_url), file, quiet)
    data = file.read_bytes()
    file.write_bytes(data[: len(data) * 2 // 3])
    with cluster.database("template0") as empty:
        with pytest.raises(click.ClickException):
            bring_back(settings_for(empty), file, quiet)
        with psycopg.connect(empty) as connection:
            found = connection.execute("select count(*) from pg_tables where schemaname = 'public'").fetchone()
        assert found == (0,)


def test_the_figures_of_a_copy_are_those_of_its_rows():
    tally = CopyTally()
    lines = [
        b"COPY public.log_state (one, size) FROM stdin;\n",
        b"t\t7\n",
        b"\\.\n",
        b"COPY public.stream_heads (project_id, stream_id, kind, revision, chain) FROM stdin;\n",
        b"p\tz_1\tz\t2\t\\\\x02\n",
        b"p\ta_1\ta\t1\t\\\\x01\n",
        b"\\.\n",
    ]
    assert list(copies._counted(iter(lines), tally, lambda _: None)) == lines
    assert tally.rows == {"log_state": 1, "stream_heads": 2}
    assert tally.extent[:3] == (0, 7, 2)
    assert tally.extent.heads == copies.hash_heads(["p a_1 1 01", "p z_1 2 02"])[1]
