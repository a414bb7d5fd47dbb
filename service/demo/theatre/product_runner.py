"""The shop's repair agent: works one trigger receipt, from the claim to the pull request.

`product_runner.py AUTOMATION RECEIPT_ID`, in a clone of the shop. A plain script of the customer's: the standard
library, git, and `hub`, the command of the code host. SERVICE_URL says where the service is and
SERVICE_RUNNER_API_KEY who asks; AUTOMATION is a file with the policy that the owner approved.

The program `product_repair.py` stands where a coding agent thinks. Everything around it is the work of every runner.
"""

import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

WAIT_SECONDS = 45
REPAIR = Path(__file__).with_name("product_repair.py")
IDENTITY = {
    f"GIT_{role}_{part}": value
    for role in ("AUTHOR", "COMMITTER")
    for part, value in (("NAME", "Repair agent"), ("EMAIL", "repair@example.invalid"))
}


def say(text: str) -> None:
    """Print what the agent does."""
    print(text, flush=True)


def call(method: str, path: str, body: dict[str, Any] | None = None, key: str | None = None) -> dict[str, Any]:
    """Ask the service. A refusal ends the agent: what a stale worker has made is dropped, never sent again."""
    headers = {
        "authorization": f"Bearer {os.environ['SERVICE_RUNNER_API_KEY']}",
        "content-type": "application/json",
        "user-agent": "repair-agent/1",
        **({"idempotency-key": key} if key else {}),
    }
    data = None if body is None else json.dumps(body).encode()
    request = Request(os.environ["SERVICE_URL"] + path, data=data, headers=headers, method=method)  # noqa: S310
    try:
        with urlopen(request, timeout=15) as answer:  # noqa: S310 - the address is the customer's own setting
            told: dict[str, Any] = json.load(answer)
            return told
    except HTTPError as error:
        sys.exit(f"{method} {path} was refused with {error.code}: {error.read().decode()[:500]}")


def git(*arguments: str) -> str:
    """Run git in the clone."""
    done = subprocess.run(
        ["git", *arguments], env={**os.environ, **IDENTITY}, check=True, stdout=subprocess.PIPE, text=True
    )
    return done.stdout.strip()


def hub(*arguments: str) -> dict[str, Any]:
    """Ask the code host."""
    told: dict[str, Any] = json.loads(subprocess.run(["hub", *arguments], check=True, stdout=subprocess.PIPE).stdout)
    return told


def run_tests(policy: dict[str, Any]) -> list[dict[str, Any]]:
    """Run the commands that the policy names, all of them, in order."""
    return [
        {"command": command, "passed": subprocess.run(shlex.split(command), capture_output=True).returncode == 0}  # noqa: PLW1510
        for command in policy["scope"]["test_commands"]
    ]


