"""Telemetry to copy, written as a flush would have written it, and what the copy has of it.

As a program, `copied URL ENGINE`, it is a shipper to be killed: a line for each of its steps.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

from service.billing.plans import Retention
from service.copy import batches
from service.copy.batches import RecordKey
from service.copy.engine import SHAPES, Engine, Measure, measure_of
from service.copy.shipping import Shipping
from service.eventstore.connect.connection import Connection, connect
from service.packing import pack
from tests.support.ingest import OTHER, PROJECT, Sql

KEPT = Retention({PROJECT: 365, OTHER: 30}, {}, 365)
DAY = 86400
_HASH = "reinterpretAsUInt64(substring(SHA256(arrayStringConcat([{fields}], '\\0')), 1, 8))"
_EVENTS = """
insert into analytics_events (project_id, received_at, id, event, distinct_id, properties, marker_hash, adjusted,
    public, occurred_at)
select %s, %s, %s || n, 'event' || n %% 3, 'person' || n %% 5,
    jsonb_build_object('n', n, 'text', E'"\\\\ \\u00fc\\u0001'),
    case when n %% 7 = 0 then 'f00' end, case when n %% 5 = 0 then '["text"]'::jsonb end, n %% 2 = 0,
    case when n %% 4 = 0 then %s - n end
from generate_series(1, %s) n
"""
_LOGS = """
insert into log_events (project_id, received_at, id, level, message, environment, release, user_id, user_data, tags,
    extra, packed, case_id, fingerprint, grouped_by, marker_hash, public, occurred_at)
select %s, %s, %s || n, 'error', E'boom\\t\\u001f ' || n, 'production', case when n %% 2 = 0 then '1.0' end,
    case when n %% 3 = 0 then 'person' || n %% 5 end, case when n %% 3 = 0 then '{"email": "a@b.example"}'::jsonb end,
    '{"a": "b"}', '{}', case when n %% 3 = 1 then %s end, 'case_1', 'f', 'v1', null, false, null
from generate_series(1, %s) n
"""


def put_events(sql: Sql, at: int, number: int, project: str = PROJECT, prefix: str = "e") -> None:
    """Insert events of a second."""
    sql.execute(_EVENTS.encode(), (project, at, f"{prefix}{at}-", at, number))


def put_logs(sql: Sql, at: int, number: int, project: str = PROJECT) -> None:
    """Insert errors of a second. Some are packed."""
    packed = pack({"trace": "é\u2028" * 800})
    assert packed is not None
    sql.execute(_LOGS.encode(), (project, at, f"l{at}-", packed, number))


def now_of(sql: Sql) -> int:
    """The service's time."""
    [[now]] = sql.execute("select service_seconds()").fetchall()
    return int(now)


def shipping(connection: Connection, engine: Engine, since: int = 0) -> Shipping:
    """A shipper that has begun."""
    made = Shipping(connection, engine, lambda: KEPT)
    made.begin(since)
    return made


def ship_all(working: Shipping, steps: int = 200) -> None:
    """Ship until there is nothing more."""
    for _ in range(steps):
        if not working.step():
            return
    raise AssertionError("there is always more")


def in_postgres(connection: Connection, until: int) -> dict[str, Measure]:
    """All rows before a second, measured, by table."""
    found = {}
    for table in SHAPES:
        [[first]] = connection.execute(f"select coalesce(min(received_at), 0) from {table}".encode()).fetchall()
        rows: list[batches.Row] = []
        for day in range(first - first % DAY, until, DAY):
            rows += batches.read(connection, table, RecordKey(day), RecordKey(min(day + DAY, until)))[0]
        found[table] = measure_of(rows)
    return found


def in_copy(engine: Engine) -> dict[str, Measure]:
    """All rows of the copy, measured, by table."""
    found = {}
    for table in SHAPES:
        query = f"select count(), sum({_HASH}) from {table}"
        [[rows, digest]] = engine._ask(query.replace("{fields}", SHAPES[table].fields))
        found[table] = Measure(int(rows), int(digest))
    return found


def manifests(sql: Sql) -> Iterable[tuple[str, int, int]]:
    """The batches: table, number, rows."""
    return sql.execute("select telemetry, number, rows from telemetry_batches order by 1, 2").fetchall()


def main(url: str, engine: str) -> None:
    """Ship until the end, or until it is killed."""
    with connect(url, application="service-copy") as connection:
        batches.adapt(connection)
        working = shipping(connection, Engine(engine))
        while True:
            print("step", flush=True)
            if not working.step():
                break
    print("end", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
