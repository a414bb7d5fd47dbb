"""The forms of the console: all that it takes, each about what a full scene has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from service.console import site
from service.console.kit.page import takes
from tests.support.fullscene import FullScene
from tests.support.intruding import never_issued, operations
from tests.support.playbook_samples import CASE

COMMAND = "do/{operation_id}"
Pairs = Sequence[tuple[str, str]]


class Special(NamedTuple):
    """A form with a taker of its own: the operation whose access rule it has ("": everybody's own), and its fields."""

    rule: str = ""
    fields: Pairs = ()


SPECIAL: Mapping[str, Special] = {
    "again": Special(fields=[("link", "service_link_x")]),
    "device": Special(fields=[("user_code", "{user_code}"), ("decision", "confirm")]),
    "leave": Special(),
    "preferences": Special(fields=[("theme", "dark")]),
    "settings/keys": Special(),
    "settings/delete-account": Special(fields=[("confirm", "DELETE")]),
    "projects/{project_id}/alerts": Special("preview_alert"),
    "projects/{project_id}/automation/backtest": Special("backtest_automation_contract", [(":json", "{{}}")]),
    "projects/{project_id}/automation/check": Special("validate_automation_contract", [(":json", "{{}}")]),
    "projects/{project_id}/automation/playbooks/{id}": Special("render_automation_playbook"),
    "projects/{project_id}/cases/batch": Special(
        "act_on_cases", [("action", "resolve"), ("cases", '[{{"case_id": "{case_id}", "case_revision": 1}}]')]
    ),
    "projects/{project_id}/cases/several": Special("resolve_case", [("deed", "resolve"), ("chosen", "{case_id} 1")]),
    "projects/{project_id}/credentials/verify": Special("verify_dsn", [("dsn", "x")]),
    "projects/{project_id}/delete": Special("delete_project", [("begun", "yes")]),
    "projects/{project_id}/people/delete": Special("delete_user", [("id", "nobody"), ("begun", "yes")]),
    "projects/{project_id}/onboarding/proof": Special("start_onboarding_proof"),
    "projects/{project_id}/onboarding/verify": Special("verify_onboarding"),
    "projects/{project_id}/usage/checkout": Special(fields=[("plan", "pro")]),
    "projects/{project_id}/usage/portal": Special(),
}
NAMES_IN_BODY: Mapping[str, Pairs] = {"connect_provider": [("project_id", "{project_id}")]}
"""Fields beside the path that name something of a tenant."""


class Sent(NamedTuple):
    """A form: where it goes, its fields, and the operation whose access rule it has."""

    place: str
    fields: Pairs
    rule: str

    def nobodys(self) -> Sent:
        """The same about what never was."""
        return self._replace(
            place=never_issued(self.place), fields=[(name, never_issued(value)) for name, value in self.fields]
        )


def ids_of(full: FullScene) -> dict[str, str]:
    """What the paths of operations name, each by the name of its value; `id` by the operation, below."""
    at = full.at

    def read(path: str) -> Any:
        return at.must(at.call("GET", path, who="owner"))

    project = at.project
    pending = read(f"{project}/automation-approvals?status=pending")["approvals"]
    run = read(f"/v1/automation-runs/{full.ids['waiting_run_id']}")
    return {
        **full.ids,
        "approval_id": pending[0]["approval_id"],
        "alert_id": read(f"{project}/alerts")["alerts"][0]["id"],
        "automation_id": "heal",
        "blueprint_id": "top-events",
        "case_id": run["case_id"],
        "claim_id": run["claim_id"],
        "binding_id": read(f"{project}/ci-bindings")["bindings"][0]["id"],
        "credential_id": read(f"{project}/credentials")["credentials"][0]["id"],
        "delivery_id": "dlv_1",
        "key_id": read("/v1/keys")["keys"][0]["id"],
        "organization": "service",
        "publication_id": read(f"{project}/public-queries")["publications"][0]["publication_id"],
        "run_id": run["run_id"],
        "session_id": read("/v1/auth/sessions")["sessions"][-1]["session_id"],
        "source_map_id": read(f"{project}/source-maps")["source_maps"][0]["id"],
        "suppression_id": read(f"{project}/suppressions")["suppressions"][0]["id"],
        "user_id": full.world.users["member"],
        "version": "1.0.0",
    }


def every_form(full: FullScene) -> Iterator[Sent]:
    """Each form about what the scene has. Fails for a form that is not judged here."""
    ids = ids_of(full)
    assert {one.address for one in site._forms()} == {COMMAND, *SPECIAL}, "a form that is not in this list"
    for address, special in SPECIAL.items():
        fields = [(name, value.format(**ids)) for name, value in special.fields]
        yield Sent(address.format(**ids, id=CASE), fields, special.rule)
    for name, operation in operations().items():
        if not takes(operation):
            continue
        webhook = ids["alert_id"] if "/alerts/" in operation.path else ids["webhook_id"]
        known = {**ids, "id": CASE if "/automation-playbooks/" in operation.path else webhook}
        parts = [part[1:-1] for part in operation.path.split("/") if part.startswith("{")]
        body = [(field, value.format(**ids)) for field, value in NAMES_IN_BODY.get(name, ())]
        yield Sent(f"do/{name}", [*((f"_path.{part}", known[part]) for part in parts), *body], name)


def filled(token: str, fields: Pairs) -> list[tuple[str, str]]:
    """The fields of a form with those of its own."""
    own = [("_csrf", token), ("_back", "again"), ("_next", ""), ("_key", "a-key"), ("_if_match", '"x"')]
    return [*own, *fields]
