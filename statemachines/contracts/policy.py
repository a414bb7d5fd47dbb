"""What an owner enabled, as decisions need it: the typed policy of one automation, and whether it holds now.

An *authority* is read from the contract under its lock each time. Its `generation` is the contract revision at which
the automation was last turned on: a receipt, grant or approval made under another generation is void, so that one
pause ends all of them at once, before anything has touched their streams (G-103, G-104, G-114).
"""

from typing import Literal

import msgspec

from statemachines.kernel.machine import Rejection

# What stands in the way of an automation, whoever asks: no contract holds it, it is off, or a pause is in force.
# Messages are fixed sentences: nothing that a caller, a runner or telemetry wrote is ever part of one (threat 14).


class AutomationNotFound(Rejection):
    """The contract has no such automation."""

    code = "automation_not_found"


class AutomationOff(Rejection):
    """The automation is off, or runs under another policy than the one asked about (G-114)."""

    code = "automation_disabled"


class PauseInForce(Rejection):
    """The whole contract is paused (G-114)."""

    code = "automation_paused"


DeliveryMode = Literal["review_required", "auto_merge"]


def repository_key(address: str) -> str:
    """What is the same in all addresses of a repository: code hosts tell neither cases nor the ending `.git` apart."""
    return address.casefold().rstrip("/").removesuffix(".git")


class Playbook(msgspec.Struct, frozen=True):
    """The immutable playbook that a policy was rendered from."""

    id: str = ""
    version: str = ""
    template_hash: str = ""


class Thresholds(msgspec.Struct, frozen=True):
    """When a case matters enough (R-AUT-22)."""

    minimum_event_count: int = 1
    maximum_last_seen_age_seconds: int = 60


class CaseTrigger(msgspec.Struct, frozen=True):
    """How often unhandled cases wake the automation."""

    max_cases_per_sweep: int = 1
    cooldown_seconds: int = 60
    materiality: Thresholds = Thresholds()


class ScheduleTrigger(msgspec.Struct, frozen=True):
    """When a schedule wakes the automation, and how many days its report looks back."""

    cron: str
    timezone: str
    start_window_seconds: int
    period_days: int


class ReviewPlan(msgspec.Struct, frozen=True):
    """Which events a review compares, in their order, and how many people make a sample."""

    events: list[str]
    minimum_sample_size: int


class Scope(msgspec.Struct, frozen=True):
    """What one pull request may touch, and the commands that have to pass (G-109)."""

    allowed_paths: list[str] = []
    test_commands: list[str] = []
    max_files_changed: int = 0
    max_changed_lines: int = 0


class Limits(msgspec.Struct, frozen=True):
    """Budgets; the cost is an exact decimal in US dollars, as a string."""

    max_runs_per_day: int = 0
    max_prs_per_day: int = 0
    max_attempts_per_case_revision: int = 0
    max_turns_per_run: int = 0
    max_runtime_seconds: int = 0
    max_cost_usd_per_run: str = "0"


class Delivery(msgspec.Struct, frozen=True):
    """How code reaches the default branch. `merge_method` and the checks belong to auto_merge alone."""

    mode: DeliveryMode = "review_required"
    merge_method: str | None = None
    required_status_checks: list[str] = []


class VerificationTerms(msgspec.Struct, frozen=True):
    """How long recurrence is watched for, and how much traffic proves anything (G-111)."""

    observation_window_seconds: int = 0
    max_wait_seconds: int = 0
    min_sample_size: int = 1
    traffic_sample_event: str = ""


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """One automation's policy. A case trigger comes with repository and scope, a schedule trigger with a review."""

    playbook: Playbook = Playbook()
    case_trigger: CaseTrigger | None = None
    schedule_trigger: ScheduleTrigger | None = None
    review: ReviewPlan | None = None
    repository: str = ""
    default_branch: str = ""
    environment: str | None = None
    scope: Scope = Scope()
    limits: Limits = Limits()
    delivery: Delivery = Delivery()
    verification: VerificationTerms = VerificationTerms()

    def place(self, mapped: str | None) -> str | None:
        """The environment that its runs heal: the policy's own, else that of the approved signal map (G-134)."""
        return self.environment if self.environment is not None else mapped


class Authority(msgspec.Struct, frozen=True, kw_only=True):
    """Where one automation stands in the contract now. `policy` is None when the contract does not have it.

    `withdrawn_at` is when it was last turned off, or saved anew (epoch seconds).
    """

    automation_id: str
    enabled: bool = False
    paused: bool = False
    generation: int = 0
    withdrawn_at: int = 0
    contract_revision: int = 0
    policy_sha256: str = ""
    policy: Policy | None = None

    def upholds(self, generation: int) -> bool:
        """Whether something made under this generation still has force; a generation has one policy."""
        return self.enabled and not self.paused and self.generation == generation

    def withdrew(self, generation: int, before: int) -> bool:
        """Whether what was made under this generation lost its force no later than `before`."""
        return not self.upholds(generation) and self.withdrawn_at <= before


def require_enabled(authority: Authority, policy_sha256: str | None = None) -> Policy:
    """Return the policy in force, or refuse (G-114).

    With `policy_sha256`, a run that began under another policy is refused too: a narrower policy must not be
    outlived by a run that the wider one started. An automation that a later contract dropped is off. Raises
    PauseInForce, AutomationOff.
    """
    if authority.paused:
        raise PauseInForce(
            "Automation is paused for this project.",
            next_action="An owner reviews the contract and enables it again.",
        )
    if authority.policy is None:
        raise AutomationOff(
            "The contract no longer has this automation.",
            next_action="Stop. An owner can add the automation to the contract again and enable it.",
        )
    if not authority.enabled:
        raise AutomationOff(
            "The automation is disabled.", next_action="An owner reviews the contract and enables the automation."
        )
    if policy_sha256 not in (None, authority.policy_sha256):
        raise AutomationOff(
            "The policy that this run began under is no longer enabled.",
            next_action="Stop this run. A new receipt will follow the policy now in force.",
        )
    return authority.policy


def require_listed(authority: Authority) -> Policy:
    """Return the policy in force of an automation that somebody named.

    Raises AutomationNotFound, and what require_enabled raises.
    """
    if authority.policy is None and not authority.paused:
        raise AutomationNotFound(
            "The contract has no such automation.", next_action="Read the contract and name one of its automations."
        )
    return require_enabled(authority)
