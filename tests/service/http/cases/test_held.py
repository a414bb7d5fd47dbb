"""All that an error holds is shown, whoever reports it, and no secret of any form is in it (G-033, G-135, G-176)."""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

import httpx2
import pytest

from service.packing import unpack
from tests.support.api import World, ok
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)
from tests.support.erring import erring_shop
from tests.support.sentry import of_event

pytestmark = pytest.mark.shares_server

# As the protocol of Sentry's events documents the members of these SDKs.
DOTNET: dict[str, Any] = {
    "platform": "csharp",
    "server_name": "WEB-04",
    "transaction": "POST /orders",
    "logger": "Shop.Orders",
    "release": "shop@3.1.0",
    "dist": "77",
    "fingerprint": ["{{ default }}", "orders"],
    "contexts": {
        "runtime": {"name": ".NET", "version": "8.0.4"},
        "os": {"name": "Windows", "version": "10.0.20348"},
        "device": {"arch": "X64", "processor_count": 8},
        "app": {"app_start_time": "2026-11-28T08:00:00Z"},
        "trace": {"trace_id": "a" * 32, "span_id": "b" * 16},
        "Order": {"number": 17},
    },
    "extra": {"basket": ["pear"]},
    "exception": [
        {
            "type": "System.InvalidOperationException",
            "value": "No stock",
            "module": "System.Private.CoreLib",
            "stacktrace": {
                "frames": [
                    {
                        "function": "void Orders.Place(Order order)",
                        "module": "Shop.Orders",
                        "package": "Shop, Version=3.1.0.0",
                        "instruction_addr": "0x2a",
                        "in_app": True,
                        "vars": {"order": "l0cal-value"},
                    }
                ]
            },
        }
    ],
    "sdk": {"name": "sentry.dotnet", "version": "4.2.1"},
}
JAVA: dict[str, Any] = {
    "platform": "java",
    "server_name": "pod-7",
    "transaction": "OrderController.place",
    "logger": "shop.Orders",
    "contexts": {"runtime": {"name": "OpenJDK", "version": "21"}, "os": {"name": "Linux"}, "spring": {"active": "eu"}},
    "extra": {"thread": "http-nio-1"},
    "exception": {
        "values": [
            {
                "type": "IllegalStateException",
                "value": "Closed",
                "module": "java.lang",
                "stacktrace": {
                    "frames": [
                        {"filename": "Orders.java", "function": "place", "module": "shop.Orders", "lineno": 3,
                         "in_app": True},
                    ]
                },
            }
        ]
    },
    "sdk": {"name": "sentry.java.spring-boot", "version": "7.8.0"},
}  # fmt: skip
COCOA: dict[str, Any] = {
    "platform": "cocoa",
    "dist": "12",
    "contexts": {
        "device": {"family": "iPhone", "model": "iPhone15,2"},
        "os": {"name": "iOS", "version": "17.4"},
        "app": {"app_identifier": "example.shop"},
        "trace": {"trace_id": "c" * 32},
    },
    "exception": {
        "values": [
            {
                "type": "NSRangeException",
                "value": "Out of bounds",
                "stacktrace": {
                    "frames": [
                        {"function": "place", "package": "/Shop.app/Shop", "instruction_addr": 4294967296,
                         "in_app": True},
                    ]
                },
            }
        ]
    },
    "sdk": {"name": "sentry.cocoa", "version": "8.24.0"},
}  # fmt: skip
PHP: dict[str, Any] = {
    "platform": "php",
    "server_name": "web-2",
    "transaction": "/orders/{id}",
    "contexts": {"runtime": {"name": "php", "version": "8.3"}, "os": {"name": "Linux"}},
    "request": {
        "method": "POST",
        "url": "https://shop.example/orders?sort=up&access_token=qu3ry",
        "headers": [["Cookie", "c00kie"], ["Authorization", "Bearer h34der"], ["Host", "shop.example"]],
        "cookies": {"id": "c00kie"},
        "env": {"REMOTE_ADDR": "203.0.113.7", "HTTP_COOKIE": "c00kie"},
        "data": '{"password": "b0dy", "amount": 3}',
    },
    "exception": [{"type": "LogicException", "value": "No"}],
    "sdk": {"name": "sentry.php", "version": "4.7.0"},
}


