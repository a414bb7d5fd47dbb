"""Stack traces of Python, JavaScript, Ruby and PHP, with the frames that are read of each."""

from __future__ import annotations

from tests.support.traces.printed import Printed

TRACES = {
    "python: a key keeps its quotes": Printed(
        """\
Traceback (most recent call last):
  File "/app/a.py", line 9, in <module>
    d["shop"]
    ~^^^^^^^^
KeyError: 'shop'
""",
        "KeyError",
        "'shop'",
        [
            ("a.py", "<module>", 9, True),
        ],
    ),
    "python: a message that looks like a trace": Printed(
        """\
Traceback (most recent call last):
  File "/app/a.py", line 9, in f
    raise shop.E("a")
shop.core.outer.<locals>.E: first
  File "/x.py", line 3, in g

Traceback (most recent call last):
last
""",
        "outer.<locals>.E",
        'first\n  File "/x.py", line 3, in g\n\nTraceback (most recent call last):\nlast',
        [
            ("a.py", "f", 9, True),
        ],
    ),
    "python: a group": Printed(
        """\
  + Exception Group Traceback (most recent call last):
  |   File "/app/a.py", line 9, in <module>
  |     outer()
  |   File "/app/a.py", line 3, in outer
  |     raise ExceptionGroup("several", [ValueError(1)])
  | ExceptionGroup: several (2 sub-exceptions)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "/app/a.py", line 1, in inner
    |     x
    | ValueError: 1
    +---------------- 2 ----------------
    | KeyError: 'shop'
    +------------------------------------
""",
        "ExceptionGroup",
        "several",
        [
            ("a.py", "outer", 3, True),
            ("a.py", "<module>", 9, True),
        ],
    ),
    "python: a group with a cause": Printed(
        """\
Traceback (most recent call last):
  File "/app/a.py", line 1, in inner
    x
ValueError: 1

The above exception was the direct cause of the following exception:

  + Exception Group Traceback (most recent call last):
  |   File "/app/a.py", line 9, in outer
  |     raise ExceptionGroup("several\\nlines", [KeyError(1)]) from error
  | shop.Several: several
  | lines (1 sub-exception)
  +-+---------------- 1 ----------------
    | KeyError: 1
    +------------------------------------
""",
        "Several",
        "several\nlines",
        [
            ("a.py", "outer", 9, True),
        ],
    ),
    "python: cut by a limit": Printed(
        """\
Traceback (most recent call last):
  File "/app/a.py", line 9, in f
    raise E("a long message")
E: a long mess""",
        "E",
        "a long mess",
        [
            ("a.py", "f", 9, True),
        ],
    ),
    "javascript: node": Printed(
        """\
TypeError [ERR_SHOP]: Cannot read properties of undefined (reading 'card')
    at Shop.charge (/app/pay.js:3:11)
    at async Promise.all (index 0)
    at async handle (file:///app/web.mjs:9:3)
    at process.processTicksAndRejections (node:internal/process/task_queues:95:5) {
  [cause]: Error: inner
      at inner (/app/inner.js:1:1)
}
""",
        "TypeError",
        "Cannot read properties of undefined (reading 'card')",
        [
            ("pay.js", "charge", 3, True),
            ("web.mjs", "handle", 9, True),
            ("task_queues", "processTicksAndRejections", 95, False),
        ],
    ),
    "javascript: chrome": Printed(
        """\
Uncaught TypeError: no
two
    at Object.charge (http://x.com/app.js:3:11)
    at http://x.com/app.js:3:12
""",
        "TypeError",
        "no\ntwo",
        [
            ("app.js", "charge", 3, True),
            ("app.js", "", 3, True),
        ],
    ),
    "javascript: firefox": Printed(
        """\
charge@http://x.com/app.js:3:11
@http://x.com/app.js:9:1
async*run@webpack:///src/a.ts:1:2
global code@http://x.com/app.js:20
""",
        None,
        None,
        [
            ("app.js", "charge", 3, True),
            ("app.js", "", 9, True),
            ("a.ts", "run", 1, True),
            ("app.js", "global code", 20, True),
        ],
    ),
    "javascript: safari": Printed(
        """\
charge@https://shop.example/assets/app-4f2a9c1b.js:1:200
@https://shop.example/assets/app-4f2a9c1b.js:1:300
[native code]
""",
        None,
        None,
        [
            ("app.js", "charge", 1, True),
            ("app.js", "", 1, True),
        ],
    ),
    "ruby: with a cause": Printed(
        """\
/app/pay.rb:12:in `charge': Card refused (Shop::PaymentError)
second line
	from /app/main.rb:3:in `block in run'
	from /usr/local/bundle/gems/rack-2.2/lib/rack.rb:9:in `call'
	from <internal:kernel>:187:in `loop'
/app/db.rb:3:in `find': key not found: 1 (KeyError)
	from /app/pay.rb:10:in `charge'
""",
        "Shop::PaymentError",
        "Card refused\nsecond line",
        [
            ("pay.rb", "charge", 12, True),
            ("main.rb", "block in run", 3, True),
            ("rack.rb", "call", 9, False),
            ("<internal:kernel>", "loop", 187, False),
        ],
    ),
    "ruby: 3.4": Printed(
        """\
app/pay.rb:12:in 'Shop::Pay#charge': Card refused (Shop::PaymentError)
	from app/main.rb:3:in 'block in Shop::Main#run'
	from app/main.rb:9:in '<main>'
""",
        "Shop::PaymentError",
        "Card refused",
        [
            ("pay.rb", "charge", 12, True),
            ("main.rb", "block in Shop::Main#run", 3, True),
            ("main.rb", "<main>", 9, True),
        ],
    ),
    "ruby: the latest call last": Printed(
        """\
Traceback (most recent call last):
	2: from /app/main.rb:9:in `<main>'
	1: from /app/main.rb:3:in `run'
/app/pay.rb:12:in `charge': Card refused (Shop::PaymentError)
""",
        "Shop::PaymentError",
        "Card refused",
        [
            ("pay.rb", "charge", 12, True),
            ("main.rb", "run", 3, True),
            ("main.rb", "<main>", 9, True),
        ],
    ),
    "php: uncaught": Printed(
        """\
PHP Fatal error:  Uncaught App\\PaymentException: Card refused in /app/src/Pay.php:12
Stack trace:
#0 /app/src/Shop.php(30): App\\Pay->charge(Object(App\\Order))
#1 [internal function]: App\\Shop->App\\{closure}(1)
#2 /app/vendor/laravel/x.php(3): array_map(Object(Closure), Array)
#3 {main}
  thrown in /app/src/Pay.php on line 12
""",
        "App\\PaymentException",
        "Card refused",
        [
            ("Pay.php", "App\\Pay::charge", 12, True),
            ("Shop.php", "App\\Shop::App\\{closure}", 30, True),
            ("[internal function]", "array_map", None, False),
            ("x.php", "", 3, False),
        ],
    ),
    "php: with a cause": Printed(
        """\
RuntimeException: inner in /app/a.php:3
Stack trace:
#0 /app/b.php(4): f()
#1 {main}

Next App\\E: outer
two lines in /app/b.php:9
Stack trace:
#0 {main}
""",
        "App\\E",
        "outer\ntwo lines",
        [
            ("b.php", "", 9, True),
        ],
    ),
    "php: of OpenTelemetry's SDK": Printed(
        """\
App.PaymentException: Card refused
	at App.Pay.charge(Pay.php:12)
	at App.Shop.run(Shop.php:30)
	at {main}(index.php:3)
Caused by: RuntimeException: x
	at f(a.php:1)
""",
        "App\\PaymentException",
        "Card refused",
        [
            ("Pay.php", "App\\Pay::charge", 12, True),
            ("Shop.php", "App\\Shop::run", 30, True),
            ("index.php", "", 3, True),
        ],
    ),
    "php: calls alone": Printed(
        """\
#0 /app/src/Shop.php(30): App\\Pay->charge(Object(App\\Order))
#1 {main}""",
        None,
        None,
        [
            ("", "App\\Pay::charge", None, False),
            ("Shop.php", "", 30, True),
        ],
    ),
}
