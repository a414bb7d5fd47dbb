"""Blueprints that count errors: always our own records. A person is the `user.id` of an error (G-153)."""

from __future__ import annotations

from service.analytics.blueprints import columns
from service.analytics.blueprints.declared import Blueprint, Read, one_read
from service.analytics.blueprints.parameters import DEFAULT_TOP, ErrorParams, TopLimit
from service.eventstore.declare.sqlfiles import load_sql

ERRORS_BY_RELEASE_SQL = load_sql("analytics", "blueprints/errors_by_release")
TOP_ERRORS_SQL = load_sql("analytics", "blueprints/top_errors")


class TopErrorsParams(ErrorParams, frozen=True, kw_only=True):
    """A number of days, an environment or none, and a number of rows."""

    limit: TopLimit = DEFAULT_TOP


TOP_ERRORS = Blueprint(
    id="top-errors",
    title="Most frequent errors",
    description="The cases with most errors, the most frequent first. Errors of merged cases count in the case "
    "that they were merged into.",
    source="errors",
    params=TopErrorsParams,
    columns=(
        columns.text("case_id", None, "Id of the case."),
        columns.integer("error_count", "errors", "Errors of the case."),
        columns.integer("users_affected", "people", "Different people who met one of them."),
        columns.epoch("last_seen_at", "When the latest of them happened."),
    ),
    answer=one_read(
        lambda params: Read(
            source="errors",
            local=TOP_ERRORS_SQL,
            row=tuple[str, columns.Count, columns.Count, columns.Count],
            values={"environment": params.environment},
        )
    ),
)

ERRORS_BY_RELEASE = Blueprint(
    id="errors-by-release",
    title="Errors by release",
    description="How many errors each release had and how many people met them, the most errors first.",
    source="errors",
    params=ErrorParams,
    columns=(
        columns.text("release", "name", "The release; null for errors that name none."),
        columns.integer("error_count", "errors", "Errors of the release."),
        columns.integer("users_affected", "people", "Different people who met one of them."),
        columns.epoch("first_seen_at", "When the first of them happened."),
        columns.epoch("last_seen_at", "When the latest of them happened."),
    ),
    answer=one_read(
        lambda params: Read(
            source="errors",
            local=ERRORS_BY_RELEASE_SQL,
            row=tuple[str | None, columns.Count, columns.Count, columns.Count, columns.Count],
            values={"environment": params.environment},
        )
    ),
)
