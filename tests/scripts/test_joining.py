"""Modules joined by a plan: definitions move with their text, every reference follows, and circles are refused."""

import subprocess
import sys
from pathlib import Path

import pytest

from scripts.joining import Join, Plan, Unjoinable

BEFORE = {
    "service/__init__.py": '"""The service."""\n',
    "service/shop/__init__.py": '"""The shop."""\n',
    "service/shop/commands.py": '''"""Orders are made.

Twice never, because a key holds them."""

from statemachines.order import Order

_LIMIT = 3
PAGES = [1]


def make(name: str) -> Order:
    """Make an order."""
    return Order(name[:_LIMIT])
''',
    "service/shop/show.py": '''"""Orders are shown."""

from __future__ import annotations

from service.shop import commands

_LIMIT = 5
TWIN = 1
PAGES = [2]


def order(name: str) -> str:
    """Show an order."""
    return commands.make(name).name + "!" * _LIMIT
''',
    "service/door.py": '''"""The door."""

from service.shop import commands, show


def answer(order: str) -> str:
    """Answer with an order: service.shop.show is its place."""
    return show.order(commands.make(order).name)
''',
    "statemachines/order.py": '''"""The machine."""


class Order:
    """An order."""

    def __init__(self, name: str) -> None:
        self.name = name
''',
    "tests/service/shop/inner/test_deep.py": '"""Nothing."""\n',
    "service/shop/inner/__init__.py": '"""Inside."""\n',
    "service/shop/inner/deep.py": '"""Deep things."""\n\nDEPTH = 7\n',
    "service/shop/two.py": '"""Another one."""\n\n\ndef order() -> int:\n    return 2\n',
    "docs/page.md": "See `service/shop/show.py` and `service.shop.inner.deep`.\n",
}
PLAN = """
service/shop/order.py = commands show service/shop/inner/deep.py
rename service/shop/show.py:order shown_order
doc service/shop/order.py Orders: made and shown.
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository with a small product."""
    for path, text in BEFORE.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    subprocess.run(["git", "init", "-q", "."], cwd=tmp_path, check=True)
    subprocess.run(["git", "add", "."], cwd=tmp_path, check=True)
    return tmp_path


def join(checkout: Path, plan: str) -> None:
    """Carry a plan out."""
    Join(checkout, Plan.read(plan)).carry_out()


def test_what_is_joined_does_as_before(checkout: Path) -> None:
    """Names that met got a longer one, the door calls the new ones, and folders that are empty went."""
    join(checkout, PLAN)
    code = "import service.door, service.shop.order as it; print(service.door.answer('abcdef'), it.PAGES, it.DEPTH)"
    done = subprocess.run([sys.executable, "-c", code], cwd=checkout, check=True, capture_output=True, text=True)
    assert done.stdout == "abc!!!!! [1, 2] 7\n"
    assert not (checkout / "service/shop/show.py").exists()
    assert not (checkout / "service/shop/inner").exists()
    assert (checkout / "tests/service/shop/test_inner_deep.py").exists()
    assert (checkout / "docs/page.md").read_text() == "See `service/shop/order.py` and `service.shop.order`.\n"


def test_a_joined_module_tells_all_that_its_parts_told(checkout: Path) -> None:
    """The new sentence on top, the reasons of the first below it, and each part under its own."""
    join(checkout, PLAN)
    text = (checkout / "service/shop/order.py").read_text()
    assert text.startswith('"""Orders: made and shown.\n\nTwice never, because a key holds them.\n"""\n')
    assert [line for line in text.splitlines() if line.startswith("# ")] == [
        "# Orders are made.",
        "# Orders are shown.",
        "# Deep things.",
    ]
    assert "_LIMIT = 3" in text
    assert "_SHOW_LIMIT = 5" in text


@pytest.mark.parametrize(
    ("plan", "trouble"),
    [
        pytest.param("service/shop/x.py = commands missing", "no such files", id="a file that is not there"),
        pytest.param("service/shop/x.py = show two", "order is defined in", id="two public names that meet"),
        pytest.param("service/shop/commands.py = commands service/door.py", "import each other", id="a circle"),
    ],
)
def test_nothing_is_written_where_something_is_in_the_way(checkout: Path, plan: str, trouble: str) -> None:
    with pytest.raises(Unjoinable, match=trouble):
        join(checkout, plan)
    assert {path: (checkout / path).read_text() for path in BEFORE} == BEFORE
