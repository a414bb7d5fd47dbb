"""What version 3 of the grouping looks at, and that it moves nothing that older versions hold (G-198)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from service.ingest.foreign.common import TakenLog, to_log
from service.ingest.foreign.otlp import OtlpRecord, Scope, to_event
from service.ingest.foreign.posthog import Sent, to_record
from service.ingest.foreign.sentry_event import read_event
from service.ingest.grouping.fingerprint import gather, group, title
from service.ingest.grouping.first import filled, says_something, template_of
from service.ingest.grouping.symbols import read_symbol, shown_name
from tests.service.ingest.grouping.test_pairs import offered


@pytest.mark.parametrize(
    ("symbol", "module", "read"),
    [
        ("handlePay.func1.1", "main", ("main", "handlePay")),
        ("(*Cart).Total", "main", ("main.Cart", "Total")),
        ("First[go.shape.int]", "shop/lists", ("shop/lists", "First")),
        ("_CheckoutState.pay.<anonymous closure>", "", ("_CheckoutState", "pay")),
        ("PlayerController.TakeDamage (System.Int32 amount)", "", ("PlayerController", "TakeDamage")),
        ("shop::cart::total::{{closure}}::hb2b92901807268c5", "", ("shop.cart", "total")),
        ("<shop::Cart as core::fmt::Display>::fmt", "", ("shop.Cart", "fmt")),
        ("_ZN4shop4cart5total17hb2b92901807268c5E", "", ("shop.cart", "total")),
        ("App\\Cart::total", "", ("App.Cart", "total")),
        ("{closure:App\\Cart::total():12}", "", ("App.Cart", "total")),
        ("block (2 levels) in Cart#total", "", ("Cart", "total")),
        ("anonymous fn/1 in Shop.Cart.total/1", "Shop.Cart", ("Shop.Cart", "total")),
        ("closure #1 (Swift.Int) -> () in CartView.body.getter : some", "", ("CartView", "body")),
        ("__23-[CartController reload]_block_invoke_2", "", ("CartController", "reload")),
        ("shop::Cart::total(std::vector<int, std::allocator<int> > const&) [clone .cold]", "", ("shop.Cart", "total")),
        ("shop::Cart::total()::{lambda(int)#1}::operator()(int) const", "", ("shop.Cart", "total")),
        ("`anonymous namespace'::run", "", ("", "run")),
        ("lambda$total$3", "com.shop.Cart", ("com.shop.Cart", "total")),
        ("invokeSuspend", "com.shop.CartModel$load$1", ("com.shop.CartModel", "load")),
        ("invoke", "shop.cart$total$fn__1234", ("shop.cart", "total")),
        ("run", "com.shop.Outer$Inner", ("com.shop.Outer$Inner", "run")),
        ("total", "com.shop.Cart$$EnhancerBySpringCGLIB$$1a2b3c", ("com.shop.Cart", "total")),
        ("MoveNext", "Shop.Cart+<Load>d__3", ("Shop.Cart", "Load")),
        ("<Total>b__3_0", "Shop.Cart+<>c__DisplayClass3_0", ("Shop.Cart", "Total")),
        ("camlShop__Cart__total_123", "", ("Shop.Cart", "total")),
        ("f.<locals>.<lambda>", "", ("", "f")),
        ("total/<", "", ("", "total")),
        ("Object.<anonymous>", "", ("", "")),
        ("?", "", ("", "")),
    ],
)
def test_a_function_is_read_by_its_language(symbol: str, module: str, read: tuple[str, str]) -> None:
    """Its owner and its name: arguments, hashes and numbers of a build go, and what has no name counts as its owner."""
    assert read_symbol(symbol, module) == read


@pytest.mark.parametrize(
    ("symbol", "shown"),
    [
        ("PlayerController.TakeDamage (System.Int32 amount)", "TakeDamage"),
        ("BugFarm.ThrowNull ()", "ThrowNull"),
        ("Shop.List`1[System.Int32].Add (System.Int32 x)", "Add"),
        ("handlePay.func1.1", "handlePay.func1.1"),
        ("Shop.charge", "charge"),
        ("f.<locals>.<lambda>", "<lambda>"),
        ("std::function<void (int)>::operator()", "std::function<void (int)>::operator()"),
    ],
)
def test_a_function_is_shown_whole(symbol: str, shown: str) -> None:
    """It is never cut at a stop inside of its arguments."""
    assert shown_name(symbol) == shown


def sentry(event: Mapping[str, Any]) -> TakenLog:
    return to_log(read_event(event, "0" * 32))


def error(kind: str, value: Any, **more: Any) -> dict[str, Any]:
    return {"exception": {"values": [{"type": kind, "value": value, **more}]}}


@pytest.mark.parametrize(
    ("event", "called"),
    [
        (error("TypeError", "TypeError: x is not a function"), "TypeError: x is not a function"),
        (error("IOException", "java.io.IOException: closed"), "IOException: closed"),
        (error("Timeout", None), "Timeout"),
        (error("Error", "Error"), "Error"),
        (error("E", 404), "E: 404"),
        (error("E", {"code": 7}), 'E: {"code":7}'),
        (error("E", ["a", 1]), 'E: ["a",1]'),
        ({"logentry": {"message": "Mail to %s bounced %d times", "params": ["a", 3]}}, "Mail to a bounced 3 times"),
        ({"logentry": {"message": "User %(who)s left", "params": {"who": "bob"}}}, "User bob left"),
        ({"logentry": {"message": "Mail to %s bounced", "formatted": "Mail to a bounced"}}, "Mail to a bounced"),
        ({"message": {"message": "Mail to %s bounced", "params": []}}, "Mail to … bounced"),
        (
            {"logger": "console", "message": "saved %s a", "extra": {"arguments": ["saved %s", "a"]}},
            "saved a",
        ),
    ],
)
def test_titles(event: dict[str, Any], called: str) -> None:
    """The type stands there once, placeholders are filled in, and a value of any kind is shown."""
    log = sentry(event)
    assert title(gather(log.body.message, log.body.extra)) == called


@pytest.mark.parametrize(
    ("template", "parameters", "text"),
    [
        ("%s of %5.2f%%", ["a", 1.5], "a of 1.5%"),
        ("%2$s before %1$s", ["a", "b"], "b before a"),
        ("{} and {1} and {name}", ["a", "b"], "a and b and b"),
        ("{name:l} in {@order}", {"name": "x", "order": {"id": 1}}, 'x in {"id":1}'),
        ("${name} left", {"name": "x"}, "x left"),
        ("%s %s", ["a"], "a …"),
        ("no placeholder", ["a"], "no placeholder"),
    ],
)
def test_parameters_stand_in_their_template(template: str, parameters: Any, text: str) -> None:
    assert filled(template, parameters) == text


def test_a_template_without_words_is_none() -> None:
    """Whatever is logged by `%s` would be one bug."""
    assert [says_something(text) for text in ("%s", "{}: {message}", "%s failed")] == [False, False, True]
    assert template_of({"logentry": {"message": "%s"}}) == ""
    assert template_of({"attributes": {"message_template.text": "Sync of {Name}"}}) == "Sync of {Name}"


FINGERPRINTS = {
    "{{ transaction }}": "/pay",
    "{{transaction}}": "/pay",
    "{{ error.type }}": "E",
    "{{ error.value }}": "v",
    "{{ message }}": "v",
    "{{ level }}": "fatal",
    "{{ logger }}": "shop",
    "{{ environment }}": "eu",
    "{{ release }}": "1.0",
    "{{ function }}": "Shop.f",
    "{{ module }}": "shop.a",
    "{{ stack.filename }}": "a.py",
    "{{ tags.plan }}": "pro",
    "{{ tags.none }}": "<none>",
    "{{ unknown }}": "{{ unknown }}",
    "on {{ level }}": "on fatal",
}


@pytest.mark.parametrize(("entry", "value"), FINGERPRINTS.items())
def test_variables_of_a_fingerprint_are_filled_in(entry: str, value: str) -> None:
    """As if the SDK had sent the value itself; version 2 takes them as they came."""
    frame = {"function": "Shop.f", "filename": "a.py", "module": "shop.a", "in_app": True}
    more = {"transaction": "/pay", "logger": "shop", "level": "fatal", "environment": "eu", "release": "1.0"}
    event = {**error("E", "v", stacktrace={"frames": [frame]}), **more, "tags": {"plan": "pro"}}
    *_, second, third = offered({"sentry": {**event, "fingerprint": [entry]}})
    *_, plain_second, plain_third = offered({"sentry": {**event, "fingerprint": [value]}})
    assert third == plain_third
    assert (second == plain_second) is (entry == value)


def frames(*functions: str, own: bool = True) -> dict[str, Any]:
    """A stack, the latest call first."""
    listed = [{"function": name, "filename": f"{name}.py", "in_app": own} for name in functions]
    return {"stacktrace": {"frames": listed[::-1]}}


@pytest.mark.parametrize(
    ("event", "why"),
    [
        ({"message": "m"}, "v3:message"),
        (error("E", "v"), "v3:type+message"),
        (error("E", "v", **frames("f")), "v3:type+frames"),
        (error("E", "v", mechanism={"meta": {"errno": {"number": 7}}}), "v3:type+identity+message"),
        (error("E", "v", mechanism={"data": {"HResult": "0x80070020"}}, **frames("f")), "v3:type+identity+frames"),
        (error("SIGSEGV", "v", mechanism={"synthetic": True}, **frames("f")), "v3:frames"),
        ({"logentry": {"message": "Mail to %s", "params": ["a"]}}, "v3:template"),
        ({"message": "m", "stacktrace": frames("f")["stacktrace"]}, "v3:frames"),
        ({**error("E", "v"), "fingerprint": ["a"]}, "v3:client"),
        ({**error("E", "v", **frames("f")), "fingerprint": ["{{ default }}", "a"]}, "v3:client+type+frames"),
        (error("E", "v", **frames("ensure")), "v3:type+message"),
    ],
)
def test_an_assignment_names_each_part(event: dict[str, Any], why: str) -> None:
    assert offered({"sentry": event})[-1].grouping.why == why


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return offered({"sentry": one})[-1].case_id == offered({"sentry": other})[-1].case_id


def test_three_own_frames_decide_and_no_machinery_among_them() -> None:
    """The fourth does not count, neither do asserting helpers, recursion, an entry of the program or a library."""
    base = error("E", "v", **frames("total", "cart", "page", "one"))
    assert same(base, error("E", "w", **frames("total", "cart", "page", "two")))
    assert same(base, error("E", "v", **frames("invariant", "total", "total", "cart", "page")))
    assert not same(base, error("E", "v", **frames("total", "mail", "page")))
    assert same(error("E", "v", **frames("total", "main")), error("E", "v", **frames("total")))
    library = [{"function": "get", "filename": "node_modules/a/index.js", "in_app": True}]
    below = frames("total")["stacktrace"]["frames"]
    assert same(error("E", "v", stacktrace={"frames": below + library}), error("E", "v", **frames("total")))


def test_a_group_of_several_is_the_errors_inside_in_any_order() -> None:
    def grouped(*functions: str) -> dict[str, Any]:
        inside = [
            {"type": "E", "value": name, "mechanism": {"exception_id": number, "parent_id": 0}, **frames(name)}
            for number, name in enumerate(functions, 1)
        ]
        group = {"type": "ExceptionGroup", "value": "2", "mechanism": {"exception_id": 0, "is_exception_group": True}}
        return {"exception": {"values": [*inside[::-1], {**group, **frames("run")}]}}

    assert same(grouped("a", "b"), grouped("b", "a"))
    assert same(grouped("a", "b"), grouped("b", "a", "a"))
    assert not same(grouped("a", "b"), grouped("a", "c"))
    assert same(grouped("a"), error("E", "x", **frames("a")))


def test_what_a_library_wraps_counts_as_what_it_wraps() -> None:
    """An error that libraries alone raised stands for its cause; one of the product's own stands for itself."""

    def caused(function: str, by: str, *, own: bool) -> dict[str, Any]:
        return {"exception": {"values": [{"type": "C", "value": "c", **frames(by)},
                                         {"type": "E", "value": "e", **frames(function, own=own)}]}}  # fmt: skip

    assert not same(caused("run", "a", own=False), caused("run", "b", own=False))
    assert same(caused("run", "a", own=True), caused("run", "b", own=True))


