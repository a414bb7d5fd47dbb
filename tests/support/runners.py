"""Runners for the conformance kit: the program of the guide, with its three functions made, and broken ones."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from typing import NamedTuple

from tests.support.guides import blocks

GUIDE = Path(__file__).parents[2] / "service" / "discovery" / "texts" / "automation.md"

OURS = '''
def git(*arguments):
    command = ["git", "-C", os.environ["CHECKOUT"], *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def host(method, path, body=None):
    """Ask the code host."""
    headers = {"authorization": f"Bearer {os.environ['GITHUB_TOKEN']}", "content-type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    url = f"{os.environ['GITHUB_API_URL']}/repos/{os.environ['GITHUB_REPOSITORY']}{path}"
    with urlopen(Request(url, data, headers, method=method), timeout=15) as answer:
        return json.load(answer)


def find_change(run):
    path = f"{run['run_id']}.json"
    return json.load(open(path)) if os.path.exists(path) else None


def repair(run, case):
    branch = f"heal/{run['run_id']}"
    git("switch", "--quiet", "--force-create", branch, "origin/main")
    subprocess.run([os.environ["REPAIR"]], cwd=os.environ["CHECKOUT"], check=True)
    command = os.environ["TEST_COMMAND"]
    passed = subprocess.run(command.split(), cwd=os.environ["CHECKOUT"]).returncode == 0
    git("add", "src", "tests")
    git("commit", "--quiet", "--message", "Return 0 for an empty cart")
    rows = [line.split("\\t") for line in git("diff", "--numstat", "origin/main...HEAD").splitlines()]
    change = {
        "repository": os.environ["REPOSITORY"],
        "base_branch": "main",
        "head_branch": branch,
        "head_sha": git("rev-parse", "HEAD"),
        "delivery_mode": "review_required",
        "files_changed": [path for _, _, path in rows],
        "changed_lines": sum(int(added) + int(removed) for added, removed, _ in rows),
        "tests": [{"command": command, "passed": passed}],
        "title": "Return 0 for an empty cart",
    }
    with open(f"{run['run_id']}.json", "w") as file:
        json.dump(change, file)
    return change


def pull_request(change, may_open):
    branch = change["head_branch"]
    found = host("GET", f"/pulls?state=all&head=acme:{branch}")
    if may_open and not found:
        git("push", "--quiet", "origin", branch)
        wish = {"title": change["title"], "head": branch, "base": "main", "draft": True}
        found = [host("POST", "/pulls", wish)]
    if not found:
        return None
    return {"number": found[0]["number"], "url": found[0]["html_url"], "head_sha": found[0]["head"]["sha"]}
'''


def reference() -> str:
    """The program of the guide, with the functions that are its reader's."""
    [program] = [block.text for block in blocks(GUIDE.read_text()) if block.file == "runner.py"]
    begin, end = program.index("def find_change("), program.index("def send(")
    made = program[:begin] + OURS.strip() + "\n\n\n" + program[end:]
    return re.sub("^import sys$", "import subprocess\nimport sys", made, count=1, flags=re.MULTILINE)


MAIN = ("happy", "lost-answers", "lost-consume", "bounds", "lease")
"""Scenarios that right runners play in `make test`. `make torture` plays all of them."""
SERVICE_RUNNER = (
    f'{shlex.quote(sys.executable)} -m service.runner.command --checkout "$CHECKOUT" --repository "$REPOSITORY" '
    '-- "$REPAIR"'
)


def command_of(program: str, directory: Path, name: str = "runner.py") -> str:
    """Save a program; returns the command that starts it."""
    path = directory / name
    path.write_text(program)
    return shlex.join([sys.executable, "-B", str(path)])


class Broken(NamedTuple):
    """A runner with one fault: what it does wrong, the scenario that finds it, the rule, and the changed lines."""

    does: str
    scenario: str
    rule: str
    changes: tuple[tuple[str, str], ...]

    def program(self) -> str:
        """The reference with the fault."""
        text = reference()
        for right, wrong in self.changes:
            assert text.count(right) == 1, (self.does, right)
            text = text.replace(right, wrong)
        return text


_SENDS = """    return ask(method, f"/v1/automation-runs/{run['run_id']}{step}", fence | body, key)
"""


def _retried(code: str, again: str) -> tuple[str, str]:
    """Let each write of a run catch a refusal, and send something again."""
    return (
        _SENDS,
        f"""    path = f"/v1/automation-runs/{{run['run_id']}}"
    try:
        return ask(method, path + step, fence | body, key)
    except Refused as refused:
        if refused.code != {code!r}:
            raise
        return {again}
""",
    )


_RETRY_AFTER = ('time.sleep(int(refused.headers.get("retry-after", 2**attempt)))', "time.sleep(0.5)")
_CONSUMES = """        consumed = send(run, "POST", "/actions/draft-pr/consume", {"grant_id": grant["grant_id"]})
        may_open = consumed["call_authorized"]
"""
_CONSUMES_ANYHOW = """        try:
            send(run, "POST", "/actions/draft-pr/consume", {"grant_id": grant["grant_id"]})
        except Refused:
            pass
        may_open = True
"""
_COMMITS = """    git("commit", "--quiet", "--message", "Return 0 for an empty cart")
"""
_RENEWS = """ask("POST", f"{claim}/renew", {"lease_epoch": run["lease_epoch"]})"""
_TITLE = """        "title": "Return 0 for an empty cart",
"""
_WAITS = """    if run["phase"] == "human_review":
        return "a person decides"
"""
_GOES_ON = """    if run["phase"] == "human_review":
        try:
            send(run, "POST", "/actions/draft-pr/authorize", find_change(run))
        except Refused:
            pass
        return "a person decides"
"""
_ASKS = """        try:
            with urlopen(Request(os.environ["SERVICE_URL"]"""
