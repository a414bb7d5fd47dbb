"""One caller of each kind, and a path to each operation: what tests over all routes need."""

from __future__ import annotations

import re
from dataclasses import dataclass

from service.auth.authority import PrincipalKind as Kind
from service.auth.secrets import alias_of
from service.http.declare.endpoint import Operation
from tests.support import seen
from tests.support.accounts import create_credential, create_project, sign_in
from tests.support.server import ServerHandle

AUTOMATION = "auto-1"
PATH_VALUES = {
    "file": "general.md",
    "language": "python",
    "id": "error-to-draft-pr",
    "distinct_id": "user-1",
    "blueprint_id": "top-events",
    "automation_id": AUTOMATION,
}


@dataclass(frozen=True)
class Callers:
    """Secrets by name, and the project that they belong to; `stranger` has a project of their own."""

    secrets: dict[str, str | None]
    project_id: str
    foreign_project_id: str

    def for_operation(self, operation: Operation) -> str | None:
        """The secret of a caller that the operation admits, the strongest of them."""
        for kind, name in STRONGEST:
            if kind in operation.who.principals:
                return self.secrets[name]
        return None

    def path_of(self, operation: Operation, project_id: str | None = None) -> str:
        """A concrete path: the real project, well-formed values for everything else."""
        project = project_id or self.project_id
        values = {"project_id": project, "alias": str(alias_of(project)), **PATH_VALUES}
        return re.sub(r"\{([a-z_]+)\}", lambda found: values.get(found.group(1), "unknown_1"), operation.path)


STRONGEST = (
    (Kind.KEY, "owner"),
    (Kind.RUNNER, "runner"),
    (Kind.CI, "ci"),
    (Kind.DSN, "dsn"),
    (Kind.INTERNAL, "internal"),
    (Kind.TEST, "test"),
)


def make_callers(server: ServerHandle) -> Callers:
    """Sign two people in, create a project for each, and credentials for the first project."""
    with seen.client(server.base_url, timeout=20) as client:
        owner, stranger = (sign_in(client, server.internal_token) for _ in range(2))
        project, foreign = create_project(client, owner), create_project(client, stranger)
        runner = create_credential(client, owner, project["id"], "automation_runner", automation_id=AUTOMATION)
        ci = create_credential(client, owner, project["id"])
    secrets = {
        "owner": owner,
        "stranger": stranger,
        "runner": runner["credential"],
        "ci": ci["credential"],
        "dsn": project["dsn"],
        "internal": server.internal_token,
        "test": server.test_token,
        "nobody": None,
    }
    return Callers(secrets, project["id"], foreign["id"])
