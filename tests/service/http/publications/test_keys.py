"""The keys of public queries: which requests are let in, in whatever combination they show keys (R-PUB-03, G-163)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import few_or_many
from tests.support.accounts import sign_in
from tests.support.server import ServerHandle

pytestmark = pytest.mark.shares_server

RIGHT, OTHER, SERVICE, EMPTY = "right", "other", "service", "empty"


class Scene:
    """A publication, another one of the same project, and a live API key."""

    def __init__(self, client: httpx2.Client, owner: str) -> None:
        self.client = client
        as_owner = {"authorization": f"Bearer {owner}"}
        project = client.post("/v1/projects", json={"name": "keys"}, headers=as_owner).json()["id"]
        self.home = f"/v1/projects/{project}/public-queries"
        made, other = (
            client.post(self.home, json={"blueprint_id": "top-events"}, headers=as_owner).json() for _ in range(2)
        )
        self.path = f"/v1/public/q/{made['publication_id']}"
        self.secrets = {RIGHT: made["publishable_key"], OTHER: other["publishable_key"], SERVICE: owner, EMPTY: ""}
        self.whole = client.get(self.path).content

    def get(self, query: str = "", headers: list[tuple[str, str]] | None = None) -> httpx2.Response:
        return self.client.get(self.path + (f"?{query}" if query else ""), headers=headers or [])


@pytest.fixture(scope="module")
def scene(server: ServerHandle) -> Iterator[Scene]:
    with server.client() as client:
        yield Scene(client, sign_in(client, server.internal_token, "keys-of-publications"))


def check(scene: Scene, reply: httpx2.Response, *, let_in: bool) -> None:
    """The rows, or the one refusal."""
    if let_in:
        assert (reply.status_code, reply.content) == (200, scene.whole)
        return
    assert reply.status_code == 401
    assert reply.json()["error"]["code"] == "invalid_publishable_key"
    assert reply.headers["www-authenticate"] == "Bearer"
    assert reply.headers["cache-control"] == "no-store"
    assert reply.headers["access-control-allow-origin"] == "*"
    assert not any(secret in reply.text for secret in scene.secrets.values() if secret)


@pytest.mark.parametrize(
    ("query", "headers", "let_in"),
    [
        ("", [], True),
        ("key={right}", [], True),
        ("", [("authorization", "Bearer {right}")], True),
        ("", [("authorization", "bEARER   {right}")], True),
        ("key={right}", [("authorization", "Bearer {right}")], True),
        ("key={right}&key={right}", [], True),
        ("k%65y={right}", [], True),
        ("key={other}", [], False),
        ("", [("authorization", "Bearer {other}")], False),
        ("", [("authorization", "Bearer {service}")], False),
        ("key={service}", [], False),
        ("key={right}&key={other}", [], False),
        ("key={right}", [("authorization", "Bearer {other}")], False),
        ("key={right}", [("authorization", "Bearer {service}")], False),
        ("key={other}", [("authorization", "Bearer {right}")], False),
        ("key=", [], False),
        ("key", [], False),
        ("", [("authorization", "Bearer")], False),
        ("", [("authorization", "Bearer {right}"), ("authorization", "Bearer {right}")], False),
        ("", [("authorization", "Bearer {right} more")], False),
        ("key=%00{right}", [], False),
        ("key={right}%ff", [], False),
        ("key=" + "x" * 4000, [], False),
        ("key=agp_%C3%A9", [], False),
        ("", [("authorization", "Basic {right}")], True),
        ("", [("x-service-dsn", "{other}")], True),
        ("KEY={other}", [], True),
        ("limit=1&limit=2&as_of=1&as_of=x&project_id=p&days=90&query=select", [], True),
        ("%ff%fe=%zz&&&=&;", [], True),
        ("&".join(f"a{n}=1" for n in range(500)), [], True),
        ("&".join(f"a{n}=1" for n in range(500)) + "&key={other}", [], False),
    ],
)
def test_a_key_is_right_or_refused(scene: Scene, query: str, headers: list[tuple[str, str]], let_in: bool) -> None:
    """Every key and every Bearer that is shown must be that of the publication; all else is ignored."""
    sent = [(name, value.format(**scene.secrets)) for name, value in headers]
    check(scene, scene.get(query.format(**scene.secrets), sent), let_in=let_in)


SHOWN = st.sampled_from([RIGHT, OTHER, SERVICE, EMPTY])
NOISE = st.sampled_from(["limit=1", "as_of=5", "keys={other}", "key[]={other}", "&&", "%6bey2=1", "authorization=x"])


@given(bearer=st.none() | SHOWN, keys=st.lists(SHOWN, max_size=3), noise=st.lists(NOISE, max_size=3), data=st.data())
@few_or_many(25, 150)
def test_any_combination_is_judged_alike(
    scene: Scene, bearer: str | None, keys: list[str], noise: list[str], data: Any
) -> None:
    """Let in exactly when nothing is shown but the right key, however the parameters are mixed."""
    pieces = [f"key={quote(scene.secrets[key], safe='')}" for key in keys]
    pieces = data.draw(st.permutations([*pieces, *(piece.format(**scene.secrets) for piece in noise)]))
    headers = [] if bearer is None else [("authorization", f"Bearer {scene.secrets[bearer]}".strip())]
    shown = [*keys, *([] if bearer is None else [bearer])]
    check(scene, scene.get("&".join(pieces), headers), let_in=all(key == RIGHT for key in shown))


def test_no_key_is_in_the_log(scene: Scene, server: ServerHandle) -> None:
    """Neither as a parameter nor as a header, let in or refused."""
    for name in (RIGHT, OTHER):
        scene.get(f"key={scene.secrets[name]}")
        scene.get("", [("authorization", f"Bearer {scene.secrets[name]}")])
    log = server.log()
    assert "/v1/public/q/{publication_id}" in log
    assert not any(scene.secrets[name] in log for name in (RIGHT, OTHER, SERVICE))
    assert scene.path not in log
