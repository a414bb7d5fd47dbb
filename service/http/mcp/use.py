"""The use of a tool: its findings, or its refusal. A refusal is a result too, for the model to act on (G-168)."""

from functools import partial
from typing import Any

import msgspec

from schemas.kernel.origins import SERVER
from service.auth.refusals import InvalidPayload
from service.http.answer.errors import encode_failure, failure_of
from service.http.declare.call import Call
from service.http.mcp.answers import Cursor, Found, read_cursor, shown
from service.http.mcp.calling import CURSOR, ask, asked_of
from service.http.mcp.kit import Kit, ReadIndex, kit_for
from service.http.mcp.tools import DESCRIBE, FIND, FOUND, MOST_FOUND, READ
from statemachines.kernel.machine import Rejection

Json = dict[str, Any]

LONGEST_WORDS = 300


async def use(call: Call, name: str, arguments: Json) -> Json:
    """The result of a tool. Never raises a Rejection."""
    try:
        cursor = read_cursor(arguments.get(CURSOR))
        rest = {key: value for key, value in arguments.items() if key != CURSOR}
        found = await _carry_out(call, await kit_for(call), name, rest, cursor)
        return await call.work_on(len(found.body), partial(shown, found, cursor))
    except Rejection as refused:
        failure = failure_of(refused)
        body = encode_failure(failure, call.request_id, closed=False)
        return shown(Found(name, failure.status, body, failure.headers, {}), Cursor())


async def _carry_out(call: Call, kit: Kit, name: str, arguments: Json, cursor: Cursor) -> Found:
    """The findings of a tool. Raises the Rejection of bad arguments."""
    if name == FIND:
        return _of_service(name, msgspec.json.encode(_find(kit.indexes[call.principal.kind], arguments)))
    if name == DESCRIBE:
        _check_known(arguments, {"operation"})
        return _of_service(name, kit.described[kit.read(arguments.get("operation")).bound.name])
    one, values = kit.operation(name), arguments
    if name == READ:
        _check_known(arguments, {"operation", "parameters"})
        one, values = kit.read(arguments.get("operation")), arguments.get("parameters", {})
        if not isinstance(values, dict):
            raise InvalidPayload("The arguments do not fit.", invalid=[("parameters", "must be an object")])
    assert one is not None, "each tool has an operation"
    return await ask(call, one, asked_of(one, values, kit.members(one), cursor))


def _of_service(name: str, body: bytes) -> Found:
    """Knowledge of the process itself."""
    return Found(name, 200, body, {}, {"": SERVER})


def _check_known(arguments: Json, known: set[str]) -> None:
    unknown = sorted(arguments.keys() - known)
    if unknown:
        raise InvalidPayload("The arguments do not fit.", unknown=unknown)


def _find(index: ReadIndex, arguments: Json) -> Json:
    """The operations for the words of a caller. Raises InvalidPayload."""
    _check_known(arguments, {"words", "limit"})
    words, limit = arguments.get("words", ""), arguments.get("limit", FOUND)
    invalid = []
    if not isinstance(words, str) or len(words) > LONGEST_WORDS:
        invalid.append(("words", f"must be a text of at most {LONGEST_WORDS} characters"))
    if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= MOST_FOUND:
        invalid.append(("limit", f"must be an integer from 1 to {MOST_FOUND}"))
    if invalid:
        raise InvalidPayload("The arguments do not fit.", invalid=invalid)
    found = index.find(words, limit)
    action = "Call describe with an operation, or read if you know its parameters."
    return {"operations": found, "count": len(found), "readable": len(index), "next_action": action}
