"""The plan of an account, what follows from it, and what is said of it (R-BILL-10, R-BILL-11, G-071)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import psycopg
import pytest

from projections.billing import SubscriptionRow
from service.billing import usage
from service.billing.plans import (
    Allowance,
    Held,
    Retention,
    days_kept,
    days_of_account,
    held_of,
    larger_plan,
    month_of,
    retention,
    standing_of,
)
from service.billing.usage import Notices, standing_in
from service.eventstore.schema import migrations
from service.jobs import purge_telemetry
from service.settingvalues import PLANS, Terms, plans
from tests.support.ingest import OTHER, OWNER, PROJECT, log_item, one, running, send, sender
from tests.support.olddatabases import NAMES, bring_back

OURS = plans(PLANS)
SOLD = Terms(OURS)
DAY = 86400


def row(status: str, plan: str, at: int, until: int | None = None) -> SubscriptionRow:
    return SubscriptionRow(
        project_id=OWNER, id=f"sub_{at}", revision=1, subscription_id=f"sub_{at}", customer_id=f"cus_{at}",
        status=status, plan=plan, current_period_end=until, created_at=at, updated_at=at,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([], Held("free", "none", None, None)),
        ([row("active", "pro", 5, 9)], Held("pro", "active", 9, "cus_5")),
        ([row("past_due", "pro", 5, 9)], Held("pro", "past_due", 9, "cus_5")),
        ([row("suspended", "pro", 5, 9)], Held("free", "past_due", None, "cus_5")),
        ([row("canceled", "", 5)], Held("free", "canceled", None, "cus_5")),
        ([row("active", "pro", 7), row("past_due", "scale", 5, 9)], Held("scale", "past_due", 9, "cus_5")),
        ([row("canceled", "", 7), row("active", "pro", 5, 9)], Held("pro", "active", 9, "cus_5")),
        ([row("canceled", "", 7), row("suspended", "pro", 5)], Held("free", "past_due", None, "cus_7")),
        ([row("active", "gold", 5)], Held("free", "active", None, "cus_5")),  # a plan that is sold no more
    ],
)
def test_the_largest_plan_that_is_paid_for_counts(rows: list[SubscriptionRow], expected: Held):
    assert held_of(rows, OURS) == expected


def test_the_next_larger_plan_is_recommended():
    assert [larger_plan(SOLD, name) for name in ("free", "pro", "scale")] == ["pro", "scale", None]


def subscribe(sql: Any, user_id: str, status: str, plan: str) -> None:
    sql.execute(
        "insert into subscriptions values (%s, 'sub_x', 1, 'sub_x', 'cus_x', %s, %s, null, 1, 1) "
        "on conflict (project_id, id) do update set status = excluded.status, plan = excluded.plan",
        (user_id, status, plan),
    )


async def test_telemetry_is_kept_as_long_as_the_account_that_pays_has_it(database_url: str, sql: Any, store: Any):
    """By the plan of each project's account; a payment that is late costs nobody their data, an end does."""
    services = cast(
        "Any", SimpleNamespace(settings=SimpleNamespace(terms=SOLD, database_url=database_url), store=store)
    )
    count = "select count(*) from log_events where project_id = %s"
    async with running(database_url) as intake:
        await send(intake, log_item("m"), log_item("m", of=sender(OTHER)))
    subscribe(sql, OWNER, "active", "pro")
    sql.execute("select advance_service_clock(%s)", (40 * DAY,))
    kept = await retention(store, SOLD)
    assert (kept.days, kept.longest) == ({PROJECT: 90, OTHER: 30}, 90)
    assert kept.payers[PROJECT] == OWNER
    await purge_telemetry(services, {})
    assert (one(sql, count, PROJECT), one(sql, count, OTHER)) == (1, 0)
    subscribe(sql, OWNER, "suspended", "pro")
    await purge_telemetry(services, {})
    assert one(sql, count, PROJECT) == 1
    subscribe(sql, OWNER, "canceled", "")
    await purge_telemetry(services, {})
    assert one(sql, count, PROJECT) == 0


SELF_HOSTED = Terms(OURS, self_hosted=True)


