"""Runs with their timelines, approvals, receipts and reports."""

import asyncio
import hashlib
import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import rfc8785

from service.auth.refusals import NotFound
from service.console.kit.diagrams import Passed, draw
from service.console.kit.page import ALL, View, page
from service.console.kit.visit import Json, Visit, together

# Words and marks of runs, requests and grants, for all pages.

RUN_STATUSES = ("draft_pr_opened", "verifying", "succeeded", "failed", "escalated", "cancelled")
KINDS: Mapping[str, str] = {
    "succeeded": "good",
    "approved": "good",
    "settled": "good",
    "consumed": "good",
    "no_recurrence": "good",
    "failed": "bad",
    "escalated": "bad",
    "rejected": "bad",
    "recurred": "bad",
    "unresolved": "bad",
    "invalidated": "bad",
    "cancelled": "",
    "expired": "",
    "revoked": "",
    "closed": "",
    "insufficient_traffic": "wait",
}
OVER = frozenset({"succeeded", "failed", "escalated", "cancelled"})


def kind_of(status: str) -> str:
    """The mark of a status. An open one waits."""
    return KINDS.get(status, "wait")


def words(name: str) -> str:
    """A name of the interface as a person reads it."""
    plain = name.replace("_", " ").strip()
    return re.sub(
        r"\b(pr|ci)\b", lambda found: found[0].upper(), f"{plain[:1].upper()}{plain[1:]}", flags=re.IGNORECASE
    )


# The runs of a project.

RUNS_LISTED = 50


@page("projects/{project_id}/runs", section="runs")
async def show_runs(visit: Visit) -> View:
    """Show runs, newest first, and the number of pending requests."""
    project_id = visit.values["project_id"]
    filters = {name: visit.query.get(name) for name in ("automation_id", "status", "case_id", "cursor")}
    found = await visit.read("list_automation_runs", project_id=project_id, query={**filters, "limit": RUNS_LISTED})
    waiting = await visit.try_read(
        "list_automation_approvals", project_id=project_id, query={"status": "pending", "limit": RUNS_LISTED}
    )
    control = await visit.control(project_id)
    automations = [] if control is None or control["contract"] is None else control["contract"]["automations"]
    facts = {
        "found": found,
        "waiting": waiting,
        "automations": [(one["automation_id"], one["name"]) for one in automations],
        "statuses": [(one, words(one)) for one in RUN_STATUSES],
        "kind_of": kind_of,
        "words": words,
        "filtered": any(filters.values()),
    }
    return View("runs/listed.html", "Runs", facts, project_id, follows=[ALL])


# The timeline of a run. Newest events come first, long pauses are told, and small print is folded away. Owners and
# auditors see the events of the run and of its claim. To members the log is closed. Their timeline has the facts of
# the run itself.

SHOWN = 100
FIRST = 50
PAUSE_SECONDS = 600
NEWEST = 2**53 - 1
NOISE = re.compile(r"charged|renewed|progressed")
MICRO = 1_000_000
MOST_FACTS = 5
LONGEST_FACT = 80
LONGEST_WORD = 28


class Moment(NamedTuple):
    """An event of the timeline, with text facts of its payload. Facts of the run itself have the `revision` 0."""

    at: float
    words: str
    topic: str
    actor: str
    stream_id: str
    revision: int
    position: int
    facts: Sequence[tuple[str, str]]
    payload: Any


class Stretch(NamedTuple):
    """One moment, or several folded ones, and the seconds of silence before."""

    moments: Sequence[Moment]
    folded: bool
    pause: float | None


class Timeline(NamedTuple):
    """A page of a timeline, newest first; the position to look before for older events, if any."""

    stretches: Sequence[Stretch]
    older: int | None
    passed: Sequence[Passed]
    complete: bool
    of_log: bool


