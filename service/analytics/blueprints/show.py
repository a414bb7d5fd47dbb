"""How blueprints and their runs are shown (G-065). Every `next_action` is a fixed sentence."""

from __future__ import annotations

from functools import cache
from typing import Any

from schemas.analytics.blueprint import BlueprintCatalog, BlueprintEndpoints, BlueprintRun, QueryBlueprint
from schemas.kernel.published import body_schema
from service.analytics.blueprints.catalogue import CATALOGUE, Asked
from service.analytics.blueprints.declared import Blueprint
from service.analytics.bounded.answers import Table

DIALECT = "https://json-schema.org/draft/2020-12/schema"

_ANSWER = "Answer with the rows, and say how fresh they are and what they rest on."
_INCOMPLETE = "Say that the window is not whole: it begins before evidence.kept_from, or not all was counted."
_TRUNCATED = "Raise limit, or narrow the window: there are more rows than these."
_NOTHING = (
    "Nothing was found. Read GET /v1/projects/{project_id}/event-names to see what was received, and check the window."
)


@cache
def blueprint(found: Blueprint) -> QueryBlueprint:
    """A blueprint, whole."""
    return QueryBlueprint(
        blueprint_id=found.id,
        title=found.title,
        description=found.description,
        params_schema=params_schema(found),
        columns=found.columns,
        required_events=[f"params.{name}" for name in found.event_params],
        max_rows=found.max_rows,
        endpoints=BlueprintEndpoints(
            detail=f"/v1/query-blueprints/{found.id}",
            run=f"/v1/projects/{{project_id}}/query-blueprints/{found.id}/run",
        ),
        next_action="Check that the events it needs were received, then run it with params that fit params_schema.",
    )


def params_schema(found: Blueprint) -> dict[str, Any]:
    """The schema of its parameters, made from what decodes them."""
    return {"$schema": DIALECT, **body_schema(found.params)}


@cache
def catalog() -> BlueprintCatalog:
    """Every blueprint."""
    blueprints = [blueprint(found) for found in CATALOGUE.values()]
    return BlueprintCatalog(blueprints, len(blueprints), "Choose a blueprint, and run it in a project.")


def run(project_id: str, asked: Asked, table: Table) -> BlueprintRun:
    """An answered run."""
    return BlueprintRun(
        project_id=project_id,
        blueprint_id=asked.blueprint.id,
        rows=table.rows,
        columns=table.columns,
        row_count=len(table.rows),
        truncated=table.truncated,
        evidence=table.evidence,
        freshness=table.freshness,
        next_action=_advice(asked.blueprint, table),
    )


def _advice(asked: Blueprint, table: Table) -> str:
    if not any(row[name] for row in table.rows for name in asked.numeric):
        return _NOTHING
    if table.truncated:
        return _TRUNCATED
    return _ANSWER if table.evidence.complete else _INCOMPLETE
