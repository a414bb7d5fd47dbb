"""The local adapter over our own telemetry (G-032)."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from service.analytics.metadata import ROWS_PER_EVENT, ErrorProbe, EventProbe
from statemachines.kernel.machine import ReadFailed
from statemachines.onboarding.proof import ErrorSighting, EventSighting
from tests.support.telemetry import END, OTHER, OURS, PROJECT, START, THEIRS, Telemetry
from tests.support.telemetry import telemetry as telemetry  # noqa: PLC0414 (a fixture is found by name)

EVENTS = EventProbe(("order_created", "order_paid"), ("amount", "note"), OURS, START - 7200, END + 7200)
ERRORS = ErrorProbe("payment_declined", ("decline_code",), OURS, START - 7200, END + 7200)


async def test_marked_rows_of_the_project_are_found(telemetry: Telemetry) -> None:
    """Rows under the marker with the asked properties, and strays under other markers; nothing unmarked or foreign."""
    telemetry.event("order_paid", START, OURS, amount=0, note="x" * 5000, secret="not asked for")
    telemetry.event("order_paid", START + 1, THEIRS, amount=1)
    telemetry.event("order_paid", START + 2, THEIRS, amount=1)
    telemetry.event("order_paid", START, None, amount=1)
    telemetry.event("order_paid", START, OURS, OTHER, amount=1)
    telemetry.event("other", START, OURS, amount=1)
    telemetry.event("order_created", START - 7201, OURS, amount=1)
    telemetry.event("order_created", END + 7200, OURS, amount=1)
    telemetry.event("order_created", START - 7200, OURS)
    found = await telemetry.analytics.proof_events(EVENTS)
    assert not isinstance(found, ReadFailed)
    assert sorted(found, key=lambda row: (row.event, row.received_at)) == [
        EventSighting("order_created", START - 7200, (OURS,), {}),
        EventSighting("order_paid", START, (OURS,), {"amount": 0, "note": True}),
        EventSighting("order_paid", START + 2, (THEIRS,), {}),
    ]


@pytest.mark.parametrize("value", [None, "", [], {}, 0, False, "x", {"a": 1}, "✓" * 90])
async def test_values_keep_what_matters_of_them(telemetry: Telemetry, value: Any) -> None:
    """A value that is not long comes as it was sent, so that empty and zero stay apart."""
    telemetry.event("order_paid", START, OURS, amount=value)
    [row] = await telemetry.analytics.proof_events(EVENTS)  # type: ignore[misc]
    assert row.properties == {"amount": value if len(json.dumps(value, ensure_ascii=False).encode()) <= 200 else True}


async def test_a_busy_event_is_read_up_to_its_bound(telemetry: Telemetry) -> None:
    """The newest rows are looked at, and one event leaves room for the next."""
    telemetry.connection.execute(
        "insert into analytics_events select %s, %s + n, 'evt_' || n, 'order_paid', 'x', '{}', %s "
        "from generate_series(1, %s) n",
        (PROJECT, START, OURS, ROWS_PER_EVENT + 50),
    )
    telemetry.event("order_created", START, OURS)
    found = await telemetry.analytics.proof_events(EVENTS)
    assert not isinstance(found, ReadFailed)
    paid = [row.received_at for row in found if row.event == "order_paid"]
    assert len(paid) == ROWS_PER_EVENT
    assert min(paid) == START + 51
    assert [row.event for row in found].count("order_created") == 1


async def test_marked_errors_that_show_the_failure_are_found(telemetry: Telemetry) -> None:
    """In tags, extra or message; errors only, of this project only; the asked context and nothing else of them."""
    context = {"decline_code": "51", "unasked": "x"}
    telemetry.error("boom", START, OURS, tags={"failure_marker": "payment_declined", **context})
    telemetry.error("boom", START + 1, OURS, "fatal", extra={"failure_marker": "payment_declined", **context})
    telemetry.error("a payment_declined b", START + 2, OURS, user={"id": "u", "decline_code": "52"})
    telemetry.error("payment_declined", START + 3, THEIRS, tags=context)
    telemetry.error("payment_declined", START, OURS, "warning", tags=context)
    telemetry.error("payment_declined", START, None, tags=context)
    telemetry.error("something else", START, OURS, tags=context)
    telemetry.error("payment_declined", START, OURS, tags=context, project=OTHER)
    found = await telemetry.analytics.proof_errors(ERRORS)
    assert not isinstance(found, ReadFailed)
    code = {"decline_code": "51"}
    assert sorted(found, key=lambda row: row.received_at) == [
        ErrorSighting("boom", START, (OURS,), {"failure_marker": "payment_declined", **code}, {}, {}),
        ErrorSighting("boom", START + 1, (OURS,), {}, {"failure_marker": "payment_declined", **code}, {}),
        ErrorSighting("a payment_declined b", START + 2, (OURS,), {}, {}, {"decline_code": "52"}),
        ErrorSighting("payment_declined", START + 3, (THEIRS,), code, {}, {}),
    ]


async def test_wildcards_and_quotes_are_text(telemetry: Telemetry) -> None:
    """A marker is compared, never interpreted (R-ONB-10)."""
    for marker in ("100%", "a_b", "o'neil", '"', "\\", "{}"):
        telemetry.error(f"<{marker}>", START, OURS)
        probe = msgspec.structs.replace(ERRORS, failure_marker=marker)
        found = await telemetry.analytics.proof_errors(probe)
        assert not isinstance(found, ReadFailed)
        assert [row.message for row in found] == [f"<{marker}>"]
        telemetry.connection.execute("delete from log_events")
        telemetry.error("1000 axb oneil", START, OURS)
        assert await telemetry.analytics.proof_errors(probe) == []
        telemetry.connection.execute("delete from log_events")


async def test_a_read_that_takes_too_long_has_failed(telemetry: Telemetry) -> None:
    """A lock that does not go away ends the read by its time limit, as a failure."""
    async with telemetry.store.connection() as connection:
        await connection.execute("set statement_timeout = '50ms'")
    with telemetry.connection.transaction():
        telemetry.connection.execute("lock table analytics_events in access exclusive mode")
        assert await telemetry.analytics.proof_events(EVENTS) == ReadFailed("timeout")
    assert await telemetry.analytics.proof_events(EVENTS) == []