async def read_timeline(visit: Visit, run: Json, before: int | None) -> Timeline:
    """The timeline of a run, the last events before a position."""
    own, claim, begin = await _pages(visit, run, before or NEWEST)
    if own is None:
        return Timeline(stretches(told_by(run)), None, (), complete=False, of_log=False)
    events = own["events"] if claim is None else sorted([*own["events"], *claim["events"]], key=_position)
    more = len(events) > SHOWN or any(page["next_before"] for page in (own, claim) if page is not None)
    shown = events[-SHOWN:]
    passed = [Passed(event["revision"], event["topic"]) for event in own["events"]]
    if begin is not None and passed:
        first = [Passed(one["revision"], one["topic"]) for one in begin["events"]]
        passed = [*(one for one in first if one.revision < passed[0].revision), *passed]
    complete = [one.revision for one in passed] == list(range(1, len(passed) + 1)) and before is None
    older = shown[0]["position"] if more and shown else None
    return Timeline(stretches([moment_of(event) for event in shown]), older, passed, complete, of_log=True)


async def _pages(visit: Visit, run: Json, before: int) -> Sequence[Json | None]:
    """The last events of the run and of its claim, and the first events of a long run, read at once."""
    last = {"before": before, "limit": SHOWN}
    wanted = [(run["run_id"], last)]
    wanted += [] if run["claim_id"] is None else [(run["claim_id"], last)]
    wanted += [(run["run_id"], {"limit": FIRST})] if run["state_revision"] > SHOWN else []
    found = await asyncio.gather(
        *(visit.try_read("list_stream_events", stream_id=stream, query=query) for stream, query in wanted)
    )
    pages = iter(found)
    own = next(pages)
    claim = None if run["claim_id"] is None else next(pages)
    return own, claim, next(pages, None)


def _position(event: Json) -> int:
    return int(event["position"])


def moment_of(event: Json) -> Moment:
    """An event as a moment."""
    name = re.sub(r"\.v\d+$", "", event["topic"]).partition(".")
    subject = "" if name[0] == "run" else f"{name[0].replace('_', ' ')} "
    return Moment(
        at=event["recorded_at"] / MICRO,
        words=words(f"{subject}{name[2]}"),
        topic=event["topic"],
        actor=event["actor_kind"],
        stream_id=event["stream_id"],
        revision=event["revision"],
        position=event["position"],
        facts=facts_of(event["payload"]),
        payload=event["payload"],
    )


def facts_of(payload: Any) -> list[tuple[str, str]]:
    """Short members of a payload, as text."""
    if not isinstance(payload, dict):
        return []
    plain: dict[str, Any] = {}
    for name, value in payload.items():
        plain |= value if isinstance(value, dict) and name in {"amounts", "verdict"} else {name: value}
    said = [
        (name.replace("_", " "), str(value))
        for name, value in plain.items()
        if isinstance(value, str | int) and not isinstance(value, bool) and value != ""
    ]
    told = [
        (name, value) for name, value in said if not re.search(r"\bat$|sha256| until$|epoch| id$|^generation$", name)
    ]
    return [(name, _shortened(value)) for name, value in told][:MOST_FACTS]


def _shortened(value: str) -> str:
    longest = LONGEST_FACT if " " in value else LONGEST_WORD
    return value if len(value) <= longest else f"{value[: longest - 1]}…"


def stretches(moments: Sequence[Moment]) -> list[Stretch]:
    """The stretches of moments in the order of time. Newest come first, noise is folded, pauses are told."""
    made: list[Stretch] = []
    before: Moment | None = None
    for noisy, group in groupby(moments, key=lambda one: bool(one.revision and NOISE.search(one.topic))):
        together: list[Moment] = []
        for one in group:
            pause = None if before is None else one.at - before.at
            long = pause is not None and pause >= PAUSE_SECONDS
            if not noisy or long or not together:
                together = [one]
                made.append(Stretch(together, noisy, pause if long else None))
            else:
                together.append(one)
            before = one
    turned = [one._replace(moments=one.moments[::-1], folded=one.folded and len(one.moments) > 1) for one in made]
    return turned[::-1]


