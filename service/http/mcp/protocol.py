"""The protocol of MCP over HTTP: from the bytes and headers of a request to a status and a message. Pure (G-168).

A server declares its methods. This reads a message, finds out its revision, holds its headers to its body, and answers.
Revision 2026-07-28 knows no session, so that each request stands alone. Clients of older revisions begin with
`initialize`, and nothing of it is kept. A request that names no revision at all is of 2025-03-26, which alone takes a
batch of messages (G-206).

The specification: modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http, and for the oldest
modelcontextprotocol.io/specification/2025-03-26/basic/transports.
"""

import base64
import binascii
from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, NamedTuple

import msgspec

from schemas import mcp as wire
from service.auth.refusals import InvalidPayload
from service.http.answer.reply import JSON
from service.http.body.gate import check_body, check_values

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
HEADER_MISMATCH = -32020
UNSUPPORTED_VERSION = -32022

VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"
SERVER_KEY = "io.modelcontextprotocol/serverInfo"
VERSION_HEADER, METHOD_HEADER, NAME_HEADER = "mcp-protocol-version", "mcp-method", "mcp-name"
NAMED: Mapping[str, str] = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""The member of the parameters in the header Mcp-Name, by method."""
MOST_VALUES = 2000

Json = dict[str, Any]


class Message(NamedTuple):
    """A request of a supported revision."""

    id: str | int
    method: str
    params: Json
    revision: str

    @property
    def modern(self) -> bool:
        """Whether the request stands alone, without a handshake before it."""
        return self.revision == wire.MODERN


Method = Callable[[Message], Awaitable[Json]]
"""Answers a request with its result. Raises RpcFault."""


class Declared(NamedTuple):
    """The description of a server, and its own methods."""

    name: str
    version: str
    instructions: str
    capabilities: Json
    methods: Mapping[str, Method]
    fresh_ms: int = 0  # for how long a client may keep the lists of the server


class McpReply(NamedTuple):
    """The answer: a status, and the message, None for no body. Several for a batch."""

    status: int
    message: wire.McpAnswer | wire.McpRefusal | Sequence[wire.McpAnswer | wire.McpRefusal] | None


class RpcFault(Exception):
    """A request without a result, with its status in HTTP."""

    def __init__(self, code: int, message: str, *, status: int = HTTPStatus.OK, **data: Any) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.status = int(status)
        self.data = data


async def answer(
    raw: bytes, headers: Mapping[str, str], declared: Declared, charge: Callable[[int], None] = lambda _: None
) -> McpReply:
    """Answer a message, or a batch of a client of 2025-03-26. `headers` are those of its request, by lower-case name.

    `charge` takes the number of further messages, and may raise.
    """
    try:
        check_accept(headers.get("accept"))
        value = decode(raw)
        if not isinstance(value, list):
            return await _answer_one(value, headers, declared)
        _check_batch(value, headers)
    except RpcFault as fault:
        return McpReply(fault.status, _refused(fault, None))
    charge(len(value) - 1)
    replies = [await _answer_one(one, headers, declared, alone=False) for one in value]
    if all(reply.status == HTTPStatus.BAD_REQUEST for reply in replies):
        return replies[0]  # Nothing in it is a message, so that it is no batch.
    told = [reply.message for reply in replies if isinstance(reply.message, wire.McpAnswer | wire.McpRefusal)]
    return McpReply(HTTPStatus.OK, told) if told else McpReply(HTTPStatus.ACCEPTED, None)


async def _answer_one(value: Any, headers: Mapping[str, str], declared: Declared, *, alone: bool = True) -> McpReply:
    """Answer one message, by itself or in a batch."""
    known: str | int | None = None
    try:
        if not isinstance(value, dict):
            raise _malformed("The body must be one JSON-RPC message.")
        known = value.get("id") if _is_id(value.get("id")) else None
        said = read(value)
        if said.id is msgspec.UNSET:
            return McpReply(HTTPStatus.ACCEPTED, None)
        if said.method == "initialize" and not alone:
            raise _malformed("initialize must be a request of its own.")
        message = _of_revision(said, headers)
        result = await _carry_out(message, declared)
    except RpcFault as fault:
        return McpReply(fault.status, _refused(fault, known))
    return McpReply(HTTPStatus.OK, wire.McpAnswer(id=message.id, result=result))


def _check_batch(value: list[Any], headers: Mapping[str, str]) -> None:
    """Refuse a batch of another revision, an empty and a long one. Raises RpcFault."""
    if headers.get(VERSION_HEADER, wire.BATCHED) != wire.BATCHED:
        raise _malformed("A batch is not taken. Send each message as a request of its own.")
    if not 1 <= len(value) <= wire.MAX_BATCH_MESSAGES:
        raise _malformed(f"A batch must have 1 to {wire.MAX_BATCH_MESSAGES} messages.")


def _refused(fault: RpcFault, known: str | int | None) -> wire.McpRefusal:
    told = wire.McpFault(fault.code, fault.message, fault.data or msgspec.UNSET)
    return wire.McpRefusal(id=msgspec.UNSET if known is None else known, error=told)


def check_accept(accept: str | None) -> None:
    """Refuse a client without JSON. Raises RpcFault."""
    if accept is None:
        return
    kinds = {part.partition(";")[0].strip().lower() for part in accept.split(",")}
    if not kinds & {JSON, "application/*", "*/*"}:
        raise RpcFault(INVALID_REQUEST, "This server answers in application/json.", status=HTTPStatus.NOT_ACCEPTABLE)


def decode(raw: bytes) -> Any:
    """Decode a body. Raises RpcFault for bad JSON."""
    try:
        check_values(raw, MOST_VALUES)
        return check_body(raw)
    except InvalidPayload as refused:
        reasons = [one["reason"] for one in refused.details.get("invalid_fields", [])]
        raise RpcFault(
            PARSE_ERROR, "The body is not acceptable JSON.", status=HTTPStatus.BAD_REQUEST, reasons=reasons
        ) from None


def read(value: Json) -> wire.McpMessage:
    """Read a message. Raises RpcFault for anything but a request or a notification."""
    if "method" not in value and ("result" in value or "error" in value):
        raise _malformed("This server sends no requests, so it takes no responses.")
    if "id" in value and not _is_id(value["id"]):
        raise _malformed("The id must be a short string or an integer.")
    params = value.get("params", {})
    if not isinstance(params, dict):
        raise RpcFault(INVALID_PARAMS, "params must be an object.", status=HTTPStatus.BAD_REQUEST)
    try:
        return msgspec.convert(value, wire.McpMessage)
    except msgspec.ValidationError as error:
        raise _malformed(f"The body is not a JSON-RPC message: {error}") from None


def _malformed(message: str) -> RpcFault:
    return RpcFault(INVALID_REQUEST, message, status=HTTPStatus.BAD_REQUEST)


def _is_id(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) <= wire.LONGEST_ID
    return isinstance(value, int) and not isinstance(value, bool)


def _of_revision(said: wire.McpMessage, headers: Mapping[str, str]) -> Message:
    """Find out the revision of a request, and hold its headers to its body. Raises RpcFault."""
    params = {} if said.params is msgspec.UNSET else said.params
    meta = params.get("_meta", {})
    stated, head = meta.get(VERSION_KEY) if isinstance(meta, dict) else None, headers.get(VERSION_HEADER)
    assert said.id is not msgspec.UNSET, "a notification has no answer"
    if said.method == "initialize" and wire.MODERN not in (head, stated):
        return Message(said.id, said.method, params, _agreed(params.get("protocolVersion")))
    if head is None and stated is not None:
        raise _mismatch("The header MCP-Protocol-Version is required.")
    head = wire.BATCHED if head is None else head
    if head in wire.LEGACY and stated in {None, head}:
        return Message(said.id, said.method, params, head)
    _check_version(head, meta, stated)
    _check_header(headers, METHOD_HEADER, said.method)
    if said.method in NAMED:
        named = params.get(NAMED[said.method])
        if not isinstance(named, str):
            raise RpcFault(INVALID_PARAMS, f"params.{NAMED[said.method]} must be a string.")
        _check_header(headers, NAME_HEADER, named)
    return Message(said.id, said.method, params, wire.MODERN)


def _agreed(proposed: Any) -> str:
    """The revision of a handshake: the client's, if it is known here, else the newest with a handshake."""
    return next((revision for revision in wire.LEGACY if revision == proposed), wire.LEGACY[0])


