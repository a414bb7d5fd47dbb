"""The shop's coding tool: repairs the error in SERVICE_EVIDENCE, in the clone of the shop that it is started in.

A plain script of the customer's. A table of repairs stands where a coding agent thinks. Telemetry is evidence: it is
compared with the table, and nothing in it is ever run, opened or obeyed.
"""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple


class Repair(NamedTuple):
    """What to do about an error: a test that shows it, and the check that goes in front of a line of shop.py."""

    error: str
    culprit: str
    title: str
    test: str
    line: str
    check: str


REPAIRS = [
    Repair(
        "ZeroDivisionError",
        "shop.py:average_item_price",
        "Refuse to check out an empty cart",
        """
    def test_an_empty_cart_is_refused(self) -> None:
        with self.assertRaises(shop.Refused):
            shop.check_out("ada", "good")
""",
        "    average = average_item_price(cart)\n",
        '    if not cart:\n        raise Refused(409, "the cart is empty")\n',
    ),
    Repair(
        "ZeroDivisionError",
        "shop.py:average_item_price",
        "Refuse a quantity below one",
        """
    def test_a_quantity_of_zero_is_refused(self) -> None:
        with self.assertRaises(shop.Refused):
            shop.add_to_cart("ada", "tea", 0)
""",
        '    cart.append({"quantity": quantity',
        '    if quantity < 1:\n        raise Refused(422, "at least one")\n',
    ),
    Repair(
        "KeyError",
        "shop.py:add_to_cart",
        "Refuse what the shop does not sell",
        """
    def test_an_unknown_item_is_refused(self) -> None:
        with self.assertRaises(shop.Refused):
            shop.add_to_cart("ada", "saucer", 1)
""",
        '    cart.append({"quantity": quantity',
        '    if item not in PRICES:\n        raise Refused(404, "not sold here")\n',
    ),
]


def choose(case: dict[str, Any]) -> Repair:
    """Choose the repair that fits the evidence and the source."""
    source = Path("shop.py").read_text()
    for repair in REPAIRS:
        fits = case["title"].startswith(f"{repair.error}:") and case["culprit"] == repair.culprit
        if fits and repair.line in source and repair.check not in source:
            return repair
    sys.exit("no repair is known for this evidence")


def pass_tests(commands: list[str]) -> bool:
    """Whether every test command passes."""
    return all(
        subprocess.run(shlex.split(command), capture_output=True, check=False).returncode == 0 for command in commands
    )


def main() -> None:
    """Write a test and a change, and make sure that the one needs the other."""
    evidence = json.loads(Path(os.environ["SERVICE_EVIDENCE"]).read_text())
    case, commands = evidence["case"], evidence["scope"]["test_commands"]
    print(f"evidence: {case['title']!r} in {case['culprit']}, {case['event_count']} times", flush=True)
    repair = choose(case)
    tests, shop, end = Path("test_shop.py"), Path("shop.py"), "\n\nif __name__"
    tests.write_text(tests.read_text().replace(end, repair.test + end, 1))
    before = pass_tests(commands)
    shop.write_text(shop.read_text().replace(repair.line, repair.check + repair.line, 1))
    if before or not pass_tests(commands):
        sys.exit("the new test does not fail without the change and pass with it")
    print("wrote a test that fails without the change; with the change all tests pass", flush=True)
    Path(os.environ["SERVICE_TITLE_FILE"]).write_text(repair.title)


if __name__ == "__main__":
    main()