def told_by(run: Json) -> list[Moment]:
    """The moments in the facts of a run, in the order of time."""
    found: list[tuple[float | None, str, Sequence[tuple[str, str]]]] = [(run["started_at"], "Started", ())]
    for one in run["approvals"]:
        asked = [("action", one["action"]), ("request", one["approval_id"])]
        found += [(one["requested_at"], "Approval requested", asked), (one["decided_at"], words(one["status"]), asked)]
    for one in run["grants"]:
        granted = [("kind", one["kind"]), ("grant", one["grant_id"])]
        found += [
            (one["authorized_at"], "Grant authorized", granted),
            (one["consumed_at"], "Grant consumed", granted),
            (one["settled_at"], "Grant settled", granted),
        ]
    proof, deploy = run["provider_proof"], run["deploy"]
    if proof is not None:
        found.append((proof["recorded_at"], "PR proof recorded", [("observation", proof["observation"])]))
    if deploy is not None:
        found.append((deploy["recorded_at"], "Deploy bound", [("version", deploy["version"])]))
    found.append((run["finished_at"], f"Over: {run['status']}", ()))
    timed = sorted((at, told, facts) for at, told, facts in found if at is not None)
    return [Moment(at, told, "", "", run["run_id"], 0, 0, facts, None) for at, told, facts in timed]


# Requests for approval as pages show them, each whole, with its hash and its consequence.

DIFFS = ("diff", "patch")
MEANS: Mapping[str, str] = {
    "draft_pr": "Approving lets this run open one pull request within its policy. Opening it still needs a grant.",
    "auto_merge": "Approving lets this run turn on the provider's auto-merge for its one pull request.",
    "escalate": "Approving lets this run hand the case over to a person.",
}
MARKED_LINES = 2000
"""Lines of a diff that are marked one by one. The rest follows whole: nobody approves what is not shown."""


class Line(NamedTuple):
    """A line of a diff: its text and its kind ("added", "removed" or "")."""

    text: str
    kind: str


class ShownRequest(NamedTuple):
    """A request of the interface, its hash, the diffs in its evidence, and the rest of the evidence.

    `case` is the error that its run repairs. None where a schedule began it, and where it was not read. `decided_by` is
    the name of the person who decided, else the id.
    """

    shown: Json
    sha256: str
    diffs: Sequence[tuple[str, Sequence[Line]]]
    evidence: Any
    means: str
    case: Json | None
    decided_by: str | None

    @property
    def pending(self) -> bool:
        """Whether it waits for a decision."""
        return bool(self.shown["status"] == "pending")


async def requests_of(visit: Visit, approvals: Sequence[Json], cases: Mapping[str, Json | None]) -> list[ShownRequest]:
    """Requests for a page, with the case of each by the id of its run, and the names of those who decided."""
    is_decided = any(one["decided_by"] for one in approvals)
    names = await visit.names(approvals[0]["project_id"]) if is_decided else {}
    return [request_of(one, cases.get(one["run_id"]), names) for one in approvals]


async def cases_of(visit: Visit, approvals: Sequence[Json]) -> Mapping[str, Json | None]:
    """The cases that the runs of pending requests repair, by the ids of the runs."""
    ids = list(dict.fromkeys(one["run_id"] for one in approvals if one["status"] == "pending"))
    runs = await together(visit.try_read("get_automation_run", run_id=run_id) for run_id in ids)
    cases = await together(case_of(visit, run) for run in runs)
    return dict(zip(ids, cases, strict=True))


async def case_of(visit: Visit, run: Json | None) -> Json | None:
    """The case of a run. None without one."""
    if run is None or run["case_id"] is None:
        return None
    return await visit.try_read("read_case", case_id=run["case_id"])


