"""Breaches of the rules of a runner, found in its requests, effects and files."""

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from service.conformance.trial import Trial
from service.conformance.wire import FOREIGN, WRITES, Exchange
from service.testing.host import HostVisit
from service.testing.loopback import Heard
from service.testing.shop import BASE, Pushed

# A broken rule, with the guilty request.

BODY_CHARACTERS = 300


class Breach(NamedTuple):
    """A rule, the fault in words, and the request as a line of text."""

    rule: str
    says: str
    request: str = ""


def show_request(asked: Heard) -> str:
    """A request in one line, without its credential."""
    key = asked.headers.get("idempotency-key")
    target = f"{asked.path}?{asked.query}" if asked.query else asked.path
    parts = [f"{asked.method} {target}", *([f"key {key}"] if key else [])]
    if asked.body:
        parts.append(asked.body[:BODY_CHARACTERS].decode(errors="replace"))
    return "  ".join(parts)


def breach(rule: str, says: str, by: Exchange | HostVisit | Heard | None = None) -> Breach:
    """Name a broken rule."""
    if by is None:
        return Breach(rule, says)
    if isinstance(by, Exchange):
        heard = "no answer" if by.status is None else str(by.status)
        return Breach(rule, says, f"#{by.number} {show_request(by.asked)}  -> {heard}{f' {by.code}' * bool(by.code)}")
    if isinstance(by, HostVisit):
        return Breach(rule, says, f"{show_request(by.asked)}  -> {by.status}")
    return Breach(rule, says, show_request(by))


def show_body(value: object) -> str:
    """A value as JSON, short."""
    return msgspec.json.encode(value).decode()[:BODY_CHARACTERS]


# The one effect of a run, its pull request: only after a consumed grant, once, and as it was authorized.


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
        if pull.head != wish["head_branch"]:
            yield breach("R-AUT-38", f"The pull request is of {pull.head}, which was not authorized.", grant)
        if pull.draft != (wish["delivery_mode"] == "review_required"):
            what = "is a draft, and the host merges none" if pull.draft else "is no draft"
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


# Requests sent again: the same after a lost answer or a wait, and never in a blind loop.

EARLY_SECONDS = 0.1
"""How much too early is on time: clocks of two programs."""
MOST_REFUSALS = 3
RULES = {202: "R-ERR-14", 429: "G-012", 503: "R-ERR-08"}
"""The rule of each status that tells a runner to wait."""


def next_of(trial: Trial, one: Exchange) -> Exchange | None:
    """The next request for the same operation of the same object."""
    return next((other for other in trial.exchanges if other.number > one.number and other.same_target(one)), None)


def looked_between(trial: Trial, one: Exchange, other: Exchange) -> bool:
    """Whether the runner read where it stands between two requests."""
    return any(each.looks and one.number < each.number < other.number for each in trial.exchanges)


def lost(trial: Trial) -> Iterator[Breach]:
    """After a lost answer comes the same request with the same key, or a look at the result."""
    for one in trial.of(*WRITES):
        again = next_of(trial, one) if one.status is None else None
        if again is None or again.repeats(one):
            continue
        looked = looked_between(trial, one, again)
        if not looked or (one.key is not None and again.intent == one.intent):
            told = "After a lost answer, the same request came with another key or body"
            yield breach("G-008", f"{told} than #{one.number} (key {one.key}).", again)


def waited(trial: Trial) -> Iterator[Breach]:
    """A refused request comes again after Retry-After, with its key."""
    for one in trial.exchanges:
        again = next_of(trial, one) if one.retry_after else None
        if again is None or one.status not in RULES:
            continue
        after = again.asked.at - one.answered_at
        if after < one.retry_after - EARLY_SECONDS:
            told = f"Retry-After of #{one.number} was {one.retry_after:.0f} s, and it came again after {after:.2f} s."
            yield breach(RULES[one.status], told, again)
        elif one.refused and one.operation in WRITES and not again.repeats(one):
            yield breach("R-ERR-08", f"The retry of #{one.number} has another key or body.", again)


def blind(trial: Trial) -> Iterator[Breach]:
    """A final refusal ends a request."""
    refused: dict[tuple[str, str, str | None, bytes], int] = {}
    for one in trial.exchanges:
        if not one.refused or one.retry_after or one.fault:
            continue
        same = (one.operation, one.asked.path, one.key, one.asked.body)
        refused[same] = refused.get(same, 0) + 1
        if refused[same] == MOST_REFUSALS + 1:
            yield breach("R-ERR-09", f"The same refused request came {refused[same]} times.", one)


# The credential goes to the service alone, in one header (R-CRED-15), and nobody is led astray by text (R-GEN-13).

OUT = "R-CRED-15"
LED = "R-GEN-13"
REDIRECT = "/moved"
"""The path of the redirect, which a runner may visit without its credential."""


def leaks(trial: Trial) -> Iterator[Breach]:
    """The credential anywhere but in the header of a request to the service."""
    secret = trial.project.secret
    for exchange in trial.exchanges:
        headers = {name: value for name, value in exchange.asked.headers.items() if name != "authorization"}
        if exchange.asked._replace(headers=headers).holds(secret):
            yield breach(OUT, "The credential is in the text of a request.", exchange)
    for visit in trial.host.visits:
        if visit.asked.holds(secret):
            yield breach(OUT, "The credential went to the code host.", visit)
    for asked in trial.elsewhere.visits:
        if asked.holds(secret):
            yield breach(OUT, "The credential went to another host.", asked)
    if secret in trial.process.output():
        yield breach(OUT, "The runner printed its credential.")
    for pushed in trial.repository.pushes():
        if pushed.sha and secret in trial.repository.written(pushed.sha):
            yield breach(OUT, f"The credential was pushed in {pushed.branch}.")


def astray(trial: Trial) -> Iterator[Breach]:
    """Requests without a reason: to other hosts, or to operations of other principals."""
    for asked in trial.elsewhere.visits:
        if asked.path != REDIRECT:
            yield breach(LED, "A text of telemetry led to a request to another host.", _without_secret(asked))
    for exchange in trial.exchanges:
        if exchange.operation == FOREIGN:
            yield breach("R-AUTH-12", "A runner has no such operation.", exchange)


def _without_secret(asked: Heard) -> Heard:
    return asked._replace(headers={})


# The rules of every scenario, in one place.


def judge_everywhere(trial: Trial, rule: str) -> Iterator[Breach]:
    """Look for every breach. `rule` is the rule of an effect without permission."""
    yield from leaks(trial)
    yield from astray(trial)
    yield from unpermitted(trial, rule)
    yield from once(trial)
    yield from as_granted(trial)
    yield from charged(trial)
    yield from lost(trial)
    yield from waited(trial)
    yield from blind(trial)
