"""Error codes with their statuses and texts (G-006), and those that commands on automation are refused with."""

from typing import NamedTuple

import msgspec

# An error code with its status, its texts, and whether a repeat may succeed (G-006).


class ErrorText(msgspec.Struct, frozen=True):
    """A message and its next action."""

    message: str
    next_action: str


class ErrorCode(NamedTuple):
    """A code: HTTP status, retryability and the default texts. `others` are sent where they fit better."""

    status: int
    retryable: bool
    message: str
    next_action: str
    others: tuple[ErrorText, ...] = ()

    @property
    def texts(self) -> tuple[ErrorText, ...]:
        """Every listed text, the default first."""
        return (ErrorText(self.message, self.next_action), *self.others)


def code(status: int, message: str, next_action: str, *others: tuple[str, str], retryable: bool = False) -> ErrorCode:
    """Declare a code. `others` are further messages, each with its next action."""
    return ErrorCode(status, retryable, message, next_action, tuple(ErrorText(*text) for text in others))


# The codes that commands on automation are refused with, and every text that each is sent with (G-006). A test reads
# the texts out of the refusals themselves: what is listed here is what clients get, and nothing else.

RUN_ERRORS: dict[str, ErrorCode] = {
    "automation_mismatch": code(
        403,
        "The credential belongs to another automation.",
        "Use the credential of this automation.",
    ),
    "claim_required": code(
        403,
        "The case is shown only to the runner that holds it.",
        "Claim the case with a trigger receipt first.",
        ("The run belongs to another runner.", "Act with the credential that began it."),
        ("The claim belongs to another automation.", "Act with a credential of its automation."),
    ),
    "automation_not_found": code(
        404,
        "The contract has no such automation.",
        "Read the contract and name one of its automations.",
    ),
    "trigger_receipt_not_found": code(
        404,
        "There is no such receipt.",
        "List the trigger receipts of the project.",
    ),
    "claim_not_found": code(
        404,
        "There is no such claim.",
        "Read the active claim of the case.",
        ("No claim holds this case.", "Wait for a receipt for the case, and claim it."),
    ),
    "run_not_found": code(
        404,
        "There is no such run.",
        "List the runs of the project.",
    ),
    "approval_not_found": code(
        404,
        "There is no such approval.",
        "List the approvals of the project.",
    ),
    "automation_disabled": code(
        409,
        "The contract no longer has this automation.",
        "Stop. An owner can add the automation to the contract again and enable it.",
        ("The automation is disabled.", "An owner reviews the contract and enables the automation."),
        (
            "The policy that this run began under is no longer enabled.",
            "Stop this run. A new receipt will follow the policy now in force.",
        ),
    ),
    "automation_paused": code(
        409,
        "Automation is paused for this project.",
        "An owner reviews the contract and enables it again.",
        (
            "An operator has stopped all automation of this installation.",
            "Wait until the operator lifts the stop. Then review the contract and enable it.",
        ),
    ),
    "receipt_not_claimable": code(
        409,
        "The receipt is over.",
        "Wait for a new receipt for this case.",
        ("The receipt is over.", "Wait for the receipt of the next slot."),
        ("The receipt is not for this case.", "Read the receipt, which names its case."),
        ("The receipt cannot be claimed.", "Wait for a new receipt for this case."),
    ),
    "receipt_already_consumed": code(
        409,
        "The receipt has started its run already.",
        "Read the run it names.",
    ),
    "receipt_expired": code(
        409,
        "The receipt has expired.",
        "Wait for a new receipt.",
        ("The receipt has expired.", "Wait for the receipt of the next slot."),
    ),
    "receipt_policy_superseded": code(
        409,
        "The contract has changed since the receipt was issued.",
        "Wait for a new receipt.",
    ),
    "materiality_not_met": code(
        409,
        "The case no longer meets the policy's thresholds.",
        "Wait for a new receipt.",
    ),
    "case_not_actionable": code(
        409,
        "An overflow, merged or full case does not accept this action.",
        "Read the case again and decide from its present state.",
        (
            "The case was merged into another one.",
            "Act on the case named in details.merged_into, or split this one off it first.",
        ),
        (
            "An overflow case holds many kinds of errors.",
            "Ignore or assign it. Its errors open cases of their own once the limit allows.",
        ),
        (
            "The case to merge into was merged into another one itself.",
            "Merge into the case named in details.merged_into.",
        ),
        ("The target of the merge is an overflow case.", "Merge into a case of one kind of error."),
        ("A case takes at most 1,000 comments.", "Write what follows in your own tracker."),
        (
            "A case takes at most 500 records of agents' runs.",
            "Record what follows in your own tracker. Ignore the case if it is noise.",
        ),
    ),
    "case_revision_stale": code(
        409,
        "The case is no longer at this revision.",
        "Wait for a new receipt for the case as it is now.",
        (
            "The claim holds the case at another revision.",
            "Read the active claim of the case, and continue with its revision.",
        ),
        ("The case has changed since you read it.", "Read the case again and decide from its present state."),
        ("The case has reached its limit of merged cases.", "Merge into another case, or split some off first."),
        ("A case cannot be merged into itself.", "Name another case."),
        (
            "No errors of this fingerprint were merged into the case.",
            "Read the case. `merged` lists the cases you can split off.",
        ),
    ),
    "case_already_claimed": code(
        409,
        "Another claim holds the case.",
        "Wait until that claim has ended.",
        (
            "A runner is working on the case, so its errors must not change.",
            "Wait until its claim ends, or release the claim, then retry.",
        ),
    ),
    "claim_required_for_run": code(
        409,
        "A run of a case begins under the caller's own live claim.",
        "Claim the case of the receipt first.",
    ),
    "claim_not_active": code(
        409,
        "The claim of the run is no longer active.",
        "Read the run for its outcome. It accepts no further step.",
        ("The claim is no longer active.", "Wait for a new receipt for this case."),
    ),
    "stale_lease_epoch": code(
        409,
        "The lease epoch is not the one of this run.",
        "Discard the work of the other lease, and read the run.",
        (
            "The lease epoch is not the one of this claim.",
            "Discard the work of the older lease, and read the active claim of the case.",
        ),
    ),
    "lease_expired": code(
        409,
        "The lease of the run has ended.",
        "Read the run for its outcome. It accepts no further step.",
        ("The lease has ended.", "Discard the work of this lease. You can claim a later receipt."),
    ),
    "stale_state_revision": code(
        409,
        "The run has changed since this state revision.",
        "Read the run and decide again whether the command still applies.",
    ),
    "run_transition_not_allowed": code(
        409,
        "The phase of the run does not allow this.",
        "Read the run and follow its next_action.",
        (
            "The playbook of the run does not have this action.",
            "Request an action of the run's playbook. A person cannot approve another one.",
        ),
    ),
    "run_terminal": code(
        409,
        "The run is over.",
        "Read the run for its outcome.",
        ("The run is over.", "Read the run for its outcome. It accepts no further step."),
        ("The run is over.", "Read the run for its outcome. It has already ended."),
        ("The run is over.", "Read the run. It accepts no further proof."),
        ("The run is over.", "Read the run. This observation changes nothing in it."),
    ),
    "deadline_exceeded": code(
        409,
        "The deadline of the run has passed.",
        "Read the run for its outcome.",
        ("The deadline of the run has passed.", "Read the run for its outcome. It accepts no further step."),
    ),
    "budget_exhausted": code(
        409,
        "A budget of the automation does not allow this.",
        "Wait until the budget resets, or stop here. An owner can change the contract.",
    ),
    "approval_pending": code(
        409,
        "A person has not decided yet.",
        "Wait for the decision, then read the run.",
    ),
    "approval_rejected": code(
        409,
        "A person has refused this action for the run.",
        "Escalate, or end the run as failed.",
    ),
    "approval_already_decided": code(
        409,
        "The request is no longer open.",
        "Read the run. Make a new request for a new decision.",
    ),
    "approval_cancelled": code(
        409,
        "The run of this request is over.",
        "Read the run for its outcome. Nothing is left to decide.",
    ),
    "scope_violation": code(
        409,
        "The change leaves the approved scope.",
        "Keep the change within the policy's repository, paths, limits and tests.",
    ),
    "grant_not_available": code(
        409,
        "The grant has lapsed.",
        "Authorize the change again.",
        ("The run has no such grant.", "Authorize the change again, while the policy allows it."),
        ("The grant is not available.", "Authorize the change again, while the policy allows it."),
    ),
    "grant_already_authorized": code(
        409,
        "The run has a grant for another change.",
        "Use that grant, or let it expire unconsumed.",
    ),
    "delivery_mode_mismatch": code(
        409,
        "The policy delivers code in another mode.",
        "Deliver the change as the policy says.",
        ("The policy leaves merging to people.", "Deliver the change as the policy says."),
        ("The policy merges by another method.", "Deliver the change as the policy says."),
        ("The policy leaves merging to people.", "Prove that the pull request was merged, once it is."),
    ),
    "pr_proof_required": code(
        409,
        "Readiness of the pull request has not been proven.",
        "Let CI prove checks_passed for this head first.",
        ("No grant for a pull request was consumed.", "Consume the grant first."),
        ("CI has not proven that the pull request is open.", "Prove the earlier observations first."),
        ("No grant for auto-merge was consumed.", "Prove the earlier observations first."),
        ("CI has not proven that auto-merge is on.", "Prove the earlier observations first."),
        ("CI has not proven that the pull request was closed.", "Prove the earlier observations first."),
        ("The run ends with a report: it has no pull request.", "Read the run and follow its next_action."),
    ),
    "pr_proof_mismatch": code(
        409,
        "The pull request is not the one that was granted.",
        "Report the pull request exactly as it was granted.",
        ("Protection was bypassed.", "Report the pull request exactly as it was granted."),
        ("The pull request is not the one that was proven open.", "Report the pull request exactly as it was granted."),
        ("Branch protection is not enforced.", "Report the pull request exactly as it was granted."),
        ("The pull request is still a draft.", "Report the pull request exactly as it was granted."),
        ("The merge method is not the granted one.", "Report the pull request exactly as it was granted."),
        (
            "This observation was already proven with other values.",
            "Report the pull request exactly as it was granted.",
        ),
        ("The pull request is not the one that was proven ready.", "Name the proven pull request."),
        ("The pull request is not the one that was granted.", "Report the pull request of the grant."),
        ("The checks are not the required ones.", "Report the pull request exactly as it was granted."),
        ("Auto-merge is on before it was granted.", "Report the pull request exactly as it was granted."),
        ("Auto-merge is not on.", "Report the pull request exactly as it was granted."),
        ("The pull request was merged, or CI did not say.", "Report the pull request exactly as it was granted."),
        ("The merge commit is missing.", "Report the pull request exactly as it was granted."),
        ("The pull request is not in the granted draft state.", "Report the pull request exactly as it was granted."),
        (
            "The pull request changes files outside the approved scope.",
            "Close the pull request. An owner can cancel the run.",
        ),
        ("A required check has not succeeded.", "Report the pull request exactly as it was granted."),
    ),
    "deploy_not_bound": code(
        409,
        "No trusted deploy of the proven commit is bound to the run.",
        "Record the deploy from CI, with the full commit.",
        ("The run ends with a report: it has no deploy.", "Read the run and follow its next_action."),
    ),
}
