"""The shop's CI, on an event of a pull request: tells the service what the code host shows of it, as proof.

`ci_proof.py OBSERVATION NUMBER`. The run that the pull request belongs to is named by a trailer of its head commit.
"""

import json
import sys

from ci import git, hub, tell_service


def observe(observation: str, number: str) -> dict:
    seen = hub("view", number)
    body = {
        "observation": observation,
        "repository": seen["repository"],
        "pr_number": seen["number"],
        "pr_url": seen["url"],
        "head_branch": seen["head_branch"],
        "base_branch": seen["base_branch"],
        "head_sha": seen["head_sha"],
        "draft": seen["draft"],
        "required_status_checks": seen["required_checks"],
        "branch_protection_enforced": seen["protected"],
        "bypass_used": seen["bypassed"],
        "auto_merge_enabled": seen["auto_merge"] is not None,
    }
    if seen["auto_merge"]:
        body["merge_method"] = seen["auto_merge"]
    if seen["merge_commit_sha"]:
        body["merge_commit_sha"] = seen["merge_commit_sha"]
    return body


def main(observation: str, number: str) -> None:
    body = observe(observation, number)
    run_id = git("log", "-1", "--format=%(trailers:key=Automation-Run,valueonly)", body["head_sha"])
    path = f"/v1/automation-runs/{run_id}/pr-proof"
    print(json.dumps(tell_service(path, body, f"{observation}-{body['head_sha']}")))


if __name__ == "__main__":
    main(*sys.argv[1:])
