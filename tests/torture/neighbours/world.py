"""What is there before a storm of neighbours: two tenants, and an attacker with all that one account can gather."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from dataclasses import dataclass

from scripts.load import automation_world, worlds
from service.auth.secrets import digest
from service.eventstore.store import EventStore
from service.registry import registry
from tests.support.console import COOKIE
from tests.support.sessions import open_session
from tests.torture.neighbours.attacker import Holdings, Place
from tests.torture.neighbours.attacks import MOST_TARGETS, plan_of
from tests.torture.neighbours.victims import Tenant

HOUR = 3600
PLAN_PROJECTS = 8
KEYS = 8  # that the attacker has beside its usual one
ACCOUNTS = 10  # of the same person: more than there are places for archives
LONG_RUNS = 4
LONG_SUMMARY = "[" * 20_000
LONG_COMMENT = "c" * 5000


@dataclass(frozen=True)
class Extent:
    """How much the attacker has gathered: projects with long histories, versions in each, cases, and events."""

    histories: int
    versions: int
    contracts: int  # versions of the contract
    cases: int
    events: int
    comments: int  # of one case
    archived: int  # events of each further account


SHORT = Extent(histories=2, versions=8, contracts=10, cases=20_000, events=100_000, comments=20, archived=2_000)
FULL = Extent(histories=4, versions=150, contracts=200, cases=300_000, events=500_000, comments=1000, archived=50_000)


class Builder(worlds.Service):
    """Makes accounts on a running service whose limits are off."""

    def account(self, keys: int) -> list[str]:
        """Sign a new person in on so many devices; returns the keys."""
        subject = secrets.token_hex(8)
        identity = {"provider": "neighbours", "subject": subject, "email": f"{subject}@example.invalid"}
        return [self._sign_in(identity) for _ in range(keys)]

    def _sign_in(self, identity: dict[str, str]) -> str:
        start = self.call("POST", "/v1/auth/device", {}, None)
        body = {"user_code": start["user_code"], "identity": identity}
        self.call("POST", "/v1/auth/device/authorize", body, self.internal_token)
        polled = self.call("POST", "/v1/auth/device/poll", {"device_code": start["device_code"]}, None)
        return str(polled["api_key"])

    def tenant(self) -> Tenant:
        """Make an account with a shop and its other projects."""
        keys = self.account(3)
        self.owner_key = keys[0]
        shop = automation_world.open_shop(self, "shop")
        projects = [self.create_project(f"plans {number}")["id"] for number in range(PLAN_PROJECTS)]
        wish = {"blueprint_id": "top-events", "title": "Top"}
        published = self.call("POST", f"/v1/projects/{shop.id}/public-queries", wish, keys[0])
        told = self.create_project("told")
        return Tenant(
            (keys[0], keys[1], keys[2]),
            shop.dsn,
            shop.id,
            tuple(projects),
            self.create_project("rotated")["id"],
            published["publication_id"],
            self.internal_token,
            told["id"],
            told["dsn"],
        )

    def attacker(self, extent: Extent) -> Callable[[int, float, float], Holdings]:
        """Make the attacker; returns what makes its holdings of a port, seconds, and a scale."""
        [key, *keys] = self.account(1 + KEYS)
        self.owner_key = key
        shop = automation_world.open_shop(self, "long")
        self._lengthen_contract(shop.id, extent.contracts)
        run, epoch = automation_world.start_run(self, shop)
        long = [self.create_project(f"long {number}")["id"] for number in range(extent.histories)]
        for project in long:
            self._lengthen(project, extent.versions)
        self.query(_CASES, shop.id, extent.cases)
        self.query(_STATS, shop.id)
        self.query(_EVENTS, shop.id, extent.events)
        for table in ("cases", "case_stats", "analytics_events"):
            self.query(f"analyze {table}")
        case = self._make_long_case(shop, extent.comments)
        muted, unnamed = (self._place(name) for name in ("muted", "unnamed"))
        cookie = f"{COOKIE}={asyncio.run(self._session_of(key))}"
        rival = self.create_project("rivals")["id"]
        self._lengthen(rival, 1, targets=1)
        accounts = [self._account_with(extent.archived) for _ in range(ACCOUNTS)]
        return lambda port, seconds, scale: Holdings(
            worlds.HOST,
            port,
            seconds,
            scale,
            key=key,
            keys=keys,
            dsn=shop.dsn,
            shop=shop.id,
            automation=automation_world.AUTOMATION,
            runner=shop.runner,
            run=run,
            epoch=epoch,
            long=long,
            rival=rival,
            plan=worlds.plan("How many?"),
            cookie=cookie,
            case=case,
            muted=muted,
            unnamed=unnamed,
            accounts=accounts,
        )

    def _place(self, name: str) -> Place:
        project = self.create_project(name)
        return Place(project["id"], project["dsn"], self.owner_key)

    def _account_with(self, events: int) -> Place:
        """Make a further account with a project of so many events."""
        [self.owner_key] = self.account(1)
        place = self._place("kept")
        self.query(_EVENTS, place.project, events)
        return place

    def _make_long_case(self, shop: automation_world.Shop, comments: int) -> str:
        """Open a case with the longest summaries of runs, and with comments."""
        [case] = automation_world.report(self, shop, 1)
        for _ in range(LONG_RUNS):
            body = {"status": "escalated", "summary_md": LONG_SUMMARY}
            self.call("POST", f"/v1/cases/{case}/runs", body, self.owner_key)
        for _ in range(comments):
            comment = {"case_revision": 1, "text": LONG_COMMENT}
            self.call("POST", f"/v1/cases/{case}/comments", comment, self.owner_key)
        return case

    async def _session_of(self, key: str) -> str:
        """Open a session of the person with a key; returns its secret."""
        [[user_id]] = self.query("select project_id from api_keys where key_hash = %s", digest(key))
        store = EventStore(self.database_url, registry())
        await store.start()
        try:
            return (await open_session(store, user_id)).secret
        finally:
            await store.stop()

    def _lengthen(self, project: str, versions: int, targets: int = MOST_TARGETS) -> None:
        """Replace a plan again and again by another one, of the largest size unless told otherwise."""
        path, etag = f"/v1/projects/{project}/onboarding", None
        for number in range(versions):
            tag = {} if etag is None else {"if_match": etag}
            etag = self._patient("POST", path, plan_of(worlds.plan("How many?"), number, targets), **tag)["etag"]

    def _lengthen_contract(self, project: str, versions: int) -> None:
        """Save the contract again and again, with another budget each time."""
        base = f"/v1/projects/{project}"
        contract = f"{base}/automation-contract"
        render = f"{base}/automation-playbooks/{automation_world.PLAYBOOK}/render"
        etag = self.call("GET", contract, None, self.owner_key)["etag"]
        for number in range(versions):
            wish = automation_world.wish(self, max_turns_per_run=100 + number)
            rendered = self.call("POST", render, wish, self.owner_key)
            etag = self._patient("PUT", contract, rendered["contract_input"], if_match=etag)["etag"]
        self.call("POST", f"{contract}/enable", {}, self.owner_key, if_match=etag, idempotency_key=secrets.token_hex(8))

    def _patient(self, method: str, path: str, body: object, **headers: str) -> dict[str, str]:
        """Send a request as the owner; when there is too much for this hour, again in the next."""
        try:
            answer: dict[str, str] = self.call(method, path, body, self.owner_key, **headers)
        except SystemExit as refused:
            if "answered 429" not in str(refused):
                raise
            self.query(f"update service_clock set offset_seconds = offset_seconds + {HOUR}")
            answer = self.call(method, path, body, self.owner_key, **headers)
        return answer


_CASES = """
insert into cases (project_id, id, revision, case_revision, status, fingerprint, grouping_version, opened_at)
select %s, 'case_made_' || md5(n::text), 1, 1, case n %% 10 when 0 then 'resolved' else 'open' end, md5(n::text), 1,
    1700000000 + n
from generate_series(1, %s) n
"""
_EVENTS = """
insert into analytics_events (project_id, received_at, id, event, distinct_id, properties)
select %s, service_seconds() - n %% 80000, 'evt_made_' || n, 'made ' || n %% 2000, 'person ' || n %% 30011, '{}'
from generate_series(1, %s) n
"""
_STATS = """
insert into case_stats (project_id, id, title, message, level, environment, release, environments, releases, unmarked,
    event_count, users_affected, first_seen_at, last_seen_at)
select c.project_id, c.id, 'Made', 'Made', 'error', 'made', null, array['made'], array['1.' || c.opened_at %% 1000],
    true, 1, 0, c.opened_at, c.opened_at
from cases c where c.project_id = %s and starts_with(c.id, 'case_made_')
"""
