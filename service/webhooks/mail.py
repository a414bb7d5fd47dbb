"""Mail to members: the letter, its link that ends it, and one attempt at the operator's mail server.

The server and the sender are settings. TLS is required and verified, but for a server on loopback. A letter goes to the
verified address of a member, which the statement that begins an attempt has found. What comes in between, every line of
the server, is read within bounds, and no byte of it is kept (G-150).

A server that refuses the recipient for good (5xx) counts as one that is gone, so that the destination stops until a
test succeeds. Reports that arrive later by mail are not read: nothing comes in.
"""

import asyncio
import base64
import re
from binascii import b2a_qp
from collections.abc import Sequence
from email.utils import formatdate
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec

from service.auth.secrets import seal, unseal
from service.egress.exchange import NotReceived, take_apart
from service.egress.guard import SECONDS, Guard, Stream
from service.eventstore.connect.facts import Facts
from service.settings import Settings
from service.settingvalues import MailServer, is_mail_address
from service.sql import load_query
from service.webhooks.sending import AttemptOutcome

MAIL_A_DAY = 50
"""Messages to a person in a day (UTC), of all projects and destinations."""
FULL = f"The member has had {MAIL_A_DAY} messages today."
NO_ADDRESS = "The member has no rule, or no verified address for mail."
NO_SERVER = "The operator has set no mail server."

_TAKE_MAIL = load_query("webhooks", "take_mail")
_ADDRESS = load_query("webhooks", "mail_address")


async def take_of_day(facts: Facts, person_id: str, delivery: str) -> int:
    """Count a message of a person once. Returns 0, or for how many seconds the day is full."""
    async with facts.connection() as connection:
        values = {"person_id": person_id, "delivery": delivery, "most": MAIL_A_DAY}
        [[rest]] = await (await connection.execute(_TAKE_MAIL, values)).fetchall()
    return int(rest)


async def address_of(facts: Facts, project_id: str, destination_id: str) -> str | None:
    """The address for a test. None without a rule of the member, or a verified address."""
    async with facts.connection() as connection:
        about = {"project_id": project_id, "id": destination_id}
        rows = await (await connection.execute(_ADDRESS, about)).fetchall()
    return rows[0][0] if rows else None


# The link that ends mail: a sealed token that names a member's rule, and does nothing else. It needs no sign-in.

UNSUBSCRIBE = "unsubscribe"


class UnsubscribeToken(NamedTuple):
    """The rule that a link removes."""

    project_id: str
    destination_id: str
    member_id: str


def make_token(key: bytes, named: UnsubscribeToken) -> str:
    """Make the token of a link."""
    sealed = seal(key, UNSUBSCRIBE, "", " ".join(named))
    assert sealed is not None, "there is a key"
    return sealed.translate(str.maketrans("+/", "-_")).rstrip("=")


def read_token(key: bytes | None, token: str) -> UnsubscribeToken | None:
    """Read a token. None for anything else, and for one of another key."""
    if not re.fullmatch("[A-Za-z0-9_-]{1,500}", token):
        return None
    padded = token.translate(str.maketrans("-_", "+/")) + "=" * (-len(token) % 4)
    try:
        opened = unseal(key, UNSUBSCRIBE, "", padded)
    except ValueError:  # too short, or no base64
        return None
    return None if opened is None else UnsubscribeToken(*opened.split(" "))


# The letter: headers of ours, and a text that has no markup.

MOST_OF_WORD = 45
"""Bytes of an encoded word, which becomes 75 characters with what is around it (RFC 2047)."""


class Letter(NamedTuple):
    """A letter on its way. `body` is as `message.mail` laid it out, and the same at every attempt."""

    delivery: str
    body: bytes
    sender: str
    recipient: str
    unsubscribe: str


