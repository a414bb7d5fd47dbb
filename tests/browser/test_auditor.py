"""An auditor, who reads a run, keeps its proof and verifies it without trust in the service."""

from __future__ import annotations

import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from scripts import verify_proof
from service.accounts.membership import set_member
from statemachines.accounts.membership import Role
from tests.support.accounts import sign_in
from tests.support.automation_world import user_of
from tests.support.chromium import Seat, seated
from tests.support.fullscene import heal
from tests.support.hands import Hands, typed
from tests.support.loop.http_scene import HttpScene
from tests.support.sessions import open_session

pytestmark = pytest.mark.shares_server

PROJECT = "Test project"
PATIENCE = 60
VERIFIER = Path(verify_proof.__file__)


@pytest.mark.parametrize("scripts", [True, False], ids=["with scripts", "without scripts"])
def test_an_auditor_verifies_a_run(at: HttpScene, chromium: Browser, tmp_path: Path, scripts: bool) -> None:
    heal(at.delivered())
    keys = typed(at.server, "log", "keys")
    wait_until_signed(at)
    secret = join(at)
    proof, forged = tmp_path / "proof.json", tmp_path / "forged.json"
    with seated(chromium, at.server.base_url, secret, scripts=scripts) as seat:
        seat.open()
        reads = Hands(seat)
        read_the_run(reads)
        with seat.page.expect_download() as download:
            reads.follow("Download the proof")
        download.value.save_as(proof)
        forged.write_text(proof.read_text().replace('"turns":3', '"turns":2'))
        assert forged.read_text() != proof.read_text()
        if scripts:
            reads.follow("Verify it in this browser")
            assert page_says(seat, proof, keys).startswith("OK: ")
            assert page_says(seat, forged, keys).startswith("WRONG: ")
        else:
            reads.follow("How to verify")
            reads.reads("verify_proof.py proof.json --key @keys")
            assert program_says(proof, keys) == 0
            assert program_says(forged, keys) == 1


def join(at: HttpScene) -> str:
    """Make a new person an auditor of the project; returns the secret of their session."""
    key = sign_in(at.world.client, at.server.internal_token)
    auditor = at.world.run(partial(user_of, secret=key))
    at.world.run(partial(set_member, project_id=at.world.project_id, user_id=auditor, role=Role.AUDITOR))
    return str(at.world.run(partial(open_session, user_id=auditor)).secret)


def read_the_run(reads: Hands) -> None:
    """Go through the project to the run and its events. No page has a form that the auditor may not send."""
    reads.follow(PROJECT)
    reads.reads("You are an auditor here.")
    changes_nothing(reads)
    reads.turn_to("Runs")
    changes_nothing(reads)
    reads.click(reads.page.locator("main tbody th a").first)
    reads.reads("Succeeded", "The way through its states", "Timeline", "Verified", "CI observed")
    changes_nothing(reads)
    reads.click(reads.page.get_by_title("run.started.v1"))
    reads.reads("run.started.v1", "Hash of the content")
    changes_nothing(reads)
    reads.page.go_back()


def changes_nothing(reads: Hands) -> None:
    """The only form that sends something is the one to sign out."""
    forms = reads.page.locator("form[method=post]").evaluate_all("all => all.map((one) => one.getAttribute('action'))")
    assert forms == ["/console/leave"], reads.seat.place


def page_says(seat: Seat, file: Path, keys: str) -> str:
    """What the page that verifies says of a file, without a network."""
    seat.context.set_offline(True)
    try:
        seat.page.get_by_label("File:").set_input_files(file)
        seat.page.get_by_label("Keys of the log, one a line:").fill(keys)
        seat.page.get_by_role("button", name="Verify").click()
        result = seat.page.locator("#result")
        result.filter(has_text=": ").wait_for()
        return result.inner_text()
    finally:
        seat.context.set_offline(False)


def program_says(file: Path, keys: str) -> int:
    """The exit code of the program that auditors have."""
    kept = file.with_name("keys")
    kept.write_text(keys)
    return subprocess.run([sys.executable, VERIFIER, file, "--key", f"@{kept}"], check=False).returncode


def wait_until_signed(at: HttpScene) -> None:
    """The log is signed a moment after each event. Wait until a proof has no event that is newer."""
    give_up = time.monotonic() + PATIENCE
    while True:
        proof = at.must(at.call("GET", f"{at.path}/proof", who="owner"))
        events = sum(len(stream["events"]) for stream in proof["streams"])
        if len(proof["inclusion"] or ()) == events:
            return
        assert time.monotonic() < give_up, proof["next_action"]
        time.sleep(0.1)