TEXTS: Mapping[str, tuple[str, str, bool]] = {
    "dart": ("#0      CartPage.total (package:shop/cart.dart:42:18)\n", "total", True),
    "dart chained": ("package:shop/cart.dart 42:18  CartPage.total\n", "total", True),
    "unity": ("CartView.Show (System.Int32 id) (at Assets/CartView.cs:42)\n", "Show", True),
    "mono": ("  at Shop.Cart.Total (System.Int32 x) [0x00012] in /src/Cart.cs:42 \n", "Total", True),
    "apple": ("1   Shop   0x0000000104a1b2c0 -[Cart total] + 124\n", "-[Cart total]", True),
    "android": ("E: x\n\tat c.a.b.a(SourceFile:96)\n", "a", True),
    "hermes": ("E: x\n    at checkout (address at index.android.bundle:1:237392)\n", "checkout", True),
    "perl": ("x at lib/Cart.pm line 4.\n\tCart::total(1) called at pay.pl line 7\n", "Cart::total", False),
    "lua": ("x\nstack traceback:\n\tcart.lua:12: in function 'total'\n", "total", False),
    "r": ("2: total(cart) at cart.R#12\n", "total", False),
    "haskell": (
        "x\nCallStack (from HasCallStack):\n  error, called at src/Cart.hs:12:5 in shop-0.1:Cart\n",
        "Cart",
        False,
    ),
    "haskell profiled": ("x\nCallStack (from -prof):\n  Cart.total (src/Cart.hs:12:5-20)\n", "total", False),
    "ocaml": ('Raised at Cart.total in file "src/cart.ml", line 12, characters 4-20\n', "total", False),
    "powershell": ("at Get-Price, C:\\shop\\cart.ps1: line 12\n", "Get-Price", False),
    "clojure": ('{:trace\n [[shop.cart$total invokeStatic "cart.clj" 12]]}', "invokeStatic", False),
}


