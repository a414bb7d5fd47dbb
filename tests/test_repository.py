"""The files for those who change the code: each can be parsed, and names only what exists."""

from __future__ import annotations

import configparser
import json
import re
import subprocess
import tomllib
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.distributions import FOLDERS

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
ISSUE_FORMS = sorted(
    set((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml")) - {ROOT / ".github/ISSUE_TEMPLATE/config.yml"}
)


def parsed(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):", text("Makefile"), re.MULTILINE))


def test_tools_are_led_to_commands_and_pages_that_exist() -> None:
    """AGENTS.md names targets of the Makefile, and its links and paths are files of the repository."""
    page = text("AGENTS.md")
    assert set(re.findall(r"\bmake ([a-z-]+)", page)) <= targets()
    assert [link for link in re.findall(r"\]\(([^)]+)\)", page) if not (ROOT / link).is_file()] == []
    assert [path for path in re.findall(r"\b(?:tests|docs)/[\w/.-]*\w", page) if not (ROOT / path).exists()] == []
    assert "CONTRIBUTING.md" in page
    assert len(page.splitlines()) < 40, "the rules stand in CONTRIBUTING, once"


def test_both_forges_run_what_contributors_run() -> None:
    """GitHub and GitLab call `.ci/run` with the whole history. Only the oldest Python may fail a change."""
    [job] = parsed(".github/workflows/ci.yml")["jobs"].values()
    assert [step["run"] for step in job["steps"] if "run" in step] == [".ci/run"]
    assert job["steps"][0]["with"]["fetch-depth"] == 0
    assert f">={job['strategy']['matrix']['python'][0]}" == PROJECT["project"]["requires-python"]
    assert job["strategy"]["matrix"]["python"][0] in job["continue-on-error"]
    gitlab = parsed(".gitlab-ci.yml")["run"]
    assert gitlab["script"] == [".ci/run"]
    assert gitlab["variables"]["GIT_DEPTH"] == "0"


def test_what_runs_before_a_commit_is_what_check_runs() -> None:
    """Each command of `make check` is a hook, from the environment of the lock: no second list of versions."""
    config = parsed(".pre-commit-config.yaml")
    [repo] = config["repos"]
    assert repo["repo"] == "local"
    recipe = re.search(r"^check:.*\n((?:\t.+\n)+)", text("Makefile"), re.MULTILINE)
    assert recipe is not None
    checks = {line.removesuffix(" .") for line in re.findall(r"\$\(BIN\)/(.+)", recipe[1])}
    hooks = {hook["entry"].removeprefix(".venv/bin/").removesuffix(" --force-exclude") for hook in repo["hooks"]}
    assert hooks == checks
    stages = set(config["default_install_hook_types"])
    assert all(set(hook.get("stages", [])) <= stages for hook in repo["hooks"])


def test_a_first_run_says_what_it_installs_and_how_long_it_took() -> None:
    """Before pip is silent for a minute, `make run` names the number of packages, and afterwards the seconds."""
    recipe = re.search(r"^\$\(RUNTIME\):.*\n((?:\t.+\n)+)", text("Makefile"), re.MULTILINE)
    assert recipe is not None
    said = [line.removeprefix("@").replace("$$", "$") for line in recipe[1].split("\t") if line.startswith("@echo")]
    lines = [line.replace("$(VENV)", ".venv").replace("$(BEGAN)", "$(date +%s)") for line in said]
    run = partial(subprocess.run, cwd=ROOT, capture_output=True, text=True, check=True)
    shown = [run(["sh", "-c", line]) for line in lines]
    packages = re.findall(r"^[a-z][\w.-]*==", text("requirements/runtime.txt"), re.MULTILINE | re.IGNORECASE)
    assert shown[0].stdout.startswith(f"Installing {len(packages)} packages")
    assert re.fullmatch(r"Installed after [01] s\.\n", shown[1].stdout)


def test_editors_and_the_formatter_agree() -> None:
    parser = configparser.ConfigParser()
    parser.read_string("[start]\n" + text(".editorconfig"))
    assert parser["start"]["root"] == "true"
    assert parser.getint("*", "max_line_length") == PROJECT["tool"]["ruff"]["line-length"]
    assert parser["Makefile"]["indent_style"] == "tab"
    listed = subprocess.run(["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert listed
    wrong = [name for name in listed.split() if (ROOT / name).is_file() and b"\r\n" in (ROOT / name).read_bytes()]
    assert wrong == []


def test_the_container_is_that_of_ci() -> None:
    """Who develops in a container has the system that GitLab tests on, and the environment of `make setup`."""
    container = json.loads(text(".devcontainer/devcontainer.json"))
    assert container["image"] == parsed(".gitlab-ci.yml")["run"]["image"]
    assert container["postCreateCommand"] == "make setup"


def test_owners_own_what_exists() -> None:
    for line in text(".github/CODEOWNERS").splitlines():
        if not line or line.startswith("#"):
            continue
        pattern, *owners = line.split()
        assert pattern == "*" or (ROOT / pattern.strip("/")).exists(), pattern
        assert owners
        assert all(re.fullmatch(r"@[\w-]+/[\w-]+", owner) for owner in owners)


@pytest.mark.parametrize("file", ISSUE_FORMS, ids=lambda file: file.stem)
def test_a_form_asks_each_thing_once(file: Path) -> None:
    form = yaml.safe_load(file.read_text(encoding="utf-8"))
    assert {"name", "description", "body"} <= form.keys()
    asked = [part["id"] for part in form["body"] if part["type"] != "markdown"]
    assert len(asked) == len(set(asked))
    assert all(part["attributes"]["label"] for part in form["body"] if part["type"] != "markdown")


def test_both_forges_have_the_templates() -> None:
    assert parsed(".github/ISSUE_TEMPLATE/config.yml") == {"blank_issues_enabled": True}
    assert text(".gitlab/merge_request_templates/Default.md") == text(".github/pull_request_template.md")
    assert "SECURITY.md" in text(".gitlab/issue_templates/Bug.md")


RELEASE = ".github/workflows/release.yml"


def test_a_release_is_made_of_what_the_tests_try() -> None:
    """Its steps call modules and paths of this repository, and their rights are read, but for what they publish."""
    jobs = parsed(RELEASE)["jobs"]
    assert parsed(RELEASE)["permissions"] == {"contents": "read"}
    steps = [step for job in jobs.values() for step in job["steps"]]
    assert all(re.fullmatch(r"[\w-]+/[\w-]+@v\d+", step["uses"]) for step in steps if "uses" in step)
    said = "\n".join(step["run"] for step in steps if "run" in step)
    modules = set(re.findall(r"-m (scripts\.\w+)", said))
    assert modules == {"scripts.release", "scripts.sbom"}
    assert [name for name in modules if not (ROOT / f"{name.replace('.', '/')}.py").is_file()] == []
    assert set(FOLDERS.values()) == set(re.findall(r"^for folder in (.+); do$", said, re.MULTILINE)[0].split())
    assert {"id-token", "attestations"} <= jobs["files"]["permissions"].keys() & jobs["image"]["permissions"].keys()
    assert sum(step.get("uses", "").startswith("actions/attest-build-provenance@") for step in steps) == 2


def test_both_stages_of_the_image_are_on_the_base_that_a_release_pins() -> None:
    """The digest is looked up while the release is made. None stands in the repository."""
    [step] = (step for step in parsed(RELEASE)["jobs"]["image"]["steps"] if step.get("id") == "base")
    [name, *_] = re.findall(r"^name=\$\((.+)\)$", step["run"], re.MULTILINE)
    asked = subprocess.run(["sh", "-c", name], cwd=ROOT, capture_output=True, text=True, check=True)
    assert asked.stdout == "python:3.11-slim-bookworm\n"
    assert re.findall(r"^FROM (\S+)", text("deploy/Dockerfile"), re.MULTILINE) == ["${BASE}", "${BASE}"]


def test_updates_are_looked_for_where_there_are_locks() -> None:
    for update in parsed(".github/dependabot.yml")["updates"]:
        for folder in update.get("directories", [update.get("directory")]):
            assert (ROOT / folder.strip("/")).is_dir()
