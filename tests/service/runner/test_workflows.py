"""The workflow and the jobs of the how-to: short, well-formed, and proven by the program that reads the host."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from service.runner.command import make_parser
from service.runner.prove import make_parser as make_prover

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "repair.md"
GITHUB, GITLAB = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
A_SECRET = "a-value-that-no-package-sees"


def steps(document: Any) -> list[str]:
    """Every script of a workflow or of jobs."""
    if isinstance(document, dict):
        own = [document["run"]] if isinstance(document.get("run"), str) else []
        listed = document.get("script")
        own += ["\n".join(listed)] if isinstance(listed, list) else []
        return own + [found for value in document.values() for found in steps(value)]
    return [found for value in document for found in steps(value)] if isinstance(document, list) else []


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


@pytest.mark.parametrize("text", [GITHUB, GITLAB], ids=["github", "gitlab"])
def test_ci_proves_by_the_program_that_reads_the_host(text: str) -> None:
    """It sends no fact of its own, and holds the merge back for less than an hour."""
    document = yaml.safe_load(text)
    [command] = re.findall(r"service-prove (--.*)", "\n".join(steps(document)))
    assert 0 < make_prover().parse_args(shlex.split(command)).wait <= 3600
    assert "pr-proof" not in text
    assert "branch_protection" not in text


def test_github_starts_for_each_observation() -> None:
    """The conditions of the job are the schedule and the branch. A new head needs the check anew."""
    document = yaml.safe_load(GITHUB)
    assert document[True]["pull_request"]["types"] == ["opened", "closed", "reopened", "synchronize"]
    condition = "github.event_name == 'schedule' || startsWith(github.head_ref, 'repair/')"
    assert document["jobs"]["prove"]["if"] == condition
    assert "SERVICE_PROJECT_ID" in document["env"], "with it each pull request is told, granted or not"
    rights = document["jobs"]["prove"]["permissions"]
    assert rights.pop("id-token") == "write"
    assert set(rights.values()) == {"read"}


def test_gitlab_waits_beside_the_other_jobs_and_holds_the_pipeline() -> None:
    job = yaml.safe_load(GITLAB)["prove"]
    assert job["needs"] == []
    assert "allow_failure" not in str(job)


@pytest.mark.parametrize("text", [GITHUB, GITLAB], ids=["github", "gitlab"])
def test_an_install_sees_no_secret(text: str, tmp_path: Path) -> None:
    """What a package runs while it is installed finds no secret: neither of its step nor of its job."""
    document = yaml.safe_load(text)
    jobs = document.get("jobs", document)
    installs = [found for job in jobs.values() for found in _environments_of_installs(job, tmp_path)]
    assert len(installs) == 2
    for seen in installs:
        assert "PATH" in seen
        assert not any(value == A_SECRET or "secrets." in value for value in seen.values())


def _environments_of_installs(job: Any, tmp_path: Path) -> list[dict[str, str]]:
    """The variables of each `pip install` of a job, with a program in the place of pip that writes them down."""
    (tmp_path / "pip").write_text("#!/bin/sh\nenv > seen.txt\n")
    (tmp_path / "pip").chmod(0o755)
    secrets = dict.fromkeys(("GITLAB_TOKEN", "SERVICE_RUNNER_API_KEY", "SERVICE_CI_API_KEY", "MODEL_KEY"), A_SECRET)
    secrets |= dict.fromkeys(job.get("id_tokens", {}), A_SECRET)
    asks = job.get("permissions", {}).get("id-token") == "write"
    of_job = dict.fromkeys(("ACTIONS_ID_TOKEN_REQUEST_URL", "ACTIONS_ID_TOKEN_REQUEST_TOKEN"), A_SECRET) if asks else {}
    found = []
    told: list[tuple[str, dict[str, str]]] = [
        (step["run"], of_job | job.get("env", {}) | step.get("env", {}))
        for step in job.get("steps", [])
        if "run" in step
    ]
    told += [(line, secrets) for line in job.get("script", [])]
    for script, given in told:
        if "pip install" in script:
            environment = {**given, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
            subprocess.run(["sh", "-ec", script], cwd=tmp_path, env=environment, check=True)
            lines = (tmp_path / "seen.txt").read_text().splitlines()
            found.append(dict(line.partition("=")[::2] for line in lines if "=" in line))
    return found