@pytest.mark.parametrize("language", TEXTS)
def test_a_stack_trace_of_another_language_is_read(language: str) -> None:
    """Its own frames are there, and what older versions of the grouping see of the record stays as it was."""
    stack, function, _ = TEXTS[language]

    def taken(stack: str) -> TakenLog:
        attributes = {"exception.type": "E", "exception.message": "x", "exception.stacktrace": stack}
        return to_log(to_event(OtlpRecord(0, 0, 17, "ERROR", None, attributes), Scope({})))

    log = taken(stack)
    assert log.body.extra is not None
    first = next(frame for frame in log.body.extra["exception"]["frames"] if frame["in_app"])
    assert first["function"] == function
    assert log.before is not None
    grouping = group(gather(log.body.message, log.body.extra, before=log.before))
    assert grouping[-1].why == "v3:type+frames"
    if language != "hermes":
        assert grouping[1] == group(gather("x", {"exception": {"type": "E", "value": "x"}}))[1]


def test_older_versions_see_what_they_saw() -> None:
    """A stack in a thread, a filled template, a number as value and a function with arguments move no old case."""
    frame = {"function": "Cart.Heal (System.Int32 amount)", "filename": "Cart.cs", "in_app": True}
    threads = {"values": [{"id": 1, "crashed": True, "stacktrace": {"frames": [frame]}}]}
    crashed = sentry({**error("E", "v"), "threads": threads})
    assert _older(crashed) == _older(sentry(error("E", "v")))
    logged = sentry({"logentry": {"message": "Mail to %s", "params": ["x"]}})
    assert _older(logged) == list(group(gather("Mail to %s", {})))[:2]
    assert _older(sentry(error("E", 7))) == _older(sentry(error("E", None)))
    cut = {"file": "Cart.cs", "function": "Int32 amount)", "symbol": frame["function"], "in_app": True}
    told = {"exception": {"type": "E", "frames": [cut]}}
    assert _older(sentry(error("E", "v", stacktrace={"frames": [frame]}))) == list(group(gather("v", told)))[:2]


