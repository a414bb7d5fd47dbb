"""The texts: the big list of naughty strings, and more of HTML, SVG, Markdown, templates, directions and lengths."""

from __future__ import annotations

import json
import zlib
from functools import cache
from pathlib import Path

LIST = Path(__file__).parents[2] / "foreign" / "naughty" / "blns.json"

BEGIN, END = "\u27ea", "\u27eb"
"""Around each text, so that a page shows where it begins and ends."""
PRODUCT = "60481729"
"""What `7777 * 7777` becomes where a template or a script computes it."""
TAG = "x-naughty"

POLYGLOT = (
    f"\"'></textarea></title></script></option></svg><{TAG} data-naughty='1' onclick=alert(1)>"
    "<img src=x onerror=alert(1)><svg onload=alert(1)><a href=javascript:alert(1)>"
    "{{7777*7777}}${7777*7777}<%=7777*7777%>#{7777*7777}[a](javascript:alert(1))![b](//evil.example/x.png)\u202e\u2067"
)
"""Closes whatever may be open, and tries each language. What follows stands from right to left."""
LONG, MIDDLE, SHORT = 100_000, 60, 18

MORE = (
    # HTML, and what a browser makes of half of it
    "<script>alert(document.domain)</script>",
    "<scr<script>ipt>alert(1)</scr</script>ipt>",
    "<style>*{display:none}</style>",
    "<link rel=stylesheet href=//evil.example/x.css>",
    "<base href=//evil.example/>",
    "<meta http-equiv=refresh content=0;url=//evil.example>",
    "<form action=//evil.example><button>Sign in",
    "<iframe srcdoc='<script>parent.alert(1)</script>'>",
    "<object data=data:text/html,<script>alert(1)</script>>",
    "<details open ontoggle=alert(1)>",
    "<input autofocus onfocus=alert(1)>",
    "<template shadowrootmode=open><script>alert(1)</script>",
    "<!--><img src=x onerror=alert(1)>-->",
    "<![CDATA[<img src=x onerror=alert(1)>]]>",
    "</main></body></html><plaintext>",
    "&lt;img src=x onerror=alert(1)&gt; &#60;script&#62; &amp;amp; &NewLine;&colon;",
    "<x-naughty hx-get=/console/leave hx-trigger=load>",
    "<div data-follows=/console/follow?streams=x data-copy=y data-sends-itself id=content>",
    # SVG and MathML
    "<svg><script>alert(1)</script></svg>",
    "<svg><animate onbegin=alert(1) attributeName=x dur=1s>",
    "<svg><foreignObject><body onload=alert(1)></foreignObject></svg>",
    "<svg><use href='data:image/svg+xml,<svg id=x onload=alert(1)/>#x'></svg>",
    "<math><mtext><table><mglyph><style><img src=x onerror=alert(1)></style></mglyph></table></mtext></math>",
    # Markdown
    "[click](javascript:alert(1)) [tab](java\tscript:alert(1)) [entity](&#x6A;avascript:alert(1))",
    "[data](data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==)",
    '[title](https://evil.example "onmouseover=alert(1)" )',
    "![pixel](https://evil.example/pixel.png) ![x](x:y 'onerror=alert(1)')",
    "<https://evil.example/?q=<script>> <javascript:alert(1)> <mailto:a@b.example>",
    "[ref]\n\n[ref]: javascript:alert(1)",
    "<div onclick=alert(1)>\n\nblock *of* HTML\n\n</div>",
    "# A heading\n\n## Another\n\n---\n\n> quote\n\n```html\n<script>alert(1)</script>\n```\n\n- [ ] list",
    "| a | b |\n|---|:-:|\n| <img src=x onerror=alert(1)> | `</code><script>alert(1)</script>` |",
    "*" * 300 + "a" + "*" * 300,
    "[" * 300 + "](x)" * 300,
    "> " * 200 + "deep",
    "- " * 150 + "deep",
    # Templates
    "{{ config }}{% for x in ().__class__.__base__.__subclasses__() %}{{ x }}{% endfor %}",
    "{{''.__class__.__mro__[1].__subclasses__()}}{# a comment",
    "${{<%[%'\"}}%\\.",
    "%s%d%n {0} {name!r} %(name)s",
    # Directions, joiners, and what has no width
    "\u202eevil\u202d mixed \u2066isolated",
    "\u2067\u2067\u2067 never closed",
    "\u061c\u200e\u200f marks",
    "\u05e9\u05dc\u05d5\u05dd 123 \u0645\u0631\u062d\u0628\u0627 (abc) 4-5",
    "a\u200bb\u200cc\u200dd\u2060e\ufefff\u00adg\u180eh",
    "\u2028line\u2029paragraph\u0085next\u000bvertical\u000cform",
    "Z" + "\u0301\u0334\u0489\u035c" * 60 + "algo",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466" * 20,
    "\U000e0041\U000e0042 tags \ufff9note\ufffa\ufffb",
    "\u0000nul \u0007bell \u001b[31mred \u007fdel \u009b31mcsi",
    "\ufffe\uffff\U0010ffff",
    # Whatever wraps badly
    "W" * 2_000,
    "\u6f22" * 1_500,
    "a/b/" * 500,
    "i" * LONG,
    "line\n" * 400,
    "   \t leading and trailing \t  ",
    "\ufdfd" * 60,
)


@cache
def everything() -> tuple[str, ...]:
    """All texts, without the empty one."""
    listed: list[str] = json.loads(LIST.read_text())
    return (*MORE, *filter(None, listed))


def spoilt(text: str, seed: int, level: int = 0) -> str:
    """What stands for a text: always the same for one text and seed. The `level` says how short it has to be."""
    strings = everything()
    one = strings[(zlib.crc32(text.encode("utf-8", "replace")) + seed) % len(strings)]
    return marked(one, level)


def marked(one: str, level: int = 0) -> str:
    """A text in its marks, after the polyglot. At level 1 it has 60 characters at most, and at level 2 less than 20."""
    if level == 0:
        return f"{BEGIN}{POLYGLOT}{one[:4_000]}{END}"
    if level == 1:
        return f"{BEGIN}\"'><{TAG} onx=1>\u202e{one}"[: MIDDLE - len(END)] + END
    return f"{BEGIN}<{TAG}>'\"{END}"[:SHORT]
