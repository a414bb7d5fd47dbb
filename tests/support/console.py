"""A browser without scripts for the console: it keeps its cookie, reads pages, and sends the forms that it sees."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import NamedTuple
from urllib.parse import urlencode, urlsplit

import httpx2

from tests.support.api import Person
from tests.support.html import HtmlPage

COOKIE = "service_session"


class ShownForm(NamedTuple):
    """A form of a page: where it goes, how, and its fields with their values."""

    action: str
    method: str
    fields: list[tuple[str, str]]
    text: str

    def value(self, name: str) -> str:
        """The value of a field."""
        return dict(self.fields)[name]


class _Forms(HTMLParser):
    """Finds the forms of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[ShownForm] = []
        self._area: str | None = None
        self._select: str | None = None
        self._text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        has = {name: value or "" for name, value in attrs}
        if tag == "form":
            self.found.append(ShownForm(has.get("action", ""), has.get("method", "get"), [], ""))
        if not self.found:
            return
        fields = self.found[-1].fields
        if tag == "input" and "name" in has and has.get("type") not in {"checkbox", "radio"}:
            fields.append((has["name"], has.get("value", "")))
        elif tag == "input" and "name" in has and "checked" in has:
            fields.append((has["name"], has.get("value", "on")))
        elif tag == "textarea":
            self._area, self._text = has["name"], ""
        elif tag == "select":
            self._select = has["name"]
        elif tag == "option" and self._select is not None:
            names = [name for name, _ in fields]
            if "selected" in has or self._select not in names:
                fields[:] = [pair for pair in fields if pair[0] != self._select]
                fields.append((self._select, has.get("value", "")))

    def handle_endtag(self, tag: str) -> None:
        if tag == "textarea" and self._area is not None:
            self.found[-1].fields.append((self._area, self._text.removeprefix("\n")))
            self._area = None
        elif tag == "select":
            self._select = None

    def handle_data(self, data: str) -> None:
        if self._area is not None:
            self._text += data


class Shown(NamedTuple):
    """A page as it came: its status, its address, its text in HTML, and its parts."""

    status: int
    address: str
    html: str
    page: HtmlPage
    forms: list[ShownForm]

    @property
    def text(self) -> str:
        """The words of the page, without its tags."""
        return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", self.html))

    def form(self, operation: str, **having: str) -> ShownForm:
        """The form of an operation, of several the one whose fields have these values."""
        found = [one for one in self.forms if one.action == f"/console/do/{operation}"]
        wanted = [one for one in found if having.items() <= dict(one.fields).items()]
        assert wanted, f"no form of {operation} in {self.address}, but {[one.action for one in self.forms]}"
        return wanted[0]


class Browser:
    """A browser of one person."""

    def __init__(self, client: httpx2.AsyncClient, secret: str) -> None:
        self.client = client
        self.secret = secret

    async def open(self, place: str, status: int = 200) -> Shown:
        """Open a page of the console by its place, such as `projects/…/cases?status=open`."""
        address = f"/console/{place}".rstrip("/")
        answer = await self.client.get(address, headers=self._headers())
        assert answer.status_code == status, f"{answer.status_code} {answer.text}"
        return shown(answer)

    async def send(self, form: ShownForm, status: int = 200, **entered: str) -> Shown:
        """Send a form as it stands but for what was `entered`, and follow where it leads."""
        fields = [(name, entered.pop(name, value)) for name, value in form.fields]
        return await self.post(form.action, [*fields, *entered.items()], status)

    async def forge(self, form: ShownForm, status: int = 403, **entered: str) -> Shown:
        """Send a form of somebody else's page with the token of this browser, as one who may not see it could."""
        token = (await self.open("")).forms[0].value("_csrf")
        return await self.send(form, status, _csrf=token, **entered)

    async def post(self, action: str, fields: list[tuple[str, str]], status: int = 200) -> Shown:
        """Send fields to an address, and follow where it leads."""
        headers = {**self._headers(), "content-type": "application/x-www-form-urlencoded", "origin": self.origin}
        answer = await self.client.post(action, content=urlencode(fields), headers=headers)
        if answer.status_code == 303:
            answer = await self.client.get(answer.headers["location"], headers=self._headers())
        assert answer.status_code == status, f"{answer.status_code} {answer.text}"
        return shown(answer)

    @property
    def origin(self) -> str:
        """The origin of the service."""
        base = urlsplit(str(self.client.base_url))
        return f"{base.scheme}://{base.netloc}"

    def _headers(self) -> dict[str, str]:
        return {"cookie": f"{COOKIE}={self.secret}"}


def shown(answer: httpx2.Response) -> Shown:
    """The page of an answer. Fails on an element left open, on inline scripts and styles, and on other hosts."""
    page = HtmlPage(answer.text)
    assert page.inline in (["script", "script"], []), page.inline
    assert all(address.startswith("/console/assets/") for address in page.loaded), page.loaded
    return Shown(answer.status_code, str(answer.request.url), answer.text, page, _Forms(answer.text).found)


async def browser_of(person: Person) -> Browser:
    """A browser in which a person has signed in."""
    return Browser(person.client, (await person.open_session()).secret)
