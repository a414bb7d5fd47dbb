"""Stack traces of Go, Rust and C++, with the frames that are read of each."""

from __future__ import annotations

from tests.support.traces.printed import Printed

TRACES = {
    "go: a panic": Printed(
        """\
panic: runtime error: index out of range [5] with length 3

goroutine 1 [running]:
main.(*Shop).Charge(0xc000012345, {0x1, 0x2})
	/app/shop/pay.go:12 +0x1d
main.main()
	/app/main.go:9 +0x25
created by main.start in goroutine 1
	/app/main.go:20 +0x3
""",
        "panic",
        "runtime error: index out of range [5] with length 3",
        [
            ("pay.go", "Charge", 12, True),
            ("main.go", "main", 9, True),
        ],
    ),
    "go: debug.Stack after a panic": Printed(
        """\
goroutine 34 [running]:
runtime/debug.Stack()
	/usr/local/go/src/runtime/debug/stack.go:24 +0x65
main.handle.func1()
	/app/main.go:14 +0x3c
panic({0x4a3b20?, 0xc000014250?})
	/usr/local/go/src/runtime/panic.go:884 +0x213
example.com/shop/pay.Map[...](...)
	/app/pay/map.go:3
github.com/gin-gonic/gin.(*Context).Next(0xc0001)
	/go/pkg/mod/github.com/gin-gonic/gin@v1.9.0/context.go:174 +0x2b
net/http.(*conn).serve(0x0)
	/usr/local/go/src/net/http/server.go:1991 +0x607
""",
        None,
        None,
        [
            ("map.go", "Map", 3, True),
            ("context.go", "Next", 174, False),
            ("server.go", "serve", 1991, False),
        ],
    ),
    "go: errors with %+v": Printed(
        """\
card refused
main.(*Shop).Charge
	/app/pay.go:12
main.main
	/app/main.go:9
runtime.main
	/usr/local/go/src/runtime/proc.go:250
charging failed
main.main
	/app/main.go:9
""",
        None,
        "card refused",
        [
            ("pay.go", "Charge", 12, True),
            ("main.go", "main", 9, True),
            ("proc.go", "main", 250, False),
        ],
    ),
    "rust: a panic": Printed(
        """\
thread 'main' panicked at src/pay.rs:12:9:
card refused
second
stack backtrace:
   0: rust_begin_unwind
             at /rustc/abc/library/std/src/panicking.rs:597:5
   1: core::panicking::panic_fmt
             at /rustc/abc/library/core/src/panicking.rs:72:14
   2: shop::pay::charge
             at ./src/pay.rs:12:9
   3: shop::main::{{closure}}
             at ./src/main.rs:4:5
   4: tokio::runtime::run
             at /home/me/.cargo/registry/src/index.crates.io-6f17/tokio-1.0/src/runtime.rs:3:1
   5: <alloc::boxed::Box<F,A> as core::ops::function::FnOnce<Args>>::call_once
   6: main
   7: __libc_start_main
note: Some details are omitted, run with `RUST_BACKTRACE=full` for a verbose backtrace.
""",
        "panic",
        "card refused\nsecond",
        [
            ("panicking.rs", "rust_begin_unwind", 597, False),
            ("panicking.rs", "core::panicking::panic_fmt", 72, False),
            ("pay.rs", "shop::pay::charge", 12, True),
            ("main.rs", "shop::main::{{closure}}", 4, True),
            ("runtime.rs", "tokio::runtime::run", 3, False),
            ("", "<alloc::boxed::Box<F,A> as core::ops::function::FnOnce<Args>>::call_once", None, False),
            ("", "main", None, False),
            ("", "__libc_start_main", None, False),
        ],
    ),
    "rust: a full backtrace": Printed(
        """\
thread 'main' panicked at 'card refused', src/main.rs:2:5
stack backtrace:
   0:     0x55d5e0a1 - std::backtrace_rs::trace::h0123456789abcdef
                               at /rustc/x/library/std/src/lib.rs:1:1
   1:     0x55d5e0a2 - shop::main::h0123456789abcdef
                               at /app/src/main.rs:2:5
""",
        "panic",
        "card refused",
        [
            ("lib.rs", "std::backtrace_rs::trace", 1, False),
            ("main.rs", "shop::main", 2, True),
        ],
    ),
    "rust: an error with causes": Printed(
        """\
Error: charging failed

Caused by:
    0: card refused
    1: no money

Stack backtrace:
   0: anyhow::error::<impl anyhow::Error>::msg
             at /home/me/.cargo/registry/src/x/anyhow-1/src/error.rs:83:36
   1: shop::charge
             at ./src/main.rs:4:5
""",
        None,
        "charging failed",
        [
            ("error.rs", "anyhow::error::<impl anyhow::Error>::msg", 83, False),
            ("main.rs", "shop::charge", 4, True),
        ],
    ),
    "c++: boost": Printed(
        """\
 0# shop::charge(int) at /app/src/pay.cpp:12
 1# main in ./a.out
 2# __libc_start_main in /lib/x86_64-linux-gnu/libc.so.6
 3# std::function<void (int)>::operator()(int) const at /usr/include/c++/12/functional:9
 4# (anonymous namespace)::run(std::vector<int>&) [clone .isra.0] at /app/main.cpp:3
 5# 0x000055d5 in ./a.out
""",
        None,
        None,
        [
            ("pay.cpp", "shop::charge", 12, True),
            ("", "main", None, True),
            ("", "__libc_start_main", None, False),
            ("functional", "std::function<void (int)>::operator()", 9, False),
            ("main.cpp", "(anonymous namespace)::run", 3, True),
            ("", "", None, False),
        ],
    ),
    "c++: the standard library": Printed(
        """\
   0# shop::charge(int) at /app/src/pay.cpp:12
   1# main at /app/main.cpp:3
   2# __libc_start_call_main at ../sysdeps/nptl/libc_start_call_main.h:58
   3# _start at :0
""",
        None,
        None,
        [
            ("pay.cpp", "shop::charge", 12, True),
            ("main.cpp", "main", 3, True),
            ("libc_start_call_main.h", "__libc_start_call_main", 58, False),
            ("", "_start", None, False),
        ],
    ),
    "c++: a debugger": Printed(
        """\
#0  __pthread_kill_implementation (threadid=1, signo=6) at ./nptl/pthread_kill.c:44
#1  0x00007f in raise () from /lib/x86_64-linux-gnu/libc.so.6
#2  0x00005555 in shop::charge (order=...) at /app/pay.cpp:12
#3  0x00005556 in main () at /app/main.cpp:3
""",
        None,
        None,
        [
            ("pthread_kill.c", "__pthread_kill_implementation", 44, False),
            ("", "raise", None, False),
            ("pay.cpp", "shop::charge", 12, True),
            ("main.cpp", "main", 3, True),
        ],
    ),
    "c++: a sanitizer": Printed(
        """\
==1==ERROR: AddressSanitizer: heap-use-after-free
    #0 0x4f2b in shop::charge(int) /app/pay.cpp:12:3
    #1 0x4f2c in main /app/main.cpp:3
    #2 0x7f in __libc_start_main (/lib/libc.so.6+0x21)
""",
        None,
        None,
        [
            ("pay.cpp", "shop::charge", 12, True),
            ("main.cpp", "main", 3, True),
            ("", "__libc_start_main", None, False),
        ],
    ),
}
