"""The pictures of the docs: which there are, how large they may be, and who shows them."""

import re
from pathlib import Path

from scripts.pictures.taking import MAX_BYTES, PICTURES
from service.console import assets
from service.discovery.pages import ASSETS, load

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "pictures"
SHOWS = re.compile(r"!\[([^\]]*)\]\(([^)\s]+\.webp)\)")


def test_there_are_six_and_each_is_small() -> None:
    """What the folder holds is what `make pictures` takes."""
    found = {path.name: path.stat().st_size for path in FOLDER.iterdir()}
    assert found.keys() == {f"{picture.name}.webp" for picture in PICTURES}
    assert len(found) == 6
    assert all(10_000 < size <= MAX_BYTES for size in found.values()), found


def test_each_is_shown_and_told_in_words() -> None:
    """README and docs show each, with words for those who do not see it."""
    shown = set()
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for words, target in SHOWS.findall(page.read_text(encoding="utf-8")):
            assert len(words) > 20, (page, target)
            shown.add((page.parent / target).resolve())
    assert shown == set(FOLDER.iterdir())


def test_the_served_docs_show_them() -> None:
    """The address of a picture in a served page leads to its bytes."""
    found = {target for page in load() for _, target in SHOWS.findall(page.source)}
    assert found
    for target in found:
        place, _, name = target.rpartition("/")
        asset = assets.named(name)
        assert place == ASSETS
        assert asset is not None
        assert (asset.body, asset.content_type) == ((FOLDER / name).read_bytes(), "image/webp")
    assert assets.named("../pictures/case.webp") is None