def _older(log: Any) -> list[Any]:
    """The assignments of versions 1 and 2."""
    return list(group(gather(log.body.message, log.body.extra, before=log.before)))[:2]


HELD: Mapping[str, tuple[str, str]] = {
    "python: a group": (
        "ExceptionGroup",
        (
            '  + Exception Group Traceback (most recent call last):\n  |   File "/app/run.py", line 9, in run\n'
            "  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)\n"
            "  +-+---------------- 1 ----------------\n    | Traceback (most recent call last):\n"
            '    |   File "/app/bank.py", line 5, in charge\n    |     raise E("no answer")\n'
            "    | E: no answer\n    +------------------------------------\n"
        ),
    ),
    ".net: an aggregate": (
        "System.AggregateException",
        (
            "System.AggregateException: One or more errors occurred. (no answer)\n ---> Shop.E: no answer\n"
            "   at Shop.Bank.charge(Order o) in /src/Bank.cs:line 5\n   --- End of inner exception stack trace ---\n"
            "   at System.Threading.Tasks.Task.Wait()\n   at Shop.Jobs.Main()\n"
        ),
    ),
    "jvm: an execution": (
        "java.util.concurrent.ExecutionException",
        (
            "java.util.concurrent.ExecutionException: E: no answer\n\tat com.shop.Jobs.get(Jobs.java:5)\n"
            "Caused by: com.shop.E: no answer\n\tat com.shop.Bank.charge(Bank.java:9)\n\t... 3 more\n"
        ),
    ),
    "android: an activity": (
        "java.lang.RuntimeException",
        (
            "java.lang.RuntimeException: Unable to start activity: E: no answer\n"
            "\tat android.app.ActivityThread.performLaunchActivity(ActivityThread.java:3782)\n"
            "Caused by: com.shop.E: no answer\n\tat com.shop.Bank.charge(Bank.java:9)\n"
        ),
    ),
    "javascript: an aggregate": (
        "AggregateError",
        (
            "AggregateError: All promises were rejected\n    at run (/srv/app/a.js:5:3) {\n  [errors]: [\n"
            "    E: no answer\n        at charge (/srv/app/bank.js:9:5)\n  ]\n}\n"
        ),
    ),
}