async def report(world: World, shop: Any, event: dict[str, Any]) -> dict[str, Any]:
    """Send an event as an SDK of Sentry does; returns the error as it is shown."""
    dsn = httpx2.URL(ok(await shop.owner.get(f"/v1/projects/{shop.id}/dsn"))["sdks"]["sentry_dsn"])
    auth = {"x-sentry-auth": f"Sentry sentry_key={dsn.username}, sentry_version=7"}
    body = of_event({"level": "error", **event, "event_id": uuid4().hex})
    ok(await world.call("POST", f"/api{dsn.path}/envelope/", content=body, headers=auth))
    return await latest(world, shop)


async def latest(world: World, shop: Any) -> dict[str, Any]:
    """The error that was stored last."""
    query = "select case_id, id from log_events where project_id = %s order by id desc limit 1"
    [(case_id, event_id)] = await world.sql(query, shop.id)
    found: dict[str, Any] = ok(await shop.owner.get(f"/v1/cases/{case_id}/events/{event_id}"))
    return found


async def stored(world: World, shop: Any) -> str:
    """All that is stored of the errors, unpacked."""
    rows = await world.sql("select row_to_json(e)::text, packed from log_events e where project_id = %s", shop.id)
    return "".join(row + ("" if packed is None else json.dumps(unpack(packed))) for row, packed in rows)


@pytest.mark.parametrize("event", [DOTNET, JAVA, COCOA, PHP], ids=["dotnet", "java", "cocoa", "php"])
async def test_an_event_of_sentry_shows_all_that_it_holds(world: World, event: dict[str, Any]):
    shop = await erring_shop(world)
    shown = await report(world, shop, event)
    for name in ("contexts", "transaction", "server_name", "logger", "platform", "dist", "fingerprint", "extra"):
        assert shown.get(name) == event.get(name), name
    assert {name: shown["sdk"][name] for name in event["sdk"]} == event["sdk"]
    told = event["exception"]["values"] if isinstance(event["exception"], dict) else event["exception"]
    for frame, sent in zip(shown["frames"], told[-1].get("stacktrace", {}).get("frames", []), strict=True):
        address = sent.get("instruction_addr")
        assert (frame["module"], frame["package"], frame["in_app"]) == (sent.get("module"), sent.get("package"), True)
        assert frame["instruction_addr"] == (hex(address) if isinstance(address, int) else address)
    page = await shop.browser.open(f"cases/{shown['case_id']}")
    kept = [event.get(name) for name in ("transaction", "server_name", "logger", "dist")]
    runtime = event["contexts"].get("runtime", {}).get("name")
    for word in filter(
        None, [*kept, event["contexts"]["os"]["name"], runtime, event["sdk"]["name"], "Operating system"]
    ):
        assert word in page.text, word
    assert "l0cal-value" not in json.dumps(shown) + page.html


