"""Texts of others as code: no shell runs what stands in a command, and colours change no text."""

from __future__ import annotations

import shutil
import subprocess
import time
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.console.kit.code import LONGEST_LINE, MOST_BODY, coloured, curl, parts_of, quoted
from service.console.kit.texts import HERE, TooMuchHere, budget

HOSTILE = [
    "it's",
    "!!",
    "\\",
    "\x1b[201~\nreboot\n",
    "$(id)`id`",
    "\x7f9",
    "-x",
    "@/etc/passwd",
    "\u202ex",
    "é",
    "\t",
    "",
]
TEXTS = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=30)
LINES = [
    ("    raise Refused('x\\\\') # no", "shop/pay.py:17", ["k:raise", "s:'x\\\\'", "c:# no"]),
    ('const a = "b\\"c" // d', "https://shop.example/app.ts:3:1", ["k:const", 's:"b\\"c"', "c:// d"]),
    ("fn f(x: &'a str) -> u8 { 1 }", "a.rs:1", ["k:fn"]),
    ("a = 0x1F if None else 2.5", "a.py", ["n:0x1F", "k:if", "k:None", "k:else", "n:2.5"]),
    ("a # b // c", "unknown file", []),
]


def words_of(command: str, shell: str) -> list[str]:
    """The words that a shell takes a command for."""
    listed = command.replace("curl", "printf '%s\\0'", 1)
    done = subprocess.run([shell, "-c", listed], capture_output=True, check=True, env={"LC_ALL": "C.UTF-8"})
    return done.stdout.decode().split("\x00")[:-1]


@pytest.mark.parametrize("text", HOSTILE)
def test_each_text_is_one_word_without_a_control_character(text: str) -> None:
    word = quoted(text)
    assert word.isprintable()
    assert "!" not in word
    for shell in filter(shutil.which, ("bash", "zsh")):
        assert words_of(f"curl {word}", shell) == [text], shell


@given(st.lists(TEXTS, max_size=5))
def test_no_text_leaves_its_word(texts: list[str]) -> None:
    assert words_of(" ".join(["curl", *map(quoted, texts), "''"]), "bash") == [*texts, ""]


@given(TEXTS, TEXTS, TEXTS)
def test_a_command_has_the_options_of_its_writer_alone(name: str, value: str, body: str) -> None:
    """Whatever stands in a request, no header is a file, no body is read from one, and only the web is asked."""
    made = curl({"url": f"https://shop.example/{value}", "headers": {name: value, "X-A": body}, "data": body})
    assert made is not None
    words = words_of(made.text, "bash")
    options, values = words[3::2], words[4::2]
    assert words[:3] == ["--globoff", "--proto", "=http,https"]
    assert set(options) <= {"--header", "--data-raw", "--url"}
    assert not any(one.startswith("@") for option, one in zip(options, values, strict=True) if option == "--header")
    assert values[-1].startswith("https://shop.example/")


@pytest.mark.parametrize("url", ["file:///etc/passwd", "-o/tmp/x", "javascript:alert(1)", "", 7, None, ["https://x"]])
def test_what_is_no_address_of_the_web_has_no_command(url: object) -> None:
    assert curl({"url": url}) is None


def test_the_parts_of_a_request_have_their_options() -> None:
    sent = {
        "url": "http://shop.example/pay#top",
        "method": "put",
        "headers": [["Host", "shop.example"], ["A b", "x"], ["X-Two", "1\r\nX-Three: 2"], ["X-Empty", ""]],
        "cookies": [["a", "1"], ["b", 2]],
        "query_string": [["q", "a b"]],
        "data": [1, "two"],
    }
    made = curl(sent)
    assert made is not None
    assert words_of(made.text, "bash")[3:] == [
        *(
            "--request",
            "PUT",
            "--header",
            "X-Two: 1 X-Three: 2",
            "--header",
            "X-Empty;",
            "--header",
            "Cookie: a=1; b=2",
        ),
        *("--data-raw", '[1, "two"]', "--url", "http://shop.example/pay?q=a+b#top"),
    ]
    long = curl({**sent, "data": "x" * (MOST_BODY + 1), "method": "HEAD"})
    assert long is not None
    assert long.bodiless
    assert "--head " in long.text
    assert "--data" not in long.text


@pytest.mark.parametrize(("line", "place", "expected"), LINES)
def test_parts_of_a_line_have_their_kinds(line: str, place: str, expected: list[str]) -> None:
    assert [f"{kind}:{text}" for kind, text in parts_of(line, place) if kind] == expected


@given(st.text(max_size=LONGEST_LINE + 10), st.sampled_from(["a.py:1", "b.js", "c.php:2:3", ""]))
def test_colours_change_no_text(line: str, place: str) -> None:
    assert "".join(part.text for part in parts_of(line, place)) == line
    assert unescape(str(coloured(line, place)).replace("</span>", "").replace("\r", "")).count("<script") == line.count(
        "<script"
    )


@pytest.mark.parametrize("unit", ["'", '"a', "\\\\'", "0", "/", "a1", "`'", "#/*"])
def test_no_line_takes_long_to_colour(unit: str) -> None:
    line = (unit * LONGEST_LINE)[:LONGEST_LINE]
    begun = time.thread_time()
    for _ in range(100):
        parts_of(line, "a.php")
    assert time.thread_time() - begun < 0.5


def test_many_lines_are_no_work_of_the_event_loop() -> None:
    line = "x" * LONGEST_LINE
    with budget(HERE):
        coloured(line, "a.py")
        with pytest.raises(TooMuchHere):
            [coloured(line, "a.py") for _ in range(100)]