@pytest.mark.parametrize(
    ("older", "terms", "subscribed", "others"),
    [
        (False, SELF_HOSTED, 365, 90),
        (True, SELF_HOSTED, 365, 30),
        (False, SELF_HOSTED._replace(retention_days=7), 7, 7),
        (True, SELF_HOSTED._replace(retention_days=700), 700, 700),
        (False, SOLD._replace(retention_days=7), 365, 30),
        (True, SOLD, 365, 30),
    ],
)
async def test_a_self_hosted_installation_keeps_telemetry_as_it_says(
    sql: Any, store: Any, older: bool, terms: Terms, subscribed: int, others: int
):
    """90 days, or what accounts had before; a subscription from before is kept; one setting overrides both (G-203)."""
    sql.execute("update installation set before_self_hosted = %s", (older,))
    subscribe(sql, OWNER, "active", "scale")
    kept = await retention(store, terms)
    assert kept == Retention({PROJECT: subscribed, OTHER: others}, kept.payers, max(subscribed, others))
    for project, days in ((PROJECT, subscribed), (OTHER, others)):
        account = kept.payers[project]
        assert await days_kept(store, terms, project) == days
        assert await days_of_account(store, terms, account) == days
        standing = await standing_in(store, terms, account, month_of(0), 0)
        assert standing.allowance.retention_days == days
        assert (standing.allowance.cap is None) == terms.self_hosted


def test_an_installation_with_a_history_is_older_than_the_plan_self_hosted(database_url: str, empty_database_url: str):
    """A database of an earlier release is, one that is made now is not (G-203)."""
    bring_back(empty_database_url, NAMES[0])
    migrations.migrate(empty_database_url)
    found = []
    for url in (database_url, empty_database_url):
        with psycopg.connect(url) as connection:
            found += connection.execute("select before_self_hosted from installation").fetchall()
    assert found == [(False,), (True,)]


class Counting:
    """A store that counts what is read from it."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.reads = 0

    def __getattr__(self, name: str) -> Any:
        if name in {"fetch", "find", "now"}:
            self.reads += 1
        return getattr(self._store, name)


async def test_a_notice_is_read_twice_a_minute_at_most(sql: Any, store: Any, monkeypatch: pytest.MonkeyPatch):
    """However often it is asked for; and it follows the plan once its time is over."""
    now = one(sql, "select floor(extract(epoch from service_now()))::bigint")
    sql.execute(
        "insert into usage_days (project_id, account_id, day, errors, analytics, suppressed, scrubbed, "
        "last_received_at) values (%s, %s, %s, 100000, 0, 0, 0, %s)", (PROJECT, OWNER, now - now % DAY, now),
    )  # fmt: skip
    clock = [1000.0]
    monkeypatch.setattr(usage, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    counting = Counting(store)
    said = Notices(cast("Any", counting), SOLD)
    assert (await said.of(PROJECT, None)).locked
    read = counting.reads
    for _ in range(20):
        assert await said.of(PROJECT, "usr_member") == await said.of(None, OWNER)
    assert counting.reads == read
    subscribe(sql, OWNER, "active", "pro")
    clock[0] += usage.FRESH_SECONDS - 1
    assert (await said.of(PROJECT, None)).locked
    clock[0] += 2
    assert await said.of(PROJECT, None) == usage.NOTHING
    assert counting.reads > read


@pytest.mark.parametrize("sold", [False, True])
def test_a_due_payment_names_the_portal_only_where_one_opens(sold: bool):
    """An installation that sells nothing any more still says that a payment is due, and nothing that would fail."""
    standing = standing_of(month_of(0), [], Allowance("pro", 2_000_000, 90, 2900), 0)
    offer = usage.upgrade("scale", sold=sold)
    told = usage.status("usr_1", standing, Held("pro", "past_due", 9, "cus_1"), offer, sold=sold).next_action
    assert told.startswith("Tell the account holder that a payment is due")
    assert ("/v1/billing/portal" in told) == sold
    assert told.endswith(".")


def test_a_plan_of_the_house_is_recommended_to_nobody():
    """Checkout takes the two plans that the document names; another one larger than they is no upgrade."""
    ours = plans('{"house": {"events": 150000, "retention_days": 1, "price_cents": 0}}')
    assert [larger_plan(Terms(ours), name) for name in ("free", "house", "pro", "scale")] == [
        "pro",
        "pro",
        "scale",
        None,
    ]


async def test_what_cannot_be_read_is_not_said():
    class Broken:
        async def now(self) -> int:
            raise TimeoutError

        async def fetch(self, _: str, **values: Any) -> Any:
            raise TimeoutError

    said = Notices(cast("Any", Broken()), SOLD)
    assert await said.of("proj_1", None) == await said.of(None, "usr_1") == usage.NOTHING
