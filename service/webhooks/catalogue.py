"""Which events of the log are delivered, and under which names (G-091, G-160)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import get_args

from schemas.webhooks.event import DocumentedName
from statemachines.alerts import alert
from statemachines.cases import case
from statemachines.deploys import deploy
from statemachines.kernel.topics import UnknownTopic, latest_topic
from statemachines.onboarding import lifecycle
from statemachines.runs import approval
from statemachines.runs import events as runs

STAR = "*"
DOCUMENTED: frozenset[str] = frozenset(get_args(DocumentedName))
"""What `*` stands for."""

TOPICS: Mapping[str, tuple[str, ...]] = {
    "case.created": (
        case.CaseOpened.TOPIC,
        case.CaseOpenedIgnored.TOPIC,
        case.CaseOpenedResolved.TOPIC,
        case.CaseOverflowOpened.TOPIC,
    ),
    "case.regressed": (case.CaseRegressed.TOPIC,),
    "case.resolved": (case.CaseResolved.TOPIC, case.CaseResolvedByMember.TOPIC),
    "case.ignored": (case.CaseIgnored.TOPIC, case.CaseIgnoredByMember.TOPIC),
    "deploy.recorded": (deploy.DeployRecorded.TOPIC,),
    "case.reopened": (case.CaseReopened.TOPIC, case.CaseOverflowReopened.TOPIC),
    "case.merged": (case.CaseMerged.TOPIC,),
    "case.split": (case.CaseSplitOff.TOPIC,),
    "case.assigned": (case.CaseAssigned.TOPIC,),
    "onboarding.approved": (lifecycle.OnboardingApproved.TOPIC,),
    "onboarding.verified": (lifecycle.OnboardingVerified.TOPIC,),
    "run.started": (runs.RunStarted.TOPIC,),
    "run.ended": (
        runs.RunVerified.TOPIC,
        runs.RunVerificationFailed.TOPIC,
        runs.RunReported.TOPIC,
        runs.RunFailed.TOPIC,
        runs.RunFailedOutside.TOPIC,
        runs.RunClosedUnmerged.TOPIC,
        runs.RunClosedDeployed.TOPIC,
        runs.RunMergedChanged.TOPIC,
        runs.RunMergedChangedDeployed.TOPIC,
        runs.RunEscalated.TOPIC,
        runs.RunEscalatedOutside.TOPIC,
        runs.RunCancelled.TOPIC,
        runs.RunCancelledOutside.TOPIC,
    ),
    "approval.requested": (approval.ApprovalRequested.TOPIC,),
    "alert.triggered": (alert.AlertTriggered.TOPIC,),
    "alert.cleared": (alert.AlertCleared.TOPIC,),
    "approval.decided": (approval.ApprovalGiven.TOPIC, approval.ApprovalRefused.TOPIC),
}
_NAMES = {topic: name for name, topics in TOPICS.items() for topic in topics}


def name_of(topic: str) -> str | None:
    """The name under which an event of any version is delivered. None: it is not."""
    try:
        return _NAMES.get(latest_topic(topic))
    except UnknownTopic:
        return None


def is_subscribed(events: Collection[str], name: str) -> bool:
    """Whether a subscription holds a name. `*` holds the documented ones alone."""
    return name in events or (STAR in events and name in DOCUMENTED)
