"""The ways on from every page, for each role: each link leads to a page, and each form to what the role may do."""

from __future__ import annotations

import pytest

from scripts.permissions import in_project
from service.auth.authority import permits
from statemachines.accounts.membership import Role
from tests.support import seen
from tests.support.console import Shown, shown
from tests.support.fullscene import FullScene
from tests.support.intruding import operations

pytestmark = [pytest.mark.shares_server, pytest.mark.timeout(300)]

DO = "/console/do/"


class Walk:
    """A person who looks at every page that their role may see."""

    def __init__(self, full: FullScene, who: str) -> None:
        self.known: dict[str, int] = {}
        self.pages: list[Shown] = []
        headers = {"cookie": f"service_session={full.session(who)}"}
        with seen.client(full.at.server.base_url, headers=headers, timeout=60) as self.client:
            for place in full.places():
                answer = self.client.get(f"/console/{place.place}".rstrip("/"))
                self.known[f"/console/{place.place}".rstrip("/")] = answer.status_code
                if answer.status_code == 200:
                    self.pages.append(shown(answer))
            self.dead = {page.address: self._dead(page) for page in self.pages}

    def _dead(self, page: Shown) -> list[str]:
        """The links of a page that lead to no page."""
        links = [link for link in page.page.links if link.startswith("/")]
        return [link for link in links if self._status(link) != 200]

    def _status(self, link: str) -> int:
        if link not in self.known:
            self.known[link] = self.client.get(link).status_code
        return self.known[link]


@pytest.mark.parametrize("role", [Role.OWNER, Role.MEMBER, Role.AUDITOR])
def test_no_way_on_ends_in_a_refusal(full: FullScene, role: Role) -> None:
    walk = Walk(full, role.value)
    assert len(walk.pages) > 30
    assert {address: dead for address, dead in walk.dead.items() if dead} == {}
    offered = {(page.address, form.action.removeprefix(DO)) for page in walk.pages for form in page.forms}
    refused = {(address, name) for address, name in offered if name in operations() and not _may(role, name)}
    assert refused == set()
    if role is Role.AUDITOR:
        posts = {
            form.action for page in walk.pages if _in_project(page) for form in page.forms if form.method == "post"
        }
        assert posts == {"/console/leave"}


def _may(role: Role, name: str) -> bool:
    """Whether people with a role may call an operation; those that name no project are open to all people."""
    return not in_project(operations()[name]) or permits(operations()[name], role)


def _in_project(page: Shown) -> bool:
    return any(f"/console/{kind}/" in page.address for kind in ("projects", "cases", "runs", "streams"))