@pytest.mark.parametrize("language", HELD)
def test_a_container_as_text_is_the_error_inside(language: str) -> None:
    kind, stack = HELD[language]
    attributes = {"exception.type": kind, "exception.message": "m", "exception.stacktrace": stack}
    log = to_log(to_event(OtlpRecord(0, 0, 17, "ERROR", None, attributes), Scope({})))
    evidence = gather(log.body.message, log.body.extra)
    assert title(evidence) == "E: no answer"
    assert evidence.third is not None
    [inside] = evidence.third.errors
    assert (inside.type, len(inside.frames), "charge" in inside.frames[0]) == ("E", 1, True)


def script(name: str, column: int, file: str = "https://shop.example/app.js", line: int = 1) -> dict[str, Any]:
    frame = {"function": name, "filename": file, "lineno": line, "colno": column, "in_app": True}
    return {**error("TypeError", "t is undefined", stacktrace={"frames": [frame]}), "platform": "javascript"}


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        (script("t", 4711), script("t", 9000), False),
        (script("e.t", 4711), script("n.t", 4711), True),
        (
            script("value", 4711, "app:///index.android.bundle"),
            script("value", 37, "app:///index.android.bundle"),
            False,
        ),
        (script("e.render", 4711, "main.min.js"), script("e.render", 9000, "main.min.js"), False),
        (script("cartTotal", 4711), script("cartTotal", 9000), True),
        (script("fn", 12, "src/cart.js", 7), script("fn", 14, "src/cart.js", 9), True),
        (script("cartTotal", 9, "main.3f9a1c7e.min.js"), script("cartTotal", 9, "main.77ab0c12.min.js"), True),
        (script("cartTotal", 9, "12.3f9a1c7e.chunk.js"), script("cartTotal", 9, "7.77ab0c12.chunk.js"), True),
    ],
)
def test_a_minified_name_does_not_decide(one: dict[str, Any], other: dict[str, Any], *, alike: bool) -> None:
    """Without a map the place in the file does. A name of the source counts wherever it stands."""
    assert same(one, other) is alike


