"""Letters and attempts at a mail server: what is written, what is required of TLS, and how replies are judged."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from email import message_from_bytes, policy

import msgspec
import pytest
import trustme
from hypothesis import given
from hypothesis import strategies as st

from service.egress.guard import Guard
from service.egress.lookups import Lookups
from service.settingvalues import BadValue, MailServer, is_mail_address, mail_server
from service.webhooks.mail import Letter, UnsubscribeToken, deliver, make_token, read_token, written
from service.webhooks.message import APART, MAX_TITLE, laid_out
from tests.service.egress.test_guard import leading_to
from tests.service.webhooks.test_message import CHAT, messages
from tests.support import few_or_many
from tests.support.mailing import post_office
from tests.support.naughty.words import everything

NAME = "mail.example"
HOST = "service.example"
LINK = f"https://{HOST}/unsubscribe/{'A1_-' * 43}"
HEADERS = [
    "From",
    "To",
    "Date",
    "Message-ID",
    "Auto-Submitted",
    "List-Unsubscribe",
    "List-Unsubscribe-Post",
    "Subject",
    "MIME-Version",
    "Content-Type",
    "Content-Transfer-Encoding",
]
KEY = bytes(32)


def letter(body: bytes | None = None, recipient: str = "bob@example.com") -> Letter:
    return Letter("whd_1", body or laid_out("mail", messages("Boom")[0]), "service@example.com", recipient, LINK)


def check(text: str) -> None:
    """Write letters with a text, and look for a header or a line that it has made."""
    for message in messages(text):
        content = written(letter(laid_out("mail", message)), HOST)
        assert content.isascii()
        assert max(map(len, content.split(b"\r\n"))) <= 998
        assert not re.search(rb"(?<!\r)\n|\r(?!\n)", content)
        read = message_from_bytes(content, policy=policy.default)
        assert list(read.keys()) == HEADERS
        assert read["Subject"] == msgspec.json.decode(laid_out("mail", message))["subject"]
        assert read["To"] == "bob@example.com"
        assert read["List-Unsubscribe"] == f"<{LINK}>"
        assert len(read["Subject"].replace(APART, "")) <= MAX_TITLE + len("New case: ")
        assert read.get_content_type() == "text/plain"
        lines = read.get_content().splitlines()
        assert lines[0] == message.heading
        assert lines.index(f"Open it: {message.link}") <= 5
        urls = re.findall(r"\w+://\w\S*", read.get_content())
        assert set(urls) == {message.link, LINK}


def test_no_hostile_text_makes_a_header_a_link_or_a_line() -> None:
    for text in (*CHAT, "a\r\nBcc: eve@example.com\r\n\r\nbody", ".\r\n.\r\nMAIL FROM:<x@y>", *everything()):
        check(text)


@few_or_many(15, 500)
@given(st.text(max_size=400))
def test_no_text_makes_a_header_a_link_or_a_line(text: str) -> None:
    check(text)


def test_an_address_that_ends_its_header_is_refused() -> None:
    for recipient in ("bob@example.com\r\nBcc: eve@example.com", "bob@example.com\n", "bøb@example.com"):
        assert not is_mail_address(recipient)
        with pytest.raises(ValueError, match="a header"):
            written(letter(recipient=recipient), HOST)
    for address in ("", "bob", "bob@", "@x", "a b@x", '"a"@x', "<a@x>", "a@x>", "a@-", "a@x." + "y" * 260):
        assert not is_mail_address(address)
    assert is_mail_address("o'neil+tag@sub.example.com")


def test_a_token_names_one_rule_and_opens_with_its_key_alone() -> None:
    named = UnsubscribeToken("proj_1", "dest_1", "usr_1")
    token = make_token(KEY, named)
    assert re.fullmatch("[A-Za-z0-9_-]+", token)
    assert read_token(KEY, token) == named
    changed = ("A" if token[30] != "A" else "B").join((token[:30], token[31:]))
    for other in ("", "x", token[:-4], token + "AAAA", changed, token * 5, "é", f"{token}=", "A" * 40):
        assert read_token(KEY, other) is None
    assert read_token(bytes([1]) * 32, token) is None
    assert read_token(None, token) is None


@pytest.mark.parametrize(
    ("value", "server"),
    [
        ("smtp://us:p%40ss%3A@x:25", MailServer("x", 25, "by_command", ("us", "p@ss:"))),
        ("smtps://mail.example", MailServer("mail.example", 465, "at_once")),
        ("smtp://mail.example", MailServer("mail.example", 587, "by_command")),
        ("smtp://10.0.0.1:25", MailServer("10.0.0.1", 25, "by_command")),
        ("smtp://127.0.0.1:2525", MailServer("127.0.0.1", 2525, "never")),
        ("smtp://[::1]:25/", MailServer("::1", 25, "never")),
        ("smtp://localhost", MailServer("localhost", 587, "never")),
    ],
)
def test_tls_is_required_but_for_loopback(value: str, server: MailServer) -> None:
    assert mail_server(value) == server


@pytest.mark.parametrize(
    "value",
    [
        "",
        "mail.example",
        "http://mail.example",
        "smtp://",
        "smtp://u@x",
        "smtp://:p@x",
        "smtp://x:0",
        "smtp://x:y",
        "smtp://x/y",
    ],
)
def test_another_address_is_none_of_a_mail_server(value: str) -> None:
    with pytest.raises(BadValue):
        mail_server(value)


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def guard(authority: trustme.CA | None = None) -> Guard:
    """A guard for which every name leads to loopback, and which trusts an authority."""

    def trust() -> ssl.SSLContext:
        context = ssl.create_default_context()
        if authority is not None:
            authority.configure_trust(context)
        return context

    return Guard(Lookups(leading_to("127.0.0.1")), trust)


def serving(authority: trustme.CA, *names: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*names).configure_cert(context)
    return context


async def test_a_letter_is_sent_over_starttls_with_a_password(authority: trustme.CA) -> None:
    async with post_office(tls=serving(authority, NAME), auth_required=True) as office:
        server = MailServer(NAME, office.port, "by_command")
        outcome = await deliver(guard(authority), server._replace(login=("us", "opensesame")), letter(), HOST)
        assert (outcome.status, outcome.error) == (250, None)
        assert office.logins == [(b"us", b"opensesame")]
        [taken] = office.taken
        assert (taken.sender, taken.recipients) == ("service@example.com", ["bob@example.com"])
        assert taken.letter["Message-ID"] == f"<whd_1@{HOST}>"
        wrong = await deliver(guard(authority), server._replace(login=("us", "wrong")), letter(), HOST)
        assert (wrong.status, wrong.delivered, wrong.gone) == (535, False, False)


async def test_a_server_without_tls_or_of_another_name_gets_nothing(authority: trustme.CA) -> None:
    async with post_office() as office:
        outcome = await deliver(guard(), MailServer(NAME, office.port, "by_command", ("u", "p")), letter(), HOST)
        assert outcome.error == "The mail server offers no TLS."
    async with post_office(tls=serving(authority, "other.example")) as office:
        server = MailServer(NAME, office.port, "by_command")
        for trusted in (authority, None):
            outcome = await deliver(guard(trusted), server._replace(login=("u", "p")), letter(), HOST)
            assert "certificate" in str(outcome.error)
        assert office.taken == office.logins == []


@asynccontextmanager
async def speaking(
    said: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]], tls: ssl.SSLContext | None = None
) -> AsyncIterator[int]:
    """Run a server that says what a test wants."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await said(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def test_tls_may_begin_at_once(authority: trustme.CA) -> None:
    heard: list[bytes] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220-hello\r\n220 go on\r\n")
        for reply in (b"250-us\r\n250 AUTH LOGIN", b"334 VXNlcjo=", b"334 UGFzczo=", b"235 in", b"250 a", b"250 b"):
            heard.append(await reader.readline())
            writer.write(reply + b"\r\n")
        heard.append(await reader.readline())
        writer.write(b"354 send\r\n")
        heard.append(await reader.readuntil(b"\r\n.\r\n"))
        writer.write(b"250 taken\r\n")
        heard.append(await reader.readline())

    async with speaking(talk, serving(authority, NAME)) as port:
        body = b'{"subject":"s","text":".hidden\\n..\\n."}'
        outcome = await deliver(guard(authority), MailServer(NAME, port, "at_once", ("us", "pw")), letter(body), HOST)
        assert outcome.delivered
    assert heard[0] == f"EHLO {HOST}\r\n".encode()
    assert heard[1:4] == [b"AUTH LOGIN\r\n", b"dXM=\r\n", b"cHc=\r\n"]
    assert b"\r\n..hidden\r\n" in heard[7]


