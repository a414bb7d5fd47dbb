"""A mail server on loopback: a real one, which notes what it accepted and answers as a test wants."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any, NamedTuple, cast

from aiosmtpd.smtp import SMTP, AuthResult, LoginPassword


class Taken(NamedTuple):
    """A letter as the server accepted it."""

    sender: str
    recipients: list[str]
    content: bytes
    at: float

    @property
    def letter(self) -> EmailMessage:
        """The letter, parsed."""
        return cast("EmailMessage", message_from_bytes(self.content, policy=policy.default))

    @property
    def text(self) -> str:
        return str(self.letter.get_content())


class PostOffice:
    """What becomes of letters. `replies` are answers to a step in place of the usual ones: MAIL, RCPT or DATA."""

    def __init__(self) -> None:
        self.taken: list[Taken] = []
        self.replies: dict[str, str] = {}
        self.logins: list[tuple[bytes, bytes]] = []
        self.port = 0

    async def until_taken(self, number: int, seconds: float = 20) -> Taken:
        """Wait for so many letters, and return the last of these."""
        give_up = time.monotonic() + seconds
        while len(self.taken) < number:
            assert time.monotonic() < give_up, len(self.taken)
            await asyncio.sleep(0.02)
        return self.taken[number - 1]

    async def handle_MAIL(self, _: Any, __: Any, envelope: Any, address: str, options: list[str]) -> str:  # noqa: N802 - the library's name
        if "MAIL" not in self.replies:
            envelope.mail_from = address
            envelope.mail_options.extend(options)
        return self.replies.get("MAIL", "250 OK")

    async def handle_RCPT(self, _: Any, __: Any, envelope: Any, address: str, ___: list[str]) -> str:  # noqa: N802
        if "RCPT" not in self.replies:
            envelope.rcpt_tos.append(address)
        return self.replies.get("RCPT", "250 OK")

    async def handle_DATA(self, _: Any, __: Any, envelope: Any) -> str:  # noqa: N802
        if "DATA" in self.replies:
            return self.replies["DATA"]
        self.taken.append(Taken(envelope.mail_from, list(envelope.rcpt_tos), envelope.content, time.monotonic()))
        return "250 OK"

    def authenticate(self, _: Any, __: Any, ___: Any, ____: str, said: Any) -> AuthResult:
        """Let in whoever has the password "opensesame"."""
        assert isinstance(said, LoginPassword)
        self.logins.append((said.login, said.password))
        return AuthResult(success=said.password == b"opensesame", handled=False)


@asynccontextmanager
async def post_office(port: int = 0, *, tls: ssl.SSLContext | None = None, **options: Any) -> AsyncIterator[PostOffice]:
    """Run a mail server. With `tls` it offers STARTTLS, and requires it before all else."""
    office = PostOffice()
    sessions: list[SMTP] = []

    def serve() -> SMTP:
        made = SMTP(
            office,
            hostname="office.example",
            tls_context=tls,
            require_starttls=tls is not None,
            authenticator=office.authenticate,
            **options,
        )
        sessions.append(made)
        return made

    server = await asyncio.get_running_loop().create_server(serve, "127.0.0.1", port)
    office.port = server.sockets[0].getsockname()[1]
    try:
        yield office
    finally:
        server.close()
        for one in sessions:
            if one.transport is not None:
                one.transport.abort()
        await asyncio.sleep(0)  # until their sockets are closed