async def test_an_event_of_posthog_shows_its_contexts(world: World):
    shop = await erring_shop(world)
    key = ok(await shop.owner.get(f"/v1/projects/{shop.id}/dsn"))["sdks"]["posthog_key"]
    senders: list[tuple[dict[str, Any], dict[str, Any]]] = [
        (
            {"$os": "Mac OS X", "$os_version": "14.4", "$browser": "Chrome", "$browser_version": 123, "$lib": "web",
             "$device_type": "Desktop", "$current_url": "https://shop.example/pay", "plan": "team"},
            {"os": {"name": "Mac OS X", "version": "14.4"}, "browser": {"name": "Chrome", "version": 123},
             "device": {"type": "Desktop"}},
        ),
        (
            {"$os": "Linux", "$python_runtime": "CPython", "$python_version": "3.12", "$lib": "posthog-python"},
            {"os": {"name": "Linux"}, "runtime": {"name": "CPython", "version": "3.12"}},
        ),
        (
            {"$os": "iOS", "$device_model": "iPhone15,2", "$app_name": "Shop", "$app_build": "7", "$lib": "ios"},
            {"os": {"name": "iOS"}, "device": {"model": "iPhone15,2"}, "app": {"name": "Shop", "build": "7"}},
        ),
    ]  # fmt: skip
    for number, (properties, contexts) in enumerate(senders):
        frames = [{"function": "pay", "module": "shop", "package": "Shop", "instruction_addr": "0x1f", "in_app": True,
                   "code_variables": {"card": "l0cal"}}]  # fmt: skip
        listed = [{"type": f"E{number}", "value": "v", "stacktrace": {"type": "raw", "frames": frames}}]
        sent = {"event": "$exception", "distinct_id": "u1", "properties": {**properties, "$exception_list": listed}}
        answer = await world.call("POST", "/batch/", content=json.dumps({"api_key": key, "batch": [sent]}).encode())
        assert answer.status_code == 200, answer.text
        shown = await latest(world, shop)
        assert shown["contexts"] == contexts
        assert (shown["sdk"]["name"], shown["extra"]["$os"]) == (properties["$lib"], properties["$os"])
        [frame] = shown["frames"]
        assert (frame["module"], frame["package"], frame["instruction_addr"]) == ("shop", "Shop", "0x1f")
        assert (shown.get("request") or {}).get("url") == properties.get("$current_url")
        assert "l0cal" not in json.dumps(shown)


async def test_a_record_of_opentelemetry_shows_its_contexts(world: World):
    shop = await erring_shop(world)
    resource = {"service.name": "shop", "host.name": "web-9", "os.type": "linux", "process.runtime.name": "go",
                "process.runtime.version": "1.22", "telemetry.sdk.name": "opentelemetry",
                "telemetry.sdk.language": "go"}  # fmt: skip
    attributes = {"exception.type": "E", "exception.message": "v", "http.route": "/orders", "cart": "full",
                  "http.request.method": "GET", "url.full": "https://shop.example/orders"}  # fmt: skip
    said = [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()]
    record = {"severityNumber": 17, "body": {"stringValue": "failed"}, "traceId": "a" * 32, "spanId": "b" * 16,
              "attributes": said}  # fmt: skip
    scope = {"scope": {"name": "shop.orders"}, "logRecords": [record]}
    told = [{"key": key, "value": {"stringValue": value}} for key, value in resource.items()]
    body = {"resourceLogs": [{"resource": {"attributes": told}, "scopeLogs": [scope]}]}
    headers = {"content-type": "application/json"}
    dsn = ok(await shop.owner.get(f"/v1/projects/{shop.id}/dsn"))["dsn"]
    ok(await world.having(dsn).post("/v1/logs", content=json.dumps(body).encode(), headers=headers))
    shown = await latest(world, shop)
    assert shown["contexts"] == {
        "runtime": {"name": "go", "version": "1.22"},
        "os": {"name": "linux"},
        "app": {"name": "shop"},
        "trace": {"trace_id": "a" * 32, "span_id": "b" * 16},
    }
    assert (shown["server_name"], shown["logger"], shown["transaction"]) == ("web-9", "shop.orders", "/orders")
    assert (shown["platform"], shown["extra"]["cart"]) == ("go", "full")
    assert shown["request"] == {"method": "GET", "url": "https://shop.example/orders"}


async def test_requests_keep_no_cookie_and_no_credential(world: World):
    """Whether they stand in an object, a list of pairs, or one text."""
    shop = await erring_shop(world)
    shown = await report(world, shop, PHP)
    assert shown["request"]["headers"] == {"Host": "shop.example"}
    assert shown["request"]["url"] == "https://shop.example/orders"
    assert shown["request"]["query_string"] == {"sort": "up", "access_token": "[scrubbed]"}
    assert shown["request"]["data"] == {"password": "[scrubbed]", "amount": 3}
    rows = await stored(world, shop)
    for secret in ("c00kie", "h34der", "qu3ry", "b0dy"):
        assert secret not in json.dumps(shown) + rows
