"""Blueprints that count errors: always our own records. A person is the `user.id` of an error (G-153)."""

from __future__ import annotations

from service.analytics.blueprints import columns
from service.analytics.blueprints.declared import Blueprint, Read, one_read
from service.analytics.blueprints.parameters import ErrorParams
from service.eventstore.declare.sqlfiles import load_sql

ERRORS_BY_RELEASE_SQL = load_sql("analytics", "blueprints/errors_by_release")

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
        columns.epoch("first_seen_at", "When the first of them was received."),
        columns.epoch("last_seen_at", "When the latest of them was received."),
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

BLUEPRINTS = (ERRORS_BY_RELEASE,)
