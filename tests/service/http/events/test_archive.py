"""The archive of a project over HTTP: all that is stored of it, as of one moment, and checkable by the verifier."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any

import httpx2
import psutil
import psycopg
import pytest

from service.archives import archive
from service.archives.archive import Archive, Archives
from service.archives.making import _ERRORS, FEW_BYTES, MOST_ROWS, SETTINGS, Contents, _Maker, make
from service.archives.spool import Spool
from service.eventstore.store import EventStore
from service.fairness.turns import ReadNotDone
from tests.support import archives
from tests.support.api import Person, World, ok, refused, world  # noqa: F401 (a fixture)
from tests.support.ending import held_at_the_fence

pytestmark = pytest.mark.shares_server

PATIENCE = 60
ROWS, ROW_BYTES = 400, 100_000
TELEMETRY = (
    "insert into analytics_events (project_id, received_at, id, event, distinct_id, properties) "
    "select %s, (select service_seconds()), 'evt_' || n, 'paid', 'u', jsonb_build_object('text', repeat('x', %s)) "
    "from generate_series(1, %s) n"
)
COMMENTS = (
    "insert into case_comments (project_id, id, revision, case_id, user_id, text, commented_at) "
    "select %s, 'cmt_' || n, 1, 'case_1', 'usr_1', %s, n from generate_series(1, %s) n"
)
AGENT_RUNS = (
    "insert into case_runs (project_id, id, revision, case_id, status, summary_md, recorded_at) "
    "select %s, 'arun_' || n, 1, 'case_1', 'failed', %s, n from generate_series(1, %s) n"
)
ERRORS = (
    "insert into log_events (project_id, received_at, id, level, message, environment, tags, extra, case_id, "
    "fingerprint) select %s, (select service_seconds()), 'evt_e' || n, 'error', %s, 'live', '{}', '{}', 'case_1', 'f' "
    "from generate_series(1, %s) n"
)
OF_SIZES = (
    "insert into log_events (project_id, received_at, id, level, message, environment, tags, extra, case_id, "
    "fingerprint) select %s, (select service_seconds()), 'evt_' || lpad(n::text, 6, '0'), 'error', repeat('x', size), "
    "'live', '{}', '{}', 'case_1', 'f' from unnest(%s::int[]) with ordinality o(size, n)"
)
LONGEST_LINE = 2 << 20
SESSIONS = "select count(*) from pg_stat_activity where application_name = 'service-archive' and datname = %s"


async def large(world: World) -> tuple[Person, dict[str, Any], str]:  # noqa: F811
    """An owner with a project whose archive is larger than what lies between a server and its client."""
    owner = await world.sign_in()
    project = await owner.create_project()
    await world.sql(TELEMETRY, project["id"], ROW_BYTES, ROWS)
    return owner, project, f"/v1/projects/{project['id']}/archive"


@asynccontextmanager
async def begun(who: Person, path: str) -> AsyncIterator[tuple[httpx2.Response, AsyncIterator[bytes]]]:
    """An archive of which the first piece was read."""
    async with who.client.stream("GET", path, headers={"authorization": f"Bearer {who.secret}"}) as answer:
        assert answer.status_code == 200, await answer.aread()
        pieces = answer.aiter_bytes()
        assert await anext(pieces)
        yield answer, pieces


async def figure(world: World, name: str) -> float:  # noqa: F811
    """A figure of /metrics, of all processes together."""
    text = (await world.get("/metrics")).text
    [line] = [line for line in text.splitlines() if line.startswith(f"{name} ")]
    return float(line.rpartition(" ")[2])


async def until(reached: Any) -> None:
    """Wait for what other processes do."""
    async with asyncio.timeout(PATIENCE):
        while not await reached():  # noqa: ASYNC110 - another process decides
            await asyncio.sleep(0.1)


def spools(world: World) -> list[str]:  # noqa: F811
    """The files without names that the processes of the server have open."""
    found = []
    for process in psutil.Process(world.server.process.pid).children(recursive=True):
        for place in Path(f"/proc/{process.pid}/fd").glob("*"):
            try:
                found += re.findall(r"/#\d+ \(deleted\)", str(place.readlink()))
            except OSError:
                continue
    return found


async def none_open(world: World) -> bool:  # noqa: F811
    return spools(world) == []


async def no_session(world: World) -> bool:  # noqa: F811
    """Whether nobody reads the database for an archive."""
    return await world.sql(SESSIONS, world.server.database_url.rpartition("/")[2]) == [(0,)]


async def test_it_holds_everything_and_verifies(
    world: World,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Telemetry of all kinds, what was packed too; no secret, nor the hash of one, is anywhere in it."""
    filled = await archives.fill(world, monkeypatch)
    answer = await filled.owner.get(filled.path)
    assert answer.headers["content-type"] == "application/x-tar"
    project_id = filled.project["id"]
    assert answer.headers["content-disposition"] == f'attachment; filename="{project_id}.tar"'
    files = archives.members(answer.content)
    manifest = json.loads(files["manifest.json"])
    assert [*files][-1] == "manifest.json"
    for part in manifest["parts"]:
        data = files[part["name"]]
        told = (part["sha256"], part["bytes"], part["lines"])
        assert told == (hashlib.sha256(data).hexdigest(), len(data), data.count(b"\n"))
    assert [part["name"] for part in manifest["parts"]] == [*files][:-1]

    shown: list[Any] = []
    while True:
        after = shown[-1]["position"] if shown else 0
        page = ok(await filled.owner.get(f"/v1/projects/{project_id}/events", params={"after": after, "limit": 200}))
        shown += page["events"]
        if not page["events"]:
            break
    events = archives.lines(files, "events")
    withheld = [event for event in events if event["payload"] is None]
    assert {event["topic"] for event in withheld} == {
        "project.created.v1",
        "project.dsn_rotated.v1",
        "credential.created.v1",
    }
    assert manifest["withheld"]["payloads"] == len(withheld) == 3
    held = [event for event in shown if event["position"] <= manifest["log_size"]]  # jobs may add more meanwhile
    for event, known in zip(events, held, strict=True):
        hashes = ("position", "stream_id", "revision", "leaf", "chain", "payload_hash")
        assert [event[name] for name in hashes] == [known[name] for name in hashes]
        assert event in withheld or (event["payload"], event["salt"]) == (known["payload"], known["salt"])
    assert (manifest["events"], manifest["first_position"]) == (len(events), events[0]["position"])

    cases = archives.lines(files, "cases")
    assert sorted(case["title"] for case in cases) == ["large", "small"]
    comments = archives.lines(files, "case_comments")
    assert [note["text"] for note in comments] == ["seen"]
    assert comments[0]["case_id"] in {case["id"] for case in cases}
    assert manifest["format"] == "service-archive-2"
    errors = archives.lines(files, "telemetry/errors")
    assert [(error["message"], error["extra"]) for error in errors] == [("small", {}), ("large", archives.LARGE)]
    assert [error["user"] for error in errors] == [{"id": "u1"}, None]
    assert {error["case_id"] for error in errors} == {case["id"] for case in cases}
    assert [event["event"] for event in archives.lines(files, "telemetry/analytics")] == ["paid"]
    assert "first" in [deploy["message"] for deploy in archives.lines(files, "telemetry/deploys")]
    assert [one["report"] for one in archives.lines(files, "reports")] == [{"summary": "a\nb"}]
    assert json.loads(files["proofs/run_proven.json"])["run_id"] == "run_proven"

    [[hashes]] = await world.sql(
        "select array_agg(v) from events e, jsonb_each_text(e.payload) p(k, v) where project_id = %s "
        "and k in ('dsn_hash', 'secret_hash', 'key_hash')",
        project_id,
    )
    assert len(hashes) == 3
    for secret in (*filled.secrets, *hashes):
        assert secret.encode() not in answer.content
        assert hashlib.sha256(secret.encode()).hexdigest().encode() not in answer.content
    place = tmp_path / "archive.tar"
    assert archives.verify(answer.content, place, *archives.keys_of(files)) == 0
    assert f"OK: {len(events)} events of project {project_id}" in capsys.readouterr().out
    assert archives.verify(answer.content, place) == 3
    spoilt = answer.content.replace(b'"title" : "small"', b'"title" : "smalL"')
    assert archives.verify(spoilt, place, *archives.keys_of(files)) == 1
    assert "WRONG: cases/000001.jsonl" in capsys.readouterr().out