def request_of(approval: Json, case: Json | None, names: Mapping[str, str]) -> ShownRequest:
    """A request for a page."""
    evidence = approval["evidence"] or {}
    diffs = [(name, _lines(evidence[name])) for name in DIFFS if isinstance(evidence.get(name), str)]
    rest = {name: value for name, value in evidence.items() if name not in dict(diffs)}
    asked = {name: approval[name] for name in ("approval_id", "run_id", "action", "summary", "evidence")}
    digest = hashlib.sha256(rfc8785.dumps(asked)).hexdigest()
    decided_by = names.get(approval["decided_by"], approval["decided_by"])
    return ShownRequest(approval, digest, diffs, rest, MEANS.get(approval["action"], ""), case, decided_by)


def states_of(requests: Sequence[ShownRequest]) -> dict[str, str]:
    """The facts under a decision. They are the status, the reason and the hash of each request."""
    found = {}
    for one in requests:
        name = f"Request {one.shown['approval_id']}"
        reason = f" ({one.shown['reason']})" if one.shown["reason"] else ""
        found[name] = one.shown["status"] + reason
        found[f"{name}, SHA-256"] = one.sha256
    return found


def _lines(text: str) -> list[Line]:
    lines = text.splitlines()
    marked = [Line(line, _kind(line)) for line in lines[:MARKED_LINES]]
    rest = "\n".join(lines[MARKED_LINES:])
    return [*marked, Line(rest, "")] if rest else marked


def _kind(line: str) -> str:
    if line.startswith("+") and not line.startswith("+++"):
        return "added"
    return "removed" if line.startswith("-") and not line.startswith("---") else ""


# One run, with its standing, requests, use, proofs and history.


@page("runs/{run_id}", section="runs")
async def show_run(visit: Visit) -> View:
    """Show a run."""
    run_id = visit.values["run_id"]
    run = await visit.read("get_automation_run", run_id=run_id)
    timeline = await read_timeline(visit, run, _position_asked(visit))
    observed = await visit.try_read(
        "list_pull_request_observations", project_id=run["project_id"], query={"run_id": run_id, "limit": SHOWN}
    )
    case = await case_of(visit, run)
    requests = await requests_of(visit, run["approvals"], {run_id: case})
    facts: dict[str, Any] = {
        "run": run,
        "case": case,
        "names": await visit.names(run["project_id"]),
        "timeline": timeline,
        "paged": "before" in visit.query,
        "pull_requests": [] if observed is None else observed["pull_requests"],
        "drawing": draw("run", timeline.passed) if timeline.passed else None,
        "waiting": [one for one in requests if one.pending],
        "decided": [one for one in requests if not one.pending],
        "over": run["status"] in OVER,
        "counted": _counted(run),
        "kind_of": kind_of,
        "words": words,
    }
    state = {
        "Phase": words(run["phase"]),
        "Status": words(run["status"] or "not over"),
        "Revision": str(run["state_revision"]),
        **states_of(requests),
    }
    follows = [run_id, *([] if run["claim_id"] is None else [run["claim_id"]])]
    title = f"Run of {run['automation_id']}"
    return View("runs/shown.html", title, facts, run["project_id"], state, follows)


def _position_asked(visit: Visit) -> int | None:
    """The position to look before. Raises NotFound for any other text."""
    asked = visit.query.get("before")
    if asked is None:
        return None
    if not (asked.isascii() and asked.isdigit() and len(asked) < 16):  # noqa: PLR2004 - a safe integer
        raise NotFound
    return int(asked)


def _counted(run: Json) -> list[tuple[str, float, float]]:
    """The ledger of the run, its use of each limit."""
    charges, limits = run["charges"], run["limits"]
    return [
        ("Turns", charges["turns"], limits["max_turns_per_run"]),
        ("Cost in USD", charges["cost_usd"], limits["max_cost_usd_per_run"]),
        ("Run time in seconds", charges["runtime_seconds"], limits["max_runtime_seconds"]),
    ]


# The requests of a project for a decision, pending and decided.

