"""The output of the demo: numbered steps, requests and answers."""

from __future__ import annotations

from typing import Any

import httpx2
from rich.console import Console
from rich.markup import escape

console = Console(highlight=False, soft_wrap=True)


class DemoFailed(Exception):
    """A step did not have the expected result; the message says which."""


class Stage:
    """Prints the parts and steps, and counts the steps."""

    def __init__(self) -> None:
        self.steps = 0

    def part(self, title: str) -> None:
        """Begin a part."""
        console.print(f"\n[bold cyan]── {escape(title)} ──[/bold cyan]")

    def step(self, title: str) -> None:
        """Begin a step."""
        self.steps += 1
        console.print(f"\n[bold]{self.steps:2}. {escape(title)}[/bold]")

    def say(self, text: str) -> None:
        """Explain."""
        console.print(f"    {escape(text)}")

    def show(self, label: str, value: object) -> None:
        """Show one fact."""
        console.print(f"    [dim]{escape(label)}:[/dim] {escape(str(value))}")

    def hear(self, who: str, line: str) -> None:
        """Print a line of another process."""
        console.print(f"    [cyan]{escape(who)}[/cyan] [dim]|[/dim] {escape(line)}")


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
            raise DemoFailed(f"{method} {path} got no answer: {error!r}") from error
        wanted = (expect,) if isinstance(expect, int) else expect
        colour = "green" if response.status_code in wanted else "red"
        if not quiet or response.status_code not in wanted:
            console.print(f"    {method} {escape(path)} [dim]->[/dim] [{colour}]{response.status_code}[/{colour}]")
        if response.status_code not in wanted:
            raise DemoFailed(f"{method} {path} answered {response.status_code}: {response.text[:500]}")
        if "json" not in response.headers.get("content-type", ""):
            return response.text
        return response.json()

    def close(self) -> None:
        """Close the connections."""
        self._client.close()
