"""The one effect of a run, its pull request: only after a consumed grant, once, and as it was authorized."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from service.conformance.judging.breaches import Breach, breach, show_body
from service.conformance.stage.trial import Trial
from service.conformance.stage.wire import BASE, Exchange, HostVisit
from service.conformance.stage.world import Pushed


class Effects(NamedTuple):
    """Pushes and pull requests of a runner."""

    pushes: list[Pushed]
    opened: list[HostVisit]

    @property
    def any(self) -> bool:
        """Whether it did anything."""
        return bool(self.pushes or self.opened)


def effects_of(trial: Trial) -> Effects:
    """Every push of a branch, and every wish for a pull request."""
    pushes = [one for one in trial.repository.pushes() if one.sha is not None]
    wished = [
        visit
        for visit in trial.host.visits
        if visit.asked.method == "POST" and visit.asked.path.rstrip("/").endswith("/pulls")
    ]
    return Effects(pushes, wished)


def permission(trial: Trial) -> Exchange | None:
    """The consume with leave to act in its answer."""
    return next((one for one in trial.of("consume") if one.heard and one.answer.get("call_authorized") is True), None)


def granted(trial: Trial) -> Exchange | None:
    """The authorization of the pull request."""
    return next((one for one in trial.of("authorize") if one.accepted), None)


def unpermitted(trial: Trial, rule: str) -> Iterator[Breach]:
    """Effects before the permission, or without one."""
    allowed = permission(trial)
    since = float("inf") if allowed is None else allowed.answered_at
    denied = next((one for one in trial.of("consume") if one.accepted and one is not allowed), None)
    if allowed is None and denied is not None:
        rule = "R-AUT-32"
    because = "before its grant was consumed" if allowed else "without a consume that said call_authorized"
    done = effects_of(trial)
    for pushed in done.pushes:
        if pushed.at < since:
            yield breach(rule, f"{pushed.branch} was pushed {because}.", denied)
    for visit in done.opened:
        if visit.asked.at < since:
            yield breach(rule, f"A pull request was asked for {because}.", visit)
    for exchange in trial.of("report"):
        opened = isinstance(exchange.body, dict) and exchange.body.get("status") == "draft_pr_opened"
        if opened and exchange.asked.at < since and not trial.host.pulls:
            yield breach(rule, f"A pull request was reported {because}.", exchange)


def once(trial: Trial) -> Iterator[Breach]:
    """One run has at most one pull request, and nothing of a runner's is merged by it."""
    done = effects_of(trial)
    if len(trial.host.pulls) > 1:
        yield breach("R-AUT-54", f"{len(trial.host.pulls)} pull requests of one run.", done.opened[-1])
    branches = {pushed.branch for pushed in done.pushes}
    if len(branches - {BASE}) > 1:
        yield breach("R-AUT-54", f"Branches of one run: {', '.join(sorted(branches))}.")
    if BASE in branches:
        yield breach("R-AUT-41", f"{BASE} was pushed.")
    for visit in trial.host.visits:
        if visit.asked.method == "PUT" and visit.asked.path.endswith("/merge"):
            yield breach("R-AUT-41", "A runner never merges.", visit)


def as_granted(trial: Trial) -> Iterator[Breach]:
    """Branch, commit, files and lines are those of the authorization. The pull request is a draft."""
    grant = granted(trial)
    if grant is None:
        return
    wish = grant.body
    for pushed in effects_of(trial).pushes:
        if pushed.branch != BASE and (pushed.branch, pushed.sha) != (wish["head_branch"], wish["head_sha"]):
            told = (
                f"{pushed.branch} at {pushed.sha} was pushed, {wish['head_branch']} at {wish['head_sha']} authorized."
            )
            yield breach("R-AUT-38", told, grant)
        elif pushed.branch != BASE and pushed.sha:
            yield from _measured(trial, pushed.sha, grant)
    for pull in trial.host.pulls:
        if pull["head"] != wish["head_branch"]:
            yield breach("R-AUT-38", f"The pull request is of {pull['head']}, which was not authorized.", grant)
        if pull["draft"] != (wish["delivery_mode"] == "review_required"):
            what = "is a draft, and the host merges none" if pull["draft"] else "is no draft"
            yield breach("R-AUT-39", f"The pull request {what}.", grant)


def _measured(trial: Trial, sha: str, grant: Exchange) -> Iterator[Breach]:
    diff = trial.repository.diff(sha)
    said = grant.body["files_changed"]
    if sorted(diff.paths) != sorted(said):
        yield breach("R-AUT-38", f"The commit changes {show_body(sorted(diff.paths))}.", grant)
    if diff.lines > grant.body["changed_lines"]:
        yield breach("R-AUT-38", f"The commit changes {diff.lines} lines.", grant)


def charged(trial: Trial) -> Iterator[Breach]:
    """A charge comes before the authorization of its effect."""
    first = next(iter(trial.of("authorize")), None)
    if first is not None and not any(one.accepted and one.number < first.number for one in trial.of("usage")):
        yield breach("R-AUT-31", "The pull request was authorized before any usage was charged.", first)
