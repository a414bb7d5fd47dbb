"""Messages to chats and to people by mail: what they say, and their layout for each kind. Pure.

Two texts come from elsewhere: the title of a case, and a runner's summary of what it wants to do. Whoever sends an
error writes the first. So neither may mention anybody, link anywhere or be set in bold. `plain` takes controls and
invisible characters out, and parts what chats look for by a space of no width. Each layout then puts them where the
chat reads no markup, or escapes what is left of it. Everything else is a text of ours, or a number.
"""

import re
import unicodedata
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

MAX_TITLE = 200
MAX_SUMMARY = 500
MAX_MESSAGE_BYTES = 16_000
APART = "\u200b"
"""A space of no width."""

_CALLS = re.compile(r"[@#~<>:&{./!|](?=\S)")
"""What may begin or hold a mention, a channel, a link, an entity or a sign by name. Behind each comes APART."""
_MARKUP = re.compile(r"[\\`*_{}\[\]()<>#+\-.!|~]")
"""What Discord and Mattermost show as it is behind a backslash."""


class ChatMessage(NamedTuple):
    """A message. `heading`, `facts` and `link` are ours. `title` and `summary` come from elsewhere."""

    heading: str
    link: str
    facts: tuple[tuple[str, str], ...] = ()
    title: str | None = None
    summary: str | None = None

    @property
    def line(self) -> str:
        """Its facts in a line."""
        return ", ".join(f"{name}: {value}" for name, value in self.facts)

    def quoted(self, made: Callable[[str], str]) -> list[str]:
        """The texts from elsewhere, made ready by a function. A summary is told to be one."""
        title = plain(self.title or "", MAX_TITLE)
        summary = plain(self.summary or "", MAX_SUMMARY)
        return [text for text in (made(title), summary and f"Summary by the runner: {made(summary)}") if text]


def plain(text: str, longest: int) -> str:
    """Return a text in one line, with nothing invisible in it, cut to a length, whose signs call nobody."""
    shown = "".join(" " if _is_blank(sign) else sign for sign in text if _is_blank(sign) or _is_visible(sign))
    words = " ".join(shown.split())
    cut = words if len(words) <= longest else words[: longest - 1] + "…"
    return _CALLS.sub(lambda found: found[0] + APART, cut)


def _is_blank(sign: str) -> bool:
    return sign.isspace() or unicodedata.category(sign) == "Cc"


def _is_visible(sign: str) -> bool:
    """Neither a control, nor one of direction, nor unassigned or private."""
    return not unicodedata.category(sign).startswith("C")


def escaped(text: str) -> str:
    """Return a text as Markdown that shows it as it is."""
    return _MARKUP.sub(r"\\\g<0>", text)


def as_it_is(text: str) -> str:
    """Return a text for a place without markup."""
    return text


def slack(message: ChatMessage) -> dict[str, Any]:
    """Blocks of Slack. Texts from elsewhere are plain_text, which has no markup. `text` is for small screens."""
    told = message.quoted(as_it_is)
    blocks: list[dict[str, Any]] = [
        {"type": "header", "text": {"type": "plain_text", "text": message.heading, "emoji": False}}
    ]
    blocks += [{"type": "section", "text": {"type": "plain_text", "text": one, "emoji": False}} for one in told]
    if message.facts:
        facts = {"type": "plain_text", "text": message.line, "emoji": False}
        blocks.append({"type": "context", "elements": [facts]})
    blocks.append({"type": "section", "text": {"type": "mrkdwn", "text": f"<{message.link}|Open it>"}})
    return {"text": message.heading, "blocks": blocks, "unfurl_links": False, "unfurl_media": False}


def teams(message: ChatMessage) -> dict[str, Any]:
    """An adaptive card in a message of Teams. Runs of text have no markup, as blocks of text have."""
    body: list[dict[str, Any]] = [{"type": "TextBlock", "text": message.heading, "weight": "Bolder", "wrap": True}]
    body += [
        {"type": "RichTextBlock", "inlines": [{"type": "TextRun", "text": one}]} for one in message.quoted(as_it_is)
    ]
    if message.facts:
        facts = [{"title": name, "value": value} for name, value in message.facts]
        body.append({"type": "FactSet", "facts": facts})
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": body,
        "actions": [{"type": "Action.OpenUrl", "title": "Open it", "url": message.link}],
    }
    attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": None, "content": card}
    return {"type": "message", "attachments": [attachment]}


def discord(message: ChatMessage) -> dict[str, Any]:
    """An embed of Discord. It parses no mention."""
    embed: dict[str, Any] = {"title": message.heading, "url": message.link}
    if told := message.quoted(escaped):
        embed["description"] = "\n".join(told)
    if message.facts:
        embed["fields"] = [{"name": name, "value": value, "inline": True} for name, value in message.facts]
    return {"embeds": [embed], "allowed_mentions": {"parse": []}}


def mattermost(message: ChatMessage) -> dict[str, Any]:
    """An attachment of Mattermost, whose texts are Markdown."""
    lines = message.quoted(escaped)
    attachment: dict[str, Any] = {
        "fallback": message.heading,
        "title": message.heading,
        "title_link": message.link,
        "text": "\n".join(lines),
    }
    if message.facts:
        attachment["fields"] = [{"title": name, "value": value, "short": True} for name, value in message.facts]
    return {"attachments": [attachment]}


def mail(message: ChatMessage) -> dict[str, Any]:
    """Subject and text of a mail, without markup. The letter around it is made at each attempt."""
    told = message.quoted(as_it_is)
    title = plain(message.title or "", MAX_TITLE)
    lines = [message.heading, *told, *(f"{name}: {value}" for name, value in message.facts)]
    text = "\n\n".join(("\n".join(lines), f"Open it: {message.link}"))
    return {"subject": f"{message.heading}: {title}" if title else message.heading, "text": text}


LAYOUTS: Mapping[str, Callable[[ChatMessage], dict[str, Any]]] = {
    "slack": slack,
    "teams": teams,
    "discord": discord,
    "mattermost": mattermost,
    "mail": mail,
}
"""By the kind of the destination."""


def laid_out(kind: str, message: ChatMessage) -> bytes:
    """The body of a message for a kind of destination."""
    return msgspec.json.encode(LAYOUTS[kind](message))


def test_message(base_url: str, project_id: str) -> ChatMessage:
    """The message of a test."""
    return ChatMessage("A test of your notifications", f"{base_url}/console/projects/{project_id}/notifications")
