"""Declarations of pages and forms, and their answers."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Generic, TypeVar

from service.console.kit.fields import Fields
from service.console.kit.visit import Visit


@dataclass(frozen=True, slots=True)
class View:
    """A page: a template with facts for it.

    `state` is the ground of a person's decision, as label and text. Forms carry it along, so a stale one shows the
    changes since. `project_id` puts the page into the frame of a project. `follows` are streams: the page shows their
    changes by itself. What is in no stream is read anew every so many seconds, 0 for never. `status` is that of HTTP.
    """

    template: str
    title: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    project_id: str | None = None
    state: Mapping[str, str] = field(default_factory=dict)
    follows: Sequence[str] = ()
    every: int = 0
    status: int = 200


@dataclass(frozen=True, slots=True)
class Redirect:
    """Leads to another page of the console. `done` is the id of the operation carried out."""

    place: str
    done: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Download:
    """A file for the person to keep, in place of a page."""

    body: bytes
    name: str


Show = Callable[[Visit], Awaitable[View | Download]]
Take = Callable[[Visit, Fields], Awaitable[View | Redirect]]
F = TypeVar("F", Show, Take)


@dataclass(frozen=True, slots=True)
class Answerer(Generic[F]):
    """A function for an address below `/console`, such as `projects/{project_id}/cases`.

    `section` is its entry in the navigation of a project.
    """

    address: str
    section: str
    answer: F

    def match(self, place: str) -> Mapping[str, str] | None:
        """The values of the address in a place. None for another place."""
        found = _pattern(self.address).fullmatch(place)
        return None if found is None else found.groupdict()


@cache
def _pattern(address: str) -> re.Pattern[str]:
    """The pattern of the places of an address."""
    return re.compile(re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", re.escape(address)))


Page = Answerer[Show]
Form = Answerer[Take]


def page(address: str, *, section: str = "") -> Callable[[Show], Page]:
    """Declare a function as a page."""
    return lambda show: Answerer(address, section, show)


def form(address: str, *, section: str = "") -> Callable[[Take], Form]:
    """Declare a function as the taker of a form."""
    return lambda take: Answerer(address, section, take)