async def test_who_may_read(world: World, tmp_path: Path) -> None:  # noqa: F811
    """Owners and auditors. A project without anything has an archive too."""
    owner = await world.sign_in()
    project = await owner.create_project()
    path = f"/v1/projects/{project['id']}/archive"
    stranger, member, auditor = [await world.sign_in() for _ in range(3)]
    await archives.add(world, project["id"], member, "member")
    await archives.add(world, project["id"], auditor, "auditor")
    refused(await member.get(path), 403, "owner_required")
    refused(await stranger.get(path), 404, "project_not_found")
    refused(await world.get(path), 401, "unauthenticated")
    refused(await owner.get("/v1/projects/proj_none/archive"), 404, "project_not_found")
    credential = world.having((await owner.create_credential(project["id"], "ci"))["credential"])
    refused(await credential.get(path), 403, "principal_not_allowed")
    answer = await auditor.get(path)
    assert archives.verify(answer.content, tmp_path / "a.tar", *archives.keys_of(archives.members(answer.content))) == 0
    head = await owner.call("HEAD", path)
    assert (head.status_code, head.content, head.headers["content-type"]) == (200, b"", "application/x-tar")
    await until(lambda: _answers(owner, path))


async def _answers(who: Person, path: str) -> bool:
    return (await who.get(path)).status_code == 200


