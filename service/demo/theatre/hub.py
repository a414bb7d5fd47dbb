"""The command of the shop's code host, over GitHub's interface. People, CI and the shop's own runner use it.

    hub open BRANCH TITLE [--draft] | view NUMBER | ready NUMBER | check SHA NAME CONCLUSION
    hub merge NUMBER METHOD         | auto-merge NUMBER METHOD

A plain script: the standard library alone. HUB_URL and HUB_TOKEN say where the host is and who asks, HUB_REPOSITORY is
the repository with its base branch, as `acme/shop@main`. Every command prints what it leaves, as JSON.
"""

import argparse
import json
import os
import sys
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

READY = "mutation($input: MarkPullRequestReadyForReviewInput!) { markPullRequestReadyForReview(input: $input) { pullRequest { number } } }"  # noqa: E501
TURN_ON = "mutation($input: EnablePullRequestAutoMergeInput!) { enablePullRequestAutoMerge(input: $input) { pullRequest { number } } }"  # noqa: E501
REPOSITORY, _, BASE = os.environ.get("HUB_REPOSITORY", "").partition("@")


def ask(method: str, path: str, body: Any = None) -> Any:
    """Ask the host. A refusal ends the command."""
    headers = {"authorization": f"Bearer {os.environ['HUB_TOKEN']}", "content-type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    request = Request(os.environ["HUB_URL"] + path, data=data, headers=headers, method=method)  # noqa: S310
    try:
        with urlopen(request, timeout=15) as answer:  # noqa: S310 - the address of the shop's own host
            return json.load(answer)
    except HTTPError as error:
        told = json.load(error)
        sys.exit(f"the code host says no: {told['message']}: {told.get('reason') or told.get('errors', '')}")


def of_repository(method: str, path: str, body: Any = None) -> Any:
    """Ask about the one repository."""
    return ask(method, f"/repos/{REPOSITORY}{path}", body)


def mutate(query: str, **wish: Any) -> None:
    """Change a pull request by GitHub's GraphQL."""
    told = ask("POST", "/graphql", {"query": query, "variables": {"input": wish}})
    if told.get("errors"):
        sys.exit(f"the code host says no: {told['errors'][0]['message']}")


def required_checks(sha: str, contexts: list[str]) -> list[dict[str, str]]:
    """How each required check of a commit has ended."""
    runs = of_repository("GET", f"/commits/{sha}/check-runs")["check_runs"]
    ended = {run["name"]: run["conclusion"] for run in runs if run["conclusion"]}
    return [{"name": name, "conclusion": ended.get(name, "missing")} for name in contexts]


def view(number: int | str) -> dict[str, Any]:
    """Show a pull request as it stands."""
    pull = of_repository("GET", f"/pulls/{number}")
    branch = of_repository("GET", f"/branches/{BASE}")
    suites = of_repository("GET", f"/rulesets/rule-suites?ref=refs/heads/{BASE}")
    merges = pull["auto_merge"]
    return {
        "number": pull["number"],
        "title": pull["title"],
        "head_branch": pull["head"]["ref"],
        "draft": pull["draft"],
        "auto_merge": merges and merges["merge_method"],
        "repository": pull["html_url"].rpartition("/pull/")[0],
        "url": pull["html_url"],
        "base_branch": pull["base"]["ref"],
        "head_sha": pull["head"]["sha"],
        "required_checks": required_checks(
            pull["head"]["sha"], branch["protection"]["required_status_checks"]["contexts"]
        ),
        "protected": branch["protected"],
        "bypassed": any(
            suite["result"] == "bypass" for suite in suites if suite["after_sha"] == pull["merge_commit_sha"]
        ),
        "merge_commit_sha": pull["merge_commit_sha"],
    }


def check(sha: str, name: str, conclusion: str) -> dict[str, Any]:
    """Record the result of a check on a commit."""
    wish = {"name": name, "head_sha": sha, "status": "completed", "conclusion": conclusion}
    of_repository("POST", "/check-runs", wish)
    contexts = of_repository("GET", f"/branches/{BASE}")["protection"]["required_status_checks"]["contexts"]
    return {"sha": sha, "checks": required_checks(sha, contexts)}


def change(command: str, number: int, method: str | None) -> dict[str, Any]:
    """Make a draft ready, merge, or have the host merge by itself."""
    if command == "merge":
        of_repository("PUT", f"/pulls/{number}/merge", {"merge_method": method})
        return view(number)
    node = of_repository("GET", f"/pulls/{number}")["node_id"]
    if command == "ready":
        mutate(READY, pullRequestId=node)
    else:
        mutate(TURN_ON, pullRequestId=node, mergeMethod=str(method).upper())
    return view(number)


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="hub", description="The shop's code host.")
    commands = parser.add_subparsers(dest="command", required=True)
    opening = commands.add_parser("open")
    opening.add_argument("branch")
    opening.add_argument("title")
    opening.add_argument("--draft", action="store_true")
    checking = commands.add_parser("check")
    for name in ("sha", "name", "conclusion"):
        checking.add_argument(name)
    for name in ("view", "ready", "merge", "auto-merge"):
        command = commands.add_parser(name)
        command.add_argument("number", type=int)
        if name.endswith("merge"):
            command.add_argument("method", choices=["merge", "squash"])
    return parser.parse_args()


def main() -> None:
    """Carry out one command."""
    given = parse()
    match given.command:
        case "open":
            wish = {"head": given.branch, "base": BASE, "title": given.title, "draft": given.draft}
            left = view(of_repository("POST", "/pulls", wish)["number"])
        case "check":
            left = check(given.sha, given.name, given.conclusion)
        case "view":
            left = view(given.number)
        case _:
            left = change(given.command, given.number, getattr(given, "method", None))
    print(json.dumps(left))


if __name__ == "__main__":
    main()
