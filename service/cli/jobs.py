"""`service jobs`: background work that waits or has failed, and trying it again."""

import click

from service.cli.shared.common import connection, json_option, print_json, say, show
from service.sql import load_query

COLUMNS = ("id", "task", "status", "attempts", "changed_at", "due_at")
LISTED = 200  # the failed ones first
_LIST = load_query("cli", "jobs")
_FAILED = load_query("cli", "failed_jobs")
_RETRY = load_query("cli", "retry_job")


@click.group()
def jobs() -> None:
    """List background jobs, and try failed ones again."""


@jobs.command("list")
@json_option
def list_(as_json: bool) -> None:
    """List the jobs that wait, run or failed in the last week. The worker's log has the errors."""
    with connection() as opened:
        rows = opened.execute(_LIST, {"most": LISTED}).fetchall()
    show(
        [dict(zip(COLUMNS, row, strict=True)) for row in rows],
        COLUMNS,
        as_json=as_json,
        empty="No job is waiting, and none has failed.",
    )


@jobs.command()
@click.argument("job_id", type=int, required=False)
@click.option("--all-failed", is_flag=True, help="Retry every failed job.")
@json_option
def retry(job_id: int | None, all_failed: bool, as_json: bool) -> None:
    """Retry a failed job now. `service jobs list` shows JOB_ID.

    A job with a waiting twin stays as it is.
    """
    import psycopg

    if (job_id is None) != all_failed:
        raise click.UsageError("name a job, or give --all-failed")
    again, waiting = [], []
    with connection() as opened:
        found = [number for (number,) in opened.execute(_FAILED, {"id": job_id}).fetchall()]
        if job_id is not None and not found:
            raise click.ClickException(f"No job {job_id} has failed.")
        for number in found:
            try:
                opened.execute(_RETRY, {"id": number})
            except psycopg.errors.UniqueViolation:
                waiting.append(number)
            else:
                again.append(number)
    if as_json:
        print_json({"again": again, "waits_already": waiting})
        return
    for numbers, what in ((again, "run again"), (waiting, "have a twin that waits already")):
        if numbers:
            say(f"{len(numbers)} {what}: {', '.join(map(str, numbers))}")
    if not found:
        say("No job has failed.")