async def test_a_slow_reader_holds_nothing_of_the_database(world: World, tmp_path: Path) -> None:  # noqa: F811
    """It is made at its own pace; meanwhile the account has no second one, and another account has its own."""
    owner, _, path = await large(world)
    other = await world.sign_in()
    theirs = await other.create_project()
    async with begun(owner, path) as (_, pieces):
        await until(lambda: no_session(world))
        again = refused(await owner.get(path), 429, "rate_limited")
        assert again["details"]["max_waiting"] == 1
        assert (await other.get(f"/v1/projects/{theirs['id']}/archive")).status_code == 200

        async def only_one_is_open() -> bool:
            return len(spools(world)) == 1

        await until(only_one_is_open)  # The file of the other is closed behind its answer.
        size = 0
        async for piece in pieces:
            size += len(piece)
        assert size > ROWS * ROW_BYTES
    await until(lambda: none_open(world))
    whole = await owner.get(path)
    assert archives.verify(whole.content, tmp_path / "a.tar") == 3
    assert len(archives.lines(archives.members(whole.content), "telemetry/analytics")) == ROWS


async def made(archive: Archive) -> None:
    """Wait until an archive is made."""

    async def done() -> bool:
        return archive._making is not None and archive._making.done()

    await until(done)


async def closed(held: Archives) -> None:
    """Wait until the files of all archives are closed: a loop that ends before leaves them open."""
    await asyncio.gather(*held._closing)


