"""Wire contract of MCP: one JSON-RPC message in, and at most one out (G-168, G-206).

The contents of `params` and `result` are the protocol's, in the revision of the message.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

MODERN = "2026-07-28"
"""The revision with stateless requests."""
BATCHED = "2025-03-26"
"""The revision with batches, without a header for itself, and without structured results."""
LEGACY = ("2025-11-25", "2025-06-18", BATCHED)
"""The revisions with a handshake, the newest first."""
SUPPORTED = (MODERN, *LEGACY)

MAX_BATCH_MESSAGES = 20

MAX_MESSAGE_BYTES = 65536
LONGEST_ID = 200

RpcId = Annotated[str, Meta(max_length=LONGEST_ID)] | int


class McpMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A request, or a notification without an id."""

    id: RpcId | UnsetType = UNSET
    jsonrpc: Literal["2.0"]
    method: Annotated[str, Meta(min_length=1, max_length=LONGEST_ID)]
    params: dict[str, Any] | UnsetType = UNSET


class McpFault(msgspec.Struct, frozen=True):
    """Reason for a missing result."""

    code: int
    message: str
    data: dict[str, Any] | UnsetType = UNSET


class McpRefusal(msgspec.Struct, frozen=True, kw_only=True):
    """An answer to a request without a result. Without an id if the request had no readable one."""

    id: RpcId | UnsetType = UNSET
    jsonrpc: Literal["2.0"] = "2.0"
    error: McpFault


class McpAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a request: its result, or its error."""

    id: RpcId | UnsetType = UNSET
    jsonrpc: Literal["2.0"] = "2.0"
    result: dict[str, Any] | UnsetType = UNSET
    error: McpFault | UnsetType = UNSET
