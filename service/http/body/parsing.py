"""What a request says, taken apart: key, precondition, parameters and body, with what G-007 calls form."""

from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import parse_qs

import msgspec

from service.auth.refusals import InvalidPayload
from service.http.answer.reply import JSON
from service.http.body.gate import MAX_VALUES, check_body, check_values
from service.http.body.validation import decode_query, explain_body
from service.http.declare.bound import AS_OF, STAND_IN, Bound
from service.http.declare.call import Call
from service.http.declare.headers import Head, check_content, conditional, idempotency_key, require_key
from statemachines.kernel.canonical import canonical_sha256, with_whole_numbers

MOST_VALUES = 50_000  # of a body that is no telemetry: more than the longest plan has, and a tenth of what fits in

Query = Mapping[str, list[str]]


def _parameters(query_string: bytes, errors: str) -> Query:
    """Split a query string. Raises ValueError for what is not ASCII, for too many and, with `strict`, for bad UTF-8."""
    if not query_string:
        return {}
    return parse_qs(query_string.decode("ascii"), keep_blank_values=True, errors=errors, max_num_fields=100)


def query_for_credential(query_string: bytes) -> Query:
    """The parameters as the authenticator sees them: a malformed query string is refused later, as form."""
    try:
        return _parameters(query_string, "replace")
    except ValueError:
        return {}


def _checked_query(query_string: bytes, expected: type[msgspec.Struct]) -> msgspec.Struct:
    """Convert the known parameters. Raises InvalidPayload, also for one that comes twice and for NUL."""
    try:
        parameters = _parameters(query_string, "strict")
    except ValueError:
        raise InvalidPayload("The query string is not well-formed.") from None
    known = {name: parameters[name] for name in expected.__struct_encode_fields__ if name in parameters}
    bad = [(name, "must come once") for name, values in known.items() if len(values) > 1]
    bad += [(name, "must not hold the character NUL") for name, values in known.items() if "\x00" in "".join(values)]
    if bad:
        raise InvalidPayload("A parameter is not acceptable.", invalid=bad)
    return decode_query({name: values[0] for name, values in known.items()}, expected)


class HandlerInput(NamedTuple):
    """The typed body and query parameters of a request. None where its operation has none."""

    data: Any
    params: Any


def parse(call: Call, bound: Bound, head: Head, raw: bytes) -> HandlerInput:
    """Fill the call with the key and the precondition, and read the rest. Raises what G-007 calls form."""
    operation = call.operation
    call.raw_body = raw
    params = parse_head(call, head)
    data: Any = None
    value: Any = {}
    if bound.takes_body:
        if raw and operation.body.media_type == JSON:
            check_content(head, text_plain=operation.body.text_plain, packed=operation.body.unpacked > 0)
        if bound.raw_body:
            data = raw
        else:
            data, value = decode_body(bound, raw)
    stand_in = getattr(data, STAND_IN, None)
    if stand_in is not None:
        call.key = _reconcile(call.key, stand_in)
    require_key(call.key, operation.fencing.idempotency)
    if call.key is not None:
        call.request_hash = request_hash(value)
    return HandlerInput(data, params)


def parse_head(call: Call, head: Head) -> msgspec.Struct | None:
    """Fill the call with the key and the precondition. Returns the parameters. Raises what G-007 calls form."""
    operation, params = call.operation, None
    call.reads_head = True
    call.key = idempotency_key(head, operation.fencing.idempotency)
    call.if_match, _ = conditional(head, operation.fencing.if_match)  # what is wrong with it comes after existence
    if not operation.body.reads_query:
        if not operation.who.as_of and AS_OF in query_for_credential(call.scope["query_string"]):
            raise InvalidPayload("A parameter is not acceptable.", invalid=[(AS_OF, "is not taken by this operation")])
        if operation.query is not None:
            params = _checked_query(call.scope["query_string"], operation.query)
    call.reads_head = False
    return params


def decode_body(bound: Bound, raw: bytes) -> tuple[Any, Any]:
    """Pass the gate, then decode. Returns the declared type and the plain value; an absent body counts as `{}`.

    What telemetry says is of no declared type, so the one is made of the other: to decode it twice took a tenth of all
    time that a large record costs. Any other body is decoded apart, and may be kept while the value is changed.
    """
    raw = raw or b"{}"
    check_values(raw, MAX_VALUES if bound.operation.body.adjusts else MOST_VALUES)  # first, for a text of many is dear
    value = check_body(raw)
    try:
        return bound.convert(value) if bound.operation.body.adjusts else bound.decode(raw), value
    except msgspec.ValidationError:
        # 7.0 is an integer to JSON Schema and to RFC 8785, but not to the decoder.
        value = with_whole_numbers(value)
    try:
        return bound.decode(msgspec.json.encode(value)), value
    except msgspec.ValidationError as error:
        raise explain_body(value, bound.body_info, error, bound.body_schema) from None


def _reconcile(key: str | None, stand_in: str) -> str:
    """The key of a body that may carry it in place of the header (G-113). Raises InvalidPayload when they differ."""
    if key is not None and key != stand_in:
        reason = "must equal the Idempotency-Key header"
        raise InvalidPayload("The key is given twice, with different values.", invalid=[(STAND_IN, reason)])
    return stand_in


def request_hash(value: Any) -> str:
    """SHA-256 of the RFC 8785 form of a parsed body, in hex: what makes two requests with one key the same (G-008)."""
    return canonical_sha256(value)
