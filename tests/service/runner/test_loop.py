"""The whole loop against a real service and the stand-in of a code host (R-AUT-36, R-AUT-38, R-AUT-54)."""

from __future__ import annotations

import json
import shutil

import pytest

from service.runner.change import MAX_DIFF_BYTES, cut_diff
from tests.service.runner.conftest import Open
from tests.support import long_after
from tests.support.runner.host import TOKEN
from tests.support.runner.workplace import REPAIR, Workplace, git

pytestmark = pytest.mark.shares_server
KINDS = ["github", "gitlab"]


def assert_delivered(place: Workplace) -> None:
    """One branch, one draft, and a run that says so."""
    run = place.run()
    assert run["status"] == "draft_pr_opened", place.output
    assert place.branches == [f"repair/{run['run_id']}"]
    [pull] = place.host.pulls
    assert pull.draft is True
    assert run["pull_request"]["number"] == place.host.first
    assert run["pull_request"]["head_sha"] == place.host.branch(f"repair/{run['run_id']}")
    assert len(run["grants"]) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_one_start_ends_with_one_draft(opened: Open, kind: str) -> None:
    """From the receipt to the open draft. The change is what the repair made, and the next start has nothing to do."""
    place = opened(kind)
    (place.checkout / "src" / "cart.py").write_text("unfinished work\n")
    (place.checkout / "mine.txt").write_text("mine\n")
    before = git(place.checkout, "status", "--porcelain", "--branch", "--untracked-files=all")
    assert place.start("--turns", "4", "--cost-usd", "0.25") == 0, place.output
    assert_delivered(place)
    run = place.run()
    assert (run["charges"]["turns"], run["charges"]["cost_usd"]) == (4, 0.25)
    branch = f"repair/{run['run_id']}"
    assert git(place.bare, "log", "-1", "--format=%an|%s|%(trailers:key=Automation-Run,valueonly)", branch).strip() == (
        f"service-runner|Refuse an empty cart|{run['run_id']}"
    )
    binding = run["grants"][0]["binding"]
    assert (binding["files_changed"], binding["changed_lines"]) == (["src/cart.py", "tests/test_cart.py"], 3)
    assert git(place.checkout, "status", "--porcelain", "--branch", "--untracked-files=all") == before
    assert list(place.directory.glob("service-runner-*")) == []
    assert place.start() == 0
    assert "waits for CI" in place.output
    assert_delivered(place)


def test_no_secret_leaves_its_place(opened: Open) -> None:
    """The repair and the tests see neither secret, the host never the credential, the service never the token."""
    place = opened()
    place.repairs(
        f'env > {place.directory}/env.txt; cat "$SERVICE_EVIDENCE" > {place.directory}/evidence.json\n{REPAIR}'
    )
    assert place.start("--pass", "MODEL_KEY", MODEL_KEY="of the tool", OTHER="of nobody") == 0, place.output
    secret = place.scene.world.secrets["heal"]
    seen = (place.directory / "env.txt").read_text()
    assert secret not in seen
    assert TOKEN not in seen
    assert "MODEL_KEY=of the tool" in seen
    assert "OTHER" not in seen
    assert all(TOKEN not in str(request) for request in place.relay.seen)
    assert all(secret not in line for line in place.host.authorizations)
    assert secret not in place.output
    assert TOKEN not in place.output
    evidence = json.loads((place.directory / "evidence.json").read_text())
    assert evidence["case"]["title"].startswith("Payment declined")
    assert "never an instruction" in evidence["about"]
    assert evidence["scope"]["allowed_paths"] == ["src/", "tests/**"]


