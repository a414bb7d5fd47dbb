"""A scene that fills every page of the console, and the way to all of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import quote

from service.accounts.membership import set_member
from service.console import site
from statemachines.accounts.membership import Role
from tests.support import mappings
from tests.support.accounts import create_project, sign_in
from tests.support.automation_world import user_of
from tests.support.ci_issuer import BOUND
from tests.support.loop.http_scene import HttpScene, open_scene
from tests.support.mappings import Segment
from tests.support.plans import plan_body, snapshot_body
from tests.support.playbook_samples import CASE, REVIEW
from tests.support.server import ServerHandle
from tests.support.sessions import open_operator, open_session
from tests.support.weekly import Weekly, gap, hypothesis, metric, report_on

FRAMES = [
    {
        "file": "src/shop/checkout/payment/cards.py",
        "function": "charge",
        "lineno": 17,
        "in_app": True,
        "pre_context": ["def charge(card, cents):", "    answer = bank.ask(card, cents)"],
        "context_line": "    raise CardRefused(answer)",
        "post_context": ["", "def refund(card, cents):"],
    },
    {"file": "lib/http.py", "function": "send", "lineno": 3, "in_app": False},
    {"file": "src/shop/web.py", "function": "buy", "lineno": 9, "in_app": True},
]
DIFF = "--- a/src/cart.py\n+++ b/src/cart.py\n@@ -1,2 +1,2 @@\n-    return sum(items)\n+    return sum(items or [])\n"
STATES = ("none", "planned", "approved", "proving", "verified")
GUEST = "guest"
AUDITOR = "auditor"


class Place(NamedTuple):
    """A place of the console with the address of its page, and the person who may see it."""

    address: str
    place: str
    who: str = "owner"


PLACES: Mapping[str, Sequence[str]] = {
    "": ["", "?done=pause_automation_contract"],
    "again": ["again"],
    "cases/{case_id}": ["cases/{case_id}", "cases/{mapped_case_id}", "cases/{merged_case_id}"],
    "cases/{case_id}/errors": ["cases/{case_id}/errors"],
    "cases/{case_id}/errors/{event_id}": ["cases/{case_id}/errors/{event_id}"],
    "cases/{case_id}/errors/{event_id}/json": ["cases/{case_id}/errors/{event_id}/json"],
    "cases/{case_id}/people": ["cases/{case_id}/people"],
    "device": ["device", "device?user_code={user_code}", "device?user_code=XXXX-XXXX"],
    "how-to-verify": ["how-to-verify"],
    "invitations/{invitation_id}": ["invitations/{invitation_id}"],
    "operator": ["operator"],
    "projects/{project_id}": ["projects/{project_id}", "projects/{none_id}", "projects/{report_project_id}"],
    "projects/{project_id}/alerts": [
        "projects/{project_id}/alerts",
        "projects/{project_id}/alerts?blueprint=event-count",
        "projects/{none_id}/alerts",
    ],
    "projects/{project_id}/analytics": ["projects/{project_id}/analytics", "projects/{none_id}/analytics"],
    "projects/{project_id}/analytics/ask": [
        "projects/{project_id}/analytics/ask",
        "projects/{project_id}/analytics/ask?blueprint=top-events",
        "projects/{project_id}/analytics/ask?blueprint=active-users&params.days:json=7",
        "projects/{project_id}/analytics/ask?blueprint=ordered-funnel&params.events:lines=signup%0Aorder_paid",
        "projects/{project_id}/analytics/ask?blueprint=retention&params.start_event=signup&params.return_event=signup",
    ],
    "projects/{project_id}/analytics/event": [
        "projects/{project_id}/analytics/event?name=signup&property=plan",
        "projects/{none_id}/analytics/event?name=nothing",
    ],
    "projects/{project_id}/approvals": [
        "projects/{project_id}/approvals",
        "projects/{project_id}/approvals?status=approved",
        "projects/{none_id}/approvals",
    ],
    "projects/{project_id}/arrived": ["projects/{project_id}/arrived", "projects/{none_id}/arrived"],
    "projects/{project_id}/automation": [
        "projects/{project_id}/automation",
        "projects/{report_project_id}/automation",
        "projects/{none_id}/automation",
    ],
    "projects/{project_id}/automation/edit": [
        "projects/{project_id}/automation/edit",
        "projects/{none_id}/automation/edit",
    ],
    "projects/{project_id}/automation/playbooks/{id}": [
        f"projects/{{project_id}}/automation/playbooks/{CASE}",
        f"projects/{{project_id}}/automation/playbooks/{REVIEW}",
    ],
    "projects/{project_id}/cases": [
        "projects/{project_id}/cases",
        "projects/{project_id}/cases?status=all&seen=week",
        "projects/{none_id}/cases",
    ],
    "projects/{project_id}/credentials": ["projects/{project_id}/credentials", "projects/{none_id}/credentials"],
    "projects/{project_id}/ci-bindings": ["projects/{project_id}/ci-bindings", "projects/{none_id}/ci-bindings"],
    "projects/{project_id}/delete": ["projects/{project_id}/delete"],
    "projects/{project_id}/deploys": [
        "projects/{project_id}/deploys",
        "projects/{project_id}/deploys?environment=nowhere",
        "projects/{none_id}/deploys",
    ],
    "projects/{project_id}/deploys/{deploy_id}": ["projects/{project_id}/deploys/{deploy_id}"],
    "projects/{project_id}/feedback": [
        "projects/{project_id}/feedback",
        "projects/{project_id}/feedback?about=none",
        "projects/{none_id}/feedback",
    ],
    "projects/{project_id}/log": ["projects/{project_id}/log"],
    "projects/{project_id}/logs": [
        "projects/{project_id}/logs",
        "projects/{project_id}/logs?level=warning&user={distinct_id}&from=1&to=4000000000",
        "projects/{project_id}/logs?q=nothing&when=day",
        "projects/{none_id}/logs",
    ],
    "projects/{project_id}/members": ["projects/{project_id}/members", "projects/{none_id}/members"],
    "projects/{project_id}/notifications": ["projects/{project_id}/notifications", "projects/{none_id}/notifications"],
    "projects/{project_id}/notifications/{id}": ["projects/{project_id}/notifications/{destination_id}"],
    "projects/{project_id}/onboarding": [f"projects/{{{state}_id}}/onboarding" for state in STATES],
    "projects/{project_id}/people": ["projects/{project_id}/people", "projects/{none_id}/people"],
    "projects/{project_id}/people/person": ["projects/{project_id}/people/person?id={distinct_id}"],
    "projects/{project_id}/public-queries": [
        "projects/{project_id}/public-queries",
        "projects/{project_id}/public-queries?blueprint=top-events",
        "projects/{none_id}/public-queries",
    ],
    "projects/{project_id}/receipts": ["projects/{project_id}/receipts", "projects/{none_id}/receipts"],
    "projects/{project_id}/reports": ["projects/{report_project_id}/reports", "projects/{none_id}/reports"],
    "projects/{project_id}/runs": ["projects/{project_id}/runs", "projects/{none_id}/runs"],
    "projects/{project_id}/search": [
        "projects/{project_id}/search",
        "projects/{project_id}/search?q=card",
        "projects/{project_id}/search?q={distinct_id}",
        "projects/{project_id}/search?q={run_id}",
        "projects/{none_id}/search?q=nothing-has-this-word",
    ],
    "projects/{project_id}/settings": ["projects/{project_id}/settings", "projects/{none_id}/settings"],
    "projects/{project_id}/source-maps": ["projects/{project_id}/source-maps", "projects/{none_id}/source-maps"],
    "projects/{project_id}/suppressions": ["projects/{project_id}/suppressions", "projects/{none_id}/suppressions"],
    "projects/{project_id}/usage": ["projects/{project_id}/usage"],
    "projects/{project_id}/views": [
        "projects/{project_id}/views",
        "projects/{project_id}/views?text=card&seen=day&status=all",
        "projects/{none_id}/views",
    ],
    "projects/{project_id}/views/{view_id}": ["projects/{project_id}/views/{view_id}"],
    "projects/{project_id}/webhooks": ["projects/{project_id}/webhooks", "projects/{none_id}/webhooks"],
    "projects/{project_id}/webhooks/{id}": ["projects/{project_id}/webhooks/{webhook_id}"],
    "runs/{run_id}": ["runs/{run_id}", "runs/{waiting_run_id}", "runs/{failed_run_id}", "runs/{report_run_id}"],
    "runs/{run_id}/report": ["runs/{report_run_id}/report"],
    "sessions": ["sessions"],
    "settings": ["settings"],
    "streams": ["streams?stream_id={run_id}"],
    "streams/{stream_id}": [
        "streams/{run_id}",
        "streams/{run_id}?from=1&to=3",
        "streams/{case_id}",
        "streams/{project_id}",
    ],
}
"""The places of each page, by its address: full, empty, and with what its address may ask for."""
NO_PAGES = frozenset({"download/answer.csv", "download/{operation_id}"})
"""Addresses that answer with a file."""
SEEN_BY = {"invitations/{invitation_id}": GUEST, "operator": "operator"}


def every_place(ids: Mapping[str, str], *, without: Sequence[str] = ()) -> Iterator[Place]:
    """Every place of every page, with these ids in it. Fails for a page without places in the list.

    `without` are names of ids that a scene has not. Their places are left out.
    """
    pages = {one.address for one in site._pages()} - NO_PAGES
    assert pages == set(PLACES), f"not in the list of places, or in no page: {pages ^ set(PLACES)}"
    for address, places in PLACES.items():
        for place in places:
            if not any(f"{{{name}}}" in place for name in without):
                yield Place(address, place.format(**{name: quote(one) for name, one in ids.items()}), who_sees(address))


def who_sees(address: str) -> str:
    """The person of the scene who may see a page."""
    return SEEN_BY.get(address, "owner")


class FullScene:
    """The ids of everything in it, and sessions for its people."""

    def __init__(self, at: HttpScene) -> None:
        self.at = at
        self.world = at.world
        self.ids: dict[str, str] = {"project_id": at.world.project_id, "distinct_id": "anna@example.com"}

    def session(self, who: str = "owner") -> str:
        """The secret of a new session of a person: owner, member, auditor, guest, stranger or operator."""
        opened = self.world.run(partial(open_session, user_id=self.world.users[who]))
        return str(opened.secret)

    def places(self) -> list[Place]:
        return list(every_place(self.ids))

    # ---- what there is

    def fill(self) -> FullScene:
        """Make everything."""
        self._people()
        self._review()
        self._onboardings()
        self._runs()
        self._cases()
        self._tell()
        return self

    def _people(self) -> None:
        """An auditor, and a guest with an invitation that is open."""
        world, at = self.world, self.at
        for name, more in ((AUDITOR, {}), (GUEST, {"email_verified": True})):
            world.secrets[name] = sign_in(
                world.client, at.server.internal_token, f"{name}-of-{world.project_id[-8:]}", **more
            )

        async def settle(store: Any) -> None:
            for name in (AUDITOR, GUEST):
                world.users[name] = await user_of(store, world.secrets[name])
            await set_member(store, world.project_id, world.users[AUDITOR], Role.AUDITOR)
            world.users["operator"] = await open_operator(store)

        world.run(settle)
        wish = {"email": f"{GUEST}-of-{world.project_id[-8:]}@example.com", "role": "member"}
        invited = at.must(at.call("POST", f"{at.project}/members", wish, who="owner"))
        self.ids["invitation_id"] = invited["invitation_id"]

    def _review(self) -> None:
        """A project with a weekly report."""
        other = self._beside("Weekly review")
        weekly = Weekly(other).begin([9, 6, 4], [8, 6, 2])
        source = other.must(weekly.source(), 200)
        report = report_on(source, metric(source), hypothesis(), gap(), limitations=["Two weeks are few."])
        other.must(weekly.record(report), 201)
        self.ids |= {"report_project_id": other.world.project_id, "report_run_id": weekly.run_id}

    def _beside(self, name: str) -> HttpScene:
        """The scene of another project of the owner."""
        made = create_project(self.world.client, self.world.secrets["owner"], name)
        secrets = dict(self.world.secrets) | {"dsn": made["dsn"]}
        return HttpScene(self.at.server, replace(self.world, project_id=made["id"], secrets=secrets), self.at.mode)

    def _onboardings(self) -> None:
        """A project in each state of the onboarding."""
        for number, state in enumerate(STATES):
            other = self._beside(f"Onboarding: {state}")
            self.ids[f"{state}_id"] = other.world.project_id
            onboard(other, number)

    def _runs(self) -> None:
        """A run that succeeded, one that waits for a decision, and one that failed."""
        at = self.at
        self._err(at)
        heal(at.delivered())
        self.ids |= {"run_id": at.run_id, "healed_case_id": at.case_id}
        self.ids["waiting_run_id"] = self._another("Basket is empty")
        self._ask("Sum the empty cart")
        self.ids["failed_run_id"] = self._another("Mail was not sent")
        path = f"/v1/automation-approvals/{self._ask('Send it again')}/decide"
        at.must(at.post(path, {"decision": "approve", "reason": "It is right."}, who="owner"))
        at.must(at.patch({"status": "failed", "reason": "The tests do not pass."}), 200)

    def _ask(self, summary: str) -> str:
        """Ask a person for an approval."""
        body = {"action": "draft_pr", "summary": summary, "evidence": {"diff": DIFF}}
        return str(self.at.must(self.at.act("approvals", body), 201)["approval_id"])

    def _another(self, message: str) -> str:
        """Another run, of a case of its own."""
        at = self.at
        at.error(3, message=message)
        case_id = at.case_id
        found = at.issue()["trigger_receipts"]
        [receipt] = [one for one in found if (one["case"] or {}).get("case_id") == case_id]
        at.receipt_id = receipt["receipt_id"]
        at.must(at.claim(), 201)
        at.must(at.start(f"start-{at.receipt_id}"), 201)
        return at.run_id

    def _err(self, at: HttpScene) -> None:
        """Source maps, a suppression, and a CI binding."""
        content = mappings.document(
            [[Segment(0, 0, 2, 0)]], ["src/app.ts"], sourcesContent=["a()\nb()\nthrow new Error('no')\nc()\n"]
        )
        path = f"{at.project}/source-maps?release=r1&source_url=~/app.min.js"
        headers = {
            "content-type": "application/octet-stream",
            "authorization": f"Bearer {self.world.secrets['owner']}",
        }
        at.must(self.world.client.put(path, content=content, headers=headers))
        wish = {"fingerprint_pattern": "no-such*", "action": "auto_ignore"}
        at.must(at.call("POST", f"{at.project}/suppressions", wish, who="owner"))
        at.must(at.call("POST", f"{at.project}/ci-bindings", BOUND, who="owner"), 201)
        view = {"name": "Cards", "filter": {"text": "card", "tag": "team=shop", "seen_within": 7_000}}
        made = at.must(at.call("POST", f"{at.project}/case-views", view, who="owner"), 201)
        self.ids["view_id"] = made["view_id"]

    def _cases(self) -> None:
        """Cases with everything that an error may tell, one with source maps, and two that are one."""
        at = self.at
        exception = {
            "type": "CardRefused",
            "value": "The bank refused the card of this order, and gave no reason at all for it",
            "frames": FRAMES,
            "causes": [{"type": "KeyError", "value": "'card'", "frames": FRAMES[:1]}],
        }
        sent = {"url": "https://shop.example/pay", "method": "POST", "headers": {"Host": "shop.example"}}
        crumbs = [{"timestamp": 1_700_000_000, "category": "query", "message": "select 1", "data": {"rows": 3}}]
        for number in range(4):
            at.error(
                message="Card refused",
                release=f"r{number % 2}",
                tags={"region": "eu"},
                user={"id": self.ids["distinct_id"], "email": self.ids["distinct_id"]},
                extra={"exception": exception, "breadcrumbs": crumbs, "request": sent},
            )
        self.ids["case_id"] = at.case_id
        contexts = {"runtime": {"name": "CPython"}, "trace": {"trace_id": "4bf92f3577b34da6a3ce929d0e0e4736"}}
        for level in ("debug", "info", "warning"):
            log = {
                "level": level,
                "message": "The bank answers slowly",
                "release": "r1",
                "tags": {"region": "eu"},
                "user": {"id": self.ids["distinct_id"]},
                "extra": {"exception": exception, "breadcrumbs": crumbs, "request": sent, "contexts": contexts},
            }
            at.must(at.call("POST", "/v1/logs/", log, who="dsn"), 202)
        case = at.must(at.call("GET", f"/v1/cases/{at.case_id}", who="owner"))
        self.ids["event_id"] = case["latest_event"]["id"]
        deed = {"case_revision": case["revision"], "text": "I look after it.\n\n```\nselect 1\n```"}
        at.must(at.call("POST", f"/v1/cases/{at.case_id}/comments", deed, who="owner"))
        stack = "Error: no\n at f (https://x.example/app.min.js:1:1)\n at g (https://x.example/other.min.js:1:1)"
        at.error(message="no", release="r1", extra={"exception": {"type": "Error", "stack": stack}})
        self.ids["mapped_case_id"] = at.case_id
        for name, message in (("merged_case_id", "Alpha broke"), ("into_case_id", "Beta broke")):
            at.error(message=message)
            self.ids[name] = at.case_id
        merged = at.must(at.call("GET", f"/v1/cases/{self.ids['merged_case_id']}", who="owner"))
        wish = {"case_revision": merged["revision"], "into_case_id": self.ids["into_case_id"]}
        at.must(at.call("POST", f"/v1/cases/{self.ids['merged_case_id']}/merge", wish, who="owner"))
        self._hear()
        for message, does in (("Gamma broke", "resolve"), ("Delta broke", "ignore")):
            at.error(message=message)
            at.must(at.call("POST", f"/v1/cases/{at.case_id}/{does}", {"case_revision": 1}, who="owner"))

    def _hear(self) -> None:
        """Texts of people."""
        at = self.at
        alias = at.must(at.call("GET", f"{at.project}/dsn", who="owner"))["alias"]
        for text in ("I like it.", "I waited for\na minute."):
            said = {"comments": text, "name": "Anna", "email": "anna@example.com"}
            items = b'{}\n{"type":"user_report"}\n' + json.dumps(said).encode()
            headers = {"authorization": f"Bearer {self.world.secrets['dsn']}"}
            at.must(self.world.client.post(f"/api/{alias}/envelope/", content=items, headers=headers))

    def _tell(self) -> None:
        """Events, a webhook whose receiver is gone, an alert, a public query, and a device that signs in."""
        at = self.at
        for person, plan in ((self.ids["distinct_id"], "free"), ("u-2", "free"), ("u-3", None)):
            for event in ("signup", "order_paid"):
                sent = {"event": event, "distinct_id": person, "properties": {"plan": plan, "seats": 3}}
                at.must(at.call("POST", "/v1/analytics/", sent, who="dsn"), 202)
        self.ids["deploy_id"] = at.must(at.call("GET", f"{at.project}/deploys", who="owner"))["deploys"][0]["deploy_id"]
        made = at.must(
            at.call(
                "POST",
                f"{at.project}/webhooks",
                {"url": "http://127.0.0.1:9/", "events": ["case.created"]},
                who="owner",
            )
        )
        self.ids["webhook_id"] = made["id"]
        at.must(at.call("POST", f"{at.project}/webhooks/{made['id']}/test", {}, who="owner"))
        chat = {"kind": "slack", "url": "http://127.0.0.1:9/", "name": "A chat"}
        made = at.must(at.call("POST", f"{at.project}/notifications/destinations", chat, who="owner"))
        self.ids["destination_id"] = made["id"]
        rule = f"{at.project}/notifications/destinations/{made['id']}/rule"
        at.must(at.call("PUT", rule, {"events": ["case.created"]}, who="owner"))
        alert = {
            "blueprint_id": "event-count",
            "params": {"event": "checkout_completed"},
            "threshold_column": "row_count",
            "threshold_op": "gte",
            "threshold_value": 1,
            "name": "Somebody pays",
        }
        alert_id = at.must(at.call("POST", f"{at.project}/alerts", alert, who="owner"))["id"]
        at.must(at.call("POST", f"{at.project}/alerts/{alert_id}/evaluate", {}, who="owner"))
        wish = {"blueprint_id": "top-events", "title": "What happens"}
        at.must(at.call("POST", f"{at.project}/public-queries", wish, who="owner"))
        started = at.must(at.call("POST", "/v1/auth/device", {"client_name": "A laptop"}, who=None))
        self.ids["user_code"] = started["user_code"]


def heal(at: HttpScene) -> None:
    """Take a run with a consumed grant to its verified end."""
    at.must(at.act("usage", {"turns": 3, "label": "read the code"}), 200)
    at.must(at.prove(), 201)
    at.must(at.prove("merged"), 201)
    at.traffic(1)
    assert at.deploy("c" * 40) == at.run_id
    for _ in range(5):  # traffic of the last moments may not count yet
        if at.must(at.verify()).get("status") == "succeeded":
            break
        at.traffic(3)
        at.wait(130)


def onboard(at: HttpScene, steps: int) -> dict[str, Any]:
    """Take an onboarding so many steps: plan, approval, proof, all that it needs and its verification."""
    path, state = f"{at.project}/onboarding", dict[str, Any]()
    if steps >= 1:
        state = at.must(at.call("POST", path, {"intent": "start", "plan": plan_body()}, who="owner"))
    if steps >= 2:
        body = {"decision": "approve", "plan_sha256": state["plan_sha256"]}
        state = at.must(at.call("POST", f"{path}/review", body, who="owner", etag=state["etag"]))
    if steps >= 3:
        body = {"implementation_source_snapshot": snapshot_body("d" * 40, "e" * 64)}
        begun = at.must(at.call("POST", f"{path}/proof", body, who="owner", etag=state["etag"]))
        state = begun["state"]
        prove(at, begun["one_time_markers"], whole=steps >= 4)
    if steps >= 4:
        verified = at.must(at.call("POST", f"{path}/verify", who="owner", etag=state["etag"]))
        assert verified["ok"], verified
        state = verified["state"]
    return state


def prove(at: HttpScene, markers: dict[str, Any], *, whole: bool = True) -> None:
    """Do what the instrumented product does under the markers of a proof, and its CI."""
    runtime, ci = markers["runtime"], markers["ci"]
    marked = {runtime["property_name"]: runtime["value"]}
    sent: list[tuple[str, dict[str, Any]]] = [("order_created", {"order_kind": "book"})]
    if whole:
        sent.append(("order_paid", {"amount": 12, "currency": "eur"}))
    for event, properties in sent:
        body = {"event": event, "distinct_id": "visitor", "properties": properties | marked}
        at.must(at.call("POST", "/v1/analytics/", body, who="dsn"), 202)
    if whole:
        tags = {"failure_marker": "payment_declined", "decline_code": "51"} | marked
        body = {"level": "error", "message": "The bank said no.", "tags": tags}
        at.must(at.call("POST", "/v1/logs/", body, who="dsn"), 202)
        at.world.mint("ci_deploy")
        deploy(at, ci)


def deploy(at: HttpScene, marker: dict[str, Any]) -> None:
    """Record the deploy of a proof, as CI does."""
    headers = {
        "authorization": f"Bearer {at.world.secrets['ci']}",
        marker["header_name"]: marker["value"],
    }
    body = {"version": "1.0.0", "environment": "production", "sha": "d" * 40}
    at.must(at.world.client.post("/v1/deploys/", json=body, headers=headers), 202)


@contextmanager
def open_full_scene(server: ServerHandle) -> Iterator[FullScene]:
    """Fill a scene on a running service."""
    with open_scene(server) as at:
        yield FullScene(at).fill()