async def test_what_was_said_before_tls_is_forgotten(authority: trustme.CA) -> None:
    """A reply smuggled in before TLS begins is no reply within it."""
    context = serving(authority, NAME)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 hello\r\n")
        await reader.readline()
        writer.write(b"250-us\r\n250 STARTTLS\r\n")
        await reader.readline()
        writer.write(b"220 go on\r\n250 smuggled\r\n250 smuggled\r\n")
        await writer.drain()
        await writer.start_tls(context)
        await reader.readline()
        writer.write(b"421 enough\r\n")
        await writer.drain()

    async with speaking(talk) as port:
        outcome = await deliver(guard(authority), MailServer(NAME, port, "by_command"), letter(), HOST)
    assert not outcome.delivered


@pytest.mark.parametrize(
    ("step", "reply", "status", "gone"),
    [
        ("MAIL", "451 later", 451, False),
        ("MAIL", "550 never", 550, False),
        ("RCPT", "450 busy", 450, False),
        ("RCPT", "550 no such user", 550, True),
        ("DATA", "452 full", 452, False),
        ("DATA", "554 spam", 554, False),
    ],
)
async def test_a_refusal_is_judged_by_its_step_and_code(step: str, reply: str, status: int, gone: bool) -> None:
    async with post_office() as office:
        office.replies = {step: reply}
        outcome = await deliver(guard(), MailServer("127.0.0.1", office.port, "never"), letter(), HOST)
        assert (outcome.status, outcome.delivered, outcome.gone) == (status, False, gone)
        assert reply[4:] not in str(outcome.error)


@pytest.mark.parametrize(
    "said",
    [b"", b"nonsense\r\n", b"\x00\xff\r\n", b"220-x\r\n" * 200, b"2" * 100_000, b"999 x\r\n", b"HTTP/1.1 400\r\n"],
)
async def test_a_server_that_speaks_another_language_is_a_failure(said: bytes) -> None:
    async def talk(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(said)
        await writer.drain()

    async with speaking(talk) as port:
        outcome = await deliver(guard(), MailServer("127.0.0.1", port, "never"), letter(), HOST)
    assert outcome.status is None
    assert outcome.error


async def test_a_silent_server_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.webhooks.mail.SECONDS", 0.3)

    async def hang(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    async with speaking(hang) as port:
        outcome = await deliver(guard(), MailServer("127.0.0.1", port, "never"), letter(), HOST)
    assert outcome.error is not None
    assert not outcome.delivered
