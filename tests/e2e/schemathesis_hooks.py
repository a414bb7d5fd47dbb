"""Hooks for the schema-driven run: fresh keys, and which refusals of valid data are expected."""

from __future__ import annotations

import os
import re
import uuid
import zlib
from collections import Counter
from typing import Any

import schemathesis
from schemathesis.generation.meta import TestPhase

from service.http.cases.intake.sdks import POSTHOG
from service.http.edge.routes import all_endpoints

FORM_REFUSED = "The body does not have the form of this operation."
WIDEST = 2**53 - 1
BATCHED = {"/v1/logs/", "/v1/analytics/"}
KEYED_IN_BODY = {bound.operation.path for bound in all_endpoints() if bound.operation.body.sdk is POSTHOG}
WELL_FORMED_KEY = re.compile(r"[!-~]{1,255}")
ONE_IN = int(os.environ.get("COVERAGE_ONE_IN", "1"))
"""Of how many cases that the coverage phase lists for an operation one is sent. Each operation begins at another."""

_seen: Counter[str] = Counter()

# The body of a browser's report is bytes to the generator, as an envelope's is.
schemathesis.serializer.alias("application/csp-report", "application/octet-stream")


@schemathesis.hook
def filter_case(_: Any, case: Any) -> bool:
    """Leave out most of what the coverage phase lists, where a run is to be short."""
    if ONE_IN == 1 or case.meta is None or case.meta.phase.name is not TestPhase.COVERAGE:
        return True
    label = case.operation.label
    _seen[label] += 1
    return (_seen[label] + zlib.crc32(label.encode())) % ONE_IN == 0


@schemathesis.hook
def before_call(_: Any, case: Any, __: Any) -> None:
    """Adapt a generated request to this run.

    A key would mark it as a repeat, which it never is. A valid one asks for the first page, as no schema
    states which cursors are ours, and holds no integer beyond what JSON numbers keep. Where several records may come
    in an array, an array is no invalid body, but one of another form (`x-batch`). A body that may hold the key has to
    be read for it: one that cannot be is 400 (G-175), so a case without a credential gets one that holds none.
    """
    if _lacks_credential(case) and case.operation.path in KEYED_IN_BODY:
        case.body = b"{}"
    if isinstance(case.body, list) and case.operation.path in BATCHED:
        case.body = {"items": case.body}
    if case.meta is not None and case.meta.generation.mode.is_positive:
        (case.query or {}).pop("cursor", None)
        if isinstance(case.body, dict | list):
            case.body = _narrowed(case.body)
    key = (case.headers or {}).get("Idempotency-Key")
    if key and WELL_FORMED_KEY.fullmatch(key) and not _lacks_credential(case):
        case.headers["Idempotency-Key"] = str(uuid.uuid4())


def _narrowed(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _narrowed(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_narrowed(member) for member in value]
    return value % WIDEST if type(value) is int and abs(value) > WIDEST else value


def _lacks_credential(case: Any) -> bool:
    """Whether the case tests a missing credential: changing its headers would add it again."""
    parameter = getattr(case.meta.phase.data, "parameter", None) if case.meta is not None else None
    return parameter is not None and parameter.lower() == "authorization"


@schemathesis.check
def schema_and_decoder_agree(_: Any, response: Any, case: Any) -> None:
    """A body that the schema allows has the form that the decoder takes; what a rule refuses is another matter."""
    if case.meta is not None and case.meta.generation.mode.is_positive and response.status_code == 400:
        assert response.json()["error"]["message"] != FORM_REFUSED, response.text
