"""Take the pictures of the docs anew, from a real server with a scene of its own."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "pictures"
sys.path.insert(0, str(ROOT))

from scripts.pictures.story import opened, play, session_of  # noqa: E402
from scripts.pictures.taking import PICTURES, take  # noqa: E402
from service.demo.theatre.scene import Scene  # noqa: E402
from tests.support.chromium import open_chromium  # noqa: E402


def main() -> None:
    """Tell the story, and take each picture at its moment."""
    with opened() as scene:
        secret = session_of(scene)
        with open_chromium() as browser:

            def look(scene: Scene, moment: str) -> None:
                for picture in PICTURES:
                    if picture.moment == moment:
                        path = take(browser, scene, secret, picture, FOLDER)
                        print(f"{path.relative_to(ROOT)}: {path.stat().st_size:,} bytes")

            play(scene, look)


if __name__ == "__main__":
    main()