_ASKS_ANEW = (
    """        if key:
            headers = headers | {"idempotency-key": f"{key}-{attempt}"}
"""
    + _ASKS
)
_OPENS = """        found = [host("POST", "/pulls", wish)]
"""
_TURNS_ON = """        told = {"pullRequestId": found[0]["node_id"], "expectedHeadOid": change["head_sha"]}
        data = json.dumps({"query": "mutation", "variables": {"input": told}}).encode()
        headers = {"authorization": f"Bearer {os.environ['GITHUB_TOKEN']}", "content-type": "application/json"}
        urlopen(Request(os.environ["GITHUB_API_URL"] + "/graphql", data, headers), timeout=15).close()
"""
_OPENS_ANOTHER = """def main():
    for run in ask("GET", f"{PROJECT}/automation-runs")["runs"]:
        if run["pull_request"]:
            branch = f"again/{run['run_id']}"
            git("push", "--quiet", "origin", f"{find_change(run)['head_sha']}:refs/heads/{branch}")
            host("POST", "/pulls", {"title": "Again", "head": branch, "base": "main", "draft": True})
"""

BROKEN = (
    Broken("sends a lost request again with another key", "lost-answers", "G-008", ((_ASKS, _ASKS_ANEW),)),
    Broken(
        "opens although no answer to the consume said that it may",
        "lost-consume",
        "R-AUT-32",
        (('may_open = consumed["call_authorized"]', "may_open = True"),),
    ),
    Broken(
        "writes on after its lease has ended",
        "lease",
        "R-AUT-30",
        (
            _retried("lease_expired", """ask("PATCH", path, fence | {"phase": "running"}, key + "again")"""),
            (_RENEWS, "pass"),
        ),
    ),
    Broken(
        "sends a stale revision again",
        "moved",
        "R-AUT-30",
        (_retried("stale_state_revision", """ask(method, path + step, fence | body, key + "again")"""),),
    ),
    Broken("comes again before Retry-After is over", "busy", "G-012", (_RETRY_AFTER,)),
    Broken("gives the service no time to recover", "down", "R-ERR-08", (_RETRY_AFTER,)),
    Broken(
        "pushes before its grant is consumed",
        "happy",
        "R-AUT-31",
        ((_COMMITS, _COMMITS + """    git("push", "--quiet", "origin", branch)\n"""),),
    ),
    Broken("delivers a run that was cancelled", "cancelled", "R-AUT-51", ((_CONSUMES, _CONSUMES_ANYHOW),)),
    Broken(
        "puts the title of a case into a shell",
        "hostile",
        "R-GEN-13",
        ((_COMMITS, """    subprocess.run(f"echo {case['title']}", shell=True)\n""" + _COMMITS),),
    ),
    Broken(
        "puts what a terminal obeys into its pull request",
        "hostile",
        "R-GEN-13",
        ((_TITLE, """        "title": case["title"][:100] + chr(27) + "[0m",\n"""),),
    ),
    Broken(
        "declares another change than it made",
        "bounds",
        "R-AUT-38",
        (
            ('"files_changed": [path for _, _, path in rows]', '"files_changed": ["kit-nowhere/cart.py"]'),
            ('"changed_lines": sum(int(added) + int(removed) for added, removed, _ in rows)', '"changed_lines": 1'),
        ),
    ),
    Broken(
        "tries the same change again each minute",
        "bounds",
        "R-AUT-38",
        (('if refused.code in ("scope_violation", "budget_exhausted"):', "if False:"),),
    ),
    Broken("prints its credential", "happy", "R-CRED-15", (("def main():\n", "def main():\n    print(HEADERS)\n"),)),
    Broken(
        "takes its credential to another host",
        "redirect",
        "R-CRED-15",
        (("install_opener(build_opener(Stay))\n", ""),),
    ),
    Broken("charges nothing", "happy", "R-AUT-31", (('if run["charges"]["turns"] == 0:', "if False:"),)),
    Broken("goes on before the owner has decided", "pending", "G-108", ((_WAITS, _GOES_ON),)),
    Broken(
        "writes again after 412 without a look",
        "precondition",
        "G-009",
        (_retried("precondition_failed", "ask(method, path + step, fence | body, key)"),),
    ),
    Broken("opens what is no draft", "happy", "R-AUT-39", (('"base": "main", "draft": True}', '"base": "main"}'),)),
    Broken(
        "turns auto-merge on under the grant of the pull request",
        "auto-merge",
        "R-AUT-40",
        (
            (_OPENS, _OPENS + _TURNS_ON),
            ('"delivery_mode": "review_required"', '"delivery_mode": "auto_merge"'),
            ('"base": "main", "draft": True}', '"base": "main", "draft": False}'),
        ),
    ),
    Broken("opens another pull request at its next start", "happy", "R-AUT-54", (("def main():\n", _OPENS_ANOTHER),)),
)
