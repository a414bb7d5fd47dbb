"""Stack traces as text become frames, the latest call first (G-142)."""

from __future__ import annotations

import time

import pytest

from service.ingest.foreign.common import Frame, file_of, function_of, is_own
from service.ingest.stacks.reading import frames_of

PYTHON = """Traceback (most recent call last):
  File "/app/store.py", line 2, in load
    return rows[0]
           ~~~~^^^
IndexError: list index out of range

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/app/web.py", line 9, in handle
    charge(order)
  File "/app/pay.py", line 3, in charge
    raise PaymentError("no")
  File "/venv/lib/python3.11/site-packages/stripe/api.py", line 7, in request
    x()
shop.PaymentError: no
"""
JAVASCRIPT = """PaymentError: no
    at Object.charge (/app/node_modules/stripe/api.js:7:3)
    at async Shop.pay [as run] (file:///app/dist/pay.js:3:11)
    at /app/web.js:9:1
    at new Order (webpack:///src/order.ts:1:2)
    at node:internal/timers:5:6
    at eval (<anonymous>)
  [cause]: Error: inner
      at inner (/app/inner.js:1:1)
"""
JAVA = """java.lang.IllegalStateException: no
\tat java.base/java.util.Objects.requireNonNull(Objects.java:233)
\tat com.shop.Pay.charge(Pay.java:12)
\tat com.shop.Web.lambda$0(Native Method)
Caused by: java.io.IOException: x
\tat com.shop.Inner.read(Inner.java:1)
"""


def seen(stack: str) -> list[tuple[str, str, bool]]:
    frames = [Frame(call.file, call.function, in_app=call.in_app) for call in frames_of(stack)]
    return [(file_of(frame), function_of(frame), is_own(frame)) for frame in frames]


def test_of_python_the_last_exception_counts() -> None:
    assert seen(PYTHON) == [("api.py", "request", False), ("pay.py", "charge", True), ("web.py", "handle", True)]
    assert [frame.line for frame in frames_of(PYTHON)] == [7, 3, 9]


def test_of_javascript_every_form_of_a_line() -> None:
    assert seen(JAVASCRIPT) == [
        ("api.js", "charge", False),
        ("pay.js", "pay", True),
        ("web.js", "", True),
        ("order.ts", "Order", True),
        ("timers", "", False),
    ]


def test_of_java_its_own_packages_are_no_product() -> None:
    assert seen(JAVA) == [
        ("Objects.java", "requireNonNull", False),
        ("Pay.java", "charge", True),
        ("Native Method", "lambda$0", True),
    ]


@pytest.mark.parametrize("stack", ["", "no stack", "panic: runtime error\nmain.go:3 +0x1d", "\x00" * 100])
def test_what_is_no_stack_has_no_frames(stack: str) -> None:
    assert frames_of(stack) == []


@pytest.mark.parametrize(
    "line",
    ["    at ", '  File "', " at (", "    at a (" * 9, "\tat a.b(", "Traceback (most recent call last):\n\n\nDuring "],
)
def test_hostile_stacks_take_time_in_proportion(line: str) -> None:
    begun = time.process_time()
    for text in (line * 20_000, (line + "\n") * 20_000, line + "x" * 1_000_000, line + " :1" * 300_000):
        frames_of(text)
    assert time.process_time() - begun < 2
