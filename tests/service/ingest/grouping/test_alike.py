"""A stack trace as text says what SDKs say in members: codes, errors inside of others, nameless functions (G-142).

Each error is told twice, by an SDK with members and as text by OpenTelemetry, and is one case.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pytest

from tests.service.ingest.grouping.test_pairs import offered

Event = Mapping[str, Any]


class Told(NamedTuple):
    """An error as an SDK tells it in members, and as text."""

    members: Event
    text: Event


def case_of(event: Event) -> str:
    """The case that the newest version opens for an error."""
    return offered(event)[-1].case_id


def as_text(kind: str, message: str, stack: str) -> Event:
    attributes = {"exception.type": kind, "exception.message": message, "exception.stacktrace": stack}
    return {"otlp": {"attributes": attributes}}


def error(kind: str, value: str, *calls: str, mechanism: Any = None, **more: Any) -> dict[str, Any]:
    """One exception, the latest call first: `file:function`, with a sign before those of libraries."""
    frames = []
    for call in calls:
        file, _, function = call.lstrip("!").rpartition(":")
        frames.append({"filename": file, "function": function, "in_app": not call.startswith("!"), **more})
    told: dict[str, Any] = {"type": kind, "value": value, "mechanism": mechanism}
    return {**told, "stacktrace": {"frames": frames[::-1]}} if frames else told


def event(*errors: Mapping[str, Any]) -> Event:
    """An event of Sentry's SDKs: the reported exception first."""
    return {"sentry": {"exception": {"values": list(errors)[::-1]}}}


def held(number: int, holder: int | None = None, **more: Any) -> Mapping[str, Any]:
    return {"exception_id": number, **({} if holder is None else {"parent_id": holder}), **more}


def python(head: str, *calls: str) -> str:
    """A traceback as Python prints it; the latest call is given first."""
    lines = [f'  File "/app/{call.partition(":")[0]}", line 9, in {call.partition(":")[2]}\n    x()' for call in calls]
    return "\n".join(["Traceback (most recent call last):", *lines[::-1], head, ""])


def errno(number: int) -> Mapping[str, Any]:
    return {"meta": {"errno": {"number": number}}}


def java(*frames: tuple[str, str]) -> Mapping[str, Any]:
    listed = [{"module": module, "function": name, "in_app": True} for module, name in frames]
    return {"stacktrace": {"frames": listed[::-1]}}