def _check_version(head: str, meta: Any, stated: Any) -> None:
    """Hold the revision in the header to the one in the body. Raises RpcFault."""
    if head == wire.MODERN and not (isinstance(meta, dict) and isinstance(stated, str)):
        raise RpcFault(INVALID_PARAMS, f"params._meta must have {VERSION_KEY}.", status=HTTPStatus.BAD_REQUEST)
    if stated is not None and stated != head:
        raise _mismatch("The header MCP-Protocol-Version does not match params._meta.")
    if head != wire.MODERN:
        raise RpcFault(
            UNSUPPORTED_VERSION,
            "Unsupported protocol version",
            status=HTTPStatus.BAD_REQUEST,
            supported=list(wire.SUPPORTED),
            requested=head,
        )
    if not isinstance(meta.get(CAPABILITIES_KEY), dict):
        raise RpcFault(INVALID_PARAMS, f"params._meta must have {CAPABILITIES_KEY}.", status=HTTPStatus.BAD_REQUEST)


def _check_header(headers: Mapping[str, str], name: str, expected: str) -> None:
    sent = headers.get(name)
    if sent is None:
        raise _mismatch(f"The header {name} is required.")
    if _plain(sent.strip(" \t")) != expected:
        raise _mismatch(f"The header {name} does not match the body.")


