"""How a page is declared, and what it shows."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from service.console.kit.fields import Fields
from service.console.kit.visit import Visit


@dataclass(frozen=True, slots=True)
class View:
    """What a page shows: a template with facts for it.

    `state` is what a person decides by, as label and text: forms carry it along, so that a stale one can say what
    changed since. `project_id` puts the page into the frame of a project. `follows` are the streams whose changes the
    page shows by itself. `status` is that of HTTP.
    """

    template: str
    title: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    project_id: str | None = None
    state: Mapping[str, str] = field(default_factory=dict)
    follows: Sequence[str] = ()
    status: int = 200


@dataclass(frozen=True, slots=True)
class Redirect:
    """Leads to another page of the console, which says what was `done`: the id of an operation."""

    place: str
    done: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)


Show = Callable[[Visit], Awaitable[View]]
Take = Callable[[Visit, Fields], Awaitable[View | Redirect]]
F = TypeVar("F", Show, Take)


@dataclass(frozen=True, slots=True)
class Answerer(Generic[F]):
    """A function that answers at an address below `/console`, such as `projects/{project_id}/cases`.

    `section` is the entry of the project's navigation under which a page stands.
    """

    address: str
    section: str
    answer: F

    def match(self, place: str) -> Mapping[str, str] | None:
        """The values of the address in a place. None for another place."""
        found = re.fullmatch(re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", re.escape(self.address)), place)
        return None if found is None else found.groupdict()


Page = Answerer[Show]
Form = Answerer[Take]


def page(address: str, *, section: str = "") -> Callable[[Show], Page]:
    """Declare the page that a function shows."""
    return lambda show: Answerer(address, section, show)


def form(address: str) -> Callable[[Take], Form]:
    """Declare the form that a function takes."""
    return lambda take: Answerer(address, "", take)
