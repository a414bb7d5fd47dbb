"""The pictures: each with its moment, its page and its window; and how one is taken."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any, Literal, NamedTuple

from playwright.sync_api import Browser

from service.demo.theatre.scene import Scene
from tests.support.chromium import Seat, seated

MAX_BYTES = 150_000
WIDE, PHONE = (1280, 860), (390, 844)
QUALITIES = (90, 80, 70, 60)


class Picture(NamedTuple):
    """A picture: its file, the moment of the story, its page, and what is done there first."""

    name: str
    moment: Literal["days", "plan", "request", "repaired"]
    place: str
    size: tuple[int, int] = WIDE
    theme: Literal["light", "dark"] = "light"
    scroll_to: str = ""
    opens: str = ""


PICTURES = (
    Picture("project", "request", "projects/{project}"),
    Picture("case", "request", "cases/{case}"),
    Picture("plan", "plan", "projects/{project}/onboarding"),
    Picture("request", "request", "projects/{project}/approvals", size=(1280, 1080)),
    Picture("run", "repaired", "runs/{run}", theme="dark", scroll_to="text=The way through its states"),
    Picture("stop", "request", "projects/{project}/cases", size=PHONE, opens="details.stop > summary"),
)


def take(browser: Browser, scene: Scene, secret: str, picture: Picture, folder: Path) -> Path:
    """Take a picture of the console as it is now. Fails when a page does what none may, or the file is too large."""
    width, height = picture.size
    with seated(
        browser, scene.world.base_url, secret, theme=picture.theme, width=width, device_scale_factor=1.5
    ) as seat:
        seat.page.set_viewport_size({"width": width, "height": height})
        seat.open(picture.place.format(**_ids(scene)))
        if picture.scroll_to:
            seat.page.locator(picture.scroll_to).first.evaluate("one => scrollTo(0, one.offsetTop - 70)")
        if picture.opens:
            seat.page.locator(picture.opens).click()
        shot = _webp(seat)
    path = folder / f"{picture.name}.webp"
    path.write_bytes(shot)
    return path


def _webp(seat: Seat) -> bytes:
    """What the window shows, in the best quality that fits."""
    chromium = seat.context.new_cdp_session(seat.page)
    shot = b""
    for quality in QUALITIES:
        told: dict[str, Any] = chromium.send("Page.captureScreenshot", {"format": "webp", "quality": quality})
        shot = base64.b64decode(told["data"])
        if len(shot) <= MAX_BYTES:
            return shot
    raise AssertionError(f"the picture has {len(shot)} bytes")


def _ids(scene: Scene) -> dict[str, str]:
    """The objects that pages show: the most frequent case of browsers, and the newest run."""
    cases = scene.owner.call("GET", f"{scene.path}/cases?status=all", quiet=True)["cases"]
    broken = [one for one in cases if one["title"].startswith("TypeError")]
    runs = scene.owner.call("GET", f"{scene.path}/automation-runs", quiet=True)["runs"]
    return {
        "project": scene.project["id"],
        "case": max(broken, key=lambda one: int(one["event_count"]))["case_id"],
        "run": runs[0]["run_id"] if runs else "",
    }