class Work:
    """One receipt's work. Its fencing token is what the service said last: state revision and lease epoch."""

    def __init__(self, automation: dict[str, Any], receipt_id: str) -> None:
        self.project_id: str = automation["project_id"]
        self.policy: dict[str, Any] = automation["policy"]
        self.receipt_id = receipt_id
        self.run: dict[str, Any] = {}

    def under_token(self, **body: Any) -> dict[str, Any]:
        """Put the fencing token to a body."""
        return {"state_revision": self.run["state_revision"], "lease_epoch": self.run["lease_epoch"], **body}

    def post(self, step: str, body: dict[str, Any]) -> dict[str, Any]:
        """Take a step of the run, once: the key makes a repeat the same step."""
        key = f"{self.run['run_id']}:{step}:{body['state_revision']}"
        told = call("POST", f"/v1/automation-runs/{self.run['run_id']}/{step}", body, key)
        if "state_revision" in told:
            self.run["state_revision"] = told["state_revision"]
        return told

    def read_run(self) -> dict[str, Any]:
        """Read the run, and with it the fencing token."""
        self.run = call("GET", f"/v1/automation-runs/{self.run['run_id']}")
        return self.run

    def begin(self) -> dict[str, Any]:
        """Claim the exact revision of the case, read its evidence, and start the one run of the receipt."""
        receipt = call("GET", f"/v1/automation-trigger-receipts/{self.receipt_id}")
        case_id, revision = receipt["case"]["case_id"], receipt["case"]["case_revision"]
        wish = {"trigger_receipt_id": self.receipt_id, "case_revision": revision}
        claim = call("POST", f"/v1/cases/{case_id}/claims", wish)
        say(f"claimed {case_id} at revision {revision}; the lease has epoch {claim['lease_epoch']}")
        case = call("GET", f"/v1/cases/{case_id}")
        self.run = call(
            "POST",
            f"/v1/projects/{self.project_id}/automation-runs",
            {"trigger_receipt_id": self.receipt_id},
            f"start-{self.receipt_id}",
        )
        say(f"started {self.run['run_id']}")
        usage = self.post("usage", self.under_token(turns=4, cost_usd=0.12, runtime_seconds=60, label="repair"))
        say(f"charged before the work: {usage['charges']}; left: {usage['remaining']}")
        return case

    def repair(self, case: dict[str, Any]) -> dict[str, Any]:
        """Make the change on a branch of its own, in the form of a grant's binding."""
        branch = f"repair/{self.run['run_id']}"
        git("switch", "--quiet", "--create", branch, f"origin/{self.policy['runner']['default_branch']}")
        with tempfile.TemporaryDirectory() as directory:
            evidence, title = Path(directory, "evidence.json"), Path(directory, "title.txt")
            evidence.write_text(json.dumps({"case": case, "scope": self.policy["scope"]}))
            told = {"PATH": os.environ["PATH"], "SERVICE_EVIDENCE": str(evidence), "SERVICE_TITLE_FILE": str(title)}
            if subprocess.run([sys.executable, "-I", "-B", str(REPAIR)], env=told, check=False).returncode != 0:
                self.escalate("No idea.")
            words = title.read_text()
        after = run_tests(self.policy)
        trailer = f"Automation-Run: {self.run['run_id']}"
        git("commit", "--quiet", "--all", "--message", words, "--message", trailer)
        return self.measure(branch, after, words)

    def escalate(self, reason: str) -> None:
        """Hand the case to a person, and end."""
        body = self.under_token(status="escalated", reason=reason)
        call("PATCH", f"/v1/automation-runs/{self.run['run_id']}", body)
        sys.exit(f"escalated to a person: {reason}")

    def measure(self, branch: str, tests: list[dict[str, Any]], title: str) -> dict[str, Any]:
        """Read from git what changed."""
        base = self.policy["runner"]["default_branch"]
        rows = [line.split("\t") for line in git("diff", "--numstat", f"origin/{base}...HEAD").splitlines()]
        binding = {
            "repository": self.policy["runner"]["repository"],
            "base_branch": base,
            "head_branch": branch,
            "head_sha": git("rev-parse", "HEAD"),
            "delivery_mode": self.policy["code_delivery"]["mode"],
            "files_changed": [path for _, _, path in rows],
            "changed_lines": sum(int(added) + int(removed) for added, removed, _ in rows),
            "tests": tests,
            "title": title,
        }
        where = ", ".join(binding["files_changed"])
        say(f"committed {binding['head_sha'][:12]} {title!r}: {binding['changed_lines']} lines of {where}")
        return binding

    def ask(self, binding: dict[str, Any]) -> None:
        """Ask a person, and wait for the answer."""
        evidence = {name: binding[name] for name in ("head_sha", "files_changed", "changed_lines", "tests")}
        self.post("approvals", self.under_token(action="draft_pr", summary=binding["title"], evidence=evidence))
        say("waits for a person to approve")
        self.wait(lambda run: run["phase"] != "human_review")
        if self.run["approvals"][-1]["status"] != "approved":
            self.escalate("Refused.")

    def wait(self, done: Any) -> None:
        """Read the run until something holds."""
        until = time.monotonic() + WAIT_SECONDS
        while not done(self.read_run()):
            if time.monotonic() > until:
                sys.exit("waited too long")
            time.sleep(0.2)

    def spend(self, kind: str, binding: dict[str, Any]) -> None:
        """Authorize one effect and consume the grant; returns only when this very call may act."""
        grant = self.post(f"actions/{kind}/authorize", self.under_token(**binding))
        self.read_run()
        consumed = self.post(f"actions/{kind}/consume", self.under_token(grant_id=grant["grant_id"]))
        say(f"grant {grant['grant_id']} for {kind}: consumed, call authorized: {consumed['call_authorized']}")
        if not consumed["call_authorized"]:
            sys.exit("somebody has consumed the grant before; only looking is left")

    def deliver(self, binding: dict[str, Any]) -> int:
        """Push the branch and open the one pull request of the grant; returns its number."""
        self.spend("draft-pr", binding)
        git("push", "--quiet", "origin", binding["head_branch"])
        draft = ["--draft"] if binding["delivery_mode"] == "review_required" else []
        pull = hub("open", binding["head_branch"], binding["title"], *draft)
        opened = {"number": pull["number"], "url": pull["url"], "head_sha": pull["head_sha"]}
        self.read_run()
        call(
            "PATCH",
            f"/v1/automation-runs/{self.run['run_id']}",
            self.under_token(status="draft_pr_opened", pull_request=opened),
        )
        say(f"opened pull request {pull['number']}{', a draft' if draft else ', ready for checks'}")
        return int(pull["number"])

    def enable_auto_merge(self, number: int, head_sha: str) -> None:
        """Once CI has proven readiness, let the code host merge by itself. The agent never merges."""
        say("waits for CI to prove readiness")
        self.wait(lambda run: (run["provider_proof"] or {}).get("observation") == "checks_passed")
        method = self.policy["code_delivery"]["merge_method"]
        self.spend("auto-merge", {"pr_number": number, "head_sha": head_sha, "merge_method": method})
        hub("auto-merge", str(number), method)
        say("turned the code host's auto-merge on")


def main(automation: str, receipt_id: str) -> None:
    """Work the receipt."""
    work = Work(json.loads(Path(automation).read_text()), receipt_id)
    git("fetch", "--quiet", "origin")
    git("switch", "--quiet", "--detach", f"origin/{work.policy['runner']['default_branch']}")
    binding = work.repair(work.begin())
    work.ask(binding)
    number = work.deliver(binding)
    if binding["delivery_mode"] == "auto_merge":
        work.enable_auto_merge(number, binding["head_sha"])
    say("done")


if __name__ == "__main__":
    main(*sys.argv[1:])
