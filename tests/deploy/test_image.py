"""The Dockerfile's steps make a service that starts, not as root, and is healthy (no image is built)."""

import os
import signal
import subprocess
import time
from pathlib import Path

import httpx2
import pytest

from scripts.sbom import NAME
from tests.deploy.empty_root import build, words
from tests.support.server import free_port

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.image, pytest.mark.timeout(900)]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may change its root")
def test_the_steps_make_a_service(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Installed from the lock into an empty root, it starts as its own user, and the health check passes."""
    roots = tmp_path_factory.mktemp("image")
    image = build(ROOT / "deploy" / "Dockerfile", ROOT, roots)
    assert image.user >= 1000, "not root"
    assert not list(image.root.glob("opt/service/lib/python3*/site-packages/pytest")), "no tool of the tests"
    assert list(image.root.glob(f"opt/service/lib/python3*/site-packages/*.dist-info/sboms/{NAME}"))

    port = free_port()
    env = image.environment(SERVICE_PORT=str(port), SERVICE_HOST="127.0.0.1")
    command = words(image.said["ENTRYPOINT"]) + words(image.said["CMD"])
    running = subprocess.Popen(image.command(command), env=env, start_new_session=True)
    try:
        answered = None
        give_up = time.monotonic() + 60
        while answered is None and running.poll() is None and time.monotonic() < give_up:
            try:
                answered = httpx2.get(f"http://127.0.0.1:{port}/health/ready", timeout=5)
            except httpx2.HTTPError:
                time.sleep(0.1)
        assert answered is not None
        assert answered.is_success
        assert Path(f"/proc/{running.pid}").stat().st_uid == image.user
        for page in ("how-to/run", "guides/install", "api/cases"):
            assert httpx2.get(f"http://127.0.0.1:{port}/docs/{page}", timeout=30).is_success, page
        health = image.said["HEALTHCHECK"]
        subprocess.run(image.command(words(health)), env=env, check=True)
    finally:
        os.kill(running.pid, signal.SIGTERM)
        assert running.wait(timeout=30) == 0
    check = subprocess.run(image.command(words(health)), env=env, check=False, capture_output=True)
    assert check.returncode != 0, "the health check fails when nothing serves"
