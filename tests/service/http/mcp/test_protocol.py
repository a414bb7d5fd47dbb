"""The protocol of MCP without a server: whatever comes in, one answer of the protocol goes out (G-168)."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.mcp import BATCHED, LEGACY, MAX_BATCH_MESSAGES, MODERN, SUPPORTED, McpAnswer, McpRefusal
from service.http.mcp.protocol import METHOD_NOT_FOUND, NAMED, Declared, McpReply, Message, RpcFault, answer
from tests.support.mcp import META, VERSION_KEY, headers_of

Json = dict[str, Any]


async def _echo(message: Message) -> Json:
    return {"params": message.params, "revision": message.revision}


async def _refuse(_: Message) -> Json:
    raise RpcFault(-32602, "no", status=400, why="because")


DECLARED = Declared("toy", "1", "Use it.", {"tools": {}}, {"tools/call": _echo, "tools/list": _echo, "refuse": _refuse})


def told(raw: bytes, headers: Mapping[str, str]) -> McpReply:
    return asyncio.run(answer(raw, headers, DECLARED))


def ask(method: str, params: Json | None = None, *, request_id: Any = 1, **headers: str) -> McpReply:
    params = {"_meta": META, **(params or {})}
    body = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
    sent = headers_of(method, params) | {name.replace("_", "-"): value for name, value in headers.items()}
    return told(msgspec.json.encode(body), sent)


def code_of(found: McpReply) -> int:
    assert isinstance(found.message, McpRefusal)
    return found.message.error.code


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20)
"""What a body may hold."""
INTEGERS = st.integers(-(2**53) + 1, 2**53 - 1)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | INTEGERS | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=8,
)
WORDS = st.sampled_from(["2.0", "tools/list", "tools/call", "initialize", "ping", "nope", *SUPPORTED, "refuse"])
METAS = st.fixed_dictionaries({}, optional=dict.fromkeys(META, JSON_VALUES | WORDS))
PARAMS = st.fixed_dictionaries({}, optional={"_meta": METAS | JSON_VALUES, "name": WORDS | JSON_VALUES})
MESSAGES = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": WORDS | JSON_VALUES,
        "id": JSON_VALUES,
        "method": WORDS | JSON_VALUES,
        "params": PARAMS | JSON_VALUES,
        "result": JSON_VALUES,
    },
)
HEADERS = st.fixed_dictionaries(
    {},
    optional={
        "accept": st.sampled_from(["application/json", "text/event-stream", "*/*", ""]),
        "mcp-protocol-version": WORDS | TEXTS,
        "mcp-method": WORDS,
        "mcp-name": WORDS | st.just("=?base64?!?="),
    },
)


@given(st.binary(max_size=64) | (MESSAGES | JSON_VALUES).map(msgspec.json.encode), HEADERS)
def test_whatever_comes_in_is_answered(raw: bytes, headers: dict[str, str]) -> None:
    """With a status of the protocol, a message that can be written, and the id of the request if it has one."""
    found = told(raw, headers)
    assert found.status in {200, 202, 400, 404, 406}
    assert (found.message is None) == (found.status == 202)
    told_ones = found.message if isinstance(found.message, list) else [found.message] * (found.message is not None)
    assert all(one["jsonrpc"] == "2.0" for one in msgspec.json.decode(msgspec.json.encode(told_ones)))
    try:
        value = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        assert found.status in {400, 406}
        return
    for one in told_ones:
        if one.id is not msgspec.UNSET:
            assert one.id in [
                told_by["id"] for told_by in (value if isinstance(value, list) else [value]) if "id" in told_by
            ]


@given(TEXTS | INTEGERS, JSON_VALUES)
def test_a_good_request_gets_its_result_and_its_id(request_id: Any, value: Any) -> None:
    """Every id and every parameter comes back as it was sent."""
    found = ask("tools/list", {"value": value}, request_id=request_id)
    assert isinstance(found.message, McpAnswer)
    assert (found.status, found.message.id) == (200, request_id)
    assert isinstance(found.message.result, dict)
    assert found.message.result["params"]["value"] == value
    assert found.message.result["resultType"] == "complete"


@given(st.lists(MESSAGES, max_size=3), st.sampled_from([one for one in SUPPORTED if one != BATCHED]))
def test_a_batch_of_another_revision_is_refused(messages: list[Json], revision: str) -> None:
    """However few messages it has."""
    found = told(msgspec.json.encode(messages), headers_of("tools/list", {}, revision))
    assert (found.status, code_of(found)) == (400, -32600)


def request(method: str, request_id: Any = 1, **params: Any) -> Json:
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}


def handshake(proposed: Any, headers: Mapping[str, str]) -> Any:
    found = told(msgspec.json.encode(request("initialize", protocolVersion=proposed)), headers)
    assert isinstance(found.message, McpAnswer)
    assert isinstance(found.message.result, dict)
    return found.message.result["protocolVersion"]


@pytest.mark.parametrize("revision", LEGACY)
def test_a_handshake_agrees_on_the_revision_of_the_client(revision: str) -> None:
    """Also of one that sends its header with it, and whatever follows is of this revision."""
    assert handshake(revision, {}) == revision
    assert handshake(revision, {"mcp-protocol-version": revision}) == revision
    found = told(msgspec.json.encode(request("tools/list")), {"mcp-protocol-version": revision})
    assert isinstance(found.message, McpAnswer)
    assert found.message.result == {"params": {}, "revision": revision}


@pytest.mark.parametrize("proposed", ["2024-11-05", "2099-01-01", MODERN, "", None, 3, ["2025-06-18"], {"a": 1}])
def test_a_handshake_of_another_revision_gets_the_newest(proposed: Any) -> None:
    """The client ends if it does not know that one."""
    assert handshake(proposed, {}) == LEGACY[0]


@pytest.mark.parametrize("sent", [{}, {"_meta": {}}, {"_meta": {"progressToken": 1}}, {"name": "x"}])
def test_a_request_without_any_revision_is_of_the_one_without_a_header(sent: Json) -> None:
    """As the later revisions tell servers to take it."""
    found = told(msgspec.json.encode(request("tools/call", **sent)), {})
    assert isinstance(found.message, McpAnswer)
    assert found.message.result == {"params": sent, "revision": BATCHED}


@pytest.mark.parametrize("headers", [{}, {"mcp-protocol-version": BATCHED}])
def test_a_batch_is_answered_message_by_message(headers: Json) -> None:
    """Each request by its id and with its own fault; a notification not at all; a handshake stands alone."""
    noted = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    asked = [request("ping", "a"), noted, request("nope", 2), request("initialize", 3), "x", request("tools/list", 4)]
    found = told(msgspec.json.encode(asked), headers)
    assert found.status == 200
    answers = msgspec.json.decode(msgspec.json.encode(found.message))
    assert [one.get("id") for one in answers] == ["a", 2, 3, None, 4]
    assert [one.get("error", {}).get("code") for one in answers] == [None, METHOD_NOT_FOUND, -32600, -32600, None]
    assert told(msgspec.json.encode([noted, noted]), headers) == McpReply(202, None)
    assert told(b"[null, 1]", headers).status == 400, "of two that are no messages none is answered by itself"


def test_a_batch_has_a_bound_and_each_further_message_its_price() -> None:
    """An empty one and a long one are refused as a whole, before anything of them is carried out."""
    charged: list[int] = []
    for size, status in ((0, 400), (1, 200), (MAX_BATCH_MESSAGES, 200), (MAX_BATCH_MESSAGES + 1, 400)):
        body = msgspec.json.encode([request("ping", number) for number in range(size)])
        assert asyncio.run(answer(body, {}, DECLARED, charged.append)).status == status
    assert charged == [0, MAX_BATCH_MESSAGES - 1]


@given(TEXTS)
def test_a_name_in_base64_is_the_same_name(name: str) -> None:
    """Clients write names so that no header can hold as they are."""
    sent = f"=?base64?{base64.b64encode(name.encode()).decode()}?="
    assert ask("tools/call", {"name": name}, mcp_name=sent).status == 200
    assert code_of(ask("tools/call", {"name": f"{name}x"}, mcp_name=sent)) == -32020


@pytest.mark.parametrize("method", ["initialize", "ping", "logging/setLevel", "resources/subscribe", "unknown/method"])
def test_a_method_that_is_not_there_is_404(method: str) -> None:
    """Those of the handshake, too, in a message of the newest revision."""
    found = ask(method)
    assert (found.status, code_of(found)) == (404, METHOD_NOT_FOUND)


@pytest.mark.parametrize("member", [None, VERSION_KEY, "io.modelcontextprotocol/clientCapabilities"])
def test_what_each_request_must_say_is_asked_for(member: str | None) -> None:
    """The whole of `_meta`, its revision and its capabilities; who the client is may be left out."""
    meta = {} if member is None else {name: value for name, value in META.items() if name != member}
    found = ask("server/discover", {"_meta": meta})
    assert (found.status, code_of(found)) == (400, -32602)
    without_name = {name: value for name, value in META.items() if not name.endswith("clientInfo")}
    assert ask("server/discover", {"_meta": without_name}).status == 200


def test_an_unknown_revision_is_told_those_that_are_known() -> None:
    """With the one that was asked for."""
    found = ask("server/discover", {"_meta": META | {VERSION_KEY: "v9"}}, mcp_protocol_version="v9")
    assert isinstance(found.message, McpRefusal)
    assert (found.status, found.message.error.code) == (400, -32022)
    assert found.message.error.data == {"supported": list(SUPPORTED), "requested": "v9"}


def test_a_client_that_takes_no_json_is_refused() -> None:
    """Before its message is looked at."""
    assert ask("tools/list", accept="text/html").status == 406
    assert ask("tools/list", accept="text/html, application/*;q=0.5").status == 200


def test_the_fault_of_a_method_has_its_status_and_data() -> None:
    """As the method raises it."""
    found = ask("refuse")
    assert isinstance(found.message, McpRefusal)
    assert (found.status, found.message.error.code, found.message.error.data) == (400, -32602, {"why": "because"})
    assert set(NAMED) == {"tools/call", "prompts/get", "resources/read"}


def test_an_id_has_a_bound() -> None:
    """A longer one is refused and not repeated."""
    assert ask("tools/list", request_id="x" * 200).status == 200
    found = ask("tools/list", request_id="x" * 201)
    assert isinstance(found.message, McpRefusal)
    assert (found.status, found.message.id) == (400, msgspec.UNSET)
