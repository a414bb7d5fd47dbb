"""What the published schemas of renders and contracts allow breaks no rule but those that have names."""

from __future__ import annotations

from typing import Any

import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from service.http.document.schema_filters import select
from tests.service.http.contracts.test_shapes import (
    ASKED,
    DOCUMENT,
    OPERATIONS,
    RENDER,
    SAVE,
    SAVED,
    agree,
    faults_of_contract,
    faults_of_render,
)


def generated(operation_id: str) -> st.SearchStrategy[Any]:
    """Calls of an operation with bodies that its schema allows."""
    path, method = OPERATIONS[operation_id]
    document = select(DOCUMENT, path=path, method=method)
    calls: st.SearchStrategy[Any] = schemathesis.openapi.from_dict(document)[path][method.upper()].as_strategy()
    return calls.map(lambda call: call.body)


FEW = settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))


@FEW
@given(generated(RENDER))
def test_generated_requests_are_taken(body: Any) -> None:
    """Whatever the schema allows breaks no rule but those above."""
    agree(body, ASKED, faults_of_render(body))


@FEW
@given(generated(SAVE))
def test_generated_contracts_are_taken(body: Any) -> None:
    """As of a render. The policy hardly ever is the one that was rendered."""
    agree(body, SAVED, faults_of_contract(body))