def written(letter: Letter, host: str) -> bytes:
    """Write a letter in ASCII with its headers, from a host. Raises ValueError for a header that is none."""
    said = msgspec.json.decode(letter.body)
    text = f"{said['text']}\n\n-- \nYou have asked for this with a rule of your own. End it: {letter.unsubscribe}\n"
    headers = {
        "From": letter.sender,
        "To": letter.recipient,
        "Date": formatdate(),
        "Message-ID": f"<{letter.delivery}@{host}>",
        "Auto-Submitted": "auto-generated",
        "List-Unsubscribe": f"<{letter.unsubscribe}>",
        "List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
        "Subject": _encoded(said["subject"]),
        "MIME-Version": "1.0",
        "Content-Type": 'text/plain; charset="utf-8"',
        "Content-Transfer-Encoding": "quoted-printable",
    }
    if not all(re.fullmatch(r"[ -~]+(?:\r\n [!-~]+)*", value) for value in headers.values()):
        raise ValueError("a header holds what ends its line")
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return head.encode() + b"\r\n" + b2a_qp(text.replace("\n", "\r\n").encode())


def _encoded(subject: str) -> str:
    """A subject in words of base64, each of whole characters. The library takes a fifth of a second for a long one."""
    words = [b""]
    for sign in subject:
        added = sign.encode()
        if len(words[-1]) + len(added) > MOST_OF_WORD:
            words.append(b"")
        words[-1] += added
    return "\r\n ".join(f"=?utf-8?b?{base64.b64encode(word).decode()}?=" for word in words)


class Mailer:
    """Sends letters by the operator's mail server."""

    def __init__(self, settings: Settings, guard: Guard) -> None:
        self._settings = settings
        self._guard = guard
        self._host = urlsplit(settings.base_url).hostname or "localhost"

    async def send(self, rule: UnsubscribeToken, address: str | None, delivery: str, body: bytes) -> AttemptOutcome:
        """Make one attempt at the address of the member who has a rule."""
        settings = self._settings
        if settings.smtp_url is None or settings.smtp_sender is None or settings.encryption_key is None:
            return AttemptOutcome(None, NO_SERVER)
        if address is None or not is_mail_address(address):
            return AttemptOutcome(None, NO_ADDRESS)
        token = make_token(settings.encryption_key, rule)
        link = f"{settings.base_url}/{UNSUBSCRIBE}/{token}"
        letter = Letter(delivery, body, settings.smtp_sender, address, link)
        return await deliver(self._guard, settings.smtp_url, letter, self._host)


# One attempt by SMTP (RFC 5321), within SECONDS in all.

MOST_LINES = 100
"""Lines of one reply."""
READY, DONE, GO_ON, LOGGED_IN, SEND_IT = 220, 250, 334, 235, 354
FOR_GOOD = 500


class _Refused(Exception):
    """The server has refused a step, or sent what is no reply."""

    def __init__(self, step: str, code: int | None) -> None:
        super().__init__(step)
        self.step = step
        self.code = code

    def outcome(self) -> AttemptOutcome:
        """What to note. Only a recipient that is refused for good ends a destination."""
        if self.code is None:
            return AttemptOutcome(None, "The mail server sent what is no reply.")
        ended = self.step == "the recipient" and self.code >= FOR_GOOD
        return AttemptOutcome(self.code, f"The mail server answered {self.step} with {self.code}.", ended=ended)


async def deliver(guard: Guard, server: MailServer, letter: Letter, host: str) -> AttemptOutcome:
    """Deliver a letter, and judge the attempt."""
    try:
        content = written(letter, host)
    except ValueError:
        return AttemptOutcome(None, "The message cannot be written as a mail.")
    until = asyncio.get_running_loop().time() + SECONDS
    target = take_apart(f"{'https' if server.tls == 'at_once' else 'http'}://{_authority(server)}")
    try:
        async with asyncio.timeout_at(until):
            stream = await guard.open(target, until)
            if isinstance(stream, NotReceived):
                return AttemptOutcome(None, stream.sentence)
            session = _Session(stream)
            try:
                return await session.carry(guard, server, letter, content, host)
            finally:
                session.abort()
    except TimeoutError:
        return AttemptOutcome(None, NotReceived("timeout").sentence)