async def test_the_slowest_reader_makes_way_where_all_places_are_held(
    world: World,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A new archive begins. Without a slow reader it does not, and who reads all there is yet is none."""
    _, project, _ = await large(world)
    monkeypatch.setattr(archive, "MOST", 2)
    monkeypatch.setattr(archive, "SLOW_AFTER", 0.0)

    async def admitted() -> None:
        return None

    async def work(store: EventStore) -> None:
        held = Archives(store, tmp_path)
        slow, quick = [await held.begin(project["id"], name) for name in ("usr_slow", "usr_quick")]
        from_slow, from_quick = slow.pieces(admitted), quick.pieces(admitted)
        await made(slow)
        await made(quick)
        await anext(from_slow)
        for _ in range(5):
            await anext(from_quick)
        monkeypatch.setattr(archive, "SLOW_BYTES", 0)
        with pytest.raises(ReadNotDone):
            await held.begin(project["id"], "usr_new")
        monkeypatch.setattr(archive, "SLOW_BYTES", 1 << 60)
        new = await held.begin(project["id"], "usr_new")
        with pytest.raises(ReadNotDone):
            await anext(from_slow)
        assert sum([len(piece) async for piece in from_quick]) > 0
        assert not quick.is_slow, "nothing is left to take"
        for one in (quick, new):
            one.let_go()
        await closed(held)

    await world.operate(work)


async def test_a_small_archive_does_not_wait_for_the_whole_of_a_large_one(
    world: World,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rows are read in turn, also where one reads at a time."""
    owner, project, _ = await large(world)
    small = await owner.create_project("small")
    monkeypatch.setattr(archive, "MAKING", 1)

    async def work(store: EventStore) -> None:
        held = Archives(store, tmp_path)
        first = await held.begin(project["id"], "usr_large")

        async def begun_to_read() -> bool:
            return first.spool.size > ROW_BYTES

        await until(begun_to_read)
        second = await held.begin(small["id"], "usr_small")
        await made(second)
        assert first._making is not None
        assert not first._making.done()
        for one in (first, second):
            one.let_go()
        await closed(held)

    await world.operate(work)


async def test_a_client_that_goes_away_leaves_nothing(world: World) -> None:  # noqa: F811
    """Neither a file, nor a connection of the database, nor a place."""
    owner, _, path = await large(world)
    async with begun(owner, path):
        assert spools(world)
    await until(lambda: none_open(world))
    await until(lambda: no_session(world))
    await until(lambda: _answers(owner, path))


async def test_archives_show_in_the_metrics(world: World) -> None:  # noqa: F811
    """How many there are with their bytes on the disk, and how each ended."""
    made, written = 'service_archives_total{outcome="made"}', "service_archives_written_bytes_total"
    await until(lambda: none_open(world))
    owner, _, path = await large(world)
    before = await figure(world, made), await figure(world, written)
    async with begun(owner, path) as (_, pieces):

        async def shown() -> bool:
            held = await figure(world, "service_archives_held_bytes") > ROWS * ROW_BYTES
            return held and await figure(world, "service_archives_open") == 1

        await until(shown)
        async for _piece in pieces:
            pass
    await until(lambda: _equals(world, "service_archives_open", 0))
    await until(lambda: _equals(world, "service_archives_held_bytes", 0))
    await until(lambda: _equals(world, made, before[0] + 1))
    assert await figure(world, written) > before[1] + ROWS * ROW_BYTES
    assert await figure(world, "service_archives_making_seconds_total") > 0


async def _equals(world: World, name: str, value: float) -> bool:  # noqa: F811
    return await figure(world, name) == value


async def test_an_archive_breaks_off_for_a_reader_who_may_no_longer_read(world: World) -> None:  # noqa: F811
    """It has no end, so nobody takes it for a whole one."""
    owner, project, path = await large(world)
    auditor = await world.sign_in()
    await archives.add(world, project["id"], auditor, "auditor")
    async with begun(auditor, path) as (_, pieces):
        removed = await owner.call("DELETE", f"/v1/projects/{project['id']}/members/{auditor.user_id}")
        assert removed.is_success, removed.text
        with pytest.raises(httpx2.RemoteProtocolError):
            async for _piece in pieces:
                pass
    refused(await auditor.get(path), 404, "project_not_found")
    await until(lambda: none_open(world))


async def test_it_is_as_of_one_moment(world: World, tmp_path: Path) -> None:  # noqa: F811
    """While others write, cases and events are those of one snapshot, and every archive verifies."""
    owner = await world.sign_in()
    project = await owner.create_project()
    path = f"/v1/projects/{project['id']}/archive"
    going = True

    async def write(writer: int) -> None:
        number = 0
        while going:
            number += 1
            body = {"level": "error", "message": f"error {'abcdefghijklmnopqrstuvwxyz'[number % 26]}{writer}"}
            ok(await world.post("/v1/logs/", body, headers={"x-service-dsn": project["dsn"]}), 202)
            await owner.create_credential(project["id"], f"{writer}-{number}")

    writers = [asyncio.create_task(write(number)) for number in range(3)]
    try:
        sizes = []
        for _ in range(4):
            answer = await owner.get(path)
            files = archives.members(answer.content)
            assert archives.verify(answer.content, tmp_path / "a.tar", *archives.keys_of(files)) == 0
            manifest, events = json.loads(files["manifest.json"]), archives.lines(files, "events")
            opened = {event["stream_id"] for event in events if event["topic"] == "case.opened.v1"}
            cases = archives.lines(files, "cases")
            counted = sum(case["event_count"] for case in cases)
            assert counted == len(archives.lines(files, "telemetry/errors"))
            late = [left for left in manifest["left_out"] if "without a position" in left["what"]]
            assert late or opened == {case["id"] for case in cases}
            sizes.append(len(events))
        assert sizes == sorted(sizes)
        assert sizes[-1] > sizes[0]
    finally:
        going = False
        await asyncio.gather(*writers)


async def test_a_project_that_is_being_deleted_still_has_its_archive(world: World, tmp_path: Path) -> None:  # noqa: F811
    """Until its purge begins (G-131). One that is on its way by then has no end."""
    owner = await world.sign_in()
    project = await owner.create_project()
    path = f"/v1/projects/{project['id']}/archive"
    with held_at_the_fence(Path(world.server.env["SERVICE_DATA_DIR"]) / "erasures.jsonl"):
        fenced = await owner.call("DELETE", f"/v1/projects/{project['id']}", key="bye")
        assert fenced.status_code == 202, fenced.text
        answer = await owner.get(path)
        files = archives.members(answer.content)
        assert archives.verify(answer.content, tmp_path / "a.tar", *archives.keys_of(files)) == 0

    async def gone() -> bool:
        try:
            return (await owner.get(path)).status_code == 404
        except httpx2.RemoteProtocolError:
            return False

    await until(gone)


async def test_the_purge_of_a_project_breaks_its_archive_off(world: World) -> None:  # noqa: F811
    """An archive that a reader takes its time with is not sent to its end after the project is gone."""
    owner, project, path = await large(world)
    async with begun(owner, path) as (_, pieces):
        fenced = await owner.call("DELETE", f"/v1/projects/{project['id']}", key="bye")
        assert fenced.status_code in {200, 202}, fenced.text

        async def purged() -> bool:
            return (await owner.get(f"/v1/projects/{project['id']}/events")).status_code == 404

        await until(purged)
        with pytest.raises(httpx2.RemoteProtocolError):
            async for _piece in pieces:
                pass
    refused(await owner.get(path), 404, "project_not_found")
    await until(lambda: none_open(world))
    await until(lambda: no_session(world))


async def at_once(piece: Any) -> Any:
    """Write where it is called."""
    return piece()


async def written_to_disk(connection: psycopg.AsyncConnection[Any]) -> int:
    """Bytes that the queries of the database had no memory for."""
    await connection.execute("select pg_stat_force_next_flush()")
    query = "select temp_bytes from pg_stat_database where datname = current_database()"
    [[found]] = await (await connection.execute(query)).fetchall()
    return int(found)


async def test_what_is_read_at_once_is_bounded_before_it_is_read(world: World) -> None:  # noqa: F811
    """Many small rows, then many of the largest, and small ones between large ones: none is left out."""
    owner = await world.sign_in()
    project_id = (await owner.create_project())["id"]
    sizes = [*[10] * 200, *[1_000_000] * 20, *[10, 1_000_000] * 20, *[FEW_BYTES // 4] * 40, *[10] * 100]
    await world.sql(OF_SIZES, project_id, sizes)
    messages: list[int] = []
    counts: list[int] = []
    async with await psycopg.AsyncConnection.connect(world.server.database_url, autocommit=True) as connection:
        spool = Spool(None, 1 << 30)
        for setting in SETTINGS:
            await connection.execute(f"set {setting}".encode())
        before = await written_to_disk(connection)
        maker = _Maker(connection, spool, at_once, Contents(project_id), nullcontext)
        async with connection.transaction():
            tracemalloc.start()
            try:
                async for rows in maker.rows(_ERRORS):
                    read = [sum(len(value) for value in row if value) for row in rows]
                    assert len(read) == 1 or sum(read) <= FEW_BYTES, "fetched before it was known how large it is"
                    messages += [len(json.loads(text)["message"]) for text, _ in rows]
                    counts.append(len(rows))
                _, peak = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
        assert await written_to_disk(connection) == before, "the database keeps a few rows, and never all"
        spool.close()
    assert messages == sizes
    assert max(counts) == MOST_ROWS, "small ones come many at once"
    assert peak < 8_000_000


@pytest.mark.release
async def test_a_case_with_very_much_below_it_is_made_a_little_at_a_time(world: World) -> None:  # noqa: F811
    """Comments, runs of agents and errors of the largest sizes: each is a line, and few of them are in memory."""
    owner = await world.sign_in()
    project_id = (await owner.create_project())["id"]
    text, summary, error = "\u0001" * 5000, "\u0001" * 20_000, "x" * 1_000_000
    await world.sql(COMMENTS, project_id, text, 1000)
    await world.sql(AGENT_RUNS, project_id, summary, 500)
    await world.sql(TELEMETRY, project_id, 10, 2000)
    await world.sql(ERRORS, project_id, error, 60)
    spool = Spool(None, 1 << 30)

    async def no_pin(_: Any) -> None:
        return

    async with await psycopg.AsyncConnection.connect(world.server.database_url, autocommit=True) as connection:
        tracemalloc.start()
        try:
            await make(connection, project_id, spool, at_once, no_pin, nullcontext)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    files = archives.members(spool.read(0, spool.size))
    spool.close()
    assert len(archives.lines(files, "case_comments")) == 1000
    assert len(archives.lines(files, "case_runs")) == 500
    assert len(archives.lines(files, "telemetry/errors")) == 60
    told = [(name, max(map(len, data.splitlines()), default=0)) for name, data in files.items() if ".jsonl" in name]
    assert [one for one in told if one[1] > LONGEST_LINE] == []
    assert spool.size > 130_000_000
    assert peak < 80_000_000
