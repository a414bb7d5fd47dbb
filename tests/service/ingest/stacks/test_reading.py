"""Stack traces as text become frames, the latest call first, with type and value (G-142, G-175)."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.ingest.foreign.common import Frame, file_of, function_of, is_own
from service.ingest.stacks.reading import read_trace
from service.ingest.stacks.trace import MAX_FOUND, MAX_READ
from tests.service.ingest.stacks import machines, scripts
from tests.support.traces import compiled

TRACES = scripts.TRACES | machines.TRACES | compiled.TRACES

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
    frames = [Frame(call.file, call.function, in_app=call.in_app) for call in read_trace(stack).calls]
    return [(file_of(frame), function_of(frame), is_own(frame)) for frame in frames]


def test_of_python_the_last_exception_counts() -> None:
    assert seen(PYTHON) == [("api.py", "request", False), ("pay.py", "charge", True), ("web.py", "handle", True)]
    assert [call.line for call in read_trace(PYTHON).calls] == [7, 3, 9]


def test_of_javascript_every_form_of_a_line() -> None:
    assert seen(JAVASCRIPT) == [
        ("api.js", "charge", False),
        ("pay.js", "pay", True),
        ("web.js", "", True),
        ("order.ts", "Order", True),
        ("timers", "", False),
        ("<anonymous>", "eval", False),
    ]


def test_of_java_its_own_packages_are_no_product() -> None:
    assert seen(JAVA) == [
        ("Objects.java", "requireNonNull", False),
        ("Pay.java", "charge", True),
        ("Native Method", "lambda$0", True),
    ]


@pytest.mark.parametrize(
    "stack", ["", "no stack", "panic: runtime error\nmain.go:3 +0x1d", "0: a\n1: b", "see a@b.example:3", "\x00" * 100]
)
def test_what_is_no_stack_has_no_frames(stack: str) -> None:
    assert read_trace(stack).calls == ()


@pytest.mark.parametrize(
    "line",
    [
        *(
            "    at ",
            '  File "',
            " at (",
            "    at a (" * 9,
            "\tat a.b(",
            "Traceback (most recent call last):\n\n\nDuring ",
        ),
        '  + Exception Group\n  |   File "a", line 1, in a\n  | E: a\n  +-+---- 1 ----\n    | E: a\n    +---- 2 ----',
        "    at a (b:1:1)\n  [errors]: [\n    a\n    at a (b:1:1),\n    E: a\n        at a (b:1:1),\n  [cause]: E",
        "E: a\n\tat a.b(C.java:1)\nCaused by: E: a\n\tat a.b(C.java:1)\n\t... 1 more",
    ],
)
def test_hostile_stacks_take_time_in_proportion(line: str) -> None:
    begun = time.process_time()
    for text in (line * 20_000, (line + "\n") * 20_000, line + "x" * 1_000_000, line + " :1" * 300_000):
        read_trace(text)
    assert time.process_time() - begun < 2


@pytest.mark.parametrize("name", TRACES)
def test_each_language_yields_frames_type_and_value(name: str) -> None:
    """Base names and bare functions as Sentry's SDKs give them, and only the product's own code in-app."""
    text, kind, value, frames = TRACES[name]
    trace = read_trace(text)
    shown = [Frame(call.file, call.function, None, call.module, call.line, in_app=call.in_app) for call in trace.calls]
    assert (trace.type, trace.value) == (kind, value)
    assert [(file_of(frame), function_of(frame), frame.lineno, is_own(frame)) for frame in shown] == frames


@pytest.mark.parametrize("name", TRACES)
def test_text_behind_a_trace_costs_no_frame(name: str) -> None:
    """Such as the next line of a log."""
    text, _, _, frames = TRACES[name]
    assert len(read_trace(f"{text}\n\nlogged by shop\n").calls) == len(frames)


@pytest.mark.parametrize("name", scripts.TRACES)
def test_only_python_s_whole_traces_have_the_exact_value(name: str) -> None:
    """Of a trace that was cut, or of another language, an attribute beside it counts."""
    text, *_ = scripts.TRACES[name]
    assert read_trace(text).exact == (name.startswith("python") and "cut" not in name)


@pytest.mark.parametrize(
    ("printed", "module", "name"),
    [
        ("KeyError", None, "KeyError"),
        ("shop.models.Order.DoesNotExist", "shop.models", "Order.DoesNotExist"),
        ("json.decoder.JSONDecodeError", "json.decoder", "JSONDecodeError"),
        ("PIL.UnidentifiedImageError", "PIL", "UnidentifiedImageError"),
        ("socket.timeout", "socket", "timeout"),
        ("shop.Shop.open.<locals>.Closed", "shop", "Shop.open.<locals>.Closed"),
        ("<locals>.E", None, "<locals>.E"),
    ],
)
def test_a_type_of_python_has_its_qualified_name(printed: str, module: str | None, name: str) -> None:
    """As Sentry and PostHog tell it."""
    trace = read_trace(f'Traceback (most recent call last):\n  File "a.py", line 1, in f\n    x\n{printed}: m\n')
    assert (trace.module, trace.type, trace.value) == ((module, name, "m") if printed[0] != "<" else (None, None, None))


def test_a_value_longer_than_what_is_read_costs_no_frames() -> None:
    stack = f'Traceback (most recent call last):\n  File "/app/a.py", line 3, in f\nE: {"x" * 2 * MAX_READ}\n'
    trace = read_trace(stack)
    assert [call.function for call in trace.calls] == ["f"]
    assert (trace.type, trace.exact) == ("E", False)


lines = st.sampled_from([line for printed in TRACES.values() for line in printed.text.splitlines(keepends=True)])


@given(st.lists(st.one_of(lines, st.text(max_size=40)), max_size=60).map("".join))
def test_any_text_is_read_without_an_error(text: str) -> None:
    """Lines of all languages in any order and with any text among them."""
    trace = read_trace(text)
    assert len(trace.calls) <= MAX_FOUND
    assert all(call.line is None or call.line >= 0 for call in trace.calls)


@pytest.mark.parametrize("name", TRACES)
@given(data=st.data())
def test_a_damaged_trace_is_read_without_an_error(name: str, data: st.DataObject) -> None:
    """Cut at both ends, with a piece in the middle gone."""
    text = TRACES[name].text
    at = sorted(data.draw(st.lists(st.integers(0, len(text)), min_size=4, max_size=4)))
    assert len(read_trace(text[at[0] : at[1]] + text[at[2] : at[3]]).calls) <= MAX_FOUND


@pytest.mark.parametrize("name", TRACES)
def test_of_very_many_calls_the_latest_stay(name: str) -> None:
    text = TRACES[name].text
    assert len(read_trace(text * 2_000).calls) <= MAX_FOUND
