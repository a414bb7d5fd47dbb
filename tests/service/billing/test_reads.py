"""Usage by account, project and day: each accepted record once, for whoever paid then (R-ING-12, R-BILL-01)."""

from __future__ import annotations

from service.billing.plans import account_of, account_usage, events_since, last_event_received_at, project_usage
from tests.support.ingest import OTHER, OWNER, PROJECT, analytics_item, log_item, one, running, send, sender
from tests.support.list_plans import watched

DAY = 86400
EVER = (0, 1 << 40)


def midnight(sql):
    return one(sql, "select floor(extract(epoch from service_now()) / 86400)::bigint * 86400")


def deploy(sql, day, project_id=PROJECT, account_id=OWNER):
    sql.execute(
        "insert into usage_deploys values (%s, 'dep_' || gen_random_uuid(), %s, %s, 0)", (project_id, account_id, day)
    )


async def test_days_add_up_over_kinds_and_projects(database_url, sql, store):
    sql.execute("update memberships set user_id = %s where project_id = %s", (OWNER, OTHER))
    async with running(database_url) as intake:
        await send(
            intake, log_item("m"), log_item("m", level="info"), analytics_item(), log_item("m", of=sender(OTHER))
        )
        first = midnight(sql)
        sql.execute("select advance_service_clock(%s)", (2 * DAY,))
        await send(intake, analytics_item(), analytics_item())
    deploy(sql, first)
    deploy(sql, first + 3 * DAY, OTHER)
    assert await project_usage(store, PROJECT, *EVER) == [(first, 2, 1, 1), (first + 2 * DAY, 0, 2, 0)]
    assert await project_usage(store, OTHER, *EVER) == [(first, 1, 0, 0), (first + 3 * DAY, 0, 0, 1)]
    everything = [(first, 3, 1, 1), (first + 2 * DAY, 0, 2, 0), (first + 3 * DAY, 0, 0, 1)]
    assert await account_usage(store, OWNER, *EVER) == everything
    assert await account_usage(store, OWNER, first + DAY, first + 2 * DAY) == everything[1:2]
    assert await account_usage(store, "usr_nobody", *EVER) == []


async def test_usage_stays_with_who_paid_then(database_url, sql, store):
    """A new first owner pays from then on, and a project that goes takes nothing back."""
    async with running(database_url) as intake:
        await send(intake, log_item("m"))
        sql.execute("update memberships set user_id = 'usr_later' where project_id = %s", (PROJECT,))
        await send(intake, log_item("m"), log_item("m"))
    sql.execute("delete from projects where project_id = %s", (PROJECT,))
    assert [day.errors for day in await account_usage(store, OWNER, *EVER)] == [1]
    assert [day.errors for day in await account_usage(store, "usr_later", *EVER)] == [2]


async def test_the_account_is_the_first_owner(sql, store):
    assert await account_of(store, PROJECT) == OWNER
    sql.execute("insert into memberships values (%s, 'mem_a', 1, 'usr_member', 'member', -9)", (PROJECT,))
    sql.execute("insert into memberships values (%s, 'mem_b', 1, 'usr_second', 'owner', 9)", (PROJECT,))
    assert await account_of(store, PROJECT) == OWNER
    sql.execute("delete from memberships where user_id = %s", (OWNER,))
    assert await account_of(store, PROJECT) == "usr_second"
    sql.execute("delete from memberships where project_id = %s", (PROJECT,))
    assert await account_of(store, PROJECT) == OWNER
    assert await account_of(store, "proj_unknown1") == ""


async def test_a_project_shows_whether_data_arrives(database_url, sql, store):
    assert await last_event_received_at(store, PROJECT) is None
    assert await events_since(store, PROJECT, 0) == 0
    async with running(database_url) as intake:
        [first] = await send(intake, log_item("m", level="debug"))
        sql.execute("select advance_service_clock(100)")
        [second] = await send(intake, analytics_item())
    assert await last_event_received_at(store, PROJECT) == second["received_at"]
    assert await events_since(store, PROJECT, first["received_at"] - 1) == 2
    assert await events_since(store, PROJECT, first["received_at"]) == 1
    assert await events_since(store, OTHER, 0) == 0


async def test_usage_of_one_looks_at_no_days_of_others(database_url, sql):
    """However many accounts there are: of each table about what is summed up, with either kind of plan (P25)."""
    for table, columns, values in (
        ("usage_days", "errors, analytics, suppressed, scrubbed, last_received_at", "1, 1, 0, 0, 1"),
        ("usage_deploys", "id, scrubbed", "'dep_' || n, 0"),
    ):
        sql.execute(
            f"insert into {table} (project_id, account_id, day, {columns}) "
            f"select 'proj_' || n % 100, 'usr_' || n % 50, n / 100 * {DAY}, {values} from generate_series(0, 29999) n"
        )
        sql.execute(f"analyze {table}")
    month = (100 * DAY, 130 * DAY)
    async with watched(database_url) as looking:
        await account_usage(looking, "usr_7", *month)
        await project_usage(looking, "proj_7", *month)
        assert len(looking.seen) == 4
        # Of 60,000 rows: 62 days of either table for the account, 31 for the project; twice where a bitmap is made.
        assert [124 <= rows <= 248 for rows, _ in looking.seen[:2]] == [True] * 2, looking.seen
        assert [62 <= rows <= 124 for rows, _ in looking.seen[2:]] == [True] * 2, looking.seen
