"""Carrying out exactly what a project's next steps and health name, as the one who reads them."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

import httpx2

from tests.support.api import Api, Person, World, ok
from tests.support.connecting import grant
from tests.support.onboarding import Onboarding
from tests.support.plans import plan_body, snapshot_body
from tests.support.playbook_samples import CASE, put, render_request

SENT_WITH_DSN = {"POST /v1/logs/", "POST /v1/analytics/", "POST /v1/deploys/"}
ACCEPTED = {200, 201, 202}
_keys = itertools.count(1)


@dataclass
class Walker:
    """A project, and the member who reads what to do next in it; `provider` decides what the walker asks for."""

    world: World
    reader: Person
    project_id: str
    dsn: str
    provider: Any = None
    begun: Any = None  # the answer of the latest proof start, whose markers are shown once
    credentials: list[dict[str, Any]] = field(default_factory=list)

    @property
    def path(self) -> str:
        return f"/v1/projects/{self.project_id}"

    @property
    def contract_path(self) -> str:
        return f"{self.path}/automation-contract"

    @property
    def product(self) -> Api:
        return self.world.having(self.dsn)

    @property
    def onboarding(self) -> Onboarding:
        return Onboarding(self.world, self.reader, self.project_id, self.dsn)

    async def named(self) -> dict[str, dict[str, Any]]:
        """The suggestions that can be followed now, by id; each names operations, and the answer says the first one."""
        steps = ok(await self.reader.get(f"{self.path}/next-steps"))
        found = {one["id"]: one for one in steps["suggestions"] if one["status"] == "available"}
        assert all(one["uses"] for one in found.values())
        if found:
            assert steps["next_action"] == next(iter(found.values()))["description"]
        for one in found.values():
            for operation in one["uses"]:
                await self.probe(operation)
        return found

    async def advice(self) -> str:
        """What the project's health says to do."""
        return str(ok(await self.reader.get(f"{self.path}/health"))["next_action"])

    async def probe(self, operation: str) -> None:
        """Call an operation with a body that none takes: it is there, and takes the credential that it names.

        A GET must answer; a write says that its body or its fence is missing, before it does anything.
        """
        method, template = operation.split(" ")
        path = template.replace("{project_id}", self.project_id).replace("{language}", "node")
        path = path.replace("{id}", CASE).replace("{blueprint_id}", "event-count")
        if "{case_id}" in path:
            [newest, *_] = await self.cases()
            path = path.replace("{case_id}", newest["id"])
        caller: Api = self.product if operation in SENT_WITH_DSN else self.reader
        bodyless = method == "GET" or template.endswith("/onboarding/verify")
        body = None if bodyless else {"nobody knows": "this member"}
        answer = await caller.call(method, path, body)
        wanted = {200} if method == "GET" else {400, 428}
        assert answer.status_code in wanted, (operation, answer.status_code, answer.text)

    async def cases(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = ok(await self.reader.get(f"{self.path}/cases?status=open"))["cases"]
        return found

    async def take(self, step: str) -> None:
        """Carry a step out by what it names. Fails when anything of it is not accepted."""
        await getattr(self, f"_{step}")()

    async def _send_first_event(self) -> None:
        await self.send("/v1/logs/", {"message": "boom", "level": "error"})
        await self.send("/v1/analytics/", {"event": "signup", "distinct_id": "u"})

    async def send(self, path: str, body: Any) -> None:
        ok(await self.product.post(path, body), 202)

    async def _record_deploys(self) -> None:
        made = await self.mint("ci_deploy")
        ok(await self.world.having(made["credential"]).post("/v1/deploys/", {"version": "1"}), 202)

    async def mint(self, kind: str, **members: Any) -> dict[str, Any]:
        made = await self.reader.create_credential(self.project_id, f"walk-{next(_keys)}", kind=kind, **members)
        self.credentials.append(made)
        return made

    async def _connect_provider(self) -> None:
        started = ok(await self.reader.post("/v1/auth/provider", {"project_id": self.project_id}))
        grant(started)
        polled = ok(await self.reader.post("/v1/auth/provider/poll", {"connection_id": started["connection_id"]}))
        assert polled["status"] == "connected"

    async def _start_onboarding(self) -> None:
        ok(await self.onboarding.start(plan_body()), 201)

    async def _finish_onboarding(self) -> None:
        """Take the one step that the onboarding names, at the path that it names."""
        state = ok(await self.onboarding.read())
        action = state["next_action"]
        fence = {"if-match": state["etag"]}
        bodies: dict[str, Any] = {
            "review_exact_plan": {"decision": "approve", "plan_sha256": state["plan_sha256"]},
            "instrument_and_start_proof": {"implementation_source_snapshot": snapshot_body("d" * 40, "e" * 64)},
            "exercise_and_verify": None,
        }
        if action["id"] == "exercise_and_verify":
            state = await self._exercise(state)
            fence = {"if-match": state["etag"]}
        method, path = action["operation"]["method"], action["operation"]["path"]
        answer = await self.reader.call(method, path, bodies[action["id"]], headers=fence)
        assert answer.status_code in ACCEPTED, answer.text
        moved = ok(await self.onboarding.read())
        assert moved["etag"] != state["etag"]
        if action["id"] == "instrument_and_start_proof":
            self.begun = answer.json()

    async def _exercise(self, state: dict[str, Any]) -> dict[str, Any]:
        """As the checklist says: new markers where they were lost or the session is over, then everything once."""
        assert "POST the same snapshot to the proof operation" in state["next_action"]["checklist"][0]
        [[now]] = await self.world.sql("select floor(extract(epoch from service_now()))::bigint")
        if self.begun is None or state["proof_session"]["expires_at"] <= now:
            self.begun = ok(await self.onboarding.prove(state, state["implementation_source_snapshot"]), 201)
            state = self.begun["state"]
        await self.onboarding.exercise(self.begun)
        return state

    async def _verify_install(self) -> None:
        plan_sha256 = ok(await self.reader.get(f"{self.path}/signal-map"))["plan_sha256"]
        files = [{"file": "src/pay.py", "anchor": "payments.add(payment)"}]
        report = {"plan_sha256": plan_sha256, "source_snapshot": snapshot_body("d" * 40, "e" * 64), "files": files}
        answer = await self.reader.call("PUT", f"{self.path}/implementation-report", report)
        assert answer.status_code in ACCEPTED, answer.text
        await self.send("/v1/analytics/", {"event": "anything", "distinct_id": "u"})
        await self.send("/v1/logs/", {"level": "error", "message": "No."})
        await self.send("/v1/deploys/", {"version": "1.0.0", "environment": "production"})
        assert ok(await self.reader.post(f"{self.path}/install/verify"))["ok"]

    async def _close_readiness_gaps(self) -> None:
        signal_map = ok(await self.reader.get(f"{self.path}/signal-map"))
        for milestone in signal_map["milestones"]:
            properties = dict.fromkeys(milestone["properties"], 1)
            body = {"event": milestone["event"], "distinct_id": "u", "properties": properties}
            await self.send("/v1/analytics/", body)
        [safe] = [failure["marker"] for failure in signal_map["failures"] if failure["safe_live_proof"]]
        await self.send("/v1/logs/", {"level": "error", "message": "No.", "tags": {"failure_marker": safe}})

    async def _review_open_cases(self) -> None:
        while found := await self.cases():
            for one in found:
                record = ok(await self.reader.get(f"/v1/cases/{one['id']}"))
                deed = "ignore" if record.get("overflow") else "resolve"
                ok(await self.reader.post(f"/v1/cases/{one['id']}/{deed}", {"case_revision": record["revision"]}))

    async def _automate_case_fixes(self) -> None:
        assert CASE in {one["id"] for one in ok(await self.reader.get("/v1/automation-playbooks"))["playbooks"]}
        request = put(render_request(CASE), "bindings.traffic_sample_event", "order_paid")
        candidate = ok(await self.reader.post(f"{self.path}/automation-playbooks/{CASE}/render", request))
        saved = await self.reader.call("PUT", self.contract_path, candidate["contract_input"])
        assert saved.status_code == 201, saved.text

    async def _enable_automation(self) -> None:
        contract = ok(await self.reader.get(self.contract_path))
        given = ("playbook", "bindings", "readiness_assertions", "policy")
        entries = [{name: one[name] for name in given} for one in contract["automations"]]
        document = {"policy_version": contract["policy_version"], "automations": entries}
        examined = ok(await self.reader.post(f"{self.contract_path}/validate", document))
        assert examined["valid"], examined
        gaps = {gap["code"] for gap in examined["readiness"]["gaps"]}
        assert gaps <= {"runner_credential_missing", "ci_credential_missing"}
        if "ci_credential_missing" in gaps:
            await self.mint("ci_deploy")
        if "runner_credential_missing" in gaps:
            await self._replace_runner_credential()
        fence = {"if-match": contract["etag"]}
        ok(await self.reader.post(f"{self.contract_path}/enable", key=f"on-{next(_keys)}", headers=fence))

    async def _replace_runner_credential(self) -> None:
        for one in ok(await self.reader.get(self.contract_path))["automations"]:
            await self.mint("automation_runner", automation_id=one["automation_id"])

    async def stop(self, deed: str, body: Any = None) -> httpx2.Response:
        """Pause the contract, or turn its automation off."""
        if deed == "pause":
            return await self.reader.post(f"{self.contract_path}/pause")
        contract = ok(await self.reader.get(self.contract_path))
        [one] = contract["automations"]
        place = f"{self.contract_path}/automations/{one['automation_id']}"
        return await self.reader.call("PATCH", place, {"enabled": False}, headers={"if-match": contract["etag"]})
