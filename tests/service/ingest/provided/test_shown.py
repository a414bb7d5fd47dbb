"""What is shown of cases that a connected provider feeds: trend, source, most frequent errors, console (G-182)."""

from __future__ import annotations

from typing import Any

from tests.service.ingest.provided.conftest import Watched
from tests.support.api import ok
from tests.support.console import browser_of
from tests.support.provider import FakeProvider
from tests.support.provider.exceptions import exception

FRAMES = [{"file": "pay.py", "function": "pay", "in_app": True, "filename": "app/pay.py"}]
SAME = {
    "message": "missing",
    "level": "error",
    "environment": "production",
    "extra": {"exception": {"type": "KeyError", "value": "missing", "frames": FRAMES}},
}


async def feed(watched: Watched, provider: FakeProvider) -> dict[str, str]:
    """Two cases by DSN, one of them known to the provider as well, and one of the provider alone. Ids by source."""
    product = watched.world.having(watched.onb.dsn)
    local = ok(await product.post("/v1/logs/", {"message": "of ours", "level": "error"}), 202)["case_id"]
    both = ok(await product.post("/v1/logs/", {**SAME, "user": {"id": "ann"}}), 202)["case_id"]
    for number in range(3):
        provider.capture("$exception", provider.now - 5, **exception())
        provider.capture("$exception", provider.now - 5, **exception("Alone", distinct_id=f"p{number % 2}"))
    assert await watched.look() == 6
    [alone] = [case["case_id"] for case in await watched.cases() if case["case_id"] not in {local, both}]
    return {"local": local, "both": both, "provider_cloud": alone}


async def answers(watched: Watched, **params: Any) -> list[dict[str, Any]]:
    """Rows of top-errors."""
    path = f"/v1/projects/{watched.onb.project_id}/query-blueprints/top-errors/run"
    table = ok(await watched.onb.owner.post(path, {"params": params}))
    assert [column["name"] for column in table["columns"]][-1] == "source"
    rows: list[dict[str, Any]] = table["rows"]
    return rows


async def test_lists_and_most_frequent_errors_name_the_source(watched: Watched, provider: FakeProvider) -> None:
    """Of an error known by both ways, the greater number counts."""
    ids = await feed(watched, provider)
    assert {case["source"]: case["case_id"] for case in await watched.cases()} == ids
    rows = await answers(watched)
    told = {row["source"]: (row["case_id"], row["error_count"], row["users_affected"]) for row in rows}
    assert told == {
        "local": (ids["local"], 1, 0),
        "both": (ids["both"], 3, 1),
        "provider_cloud": (ids["provider_cloud"], 3, 2),
    }
    assert await answers(watched, environment="staging") == []
    await watched.world.wait(86_400)
    assert [row["error_count"] for row in await answers(watched, days=2)] == [3, 3, 1]
    assert await answers(watched, days=1) == []


async def test_the_trend_has_what_the_provider_counted(watched: Watched, provider: FakeProvider) -> None:
    """On the page of the case and in the list, by the day. With both ways, the greater number of a day."""
    ids = await feed(watched, provider)
    numbers = {"local": 1, "both": 3, "provider_cloud": 3}
    listed = ok(await watched.onb.owner.get(f"/v1/projects/{watched.onb.project_id}/cases?trend=true"))["cases"]
    in_list = {case["source"]: sum(one["events"] for one in case["trend"]["buckets"]) for case in listed}
    on_page = {
        source: sum(one["events"] for one in (await watched.case(case_id))["trend"]["buckets"])
        for source, case_id in ids.items()
    }
    assert (in_list, on_page) == (numbers, numbers)
    [case] = [case for case in listed if case["source"] == "provider_cloud"]
    assert (await watched.case(case["case_id"]))["trend"]["buckets"] == case["trend"]["buckets"]


async def test_the_console_names_the_source_and_how_far_was_read(watched: Watched, provider: FakeProvider) -> None:
    """In the list, on the page of a case, and on the overview of the project."""
    browser = await browser_of(watched.onb.owner)
    project = f"projects/{watched.onb.project_id}"
    before = (await browser.open(project)).text
    assert "No error has come yet" in before
    assert "not read yet" in before
    ids = await feed(watched, provider)
    listed = (await browser.open(f"{project}/cases")).text
    assert listed.count("from the connected provider") == 2
    assert listed.count("by DSN and from the connected provider") == 1
    for source, words in (
        ("local", "by DSN"),
        ("both", "by DSN and from the connected provider"),
        ("provider_cloud", "from the connected provider"),
    ):
        assert words in (await browser.open(f"cases/{ids[source]}")).text
    assert "keeps this sample and the counts" in (await browser.open(f"cases/{ids['provider_cloud']}")).text
    after = (await browser.open(project)).text
    assert "No error has come yet" not in after
    assert "read up to" in after
    await watched.world.wait(700)
    assert "were not read for ten minutes" in (await browser.open(project)).text