APPROVAL_STATUSES = ("pending", "approved", "rejected", "expired", "cancelled")
APPROVALS_LISTED = 10


@page("projects/{project_id}/approvals", section="approvals")
async def show_approvals(visit: Visit) -> View:
    """Show the pending requests, or those of another status, newest first."""
    project_id = visit.values["project_id"]
    status = visit.query.get("status", "pending")
    query = {"status": status, "cursor": visit.query.get("cursor"), "limit": APPROVALS_LISTED}
    found = await visit.read("list_automation_approvals", project_id=project_id, query=query)
    requests = await requests_of(visit, found["approvals"], await cases_of(visit, found["approvals"]))
    facts = {
        "requests": requests,
        "next_cursor": found["next_cursor"],
        "status": status,
        "statuses": [(one, words(one)) for one in APPROVAL_STATUSES],
        "kind_of": kind_of,
        "words": words,
        "place": f"projects/{project_id}/approvals",
    }
    return View("runs/approvals.html", "Approvals", facts, project_id, states_of(requests), [ALL])


# The receipts of a project: each lets one run begin.

RECEIPT_STATUSES = ("issued", "claimed", "consumed", "expired", "closed", "invalidated")
RECEIPTS_LISTED = 50


@page("projects/{project_id}/receipts", section="runs")
async def show_receipts(visit: Visit) -> View:
    """Show receipts, newest first, and let a person look for work now."""
    project_id = visit.values["project_id"]
    filters = {name: visit.query.get(name) for name in ("automation_id", "status", "cursor")}
    found = await visit.read(
        "list_automation_trigger_receipts", project_id=project_id, query={**filters, "limit": RECEIPTS_LISTED}
    )
    control = await visit.control(project_id)
    automations = [] if control is None or control["contract"] is None else control["contract"]["automations"]
    facts = {
        "found": found,
        "automations": [(one["automation_id"], one["name"]) for one in automations],
        "statuses": [(one, words(one)) for one in RECEIPT_STATUSES],
        "kind_of": kind_of,
        "words": words,
        "filtered": any(filters.values()),
    }
    return View("runs/receipts.html", "Receipts", facts, project_id, follows=[ALL])


# The weekly reports of a project.

REPORTS_LISTED = 50


@page("projects/{project_id}/reports", section="reports")
async def show_reports(visit: Visit) -> View:
    """Show the newest reports, and older ones by the runs that recorded them."""
    project_id = visit.values["project_id"]
    control = await visit.read("get_automation_control", project_id=project_id)
    query = {"status": "succeeded", "cursor": visit.query.get("cursor"), "limit": REPORTS_LISTED}
    runs = await visit.read("list_automation_runs", project_id=project_id, query=query)
    recent = {one["run_id"]: one for one in control["recent_reports"]}
    reports = [{**run, "period": recent.get(run["run_id"])} for run in runs["runs"] if run["report_id"] is not None]
    facts = {"reports": reports, "next_cursor": runs["next_cursor"]}
    return View("reports/listed.html", "Reports", facts, project_id, follows=[ALL])


# One weekly report: its numbers, guesses and gaps, each as text.


@page("runs/{run_id}/report", section="reports")
async def show_report(visit: Visit) -> View:
    """Show the report of a run. Raises NotFound when it has none."""
    run = await visit.read("get_automation_run", run_id=visit.values["run_id"])
    output = run["output"]
    if run["report_id"] is None or output is None:
        raise NotFound
    kinds = {
        kind: [one for one in output["findings"] if one["kind"] == kind]
        for kind in ("metric", "hypothesis", "readiness_gap")
    }
    kinds["hypothesis"].sort(key=lambda one: one["rank"])
    facts = {"run": run, "output": output, **kinds}
    return View("reports/shown.html", "Weekly report", facts, run["project_id"])


PAGES = [show_runs, show_run, show_approvals, show_receipts, show_reports, show_report]