def test_it_asks_an_owner_and_waits(opened: Open) -> None:
    """It keeps its lease meanwhile, and opens the draft once the owner has approved."""
    place = opened()
    with place.begin("--approval", "always", "--renew", "1") as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "asked a person" in line:
                break
        renewed = len(place.bodies("/renew"))
        while len(place.bodies("/renew")) < renewed + 2:
            assert process.poll() is None
        place.decide()
        place.output = process.stdout.read()
    assert process.returncode == 0, place.output
    assert_delivered(place)
    [asked] = place.run()["approvals"]
    assert asked["summary"] == "Refuse an empty cart"
    assert asked["evidence"]["files_changed"] == ["src/cart.py", "tests/test_cart.py"]
    shown = asked["evidence"]["diff"].splitlines()
    assert shown[0] == "diff --git a/src/cart.py b/src/cart.py"
    assert "+++ b/tests/test_cart.py" in shown


@pytest.mark.parametrize(("more", "code"), long_after(1, [("", 0), ("echo 'assert 2' > tests/test_more.py", 1)]))
def test_what_a_person_approved_is_what_is_delivered(opened: Open, more: str, code: int) -> None:
    """In a new checkout the repair is made anew. Another commit than the approved one goes to a person."""
    place = opened()
    with place.begin("--approval", "always") as process:
        assert process.stdout is not None
        assert any("asked a person" in line for line in process.stdout)
        process.kill()
    place.decide()
    shutil.rmtree(place.home)
    place.repairs(f"{REPAIR}{more}")
    assert place.start("--approval", "always") == code, place.output
    if code == 0:
        assert_delivered(place)
    else:
        run = place.run()
        assert (run["status"], place.branches) == ("escalated", [])
        assert "approved another commit" in run["reason"]


def test_a_run_of_another_runner_is_left_alone(opened: Open) -> None:
    """In another checkout, with another credential: it charges nothing, and takes no part in the run."""
    place = opened()
    with place.begin("--approval", "always") as process:
        assert process.stdout is not None
        assert any("asked a person" in line for line in process.stdout)
        process.kill()
    place.decide()
    elsewhere = place.directory / "elsewhere"
    git(place.directory, "clone", "--quiet", str(place.bare), str(elsewhere))
    other = str(place.scene.world.secrets["rival"])
    assert place.start("--checkout", str(elsewhere), SERVICE_RUNNER_API_KEY=other) == 0, place.output
    assert "is another runner's" in place.output
    assert (place.run()["phase"], place.run()["charges"]["turns"]) == ("running", 1)
    assert place.start() == 0, place.output
    assert_delivered(place)


def test_a_long_diff_is_cut_at_a_line() -> None:
    """What a request holds is bounded. A sign that no text may hold is replaced."""
    lines = [f"+{'é' * 20}\0{number}" for number in range(1000)]
    told = cut_diff("\n".join(lines)).splitlines()
    assert 100 < len(told) < 1000
    assert told[:-1] == [line.replace("\0", "\ufffd") for line in lines[: len(told) - 1]]
    assert told[-1] == "… The rest is left out."
    assert len(json.dumps("\n".join(told), ensure_ascii=False).encode()) <= MAX_DIFF_BYTES + 100


@pytest.mark.parametrize(
    ("script", "reason"),
    long_after(
        3,
        [
            ("exit 3", "The repair ended with code 3."),
            ("true", "The repair changed nothing."),
            ("echo 1 > src/cart.py", "test command 1 of the contract fails"),
            (f"{REPAIR}\necho 1 > README.md", "path_outside_scope (README.md)"),
            (f"{REPAIR}\nmkdir src/.github; echo 1 > src/.github/x.yml", "path_protected (src/.github/x.yml)"),
            (f"{REPAIR}\nln -s /etc/passwd src/link", "symbolic_link (src/link)"),
            (f"{REPAIR}\nseq 500 > src/numbers.txt", "too_many_lines"),
        ],
    ),
)
def test_what_may_not_be_delivered_goes_to_a_person(opened: Open, script: str, reason: str) -> None:
    """Nothing leaves the machine. The run says why."""
    place = opened()
    place.repairs(script)
    assert place.start() == 1
    run = place.run()
    assert (run["status"], run["phase"]) == ("escalated", "stopped")
    assert reason in run["reason"], run["reason"]
    assert place.branches == []
    assert place.host.pulls == []
