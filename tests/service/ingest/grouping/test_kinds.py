"""Kinds of inputs that no corpus has: names of builds and templates, wrappers of Go, OCaml, PowerShell (G-198).

Of each kind some inputs are one bug and some are several.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from service.ingest.foreign.common import to_log
from service.ingest.foreign.otlp import OtlpRecord, Scope, to_event
from service.ingest.grouping.fingerprint import gather, group, title
from service.ingest.grouping.symbols import read_symbol
from tests.service.ingest.grouping.test_alike import Event, as_text, case_of, event, held
from tests.service.ingest.grouping.test_pairs import offered


def ocaml(*lines: str) -> Event:
    return as_text("Failure", "no", "\n".join(["Fatal error: exception Failure", *lines, ""]))


def raised(function: str, file: str, line: int, how: str = "Called from") -> str:
    return f'{how} {function} in file "{file}", line {line}, characters 4-20'


def powershell(*calls: str) -> Event:
    return as_text("ItemNotFoundException", "no", "\n".join(f"at {call}" for call in calls))


def java(*calls: str) -> Event:
    return as_text("E", "x", "E: x\n" + "".join(f"\tat {call}\n" for call in calls))


def native(*functions: str, own: bool) -> Event:
    """A crash, the latest call first."""
    frames = [{"function": name, "package": "/opt/shop/lib", "in_app": own} for name in functions]
    mechanism = {"type": "signalhandler", "synthetic": True}
    return event({"type": "SIGSEGV", "value": "x", "mechanism": mechanism, "stacktrace": {"frames": frames[::-1]}})


def dotnet(*calls: str) -> Event:
    return as_text("E", "x", "E: x\n" + "".join(f"   at {call}\n" for call in calls))


def ruby(function: str, file: str = "app/views/pages/show.html.erb") -> Event:
    return as_text("E", "x", f"{file}:3:in `{function}': x (E)\n\tfrom app/controllers/pages.rb:9:in `show'\n")


def php(function: str) -> Event:
    stack = f"E: x in /app/src/Cart.php:9\nStack trace:\n#0 /app/src/Page.php(3): {function}()\n#1 {{main}}"
    return as_text("E", "x", stack)


def go(*errors: tuple[str, str], numbered: bool = True) -> Event:
    """Errors that wrap each other, the outermost first, which alone has a stack."""
    calls = [
        {"module": "shop/cart", "function": name, "filename": "cart.go", "in_app": True} for name in ("Page", "Load")
    ]
    told: list[dict[str, Any]] = [{"type": kind, "value": value} for kind, value in errors]
    for number, one in enumerate(told if numbered else ()):
        one["mechanism"] = held(number, number - 1 if number else None)
    told[0]["stacktrace"] = {"frames": calls}
    return event(*told)


def logged(template: str | None, body: str | None, name: str = "{OriginalFormat}", **parameters: Any) -> Event:
    attributes = {**({} if template is None else {name: template}), **parameters}
    return {"otlp": {"body": body, "attributes": attributes}}


FAILWITH = raised("Stdlib.failwith", "stdlib.ml", 29, "Raised at")
HELPERS = (
    "memcpy",
    "__memmove_avx_unaligned_erms",
    "_platform_memmove$VARIANT$Rosetta",
    "strlen",
    "__strcpy_chk",
    "MZ",
)
CALLING = ("std::function<void ()>::operator()() const", "boost::function0<void>::operator()", "std::__1::__invoke<F&>")
MISSING = ("*fs.PathError", "open /x: no such file")
REFUSED = ("*net.OpError", "dial tcp: refused")
CALLED = "com.shop.Page.show(Page.java:3)"

ONE_BUG: Mapping[str, Sequence[Event]] = {
    "ocaml: lines move": [
        ocaml(FAILWITH, raised("Dune__exe__Cart.total", "bin/cart.ml", line)) for line in (12, 15)
    ],
    "ocaml: a module of an executable in two spellings, and a file that moved": [
        ocaml(raised("Dune__exe__Cart.nth", "bin/cart.ml", 12, "Raised by primitive operation at")),
        ocaml(raised("Dune__exe.Cart.nth", "app/cart.ml", 12, "Raised by primitive operation at")),
    ],
    "ocaml: raised again on its way": [
        ocaml(raised("Shop__Cart.total", "cart.ml", 12, "Raised at"), *more, raised("Shop__Page.show", "page.ml", 9))
        for more in ([], [raised("Stdlib__Fun.protect", "fun.ml", 8, "Re-raised at")], ["Called from unknown location"])
    ],
    "powershell: lines and folders move": [
        powershell(f"Get-A, {file}: line {line}", "<ScriptBlock>, a.ps1: line 3", "<ScriptBlock>, <No file>: line 1")
        for file, line in (("C:\\shop\\cart.ps1", 12), ("D:\\new\\cart.ps1", 15))
    ],
    "powershell: a block of a function": [
        powershell(f"{name}, C:\\cart.ps1: line 4") for name in ("Get-Price", "Get-Price<Process>", "Get-Price<End>")
    ],
    "powershell: a script block within a function": [
        powershell(f"<ScriptBlock>, /srv/a.ps1: line {line}", "Get-Price, /srv/a.ps1: line 9") for line in (12, 15)
    ],
    "generated: accessors of reflection": [
        java("com.shop.Cart.total(Cart.java:3)", call, CALLED)
        for call in (
            "sun.reflect.GeneratedMethodAccessor12.invoke(Unknown Source)",
            "jdk.internal.reflect.GeneratedMethodAccessor97.invoke(Unknown Source)",
            "jdk.internal.reflect.GeneratedConstructorAccessor3.newInstance(Unknown Source)",
            "jdk.internal.reflect.DirectMethodHandleAccessor.invoke(DirectMethodHandleAccessor.java:103)",
        )
    ],
    "generated: proxies of Java": [
        java("com.shop.Cart.total(Cart.java:3)", call, CALLED)
        for call in (
            "com.sun.proxy.$Proxy12.total(Unknown Source)",
            "jdk.proxy2.$Proxy34.total(Unknown Source)",
            "com.shop.Cart$$EnhancerBySpringCGLIB$$9f8e7d6c.total(<generated>)",
            "com.shop.Cart$$SpringCGLIB$$0.total(<generated>)",
            "com.shop.Cart$HibernateProxy$aBcD12.total(Unknown Source)",
        )
    ],
    "generated: lambdas of Java and of Scala": [
        java(f"com.shop.Cart.{name}(Cart.java:3)", call)
        for name, call in (
            ("lambda$total$3", "com.shop.Cart$$Lambda$14/0x0000000800c3.run(Unknown Source)"),
            ("lambda$total$7", "com.shop.Cart$$Lambda/0x00007f12.run(Unknown Source)"),
            ("$anonfun$total$1", "com.shop.Cart$$Lambda$9.apply(Unknown Source)"),
        )
    ],
    "generated: functions of Kotlin": [
        java(f"com.shop.Cart{name}(Cart.kt:3)")
        for name in ("$load$1.invokeSuspend", "$load$2$1.invokeSuspend", ".load-gIAlu-s", ".load")
    ],
    "generated: expressions and proxies of .NET": [
        dotnet("Shop.Cart.Total()", call, "Shop.Page.Show()")
        for call in (
            "lambda_method12(Closure, Object)",
            "DynamicClass.lambda_method(Closure )",
            "Castle.Proxies.CartProxy.Total()",
            "Castle.Proxies.CartProxy_7.Total()",
        )
    ],
    "generated: closures and state machines of .NET": [
        dotnet(f"Shop.Cart.{call}")
        for call in ("<>c__DisplayClass3_0.<Total>b__0(int x)", "<>c.<Total>b__2_3(Int32 x)", "<Total>d__9.MoveNext()")
    ],
    "generated: templates of Rails": [
        ruby("_app_views_pages_show_html_erb___2931239423_4321"),
        ruby("_app_views_pages_show_html_erb__1299_70123"),
        ruby("block in _app_views_pages_show_html_erb__1299_9"),
    ],
    "generated: closures of PHP": [
        php(f"App\\Cart->{{closure:App\\Cart::total():{line}}}") for line in (12, 15)
    ] + [php("App\\Cart->total")],
    "native: a helper that fails for everybody": [
        native(*inner, "shop::total", "shop::page", own=own)
        for own in (True, False)
        for inner in ((), *((name,) for name in HELPERS))
    ],
    "native: objects for calls": [
        native("shop_total", *between, "shop_page", own=False) for between in ((), *((name,) for name in CALLING))
    ],
    "go: wrapped once more": [
        go(MISSING),
        go(("*fmt.wrapError", "load: no such file"), MISSING),
        go(("*fmt.wrapError", "page: load"), ("*fmt.wrapError", "load"), ("*fs.PathError", "open /y: no such file")),
    ],
    "go: the wrappers of libraries": [
        go((kind, "load: no such file"), MISSING)
        for kind in (
            *("*errors.withStack", "*errors.withMessage", "*xerrors.wrapError", "*errors.Error", "*errors.joinError"),
            *("*withstack.withStack", "*errutil.withPrefix", "*hintdetail.withHint", "*multierror.Error"),
            "*multierr.multiError",
        )
    ],
    "go: an SDK without numbers": [
        go(("*fmt.wrapError", "load"), MISSING, numbered=False),
        go(("*fmt.wrapErrors", "a b"), MISSING, numbered=False),
        go(MISSING, numbered=False),
    ],
    "template: values differ": [
        logged("User {UserId} left", "User 7 left", UserId=7),
        logged("User {UserId} left", "User bob left", UserId="bob"),
        logged("User {UserId} left", None, UserId=9),
        logged("User {UserId} left", "User {UserId} left", UserId=9),
    ],
    "template: forms of values": [
        logged("Price {Price:N2} of {Name,3}", "Price 7.50 of   a", Price=7.5, Name="a"),
        logged("Price {Price:N2} of {Name,3}", "Price 8.00 of bob", Price=8, Name="bob"),
        logged("Price {Price:N2} of {Name,3}", None, Price=8, Name="bob"),
    ],
    "template: of other loggers": [
        logged("Sync of {@Cart} failed", "Sync of { id: 1 } failed", name)
        for name in ("{OriginalFormat}", "message_template.text", "message.template")
    ],
}  # fmt: skip
SEVERAL_BUGS: Mapping[str, Sequence[Event]] = {
    "ocaml: what raises for everybody": [
        ocaml(FAILWITH, raised("Stdlib__List.iter", "list.ml", 110), raised(name, "bin/cart.ml", 12))
        for name in ("Dune__exe__Cart.total", "Dune__exe__Cart.sum", "Dune__exe__Mail.total")
    ],
    "ocaml: callbacks of Lwt": [
        ocaml(
            raised("Stdlib__Hashtbl.find", "hashtbl.ml", 539, "Raised at"),
            raised(f"Shop__{name}.(fun)", "src/cart.ml", 4),
            raised("Lwt.Sequential_composition.bind.callback", "src/core/lwt.ml", 1829),
        )
        for name in ("Cart.price", "Mail.send")
    ],
    "ocaml: without names": [
        as_text("Not_found", "no", f'Raised at file "src/{name}.ml", line 12, characters 4-20\n') for name in ("a", "b")
    ],
    "powershell: functions": [
        powershell(f"{call}: line 12", "<ScriptBlock>, /srv/run.ps1: line 3")
        for call in ("Get-Price, /srv/cart.ps1", "Get-Total, /srv/cart.ps1", "Get-Price, /srv/mail.ps1")
    ],
    "powershell: scripts without functions": [
        powershell(f"<ScriptBlock>, /srv/{call}") for call in ("run.ps1: line 3", "run.ps1: line 9", "mail.ps1: line 3")
    ],
    "powershell: callers": [
        powershell("Get-Price, /srv/a.ps1: line 3", f"{name}, /srv/b.ps1: line 1") for name in ("A", "B")
    ],
    "generated: lambdas of two functions": [
        java(f"com.shop.Cart.lambda${name}$3(Cart.java:3)", "com.shop.Cart$$Lambda$14/0x08.run(Unknown Source)")
        for name in ("total", "sum")
    ],
    "generated: callers through reflection": [
        java("sun.reflect.GeneratedMethodAccessor12.invoke(Unknown Source)", f"com.shop.Page.{name}(Page.java:3)")
        for name in ("show", "list")
    ],
    "generated: templates of two pages": [
        ruby(f"_app_views_pages_{name}_html_erb___2931239423_4321", f"app/views/pages/{name}.html.erb")
        for name in ("show", "list")
    ],
    "generated: closures of two functions": [
        php(f"App\\Cart->{{closure:App\\Cart::{name}():12}}") for name in ("total", "sum")
    ],
    "native: callers of helpers": [
        native("memcpy", "_platform_memmove", *callers, own=False)
        for callers in (("shop_total", "shop_page"), ("shop_mail", "shop_page"), ("shop_total", "shop_list"))
    ],
    "native: callers of objects for calls": [
        native("std::function<void ()>::operator()() const", "std::__1::__invoke<F&>", name, own=False)
        for name in ("shop_total", "shop_mail")
    ],
    "native: functions with such names inside": [
        native(name, own=False) for name in ("memcpy_cart", "shop::memory", "strings", "std::sort", "total")
    ],
    "go: what is wrapped": [go(("*fmt.wrapError", "load"), one) for one in (MISSING, REFUSED)],
    "go: what libraries wrap": [
        go((kind, "2 errors occurred"), one) for kind in ("*multierror.Error",) for one in (MISSING, REFUSED)
    ],
    "go: what is wrapped many times": [
        go(("*withstack.withStack", "a"), ("*errutil.withPrefix", "a"), ("*hintdetail.withHint", "a"), one)
        for one in (MISSING, REFUSED, ("*errutil.leafError", "no"))
    ],
    "template: others": [
        logged(template, "x left")
        for template in ("User {UserId} left", "Cart {UserId} left", "User {UserId} came", None)
    ],
    "template: nothing but a value": [
        logged("{Message}", text, Message=text) for text in ("the bank is away", "the disk is full")
    ],
    "template: literal brackets": [logged(template, None, Id=7) for template in ("Set {{a}} {Id}", "Set {{b}} {Id}")],
}  # fmt: skip


@pytest.mark.parametrize("kind", ONE_BUG)
def test_one_bug_is_one_case(kind: str) -> None:
    assert len({case_of(one) for one in ONE_BUG[kind]}) == 1


@pytest.mark.parametrize("kind", SEVERAL_BUGS)
def test_several_bugs_are_several_cases(kind: str) -> None:
    events = SEVERAL_BUGS[kind]
    assert len({case_of(one) for one in events}) == len(events) > 1


@pytest.mark.parametrize(
    ("body", "template", "parameters", "called"),
    [
        (None, "Sum {0} of {1}", {"0": 1, "1": "b"}, "Sum 1 of b"),
        ("", "Order {@Order} of {$Type} failed", {"Order": {"id": 1}, "Type": "t"}, 'Order {"id":1} of t failed'),
        (None, "Set {{a}} to {Id,5}", {"Id": 7}, "Set {a} to 7"),
        ("Set {a} to     7", "Set {{a}} to {Id,5}", {"Id": 7}, "Set {a} to     7"),
        (None, "Hello {{ name }} there", {"name": "bob"}, "Hello bob there"),
    ],
)
def test_a_title_has_the_values_of_its_template(body: Any, template: str, parameters: Any, called: str) -> None:
    """As the logger wrote it, else with the attributes of the record in their places."""
    attributes = {"{OriginalFormat}": template, **parameters}
    log = to_log(to_event(OtlpRecord(0, 0, 17, "ERROR", body, attributes), Scope({})))
    assert title(gather(log.body.message, log.body.extra, before=log.before)) == called


@pytest.mark.parametrize(
    "kind", ["com.shop.PayError", "Shop::PayError", "Shop\\PayError", "*shop.PayError", "PayError"]
)
def test_a_type_counts_without_its_module(kind: str) -> None:
    """Some SDKs tell that beside the type, and some before it."""
    told = {
        "type": kind,
        "value": "no",
        "stacktrace": {"frames": [{"module": "shop.Cart", "function": "total", "in_app": True}]},
    }
    assert case_of(event(told)) == case_of(event({**told, "type": "PayError"}))
    assert case_of(event(told)) != case_of(event({**told, "type": "Error"}))


@pytest.mark.parametrize("kind", ["no a.js", "https://shop.example/a.js", "see a.b.", "List`1[System.Int32]"])
def test_what_is_no_type_counts_whole(kind: str) -> None:
    told = {"value": "no", "stacktrace": {"frames": [{"module": "shop.Cart", "function": "total", "in_app": True}]}}
    assert len({case_of(event({"type": one, **told})) for one in (kind, f"x{kind}")}) == 2


def test_older_versions_see_closures_of_php_as_they_did() -> None:
    """Cut at their first bracket: what a version holds stays in it."""
    cut = {"file": "Cart.php", "function": "App\\Cart::{closure:App\\Cart::total", "in_app": True}
    second = group(gather("x", {"exception": {"type": "E", "frames": [cut]}}))[1]
    assert offered(php("App\\Cart->{closure:App\\Cart::total():12}"))[1].grouping == second


def test_the_hash_of_a_crate_is_none_of_a_name() -> None:
    one, other = (read_symbol(f"_RNvCs{sign}_4shop5total") for sign in ("jJ0Hc3a", "9zZ"))
    assert one == other != read_symbol("_RNvCs9zZ_4shop3sum")
