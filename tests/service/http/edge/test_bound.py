"""A body that is decoded once, for the gate, is the same as one that its operation decodes by itself."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.analytics import AnalyticsEvent
from schemas.cases.log import LogEvent
from service.http.analytics import event
from service.http.cases.intake import log
from service.http.declare.bound import Bound

[LOGS], [ANALYTICS] = map(Bound, log.ENDPOINTS), (Bound(one) for one in event.ENDPOINTS if one.operation.body.adjusts)
NAMES = sorted({*LogEvent.__struct_fields__, *AnalyticsEvent.__struct_fields__, "id", "email", "other"})
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["", "a", "error", "warn", "x" * 201, "x" * 501, "x" * 8193, "ü" * 200]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["", *NAMES]), inner, max_size=4),
)
BODIES = st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=6)
GOOD = {"message": "m", "event": "e", "distinct_id": "d"}


def outcome(decode: Any, given_value: Any) -> Any:
    try:
        return decode(given_value)
    except msgspec.ValidationError as error:
        return str(error)


@pytest.mark.parametrize("bound", [LOGS, ANALYTICS])
@given(body=BODIES | BODIES.map(lambda body: GOOD | body) | BODIES.map(lambda body: body | GOOD))
def test_converted_and_decoded_bodies_are_the_same(bound, body):
    raw = msgspec.json.encode(body)
    assert outcome(bound.convert, msgspec.json.decode(raw)) == outcome(bound.decode, raw)
