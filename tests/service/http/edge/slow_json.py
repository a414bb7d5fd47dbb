"""A slow and plain judge of JSON bodies: one character at a time, after RFC 8259 and reliability §4.9.

It shares no code and no trick with the body gate, which is held against it.
"""

from __future__ import annotations

from typing import Any

MAX_DEPTH = 64
MAX_INTEGER = 2**53 - 1
ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
HEX = "0123456789abcdefABCDEF"


class Unacceptable(Exception):
    """The text is refused."""


def read(raw: bytes) -> Any:
    """The value of an acceptable text. Raises Unacceptable."""
    try:
        reader = Reader(raw.decode("utf-8"))
    except UnicodeDecodeError:
        raise Unacceptable("utf-8") from None
    reader.space()
    value = reader.value(0)
    reader.space()
    if reader.at < len(reader.text):
        raise Unacceptable("trailing")
    return value


class Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def take(self) -> str:
        char = self.peek()
        self.at += 1
        if not char:
            raise Unacceptable("end")
        return char

    def expect(self, word: str) -> None:
        if self.text[self.at : self.at + len(word)] != word:
            raise Unacceptable(word)
        self.at += len(word)

    def space(self) -> None:
        while self.peek() and self.peek() in " \t\r\n":
            self.at += 1

    def value(self, depth: int) -> Any:  # noqa: PLR0911 - one answer for each kind of value
        match self.peek():
            case "{":
                return self.object(depth + 1)
            case "[":
                return self.array(depth + 1)
            case '"':
                return self.string()
            case "t":
                self.expect("true")
                return True
            case "f":
                self.expect("false")
                return False
            case "n":
                self.expect("null")
                return None
            case _:
                return self.number()

    def object(self, depth: int) -> dict[str, Any]:
        if depth > MAX_DEPTH:
            raise Unacceptable("depth")
        self.expect("{")
        members: dict[str, Any] = {}
        self.space()
        if self.peek() == "}":
            self.at += 1
            return members
        while True:
            self.space()
            name = self.string()
            if name in members:
                raise Unacceptable("duplicate")
            self.space()
            self.expect(":")
            self.space()
            members[name] = self.value(depth)
            self.space()
            char = self.take()
            if char == "}":
                return members
            if char != ",":
                raise Unacceptable("object")

    def array(self, depth: int) -> list[Any]:
        if depth > MAX_DEPTH:
            raise Unacceptable("depth")
        self.expect("[")
        items: list[Any] = []
        self.space()
        if self.peek() == "]":
            self.at += 1
            return items
        while True:
            self.space()
            items.append(self.value(depth))
            self.space()
            char = self.take()
            if char == "]":
                return items
            if char != ",":
                raise Unacceptable("array")

    def string(self) -> str:
        self.expect('"')
        out = ""
        while True:
            char = self.take()
            if char == '"':
                return out
            if char < " ":
                raise Unacceptable("control")
            out += self.escape() if char == "\\" else char

    def escape(self) -> str:
        char = self.take()
        if char in ESCAPES:
            return ESCAPES[char]
        if char != "u":
            raise Unacceptable("escape")
        unit = self.unit()
        if unit == 0:
            raise Unacceptable("nul")
        if 0xDC00 <= unit <= 0xDFFF:
            raise Unacceptable("surrogate")
        if 0xD800 <= unit <= 0xDBFF:
            self.expect("\\u")
            low = self.unit()
            if not 0xDC00 <= low <= 0xDFFF:
                raise Unacceptable("surrogate")
            return chr(0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00))
        return chr(unit)

    def unit(self) -> int:
        digits = "".join(self.take() for _ in range(4))
        if any(digit not in HEX for digit in digits):
            raise Unacceptable("hex")
        return int(digits, 16)

    def number(self) -> int | float:
        start = self.at
        if self.peek() == "-":
            self.at += 1
        if self.peek() == "0":
            self.at += 1
        else:
            self.digits()
        integer = True
        if self.peek() == ".":
            integer = False
            self.at += 1
            self.digits()
        if self.peek() and self.peek() in "eE":
            integer = False
            self.at += 1
            if self.peek() and self.peek() in "+-":
                self.at += 1
            self.digits()
        text = self.text[start : self.at]
        if integer:
            if len(text) > 20 or abs(int(text)) > MAX_INTEGER:
                raise Unacceptable("integer")
            return int(text)
        if abs(float(text)) == float("inf"):
            raise Unacceptable("float")
        return float(text)

    def digits(self) -> None:
        start = self.at
        while self.peek() and self.peek() in "0123456789":
            self.at += 1
        if self.at == start:
            raise Unacceptable("digits")
