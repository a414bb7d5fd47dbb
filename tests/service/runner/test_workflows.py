"""The workflow and the jobs of the how-to: short, well-formed, and their proofs are ones that the service takes."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from schemas.runs.pr_proof import RecordPrProof
from service.runner.command import make_parser

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "repair.md"
GITHUB, GITLAB = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
RUN = "run_01k00000000000000000000001"
SHA, MERGED = "b" * 40, "c" * 40
COMMITS = [SHA, "d" * 40]
"""Commits of the pull request, oldest first: a person added one."""
A_SECRET = "a-value-that-no-package-sees"
CURL = """#!/bin/sh
for last; do :; done
case "$last" in
  *resource_state_events*) cat events.json.told;;
  *commits*per_page*) cat commits.json.told;;
  */branches/main) echo '{"name": "main", "protected": true}';;
  *merge_requests|*updated_after=20*) cat merge_requests.json;;
  *) printf '%s\\n' "$@" > arguments.txt
    for one; do case "$one" in @-) cat > body.json;; @*) cat "${one#@}" > body.json;; esac; done;;
esac
"""


def steps(document: Any) -> list[str]:
    """Every script of a workflow or of jobs."""
    if isinstance(document, dict):
        own = [document["run"]] if isinstance(document.get("run"), str) else []
        listed = document.get("script")
        own += ["\n".join(listed)] if isinstance(listed, list) else []
        return own + [found for value in document.values() for found in steps(value)]
    return [found for value in document for found in steps(value)] if isinstance(document, list) else []


def run_script(script: str, where: Path, **environment: str) -> None:
    """Run a script of CI, with a program in the place of curl that keeps what it is to send."""
    programs = where / "bin"
    programs.mkdir(exist_ok=True)
    (programs / "curl").write_text(CURL)
    (programs / "curl").chmod(0o755)
    told = {"PATH": f"{programs}:{os.environ['PATH']}", "SERVICE_URL": "https://service.example", **environment}
    subprocess.run(["sh", "-ec", script], cwd=where, env=told, check=True)


def proof_sent_by(script: str, where: Path, **environment: str) -> tuple[str, RecordPrProof]:
    """Run a script of CI; returns the address that it proves at, and the proof as the service reads it."""
    run_script(script, where, **environment)
    arguments = (where / "arguments.txt").read_text().splitlines()
    assert "authorization: Bearer ci-secret" in arguments
    body = json.loads((where / "body.json").read_text())
    assert (body["branch_protection_enforced"], body["bypass_used"]) == (True, None), "read at the host, or not at all"
    return arguments[-1], msgspec.convert(body, RecordPrProof)


@pytest.mark.parametrize("text", [GITHUB, GITLAB], ids=["github", "gitlab"])
def test_it_is_short_and_its_commands_exist(text: str) -> None:
    """At most 30 lines. The shell reads each script, and the runner its arguments."""
    assert len(text.splitlines()) <= 30
    scripts = steps(yaml.safe_load(text))
    for script in scripts:
        subprocess.run(["sh", "-n", "-c", script], check=True)
    [command] = re.findall(r"service-runner (--.*)", "\n".join(scripts))
    given = make_parser().parse_args(shlex.split(command))
    assert (given.command, given.passed) == (["./repair.sh"], ["MODEL_KEY"])


SAID = {
    "pr_opened": {},
    "merged": {"merge_commit_sha": MERGED, "commits": COMMITS},
    "closed": {"merged": False, "closed_by": "ada"},
    "reopened": {},
}
"""What comes with each observation."""


def said(proof: RecordPrProof) -> dict[str, Any]:
    """What came with an observation."""
    every = msgspec.to_builtins(proof)
    return {name: every[name] for name in ("merge_commit_sha", "commits", "merged", "closed_by") if name in every}


def github_event(observation: str) -> dict[str, Any]:
    """The event of a workflow: `sender` acts, and a merge is a closing too."""
    pull = {
        "number": 7,
        "html_url": "https://github.com/acme/shop/pull/7",
        "head": {"ref": f"repair/{RUN}", "sha": SHA},
        "base": {"ref": "main"},
        "draft": observation != "merged",
        "merged": observation == "merged",
        "merge_commit_sha": MERGED,
    }
    actions = {"pr_opened": "opened", "reopened": "reopened"}
    return {
        "action": actions.get(observation, "closed"),
        "repository": {"html_url": "https://github.com/acme/shop"},
        "sender": {"login": "ada"},
        "pull_request": pull,
    }


GITHUB_PLACE = {"GITHUB_API_URL": "https://api.github.com", "GITHUB_REPOSITORY": "acme/shop", "GITHUB_TOKEN": "t"}


@pytest.mark.parametrize("observation", SAID)
def test_github_proves_what_its_event_says(tmp_path: Path, observation: str) -> None:
    (tmp_path / "event.json").write_text(json.dumps(github_event(observation)))
    (tmp_path / "commits.json.told").write_text(json.dumps([{"sha": sha} for sha in COMMITS]))
    place = GITHUB_PLACE | {"GITHUB_EVENT_PATH": str(tmp_path / "event.json"), "GITHUB_HEAD_REF": f"repair/{RUN}"}
    url, proof = proof_sent_by(steps(yaml.safe_load(GITHUB))[-1], tmp_path, KEY="ci-secret", **place)
    assert url == f"https://service.example/v1/automation-runs/{RUN}/pr-proof"
    assert (proof.observation, proof.draft, said(proof)) == (observation, observation != "merged", SAID[observation])
    assert (proof.head_sha, proof.head_branch, proof.base_branch) == (SHA, f"repair/{RUN}", "main")


def test_github_starts_for_each_of_them() -> None:
    """The one condition of the job is the branch."""
    document = yaml.safe_load(GITHUB)
    assert document[True]["pull_request"]["types"] == ["opened", "closed", "reopened"]
    assert document["jobs"]["prove"]["if"] == "startsWith(github.head_ref, 'repair/')"


GITLAB_PLACE = {
    "CI_API_V4_URL": "https://gitlab.example/api/v4",
    "CI_PROJECT_ID": "1",
    "CI_COMMIT_SHA": SHA,
    "CI_PROJECT_URL": "https://gitlab.example/acme/shop",
    "GITLAB_TOKEN": "t",
}


def tell_gitlab(where: Path, observation: str) -> None:
    """Put down what GitLab answers: the merge requests, one of them of a repair, and what became of that."""
    states = {"merged": "merged", "closed": "closed"}
    found = {
        "iid": 7,
        "web_url": "https://gitlab.example/acme/shop/-/merge_requests/7",
        "source_branch": f"repair/{RUN}",
        "target_branch": "main",
        "sha": SHA,
        "draft": observation != "merged",
        "state": states.get(observation, "opened"),
        "merge_commit_sha": None,
        "squash_commit_sha": MERGED if observation == "merged" else None,
        "closed_by": {"username": "ada"} if observation == "closed" else None,
    }
    (where / "merge_requests.json").write_text(json.dumps([found | {"source_branch": "feature"}, found]))
    past = {"closed": ["closed"], "reopened": ["closed", "reopened"], "merged": ["merged"]}.get(observation, [])
    events = [{"state": state, "user": {"username": "ada"}} for state in past]
    (where / "events.json.told").write_text(json.dumps(events))
    (where / "commits.json.told").write_text(json.dumps([{"id": sha} for sha in reversed(COMMITS)]))


@pytest.mark.parametrize(
    ("observation", "source"),
    [
        ("pr_opened", "merge_request_event"),
        ("merged", "push"),
        ("closed", "merge_request_event"),
        ("closed", "schedule"),
        ("reopened", "schedule"),
    ],
)
def test_gitlab_proves_what_has_become_of_its_merge_request(tmp_path: Path, observation: str, source: str) -> None:
    """Other merge requests are none of its business."""
    tell_gitlab(tmp_path, observation)
    place = GITLAB_PLACE | {"CI_PIPELINE_SOURCE": source}
    url, proof = proof_sent_by(steps(yaml.safe_load(GITLAB))[1], tmp_path, SERVICE_CI_API_KEY="ci-secret", **place)
    assert url == f"https://service.example/v1/automation-runs/{RUN}/pr-proof"
    assert (proof.observation, said(proof)) == (observation, SAID[observation])
    assert (proof.repository, proof.head_sha) == ("https://gitlab.example/acme/shop", SHA)


@pytest.mark.parametrize("observation", ["pr_opened", "merged"])
def test_gitlabs_schedule_leaves_to_pipelines_what_starts_one(tmp_path: Path, observation: str) -> None:
    tell_gitlab(tmp_path, observation)
    place = GITLAB_PLACE | {"CI_PIPELINE_SOURCE": "schedule", "SERVICE_CI_API_KEY": "ci-secret"}
    run_script(steps(yaml.safe_load(GITLAB))[1], tmp_path, **place)
    assert not (tmp_path / "body.json").exists()


@pytest.mark.parametrize("text", [GITHUB, GITLAB], ids=["github", "gitlab"])
def test_an_install_sees_no_secret(text: str, tmp_path: Path) -> None:
    """What a package runs while it is installed finds no secret: neither of its step nor of its job."""
    document = yaml.safe_load(text)
    jobs = document.get("jobs", document)
    [seen] = [found for job in jobs.values() for found in _environments_of_installs(job, tmp_path)]
    assert "PATH" in seen
    assert not any(value == A_SECRET or "secrets." in value for value in seen.values())


def _environments_of_installs(job: Any, tmp_path: Path) -> list[dict[str, str]]:
    """The variables of each `pip install` of a job, with a program in the place of pip that writes them down."""
    (tmp_path / "pip").write_text("#!/bin/sh\nenv > seen.txt\n")
    (tmp_path / "pip").chmod(0o755)
    secrets = dict.fromkeys(("GITLAB_TOKEN", "SERVICE_RUNNER_API_KEY", "MODEL_KEY"), A_SECRET)
    found = []
    told: list[tuple[str, dict[str, str]]] = [
        (step["run"], job.get("env", {}) | step.get("env", {})) for step in job.get("steps", []) if "run" in step
    ]
    told += [(line, secrets) for line in job.get("script", [])]
    for script, given in told:
        if "pip install" in script:
            environment = {**given, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
            subprocess.run(["sh", "-ec", script], cwd=tmp_path, env=environment, check=True)
            lines = (tmp_path / "seen.txt").read_text().splitlines()
            found.append(dict(line.partition("=")[::2] for line in lines if "=" in line))
    return found