def otlp(**attributes: Any) -> TakenLog:
    told = {f"exception.{name}": value for name, value in attributes.items()}
    return to_log(to_event(OtlpRecord(0, 0, 17, "ERROR", None, told), Scope({})))


def posthog(**properties: Any) -> Any:
    payload = {"event": "$exception", "distinct_id": "u1", "properties": properties}
    return to_record(payload, Sent(None, [], alone=True))


def test_a_number_is_shown_at_the_other_doors_too() -> None:
    """Older versions of the grouping saw none there."""
    listed = posthog(**{"$exception_list": [{"type": "E", "value": 404}]})
    alone = posthog(**{"$exception_type": "E", "$exception_message": 404})
    for log, plain in (
        (otlp(type="E", message=404), otlp(type="E")),
        (listed, posthog(**{"$exception_list": [{"type": "E"}]})),
        (alone, posthog(**{"$exception_type": "E"})),
    ):
        assert title(gather(log.body.message, log.body.extra)) == "E: 404"
        assert _older(log) == _older(plain)


def test_wasm_without_names_counts_by_its_places() -> None:
    """Its innermost functions are those of every panic."""

    def panic(*numbers: int) -> dict[str, Any]:
        url = "https://shop.example/shop_bg.wasm:wasm-function"
        listed = [{"function": "?", "filename": f"{url}[{number}]:0x1a{number}", "in_app": True} for number in numbers]
        return error("RuntimeError", "unreachable", stacktrace={"frames": listed[::-1]})

    assert same(panic(7, 8, 9, 20, 21), panic(7, 8, 9, 20, 21))
    assert not same(panic(7, 8, 9, 20, 21), panic(7, 8, 9, 30, 21))


def test_a_frame_without_a_name_counts_where_nothing_inside_of_it_has_one() -> None:
    """SDKs that send the line of source and those that do not say the same of one error."""

    def told(*listed: tuple[str, str], text: str | None) -> dict[str, Any]:
        frames = [{"function": name, "filename": file, "lineno": 3, "in_app": True} for name, file in listed]
        return error("E", "v", stacktrace={"frames": [{**frame, "context_line": text} for frame in frames[::-1]]})

    named, module = ("total", "cart.js"), ("Object.<anonymous>", "app.js")
    assert same(told(named, module, text="run()"), told(named, module, text=None))
    assert same(told(named, text=None), told(("<anonymous>", "cart.js"), named, text="sum()"))
    assert not same(told(named, text=None), told(("<anonymous>", "mail.js"), named, text=None))
    assert not same(told(module, text="one()"), told(module, text="two()"))
