"""Suppression rules on the wire."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from projections.cases import SuppressionRule
from schemas.cases.suppression import (
    PreviewWindow,
    Suppression,
    SuppressionCreated,
    SuppressionList,
    SuppressionPreview,
    SuppressionRemoved,
)
from service.cases.reads.previewing import Preview

_NEXT = {
    "auto_ignore": "Nothing to do. Matching cases leave the open list. Their errors still count.",
    "auto_resolve": "Nothing to do. Matching cases are closed, and further errors do not open them.",
    "prompt_hint": "Nothing to do. Matching cases show the hint.",
}


def listed(project_id: str, rules: Sequence[SuppressionRule]) -> SuppressionList:
    """Show all rules of a project."""
    shown = [Suppression(**_members(rule)) for rule in rules]
    following = (
        "Delete a rule with DELETE on its id." if shown else "Try a pattern with the preview before making a rule."
    )
    return SuppressionList(project_id, shown, len(shown), following)


def created(project_id: str, rule: SuppressionRule) -> SuppressionCreated:
    """Show a rule that was just made."""
    return SuppressionCreated(**_members(rule), project_id=project_id, next_action=_NEXT[rule.action])


def removed(project_id: str, suppression_id: str) -> SuppressionRemoved:
    """Show that a rule is no more."""
    following = "Reopen the cases it closed or ignored if they matter again."
    return SuppressionRemoved(id=suppression_id, project_id=project_id, next_action=following)


def previewed(project_id: str, pattern: str, preview: Preview) -> SuppressionPreview:
    """Show what a pattern would have met."""
    complete = preview.compared_from is None
    if complete and not preview.cases:
        following = "Nothing matches: try a broader pattern."
    elif complete and all(window.complete for window in preview.windows):
        following = "Create the rule if these are the cases you mean."
    else:
        following = "Create the rule if these are the cases you mean. Incomplete counts are lower bounds."
    return SuppressionPreview(
        project_id=project_id,
        fingerprint_pattern=pattern,
        cases=preview.cases,
        complete=complete,
        compared_from=preview.compared_from,
        windows=[PreviewWindow(*window) for window in preview.windows],
        next_action=following,
    )


def _members(rule: SuppressionRule) -> dict[str, Any]:
    return {
        "id": rule.id,
        "fingerprint_pattern": rule.fingerprint_pattern,
        "action": cast("Any", rule.action),
        "reason": rule.reason,
        "hint_text": rule.hint_text,
        "created_at": rule.created_at,
    }
