"""The command `service-runner`: its arguments, its environment, and its exit codes."""

import argparse
import fcntl
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NoReturn

from service.runner.access import TOKENS, AskedRepository, Unsuitable, make_repository, take_tokens
from service.runner.answers import Json, Malformed, check_source
from service.runner.change import Notes
from service.runner.child import harden
from service.runner.files import NotPlain, directory, existing, open_below
from service.runner.git import Checkout, GitFailed, GitRemote, Store, open_checkout
from service.runner.loop import Runner, RunnerSettings
from service.runner.pull import say
from service.runner.repair import Program, RepairPlace
from service.runner.service_calls import Service, ServiceRefused
from service.runner.wall import Wall
from service.runner.web import GaveUp

DONE, FAILED, OCCUPIED = 0, 1, 3
_LOCK = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
RENEW_SECONDS = 300
CHECKS_SECONDS = 1800
BEAT_PATIENCE = 30
CREDENTIAL = "SERVICE_RUNNER_API_KEY"
_DESCRIPTION = """\
Repairs one error for one automation, and opens the one pull request: a draft for people, or in auto_merge one that the
code host merges by itself. Start it again and again: each start goes on where the last one ended.
`service-runner report` writes the reports of a weekly review instead, see `service-runner report --help`.
"""
_ENDING = f"""\
environment:
  SERVICE_URL             address of the service
  {CREDENTIAL}  runner credential of the automation; goes to SERVICE_URL alone
  SERVICE_PROJECT_ID      the project, in place of --project
  GITHUB_TOKEN            token that may push and open pull requests at GitHub
  GITLAB_TOKEN            the same for GitLab; each goes to its host alone

CMD gets none of these. It runs in a clean copy of the default branch, with the evidence in the JSON file that
SERVICE_EVIDENCE names. It may write a title and a reason for its change into the files that SERVICE_TITLE_FILE and
SERVICE_REASON_FILE name.

exit codes: 0 it did its part, or there was nothing to do; 1 it was refused or failed, and says why; 2 used wrongly;
3 another start is at work in the checkout
"""


