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
A_SECRET = "a-value-that-no-package-sees"
CURL = """#!/bin/sh
for last; do :; done
case "$last" in
  *merge_requests) cat merge_requests.json;;
  *) printf '%s\\n' "$@" > arguments.txt; cat > body.json;;
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


def proof_sent_by(script: str, where: Path, **environment: str) -> tuple[str, RecordPrProof]:
    """Run a script of CI; returns the address that it proves at, and the proof as the service reads it."""
    programs = where / "bin"
    programs.mkdir()
    (programs / "curl").write_text(CURL)
    (programs / "curl").chmod(0o755)
    told = {"PATH": f"{programs}:{os.environ['PATH']}", "SERVICE_URL": "https://service.example", **environment}
    subprocess.run(["sh", "-ec", script], cwd=where, env=told, check=True)
    arguments = (where / "arguments.txt").read_text().splitlines()
    assert "authorization: Bearer ci-secret" in arguments
    body = json.loads((where / "body.json").read_text())
    return arguments[-1], msgspec.convert(body, RecordPrProof)


@pytest.mark.parametrize("text", [GITHUB, GITLAB], ids=["github", "gitlab"])
def test_it_is_short_and_its_commands_exist(text: str) -> None:
    """At most 25 lines. The shell reads each script, and the runner its arguments."""
    assert len(text.splitlines()) <= 25
    scripts = steps(yaml.safe_load(text))
    for script in scripts:
        subprocess.run(["sh", "-n", "-c", script], check=True)
    [command] = re.findall(r"service-runner (--.*)", "\n".join(scripts))
    given = make_parser().parse_args(shlex.split(command))
    assert (given.command, given.passed) == (["./repair.sh"], ["MODEL_KEY"])


@pytest.mark.parametrize("merged", [False, True])
def test_github_proves_what_its_event_says(tmp_path: Path, merged: bool) -> None:
    pull = {
        "number": 7,
        "html_url": "https://github.com/acme/shop/pull/7",
        "head": {"ref": f"repair/{RUN}", "sha": SHA},
        "base": {"ref": "main"},
        "draft": not merged,
        "merged": merged,
        "merge_commit_sha": MERGED,
    }
    event = {"action": "opened", "repository": {"html_url": "https://github.com/acme/shop"}, "pull_request": pull}
    (tmp_path / "event.json").write_text(json.dumps(event))
    place = {"GITHUB_EVENT_PATH": str(tmp_path / "event.json"), "GITHUB_HEAD_REF": f"repair/{RUN}"}
    url, proof = proof_sent_by(steps(yaml.safe_load(GITHUB))[-1], tmp_path, KEY="ci-secret", **place)
    assert url == f"https://service.example/v1/automation-runs/{RUN}/pr-proof"
    assert (proof.observation, proof.draft) == (("merged", False) if merged else ("pr_opened", True))
    assert (proof.head_sha, proof.head_branch, proof.base_branch) == (SHA, f"repair/{RUN}", "main")
    assert (proof.merge_commit_sha == MERGED) is merged


@pytest.mark.parametrize("merged", [False, True])
def test_gitlab_proves_the_merge_request_of_its_commit(tmp_path: Path, merged: bool) -> None:
    """Other merge requests of the commit are none of its business."""
    found = {
        "iid": 7,
        "web_url": "https://gitlab.example/acme/shop/-/merge_requests/7",
        "source_branch": f"repair/{RUN}",
        "target_branch": "main",
        "sha": SHA,
        "draft": not merged,
        "state": "merged" if merged else "opened",
        "merge_commit_sha": None,
        "squash_commit_sha": MERGED if merged else None,
    }
    (tmp_path / "merge_requests.json").write_text(json.dumps([found | {"source_branch": "feature"}, found]))
    place = {
        "CI_API_V4_URL": "https://gitlab.example/api/v4",
        "CI_PROJECT_ID": "1",
        "CI_COMMIT_SHA": SHA,
        "CI_PROJECT_URL": "https://gitlab.example/acme/shop",
        "GITLAB_TOKEN": "t",
    }
    url, proof = proof_sent_by(steps(yaml.safe_load(GITLAB))[1], tmp_path, SERVICE_CI_API_KEY="ci-secret", **place)
    assert url == f"https://service.example/v1/automation-runs/{RUN}/pr-proof"
    assert (proof.observation, proof.repository) == (
        "merged" if merged else "pr_opened",
        "https://gitlab.example/acme/shop",
    )
    assert (proof.merge_commit_sha == MERGED) is merged


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
