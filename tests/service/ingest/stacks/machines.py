"""Stack traces of virtual machines, with the frames that are read of each."""

from __future__ import annotations

from tests.support.traces.printed import Printed

TRACES = {
    "java: scala and kotlin": Printed(
        """\
com.shop.PaymentException: Card refused
	at com.shop.Pay$.charge(Pay.scala:12)
	at app//com.shop.PayKt$main$1.invokeSuspend(Pay.kt:3)
	at java.base@17.0.1/java.util.Optional.get(Optional.java:3) ~[?:?]
	Suppressed: java.io.IOException: x
		at com.shop.Close.close(Close.java:1)
""",
        "com.shop.PaymentException",
        "Card refused",
        [
            ("Pay.scala", "charge", 12, True),
            ("Pay.kt", "invokeSuspend", 3, True),
            ("Optional.java", "get", 3, False),
        ],
    ),
    "java: a cause": Printed(
        """\
Exception in thread "main" com.shop.PaymentException: Card refused
second line
	at com.shop.PayKt.charge(Pay.kt:12)
	at com.shop.PayKt$main$1.invokeSuspend(Pay.kt:3)
	at kotlinx.coroutines.DispatchedTask.run(DispatchedTask.kt:106)
	at com.shop.Native.call(Native Method)
	... 3 more
Caused by: java.lang.IllegalStateException: x
	at com.shop.Inner.f(Inner.kt:1)
""",
        "com.shop.PaymentException",
        "Card refused\nsecond line",
        [
            ("Pay.kt", "charge", 12, True),
            ("Pay.kt", "invokeSuspend", 3, True),
            ("DispatchedTask.kt", "run", 106, False),
            ("Native Method", "call", None, True),
        ],
    ),
    ".net: an inner exception": Printed(
        """\
System.InvalidOperationException: Card refused
 ---> System.IO.IOException: inner
   at Shop.Inner.Read() in /src/Inner.cs:line 3
   --- End of inner exception stack trace ---
   at Shop.Pay.Charge[T](Order`1 order) in C:\\src\\Pay.cs:line 12
   at Shop.Pay.<ChargeAsync>d__3.MoveNext() in /src/Pay.cs:line 20
--- End of stack trace from previous location ---
   at System.Runtime.CompilerServices.TaskAwaiter.ThrowForNonSuccess(Task task)
   at Shop.Web.<>c__DisplayClass0_0.<Run>b__0(Int32 x) in /src/Web.cs:line 7
   at Shop.Web.<Main>g__Local|0_0() in /src/Web.cs:line 9
   at Shop.Pay..ctor(String s)
   at Program.<Main>$(String[] args) in /src/Program.cs:line 1
""",
        "System.InvalidOperationException",
        "Card refused",
        [
            ("Pay.cs", "Charge", 12, True),
            ("Pay.cs", "ChargeAsync", 20, True),
            ("", "ThrowForNonSuccess", None, False),
            ("Web.cs", "Run", 7, True),
            ("Web.cs", "Local", 9, True),
            ("", "ctor", None, True),
            ("Program.cs", "<Main>$", 1, True),
        ],
    ),
    ".net: unhandled": Printed(
        """\
Unhandled exception. Shop.PaymentException: Card refused
two lines
   at Shop.Pay.Charge(Order order) in /src/Pay.cs:line 12
   at Shop.Cart.get_Total() in /src/Cart.cs:line 4
   at Microsoft.AspNetCore.Http.RequestDelegate.Invoke(HttpContext context)
""",
        "Shop.PaymentException",
        "Card refused\ntwo lines",
        [
            ("Pay.cs", "Charge", 12, True),
            ("Cart.cs", "get_Total", 4, True),
            ("", "Invoke", None, False),
        ],
    ),
    ".net: without files": Printed(
        """\
System.Collections.Generic.KeyNotFoundException: The given key 'shop' was not present in the dictionary.
   at System.Collections.Generic.Dictionary`2.get_Item(TKey key)
   at Shop.Stock.Find(String name)
   at Shop.Stock.<>c.<All>b__1_0(String name)
""",
        "System.Collections.Generic.KeyNotFoundException",
        "The given key 'shop' was not present in the dictionary.",
        [
            ("", "get_Item", None, False),
            ("", "Find", None, True),
            ("", "All", None, True),
        ],
    ),
    "elixir: an exception": Printed(
        """\
** (Shop.PaymentError) card refused
    (shop 0.1.0) lib/shop/pay.ex:12: Shop.Pay.charge/1
    (shop 0.1.0) lib/shop/pay.ex:20: Shop.Pay.charge(%{a: 1, b: [1, 2]}, :b)
    (elixir 1.15.0) lib/enum.ex:1693: Enum."-map/2-lists^map/1-1-"/2
    (stdlib 4.2) gen_server.erl:1123: :gen_server.try_handle_cast/4
    (stdlib 4.2) :lists.foo/1
    lib/shop.ex:3: anonymous fn/1 in Shop.run/0
    shop.exs:2: (file)
""",
        "Shop.PaymentError",
        "card refused",
        [
            ("pay.ex", "charge/1", 12, True),
            ("pay.ex", "charge/2", 20, True),
            ("enum.ex", '"-map/2-lists^map/1-1-"/2', 1693, False),
            ("gen_server.erl", "try_handle_cast/4", 1123, False),
            ("", "foo/1", None, False),
            ("shop.ex", "run/0", 3, True),
            ("shop.exs", "(file)", 2, True),
        ],
    ),
    "elixir: calls alone": Printed(
        """\
    (phoenix 1.7.2) lib/phoenix/router.ex:430: Phoenix.Router.__call__/5
    deps/plug/lib/plug.ex:3: Plug.run/2
    (shop 0.1.0) lib/shop/web.ex:7: Shop.Web."-fun.handle/1-"/2
""",
        None,
        None,
        [
            ("router.ex", "__call__/5", 430, True),
            ("plug.ex", "run/2", 3, False),
            ("web.ex", 'handle/1-"/2', 7, True),
        ],
    ),
    "elixir: arguments": Printed(
        """\
** (FunctionClauseError) no function clause matching in Shop.Pay.charge/2

    (shop 0.1.0) lib/shop/pay.ex:8: Shop.Pay.charge([1, 2], "a, b")
    (shop 0.1.0) lib/shop/web.ex:3: Shop.Web.index/1
""",
        "FunctionClauseError",
        "no function clause matching in Shop.Pay.charge/2",
        [
            ("pay.ex", "charge/2", 8, True),
            ("web.ex", "index/1", 3, True),
        ],
    ),
}