GROUP = """\
  + Exception Group Traceback (most recent call last):
  |   File "/app/run.py", line 9, in run
  |     raise ExceptionGroup("several", [ValueError("one"), ExceptionGroup("more", [KeyError("two")])])
  | ExceptionGroup: several (3 sub-exceptions)
  +-+---------------- 1 ----------------
    | ValueError: one
    +---------------- 2 ----------------
    | ExceptionGroup: more (1 sub-exception)
    +-+---------------- 1 ----------------
      | KeyError: 'two'
      +------------------------------------
    +---------------- 3 ----------------
    | Traceback (most recent call last):
    |   File "/app/bank.py", line 3, in charge
    |     x()
    | TimeoutError: t
    |
    | During handling of the above exception, another exception occurred:
    |
    | Traceback (most recent call last):
    |   File "/app/bank.py", line 5, in pay
    |     raise PayError("no")
    | shop.PayError: no
    +------------------------------------
"""
INSPECTED = """\
AggregateError: several
    at run (/app/a.js:95:9) {
  [errors]: [
    Error: one
        at charge (/app/bank.js:5:29)
        at run (/app/a.js:1:13),
    TypeError: two
    of two lines
        at send (/app/mail.js:9:47)
        at run (/app/a.js:1:13) {
      code: 'X',
      [cause]: Error: inner
          at deep (/app/deep.js:1:1)
    }
  ]
}
"""
ALIKE: Mapping[str, Told] = {
    "an errno of Python": Told(
        event(error("PermissionError", "[Errno 13] Permission denied: 'a'", "a.py:f", mechanism=errno(13))),
        as_text("PermissionError", "m", python("PermissionError: [Errno 13] Permission denied: 'a'", "a.py:f")),
    ),
    "a number below zero": Told(
        event(error("gaierror", "[Errno -2] Name or service not known", "a.py:f", mechanism=errno(-2))),
        as_text("gaierror", "m", python("socket.gaierror: [Errno -2] Name or service not known", "a.py:f")),
    ),
    "an error of Windows": Told(
        event(error("PermissionError", "[WinError 32] in use: 'a'", "a.py:f", mechanism=errno(13))),
        as_text("PermissionError", "m", python("PermissionError: [WinError 32] in use: 'a'", "a.py:f")),
    ),
    "a group of errors that nobody raised, of a group, and of one with a cause": Told(
        event(
            error("ExceptionGroup", "several", "run.py:run", mechanism=held(0, is_exception_group=True)),
            error("ValueError", "one", mechanism=held(1, 0)),
            error("ExceptionGroup", "more", mechanism=held(2, 0, is_exception_group=True)),
            error("KeyError", "'two'", mechanism=held(3, 2)),
            error("PayError", "no", "bank.py:pay", mechanism=held(4, 0)),
            error("TimeoutError", "t", "bank.py:charge", mechanism=held(5, 4)),
        ),
        as_text("ExceptionGroup", "several (3 sub-exceptions)", GROUP),
    ),
    "a cause of what libraries of Python raised": Told(
        event(
            error("ConnectionError", "no", "!/venv/site-packages/requests/a.py:send"),
            error("PayError", "no", "bank.py:charge"),
        ),
        as_text(
            "ConnectionError",
            "no",
            f"{python('PayError: no', 'bank.py:charge')}\n"
            "The above exception was the direct cause of the following exception:\n\n"
            'Traceback (most recent call last):\n  File "/venv/site-packages/requests/a.py", line 1, in send\n'
            "requests.exceptions.ConnectionError: no\n",
        ),
    ),
    "errors of JavaScript made for the one that holds them": Told(
        event(
            error("AggregateError", "several", "a.js:run", "a.js:main", mechanism=held(0, is_exception_group=True)),
            error("Error", "one", "a.js:run", "a.js:main", mechanism=held(1, 0)),
            error("TypeError", "two", "a.js:run", "a.js:main", mechanism=held(2, 0)),
        ),
        as_text(
            "AggregateError",
            "several",
            "AggregateError: several\n    at run (/app/a.js:9:9)\n    at main (/app/a.js:1:1)\n",
        ),
    ),
    "errors of JavaScript made elsewhere": Told(
        event(
            error("AggregateError", "several", "a.js:run", mechanism=held(0, is_exception_group=True)),
            error("Error", "one", "bank.js:charge", "a.js:run", mechanism=held(1, 0)),
            error("TypeError", "two\nof two lines", "mail.js:send", "a.js:run", mechanism=held(2, 0)),
        ),
        as_text("AggregateError", "several", INSPECTED),
    ),
    "a callback without a name in a function with any": Told(
        event(error("Error", "no", "a.js:?", "!<anonymous>:Array.map", "a.js:anonymous", context_line="x")),
        as_text(
            "Error",
            "no",
            "Error: no\n    at /app/a.js:9:9\n    at Array.map (<anonymous>)\n    at anonymous (/app/a.js:8:3)\n",
        ),
    ),
    "a cause of Java with the calls that it shares": Told(
        event(
            {"type": "ExecutionException", "value": "com.shop.E: no", "module": "java.util.concurrent",
             **java(("com.shop.Jobs", "get"), ("com.shop.Jobs", "run"))},
            {"type": "E", "value": "no", "module": "com.shop",
             **java(("com.shop.Bank", "charge"), ("com.shop.Jobs", "each"), ("com.shop.Jobs", "run"))},
        ),
        as_text(
            "java.util.concurrent.ExecutionException",
            "com.shop.E: no",
            "java.util.concurrent.ExecutionException: com.shop.E: no\n\tat com.shop.Jobs.get(Jobs.java:5)\n"
            "\tat com.shop.Jobs.run(Jobs.java:7)\nCaused by: com.shop.E: no\n\tat com.shop.Bank.charge(Bank.java:9)\n"
            "\tat com.shop.Jobs.each(Jobs.java:1)\n\t... 1 more\n",
        ),
    ),
    "a code of a library of Windows": Told(
        event({**error("COMException", "no class", mechanism={"data": {"HResult": "0x80040154"}}),
               **java(("Shop.Printer", "Open"))}),
        as_text(
            "System.Runtime.InteropServices.COMException",
            "no class",
            "System.Runtime.InteropServices.COMException (0x80040154): no class\n   at Shop.Printer.Open()\n",
        ),
    ),
    "a code that every error of a type of .NET has": Told(
        event({**error("ArgumentException", "bad", mechanism={"data": {"HResult": "0x80070057"}}),
               **java(("Shop.Cart", "Add"))}),
        as_text("System.ArgumentException", "bad", "System.ArgumentException: bad\n   at Shop.Cart.Add(Item item)\n"),
    ),
    "a code of a library of databases in PHP": Told(
        event({**error("PDOException", "SQLSTATE[42S02]: no table", mechanism={"data": {"code": "42S02"}}),
               **java(("", "App\\Cart::load"))}),
        as_text(
            "PDOException",
            "SQLSTATE[42S02]: no table",
            "PDOException: SQLSTATE[42S02]: no table in /app/Cart.php:9\nStack trace:\n"
            "#0 /app/index.php(3): App\\Cart->load()\n#1 {main}",
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", ALIKE)
def test_an_error_is_one_case_in_members_and_as_text(what: str) -> None:
    told = ALIKE[what]
    assert case_of(told.members) == case_of(told.text), [offered(one)[-1].grouping for one in told]


def socket(code: int) -> Event:
    kind = "System.Net.Sockets.SocketException"
    return as_text(kind, "no", f"{kind} ({code}): no\n   at Shop.Bank.Charge()\n")


def com(code: str) -> Event:
    kind = "System.Runtime.InteropServices.COMException"
    return as_text(kind, "no", f"{kind} ({code}): no\n   at Shop.Printer.Open()\n")


def io_error(code: Any) -> Event:
    return event({**error("IOException", "no", mechanism={"data": {"HResult": code}}), **java(("Shop.Disk", "Save"))})


def ns_error(code: int) -> Event:
    stack = "1   Shop   0x0000000104a1b2c0 -[Cart total] + 124\n"
    return as_text("NSError", f'Error Domain=NSURLErrorDomain Code={code} "no"', stack)


def php(code: Any) -> Event:
    return event({**error("ShopError", "no", mechanism={"data": {"code": code}}), **java(("", "App\\Cart::load"))})


def full(number: int) -> Event:
    return as_text("OSError", "m", python(f"OSError: [Errno {number}] no", "a.py:f"))


@pytest.mark.parametrize(
    ("errors", "cases"),
    [
        ([full(13), full(28), full(13)], 2),
        ([socket(111), socket(110), socket(111)], 2),
        ([com("0x80040154"), com("0x80070005"), com("0x80040154")], 2),
        ([io_error("0x80070020"), io_error("0x80070070"), io_error(-2147024864), io_error(0x80070020)], 2),
        ([io_error("0x80131620"), io_error(-2146232800), io_error(0), io_error("no number")], 1),
        ([ns_error(-1001), ns_error(-1009), ns_error(-1001)], 2),
        ([php(0), php("0"), php(500)], 2),
    ],
    ids=["errno", "of the system", "COM", "HRESULT", "HRESULT of a type", "NSError", "PHP"],
)
def test_codes_tell_errors_of_one_place_apart(errors: Sequence[Event], cases: int) -> None:
    """In any spelling; what says nothing beside the type tells none apart."""
    assert len({case_of(one) for one in errors}) == cases
