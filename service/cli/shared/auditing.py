"""What a role that only reads may see: what the reading commands look at, and nothing more."""

from service.eventstore.schema.roles import READABLE, ReadingRole
from service.ingest.kept import COUNTERS
from service.registry import read_models

# When a key was used last is listed with it; jobs are listed, and those that failed named by the doctor.
LISTED = ("key_uses",)
# Of telemetry what counters are compared with: not what it says, and not whom it is about but by the id.
COLUMNS = {
    "log_events": (
        "project_id", "received_at", "occurred_at", "case_id", "environment", "release", "user_id", "marker_hash",
        "public",
    ),
    "analytics_events": ("project_id", "received_at", "event"),
    "erased_records": ("project_id", "received_at", "event"),
    "event_properties": ("project_id", "received_at", "event", "key", "type"),  # a view, which shows no value
    "procrastinate_jobs": ("id", "status", "task_name", "attempts", "scheduled_at"),
    "procrastinate_events": ("job_id", "at"),
    "task_runs": ("task", "finished_at"),
}  # fmt: skip


def reader() -> ReadingRole:
    """The tables and columns of a role that only reads."""
    return ReadingRole({*READABLE, *read_models(), *COUNTERS, *LISTED}, COLUMNS)
