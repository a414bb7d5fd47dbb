"""A client of MCP, written with nothing but the protocol."""

from __future__ import annotations

from itertools import count
from typing import Any

import httpx2

from schemas.mcp import LEGACY, MODERN
from tests.support.api import Api

Json = dict[str, Any]

VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
META: Json = {
    VERSION_KEY: MODERN,
    "io.modelcontextprotocol/clientInfo": {"name": "tests", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
ACCEPT = "application/json, text/event-stream"
NAMED = {"tools/call": "name"}


def headers_of(method: str, params: Json, version: str = MODERN) -> dict[str, str]:
    """The headers that a message of this method has."""
    headers = {"accept": ACCEPT, "mcp-protocol-version": version, "mcp-method": method}
    if method in NAMED:
        headers["mcp-name"] = str(params.get(NAMED[method]))
    return headers


class Agent:
    """A client with the secret of a caller, of one revision of the protocol."""

    def __init__(self, api: Api, *, version: str = MODERN) -> None:
        self.api = api
        self.version = version
        self._ids = count(1)

    async def send(self, method: str, params: Json | None = None, **headers: str | None) -> httpx2.Response:
        """Send a request. A header is replaced by its name with underscores; None leaves it out."""
        params = dict(params or {})
        if self.version == MODERN:
            params.setdefault("_meta", META)
        sent = headers_of(method, params, self.version)
        sent |= {name.replace("_", "-"): value for name, value in headers.items() if value is not None}
        for name in (name.replace("_", "-") for name, value in headers.items() if value is None):
            sent.pop(name, None)
        body = {"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": params}
        answer = await self.api.post("/mcp", body, headers=sent)
        if answer.status_code in {200, 404} and "jsonrpc" in answer.json():
            assert answer.json()["id"] == body["id"]
        return answer

    async def result(self, method: str, params: Json | None = None) -> Json:
        """The result of a request."""
        answer = await self.send(method, params)
        assert answer.status_code == 200, answer.text
        result: Json = answer.json()["result"]
        return result

    async def use(self, tool: str, **arguments: Any) -> Json:
        """The result of a tool, refused or not."""
        result = await self.result("tools/call", {"name": tool, "arguments": arguments})
        [text] = result["content"]
        assert text["type"] == "text"
        return result

    async def get(self, tool: str, **arguments: Any) -> Json:
        """What a tool shows."""
        result = await self.use(tool, **arguments)
        assert "isError" not in result, result
        shown: Json = result["structuredContent"]
        return shown

    async def read(self, tool: str, **arguments: Any) -> Any:
        """The answer behind a tool."""
        return (await self.get(tool, **arguments))["answer"]


def legacy(api: Api) -> Agent:
    """A client of the revision before."""
    return Agent(api, version=LEGACY[0])
