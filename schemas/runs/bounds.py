"""Wire contract of a run's policy: what its runner may change, and what it must leave alone (G-109)."""

from __future__ import annotations

from typing import Annotated, Any

from schemas.contracts.playbook import Sha256
from schemas.kernel.origins import Origins, Told, originated, origins, told

RUN_POLICY_ORIGINS = origins(
    server="run_id project_id automation_id policy_sha256 policy protected_files protected_directories next_action"
)


@originated
class RunPolicy(Told, frozen=True, kw_only=True):
    """The policy of a run while it is in force. `policy_sha256` is the hash of its canonical JSON.

    A file whose name matches one of `protected_files`, or that lies in one of `protected_directories`, is within the
    scope only if `allowed_paths` names that very file. Names and patterns are in lower case and match any case.
    """

    run_id: str
    project_id: str
    automation_id: str
    policy_sha256: Sha256
    policy: dict[str, Any]
    protected_files: list[str]
    protected_directories: list[str]
    next_action: str
    origins: Annotated[Origins, told(RUN_POLICY_ORIGINS)]
