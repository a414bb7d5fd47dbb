"""Three weeks of a shop before the story of the demo begins: what its browsers and servers report, day by day."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from service.demo.theatre.scene import Scene
from service.demo.theatre.stage import Api
from tests.support.mappings import Segment, document

Json = dict[str, Any]
DAY = 86_400
DAYS = 21
RELEASES = {0: "web@2.7.0", 6: "web@2.8.0", 13: "web@2.9.0", 18: "web@2.9.1"}
"""The releases of the web pages, by the day of their deploy."""
PEOPLE = ("ada", "grace", "edsger", "barbara", "margaret", "katherine", "dorothy", "alan", "hedy", "mary", "annie")
SOURCE = """import { money } from "./money";
import type { Cart } from "./cart";

export function summary(cart: Cart): string {
  const lines = cart.lines.filter((line) => line.quantity > 0);
  const cheapest = lines.reduce((one, other) => (one.price < other.price ? one : other));
  return `${lines.length} things from ${money(cheapest.price)}`;
}

export function showSummary(root: HTMLElement, cart: Cart): void {
  root.querySelector(".summary")!.textContent = summary(cart);
}
"""
FILES = ("src/checkout/summary.ts", "src/checkout/page.ts")
PAGE = """import { showSummary } from "./summary";

addEventListener("cart:changed", (event) => {
  showSummary(document.body, (event as CartEvent).detail);
});
"""
BUNDLE, OTHER = "https://shop.example/assets/checkout.min.js", "https://shop.example/assets/shop.min.js"


class Fault(NamedTuple):
    """A fault of the shop: how often it shows on a day, and the record that tells of it."""

    days: Sequence[int]
    record: Json


def _browser(kind: str, message: str, *frames: tuple[str, int], file: str = BUNDLE) -> Json:
    placed = [{"file": file, "function": name, "line": 1, "column": column, "in_app": True} for name, column in frames]
    return {
        "level": "error",
        "message": message,
        "environment": "production",
        "tags": {"browser": "Firefox 146", "os": "Android 17", "locale": "en-GB"},
        "extra": {
            "exception": {"type": kind, "value": message, "frames": placed},
            "request": {"method": "GET", "url": "https://shop.example/cart"},
            "breadcrumbs": [
                {"category": "navigation", "level": "info", "message": "/tea to /cart"},
                {"category": "http", "level": "info", "message": "PATCH /api/cart 200 in 84 ms"},
                {"category": "ui.click", "level": "info", "message": "button.remove[aria-label='Remove Assam, 250 g']"},
            ],
        },
    }


def _server(kind: str, message: str, level: str, *frames: tuple[str, str, int]) -> Json:
    placed = [{"file": file, "function": name, "line": line, "in_app": True} for file, name, line in frames]
    exception = {"type": kind, "value": message, "frames": placed}
    return {"level": level, "message": message, "environment": "production", "extra": {"exception": exception}}


EMPTIED = Fault(
    (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 14, 11, 17, 21, 6, 4, 3),
    _browser(
        "TypeError", "Reduce of empty array with no initial value", ("summary", 118), ("showSummary", 204), ("", 311)
    ),
)
FAULTS = (
    EMPTIED,
    Fault(
        (2, 1, 3, 2, 2, 4, 9, 12, 7, 3, 2, 1, 2, 3, 2, 2, 1, 3, 2, 4, 2),
        _server("TimeoutError", "carrier did not answer within 5 s", "error", ("shipping.py", "quote", 41)),
    ),
    Fault(
        (0, 1, 0, 0, 1, 0, 0, 2, 0, 1, 0, 0, 0, 1, 0, 0, 2, 0, 0, 1, 1),
        _server("StockMismatch", "Assam, 250 g: 3 sold, 2 in stock", "warning", ("stock.py", "reserve", 88)),
    ),
    Fault(
        (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 8, 6),
        _server("IntegrityError", "duplicate key value violates orders_number", "fatal", ("orders.py", "save", 23)),
    ),
    Fault(
        (0, 0, 0, 1, 2, 1, 3, 1, 0, 0, 2, 1, 1, 0, 0, 1, 0, 2, 1, 0, 1),
        _browser("NetworkError", "Failed to fetch /api/recommendations", ("r", 702), file=OTHER),
    ),
)
VISITS = (31, 28, 35, 40, 52, 47, 30, 33, 36, 41, 44, 58, 51, 34, 37, 39, 43, 49, 61, 55, 38)
"""How many opened an account, by the day."""


def live_through(scene: Scene, days: int = DAYS) -> None:
    """Let the shop run for some days: its telemetry, its deploys, and the source maps of its newest pages."""
    dsn = Api(scene.world.base_url, scene.project["dsn"], scene.stage, "shop")
    _upload_maps(scene)
    release = RELEASES[0]
    for day in range(DAYS - days, DAYS):
        if day in RELEASES:
            release = RELEASES[day]
            dsn.call("POST", "/v1/deploys/", {"version": release, "environment": "production"}, expect=202, quiet=True)
        dsn.call("POST", "/v1/analytics/", list(_visits(day)), expect=(202, 207), quiet=True)
        dsn.call("POST", "/v1/logs/", list(_errors(day, release)), expect=(202, 207), quiet=True)
        scene.move_clock(DAY, "the next day in the shop.")
    dsn.close()
    _merge(scene)


def _merge(scene: Scene) -> None:
    """Merge cases of one title, as a person does: the first error of a release may come before its map was tried."""
    cases = scene.owner.call("GET", f"{scene.path}/cases", quiet=True)["cases"]
    largest: dict[str, Json] = {}
    for case in sorted(cases, key=lambda one: -int(one["event_count"])):
        into = largest.setdefault(case["title"], case)
        if into is not case:
            wish = {"into_case_id": into["case_id"], "case_revision": case["revision"]}
            scene.owner.call("POST", f"/v1/cases/{case['case_id']}/merge", wish, quiet=True)


def _visits(day: int) -> Iterator[Json]:
    for number in range(VISITS[day]):
        person = f"visitor-{day}-{number}"
        yield {"event": "account_opened", "distinct_id": person, "properties": {"plan_tier": "free"}}
        if number % 3:
            yield {"event": "item_added", "distinct_id": person, "properties": {"item": "tea", "quantity": 2}}
        if number % 3 == 1:
            yield {"event": "order_paid", "distinct_id": person, "properties": {"total_cents": 900, "lines": 1}}


def _errors(day: int, release: str) -> Iterator[Json]:
    for fault in FAULTS:
        for number in range(fault.days[day]):
            yield {**fault.record, "release": release, "user": {"id": PEOPLE[(day * 3 + number) % len(PEOPLE)]}}


def _upload_maps(scene: Scene) -> None:
    """Store the map of the bundle for each release: the columns above lead to these lines."""
    lines = [[
        Segment(0, 0, 3, 0),
        Segment(110, 0, 5, 25),
        Segment(200, 0, 10, 44),
        Segment(300, 1, 3, 2),
        Segment(700, 1, 2, 0),
    ]]  # fmt: skip
    body = json.loads(document(lines, FILES, sourcesContent=[SOURCE, PAGE]))
    for release in RELEASES.values():
        path = f"{scene.path}/source-maps?release={release}&source_url=~/assets/checkout.min.js"
        scene.owner.call("PUT", path, body, quiet=True)
