"""`make pictures` in short: one picture of a real server with three days of its shop."""

from __future__ import annotations

from pathlib import Path

from scripts.pictures.story import opened, session_of
from scripts.pictures.taking import MAX_BYTES, PICTURES, take
from tests.support.chromium import open_chromium


def test_a_picture_is_taken_from_a_real_server(tmp_path: Path) -> None:
    """The page loads without a fault, and the picture has its form and its size."""
    [picture] = [one for one in PICTURES if one.name == "project"]
    with opened(days=3) as scene:
        secret = session_of(scene)
        with open_chromium() as browser:
            taken = take(browser, scene, secret, picture, tmp_path).read_bytes()
    assert (taken[:4], taken[8:12]) == (b"RIFF", b"WEBP")
    assert 10_000 < len(taken) <= MAX_BYTES
