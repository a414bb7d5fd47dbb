"""No message of MCP and no first reader of a text keeps the event loop, and what is made is made once (P25, G-168)."""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx2
import msgspec
import pytest
import pytest_asyncio

from service.discovery import manifest
from service.fairness.bounds import Weighted
from service.http.discovery import entry, facts, guides, shelf
from service.http.document import openapi
from service.http.mcp import kit
from service.http.mcp.kit import Kit
from service.http.mcp.tools import MOST_FOUND
from service.http.mcp.use import LONGEST_WORDS
from tests.service.cli.test_copies import service_on, settings_for, sign_in
from tests.service.http.mcp.steps import measured_steps, too_long
from tests.support.api import Api
from tests.support.mcp import Agent

MANY = 24
"""Messages that come first, at once."""
PUBLIC = ("/service.md", "/v1/openapi.json", "/v1/openapi.json?index=true", "/docs", "/docs/search?q=run", "/llms.txt")


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often this process made each of its texts, documents and kits: it begins without any."""
    counted: Counter[str] = Counter()

    def count(module: Any, name: str, named: Callable[..., str]) -> None:
        make = getattr(module, name)

        def counting(*args: Any, **more: Any) -> Any:
            counted[named(*args)] += 1
            return make(*args, **more)

        monkeypatch.setattr(module, name, counting)

    for module in (manifest, facts):
        count(module, "render", lambda name, _: name)
    count(kit, "make", lambda *_: "kit")
    count(openapi, "build_document", lambda *_: "document")
    count(entry, "_render", lambda _, __, query: f"schema {query}")
    monkeypatch.setattr(kit, "_kits", dict[str, Kit]())
    monkeypatch.setattr(guides, "_rendered", Weighted(lambda _: 1, max_bytes=1000))
    monkeypatch.setattr(entry, "_selections", Weighted(lambda _: 1, max_bytes=1000))
    for cached in (facts.bound, facts.operations, facts.text, facts.privacy, shelf.library):
        cached.cache_clear()
    manifest._environment.cache_clear()
    return counted


@pytest_asyncio.fixture
async def client(made: Counter[str], database_url: str) -> AsyncIterator[httpx2.AsyncClient]:
    """The whole API in this process, which has made nothing yet."""
    settings = msgspec.structs.replace(settings_for(database_url), base_url="http://service")
    async with service_on(settings) as client:
        yield client


@pytest_asyncio.fixture
async def agent(client: httpx2.AsyncClient, made: Counter[str]) -> Agent:
    """A caller that is signed in. The judge of its answers has made a document of its own, which does not count."""
    caller = Api(client, await sign_in(client))
    made.clear()
    return Agent(caller)


async def test_the_first_messages_share_one_kit(client: httpx2.AsyncClient, agent: Agent, made: Counter[str]) -> None:
    """However many come before it is made. It is made once, and not by the loop."""
    one = {"name": "find_operation", "arguments": {"words": "usage"}}
    with measured_steps(client) as steps:
        sent = [agent.send("tools/list") for _ in range(MANY // 2)]
        sent += [agent.send("tools/call", one) for _ in range(MANY // 2)]
        answers = await asyncio.gather(*sent)
    assert {answer.status_code for answer in answers} == {200}
    assert (made["kit"], made["document"]) == (1, 1)
    assert too_long(steps) == []


@pytest.mark.parametrize("path", PUBLIC)
async def test_the_first_readers_share_one_text(client: httpx2.AsyncClient, made: Counter[str], path: str) -> None:
    """Each text of a new process is made once for all who ask meanwhile, and not by the loop."""
    with measured_steps(client) as steps:
        answers = await asyncio.gather(*(client.get(path) for _ in range(MANY)))
    assert {answer.status_code for answer in answers} == {200}
    made.pop("pages/search.html", None)  # of each search
    assert set(made.values()) == {1}, made
    assert too_long(steps) == []


async def test_no_tool_over_all_reads_keeps_the_loop(client: httpx2.AsyncClient, agent: Agent) -> None:
    """The dearest words that there are, and the longest description, time after time."""
    await agent.use("find_operation")
    [found] = kit._kits.values()
    longest = max(found.described, key=lambda name: len(found.described[name]))
    beginnings = dict.fromkeys(word[:3] for one in found.indexes.values() for word in one._index._words)
    words = " ".join(sorted(beginnings, key=lambda word: -len(next(iter(found.indexes.values()))._index._fits(word))))
    with measured_steps(client) as steps:
        for _ in range(5):
            await agent.get("find_operation", words=words[:LONGEST_WORDS], limit=MOST_FOUND)
            described = await agent.get("describe", operation=longest)
            await agent.get("describe", operation=longest, cursor=described["cursor"])
        found_and_described = sum(seconds for seconds, _ in steps)
        await agent.get("read", operation="get_openapi", parameters={"index": True})
        await agent.get("read", operation="get_openapi")
    assert too_long(steps) == []
    assert found_and_described / 15 < 0.01


async def test_each_description_is_made_with_the_kit(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    """Afterwards a call of `describe` or `find_operation` looks up what is there."""
    await agent.use("find_operation")

    def fail(*_: Any) -> Any:
        raise AssertionError

    monkeypatch.setattr(kit, "describe", fail)
    monkeypatch.setattr(kit, "ReadIndex", fail)
    described = await agent.read("describe", operation="list_deploys")
    assert described["path"] == "/v1/projects/{project_id}/deploys"
    assert (await agent.read("find_operation", words=secrets.token_hex(4)))["count"] == 0