def _authority(server: MailServer) -> str:
    return f"[{server.host}]:{server.port}" if ":" in server.host else f"{server.host}:{server.port}"


class _Session:
    """A conversation over a connection."""

    def __init__(self, stream: Stream) -> None:
        self._reader, self._writer = stream

    def abort(self) -> None:
        """Close the connection. Nobody waits for the other side's farewell."""
        self._writer.transport.abort()

    async def carry(
        self, guard: Guard, server: MailServer, letter: Letter, content: bytes, host: str
    ) -> AttemptOutcome:
        """Go through all steps. The letter is delivered once the server has accepted its end."""
        try:
            await self._expect("the connection", READY)
            offers = await self._ask("the greeting", f"EHLO {host}", DONE)
            if server.tls == "by_command":
                failed = await self._begin_tls(guard, server, offers)
                if failed is not None:
                    return failed
                offers = await self._ask("the greeting", f"EHLO {host}", DONE)
            if server.login is not None:
                await self._log_in(offers, *server.login)
            await self._ask("the sender", f"MAIL FROM:<{letter.sender}>", DONE)
            await self._ask("the recipient", f"RCPT TO:<{letter.recipient}>", DONE)
            await self._ask("the message", "DATA", SEND_IT)
            stuffed = re.sub(rb"(?m)^\.", b"..", content).removesuffix(b"\r\n")
            self._writer.write(stuffed + b"\r\n.\r\n")
            await self._writer.drain()
            await self._expect("the message", DONE)
        except _Refused as refused:
            return refused.outcome()
        except (OSError, asyncio.IncompleteReadError):
            return AttemptOutcome(None, NotReceived("closed").sentence)
        self._writer.write(b"QUIT\r\n")
        return AttemptOutcome(DONE, None)

    async def _begin_tls(self, guard: Guard, server: MailServer, offers: Sequence[str]) -> AttemptOutcome | None:
        if "STARTTLS" not in offers:
            return AttemptOutcome(None, "The mail server offers no TLS.")
        await self._ask("TLS", "STARTTLS", READY)
        stream = await guard.secure((self._reader, self._writer), server.host)
        if isinstance(stream, NotReceived):
            return AttemptOutcome(None, stream.sentence)
        self._reader, self._writer = stream
        return None

    async def _log_in(self, offers: Sequence[str], user: str, password: str) -> None:
        """Log in by PLAIN, or by LOGIN where there is no other."""
        mechanisms = next((offer.split()[1:] for offer in offers if offer.startswith("AUTH ")), [])
        if "PLAIN" in mechanisms or "LOGIN" not in mechanisms:
            both = f"\x00{user}\x00{password}"
            await self._ask("the password", f"AUTH PLAIN {_base64(both)}", LOGGED_IN)
            return
        await self._ask("the password", "AUTH LOGIN", GO_ON)
        await self._ask("the password", _base64(user), GO_ON)
        await self._ask("the password", _base64(password), LOGGED_IN)

    async def _ask(self, step: str, line: str, wanted: int) -> list[str]:
        self._writer.write(f"{line}\r\n".encode("ascii"))
        await self._writer.drain()
        return await self._expect(step, wanted)

    async def _expect(self, step: str, wanted: int) -> list[str]:
        """Read a reply, and return its lines in capitals. Raises _Refused for another code than the wanted one."""
        lines: list[str] = []
        while len(lines) < MOST_LINES:
            try:
                line = (await self._reader.readuntil(b"\n")).decode("latin-1").rstrip("\r\n")
            except asyncio.LimitOverrunError:
                break
            if not re.fullmatch(r"[2-5][0-9]{2}(?:[ -].*)?", line):
                break
            lines.append(line[4:].upper())
            if line[3:4] != "-":
                if int(line[:3]) != wanted:
                    raise _Refused(step, int(line[:3]))
                return lines
        raise _Refused(step, None)


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