def _plain(sent: str) -> str | None:
    """The value of a header, plain or in Base64. None for a malformed one."""
    if not (sent.startswith("=?base64?") and sent.endswith("?=")):
        return sent
    try:
        return base64.b64decode(sent[len("=?base64?") : -len("?=")], validate=True).decode()
    except (binascii.Error, ValueError):
        return None


def _mismatch(message: str) -> RpcFault:
    return RpcFault(HEADER_MISMATCH, message, status=HTTPStatus.BAD_REQUEST)


async def _carry_out(message: Message, declared: Declared) -> Json:
    """Answer a request by its method. Raises RpcFault."""
    if message.modern:
        if message.method == "server/discover":
            return _complete(_discovered(declared), declared)
    elif message.method == "initialize":
        return _initialized(message.revision, declared)
    elif message.method == "ping":
        return {}
    method = declared.methods.get(message.method)
    if method is None:
        status = HTTPStatus.NOT_FOUND if message.modern else HTTPStatus.OK
        raise RpcFault(METHOD_NOT_FOUND, "Method not found", status=status)
    result = await method(message)
    return _complete(result, declared) if message.modern else result


def _discovered(declared: Declared) -> Json:
    return {
        "supportedVersions": list(wire.SUPPORTED),
        "capabilities": declared.capabilities,
        "instructions": declared.instructions,
        "ttlMs": declared.fresh_ms,
        "cacheScope": "public",
    }


def _initialized(revision: str, declared: Declared) -> Json:
    """The answer to a handshake: the client goes on with this revision, or ends."""
    return {
        "protocolVersion": revision,
        "capabilities": declared.capabilities,
        "serverInfo": {"name": declared.name, "version": declared.version},
        "instructions": declared.instructions,
    }


def _complete(result: Json, declared: Declared) -> Json:
    """A result in the newest revision: with its type and its server."""
    server = {SERVER_KEY: {"name": declared.name, "version": declared.version}}
    return {"resultType": "complete", **result, "_meta": {**result.get("_meta", {}), **server}}
