"""The output of the demo: a story that fits a screen or two, and below it every step, request and answer.

The story goes to the terminal; with `verbose` every step and request does. A transcript is a file that gets all of it
either way, and the bodies of the requests and answers too.
"""

import re
from collections.abc import Iterable
from typing import IO, Any

import httpx2
import msgspec
from rich.console import Console
from rich.markup import escape

from service.testing.shop import WorldFailed

FILE_WIDTH = 200
_SECRET = re.compile(r"(service_[a-z]+_(?=[0-9A-Za-z]{43})|whsec_(?=\S{44})|agp_(?=\S{32}))[0-9A-Za-z+/=_-]+")
_SHOWN = r"\1…"


class Stage:
    """Prints chapters, story and details, and counts steps and requests."""

    def __init__(self, *, verbose: bool = False, transcript: IO[str] | None = None) -> None:
        self.chapters = self.steps = self.requests = 0
        terminal = Console(highlight=False, soft_wrap=True)
        self._terminal = terminal
        self._full = [terminal] if verbose else []
        self._files: list[Console] = []
        if transcript is not None:
            self._files.append(Console(file=transcript, highlight=False, soft_wrap=True, width=FILE_WIDTH))
            self._full += self._files
        self._all = self._full if verbose else [terminal, *self._full]

    def chapter(self, title: str) -> None:
        """Begin a chapter."""
        self.chapters += 1
        self._print(f"[bold cyan]{self.chapters}. {escape(title)}[/bold cyan]")

    def tell(self, sentence: str) -> None:
        """Go on with the story, by what has just happened."""
        self._print(f"   {escape(sentence)}")

    def hand_over(self, text: str) -> None:
        """Show something on the terminal alone, such as a link with a token."""
        self._terminal.print(escape(text))

    def draw(self, lines: Iterable[str]) -> None:
        """Show a picture."""
        for line in lines:
            self._print(f"     [green]{escape(line)}[/green]")

    def step(self, title: str) -> None:
        """Begin a step: a detail, as all below."""
        self.steps += 1
        self._print(f"\n[bold]{self.steps:2}. {escape(title)}[/bold]", detail=True)

    def say(self, text: str) -> None:
        """Explain."""
        self._print(f"    {escape(text)}", detail=True)

    def show(self, label: str, value: object) -> None:
        """Show one fact."""
        self._print(f"    [dim]{escape(label)}:[/dim] {escape(str(value))}", detail=True)

    def hear(self, who: str, line: str) -> None:
        """Print a line of another process."""
        self._print(f"    [cyan]{escape(who)}[/cyan] [dim]|[/dim] {escape(line)}", detail=True)

    def answered(self, method: str, path: str, body: Any, response: httpx2.Response, *, expected: bool) -> None:
        """Show a request and how it was answered, in a transcript with both bodies."""
        colour, status = "green" if expected else "red", response.status_code
        self._print(f"    {method} {escape(path)} [dim]->[/dim] [{colour}]{status}[/{colour}]", detail=True)
        sent = "" if body is None else msgspec.json.encode(body).decode()
        for console in self._files:
            for sign, text in ((">", sent), ("<", response.text)):
                for line in text.splitlines():
                    console.print(f"      {sign} {_SECRET.sub(_SHOWN, line)}", markup=False)

    def _print(self, text: str, *, detail: bool = False) -> None:
        for console in self._full if detail else self._all:
            console.print(text)


class Api:
    """The service over HTTP, as one principal. Every request is shown; an unexpected status ends the demo."""

    def __init__(self, base_url: str, secret: str | None, stage: Stage, name: str) -> None:
        headers = {"user-agent": f"service-demo/3 ({name})"}
        if secret is not None:
            headers["authorization"] = f"Bearer {secret}"
        self._client = httpx2.Client(base_url=base_url, headers=headers, timeout=20)
        self._stage = stage

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        expect: int | tuple[int, ...] = 200,
        quiet: bool = False,
        **headers: str,
    ) -> Any:
        """Send a request and return its JSON; header names use _ for -."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            response = self._client.request(method, path, json=body, headers=sent)
        except httpx2.HTTPError as error:
            raise WorldFailed(f"{method} {path} got no answer: {error!r}") from error
        wanted = (expect,) if isinstance(expect, int) else expect
        expected = response.status_code in wanted
        self._stage.requests += 1
        if not quiet or not expected:
            self._stage.answered(method, path, body, response, expected=expected)
        if not expected:
            raise WorldFailed(f"{method} {path} answered {response.status_code}: {response.text[:500]}")
        if "json" not in response.headers.get("content-type", ""):
            return response.text
        return response.json()

    def close(self) -> None:
        """Close the connections."""
        self._client.close()