def make_parser() -> argparse.ArgumentParser:
    """The arguments."""
    parser = argparse.ArgumentParser(
        prog="service-runner",
        description=_DESCRIPTION,
        epilog=_ENDING,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--project", metavar="ID", default=os.environ.get("SERVICE_PROJECT_ID"), help="project of the automation")
    add("--checkout", metavar="DIR", type=Path, default=Path(), help="a clone of the repository (default: here)")
    add("--remote", default="origin", help="remote of the checkout, by its name or address (default: origin)")
    add("--repository", metavar="URL", help="address of the repository on the web (default: told by the remote)")
    add("--host", choices=list(TOKENS), help="the code host (default: told by the address of the repository)")
    add(
        "--host-api",
        metavar="URL",
        help="address of the host's REST interface (default: that of the repository's host)",
    )
    add("--isolate", choices=["auto", "always", "never"], default="auto",
        help="run CMD in namespaces of Linux: if there are any, only then, or not at all (default: auto)")  # fmt: skip
    add("--approval", choices=["never", "always"], default="never",
        help="ask an owner to approve the change before the draft is opened (default: never)")  # fmt: skip
    add("--description", choices=["error", "ids"], default="error",
        help="in the pull request, name the error, its counts and a reason, or ids alone (default: error)")  # fmt: skip
    add("--pass", dest="passed", metavar="NAME", action="append", default=[],
        help="let CMD have this variable too, such as the key of a coding tool; may be repeated")  # fmt: skip
    add(
        "--timeout", metavar="SECONDS", type=_positive, help="time of CMD (default: a third of the contract's run time)"
    )
    add("--turns", metavar="N", type=_positive, default=1, help="turns to charge for CMD (default: 1)")
    add("--cost-usd", metavar="USD", type=_amount, default=0.0, help="cost to charge for CMD (default: 0)")
    add("--renew", metavar="SECONDS", type=_positive, default=RENEW_SECONDS,
        help=f"renew the lease so often while CMD runs (default: {RENEW_SECONDS})")  # fmt: skip
    add("--checks", metavar="SECONDS", type=_positive, default=CHECKS_SECONDS,
        help=f"in auto_merge, wait so long for the required checks (default: {CHECKS_SECONDS})")  # fmt: skip
    add("--work-dir", metavar="DIR", type=Path, help="where working copies are made (default: the temporary directory)")
    add("command", metavar="CMD", nargs="+", help="the program that repairs, after --")
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError
    return number


def _amount(text: str) -> float:
    amount = round(float(text), 6)
    if not 0 <= amount < float("inf"):
        raise ValueError
    return amount


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run, and end with the exit code. `report` as the first word writes the reports of a weekly review."""
    words = sys.argv[1:] if arguments is None else arguments
    if list(words[:1]) == ["report"]:
        report(words[1:])
    parser = make_parser()
    given = parser.parse_args(arguments)
    url, credential = os.environ.get("SERVICE_URL"), os.environ.pop(CREDENTIAL, None)
    if not (url and credential and given.project):
        parser.error(f"SERVICE_URL, {CREDENTIAL} and --project are needed")
    if not given.checkout.is_dir():
        parser.error("--checkout is no directory")
    tokens = take_tokens()
    secret = {CREDENTIAL, *(name for names in TOKENS.values() for name in names)}
    if secret & set(given.passed):
        parser.error(f"--pass does not hand {', '.join(sorted(secret & set(given.passed)))} on")
    signal.signal(signal.SIGTERM, _end)
    harden()
    try:
        checkout = open_checkout(given.checkout.resolve(), given.remote)
        repository = make_repository(
            checkout.url, AskedRepository(given.repository, given.host, given.host_api), tokens
        )
        settings = RunnerSettings(
            given.turns,
            given.cost_usd,
            given.approval == "always",
            given.description == "error",
            given.renew,
            given.checks,
            say,
        )
        service = Service(url, credential, given.project)
        beats = Service(url, credential, given.project, patience=BEAT_PATIENCE)
        with _alone(checkout.home) as first:
            if not first:
                say("Another start is at work in this checkout.")
                sys.exit(OCCUPIED)
            work = RepairPlace(
                Store(checkout.home, given.work_dir),
                repository.remote,
                Program(given.command, given.passed, given.timeout),
                _wall(checkout, repository.remote, given.passed),
                given.isolate,
            )
            notes = Notes(checkout.home, credential)
            well = Runner((service, beats), repository, work, notes, settings).work()
    except (ServiceRefused, Malformed, GaveUp, GitFailed, Unsuitable, NotPlain) as failed:
        say(str(failed))
        sys.exit(FAILED)
    sys.exit(DONE if well else FAILED)


def _wall(checkout: Checkout, remote: GitRemote, passed: Sequence[str]) -> Wall:
    """What CMD does not see, and what it sees and cannot change: all that a later start of the runner stands on."""
    hidden = [name for name in ("SSH_AUTH_SOCK", "XDG_RUNTIME_DIR") if name not in passed]
    home = Path(os.environ.get("HOME", "/nonexistent"))
    of_user = [
        home / name for name in (".ssh", ".gitconfig", ".netrc", ".git-credentials", ".config/git", ".config/gh")
    ]
    own = [Path(__file__).parents[1], *([Path(sys.prefix)] if sys.prefix != sys.base_prefix else [])]
    fixed = existing([*checkout.places, remote.url if remote.url.startswith("/") else None, *of_user, *own])
    return Wall(existing([checkout.home, *map(os.environ.get, hidden)]), fixed)


def _end(signum: int, frame: FrameType | None) -> NoReturn:  # noqa: ARG001
    """End as a scheduler asks: CMD is killed on the way out, and the next start goes on."""
    sys.exit(FAILED)


@contextmanager
def _alone(home: Path) -> Iterator[bool]:
    """Whether this start works alone in the checkout. It keeps others out to its end. Raises NotPlain."""
    with directory(home) as top, os.fdopen(open_below(top, b"lock", _LOCK), "wb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


# `service-runner report`: the weekly reports of one automation, with the numbers of their sources and nothing else. The
# service reads the funnel once for each run. That is the source, and a report is held to it. A start begins the run of
# each slot, and goes on with one that was broken off.

MAX_FINDINGS = 100
_DECIMALS = 6
_OF_REPORTS = """\
Writes the report of each run of a weekly review: for each step of the funnel the people of both periods, and the share
that reached it. Let your scheduler start it once an hour.
"""
_END_OF_REPORTS = f"""\
environment:
  SERVICE_URL             address of the service
  {CREDENTIAL}  runner credential of the automation; goes to SERVICE_URL alone
  SERVICE_PROJECT_ID      the project, in place of --project

exit codes: 0 each report is recorded, or there was nothing to do; 1 one was refused or failed, and says why; 2 used
wrongly
"""
_LIMITATIONS = [
    "Two periods are compared. A change between them tells no cause.",
    "A program wrote this from the numbers of the source. Nobody looked at the product.",
]


def make_report_parser() -> argparse.ArgumentParser:
    """The arguments."""
    parser = argparse.ArgumentParser(
        prog="service-runner report",
        description=_OF_REPORTS,
        epilog=_END_OF_REPORTS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    project = os.environ.get("SERVICE_PROJECT_ID")
    parser.add_argument("--project", metavar="ID", default=project, help="project of the automation")
    return parser


def report(arguments: Sequence[str]) -> NoReturn:
    """Write all reports that are due, and end with the exit code."""
    parser = make_report_parser()
    given = parser.parse_args(arguments)
    url, credential = os.environ.get("SERVICE_URL"), os.environ.pop(CREDENTIAL, None)
    if not (url and credential and given.project):
        parser.error(f"SERVICE_URL, {CREDENTIAL} and --project are needed")
    harden()
    try:
        well = write_due(Service(url, credential, given.project))
    except (ServiceRefused, Malformed, GaveUp) as failed:
        say(str(failed))
        sys.exit(FAILED)
    sys.exit(DONE if well else FAILED)


def write_due(service: Service) -> bool:
    """Write the report of every open run, and of each slot that has come. False if one stopped short. Raises GaveUp."""
    runs = [run for run in service.open_runs() if run["case_id"] is None]
    begun = {run["trigger_receipt_id"] for run in runs}
    for receipt in service.receipts():
        if receipt["case"] is not None or receipt["receipt_id"] in begun:
            continue
        try:
            runs.append(service.start(receipt))
        except ServiceRefused as refused:
            if not refused.outdated:
                raise
            say(f"{receipt['receipt_id']} {refused}")
    if not runs:
        say("Nothing to do.")
    well = True
    for run in runs:
        well = _write(service, run) and well
    return well


def _write(service: Service, run: Json) -> bool:
    """Read the source of a run and record the report on it. False if the service refused one of them."""
    try:
        source = check_source(service.step(run, "POST", "/report-source", {}))
        latest = service.run(run["run_id"])
        written = draw_up(source)
        done = service.step(latest, "POST", "/actions/record-report", {"report": written})
    except ServiceRefused as refused:
        if refused.outdated and service.run(run["run_id"])["status"] == "succeeded":
            say(f"{run['run_id']} has its report already.")
            return True
        say(f"{run['run_id']} {refused}")
        return False
    say(f"{run['run_id']} recorded {done.get('report_id')} with {len(written['findings'])} findings")
    return True


def draw_up(source: Json) -> Json:
    """The report on a source: each change of a step, or why there is nothing to compare."""
    return {
        "kind": "funnel_review",
        "period_start": source["period_start"],
        "period_end": source["period_end"],
        "source_hash": source["source_hash"],
        "findings": (_gaps(source) or [*_changes(source)])[:MAX_FINDINGS],
        "limitations": _LIMITATIONS,
    }


def _gaps(source: Json) -> list[Json]:
    """Why nothing can be compared; empty when it can."""
    if source["readiness_gap"] is not None:
        return [source["readiness_gap"]]
    if source["minimum_sample_met"]:
        return []
    said = f"{source['sample_size']} people began, of at least {source['minimum_sample_size']}."
    return [{"kind": "readiness_gap", "code": "sample_too_small", "message": said}]


def _changes(source: Json) -> list[Json]:
    """The people at each step, then the share of the first step's people that reached it."""
    rows = source["rows"]
    found = [_metric(row, "users", "people") for row in rows]
    return found + [_metric(row, "conversion", "share") for row in rows[1:] if _has_shares(row)]


def _has_shares(row: Json) -> bool:
    return row["prior_conversion"] is not None and row["current_conversion"] is not None


def _metric(row: Json, measure: str, unit: str) -> Json:
    prior, current = row[f"prior_{measure}"], row[f"current_{measure}"]
    return {
        "kind": "metric",
        "metric": f"{unit} at step {row['step']}",
        "unit": unit,
        "prior_value": prior,
        "current_value": current,
        "change": round(current - prior, _DECIMALS),
        "source_columns": ["step", f"prior_{measure}", f"current_{measure}"],
    }


if __name__ == "__main__":
    main()
