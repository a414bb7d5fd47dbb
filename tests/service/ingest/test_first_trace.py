"""What version 1 of the grouping takes from a stack trace never changes, whatever more is read of it (G-174)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.ingest.grouping.first import first_frame

CHAINED = """Traceback (most recent call last):
  File "/srv/shop/cards.py", line 3, in find
    raise KeyError(name)
KeyError: 'card'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/srv/shop/pay.py", line 7, in charge
    find(name)
  File "/usr/lib/python3.11/json/decoder.py", line 1, in decode
    pass
PayError: refused
"""
NODE = """PayError: refused
    at Object.find (node:internal/fs:1:2)
    at async Till.charge [as pay] (file:///srv/shop/till-4f3a2b1c.js:10:5)
    at main (/srv/shop/main.js:2:1)
  [cause]: Error: no answer
    at ask (/srv/shop/ask.js:1:1)"""
JAVA = """shop.PayError: refused
\tat java.base/java.util.List.get(List.java:1)
\tat app//shop.Till.charge(Till.java:12)
Caused by: java.io.IOException
\tat shop.Bank.ask(Bank.java:3)"""
DOTNET = """Shop.PayError: refused
   at Shop.Till.Charge(Order order) in /srv/shop/Till.cs:line 12"""
GO = "goroutine 1 [running]:\nmain.charge(0x1)\n\t/srv/shop/pay.go:12 +0x1d\n"


@pytest.mark.parametrize(
    ("stack", "frame"),
    [
        (CHAINED, "pay.py:charge"),
        (NODE, "till.js:charge"),
        (JAVA, "Till.java:charge"),
        (DOTNET, None),
        (GO, None),
        ("", None),
        ("x" * 100_000 + CHAINED, "pay.py:charge"),
    ],
    ids=["python", "node", "java", "dotnet", "go", "nothing", "long"],
)
def test_a_trace_is_read_as_it_was(stack: str, frame: str | None) -> None:
    assert first_frame(stack) == frame


LINES = st.sampled_from([*CHAINED.split("\n"), *NODE.split("\n"), *JAVA.split("\n"), *DOTNET.split("\n"), ""])


@given(st.lists(LINES | st.text(max_size=40), max_size=30))
def test_any_text_is_read_without_an_error(lines: list[str]) -> None:
    found = first_frame("\n".join(lines))
    assert found is None or ":" in found
