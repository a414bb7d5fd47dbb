"""The reference pages that the code writes: `python -m scripts.pages.reference` brings docs/reference up to date."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import click
import msgspec

from schemas.alerts import MOST_DAYS, MOST_LOOKS
from schemas.analytics import MAX_BY, MAX_FILTERS, MAX_IN, MAX_LIMIT, MAX_QUERY, MAX_SELECT
from schemas.cases.event import MAX_EVENTS as MAX_EVENTS_OF_PAGE
from schemas.cases.event import MAX_PAGE_BYTES
from schemas.cases.foreign import MAX_ENVELOPE_BYTES, MAX_EVENT_BYTES, MAX_EVENTS, MAX_POSTHOG_BYTES, MAX_UNPACKED_BYTES
from schemas.cases.log import MAX_EXTRA_BYTES, MAX_INGEST_BYTES
from schemas.cases.source_map import MAX_MAP_BYTES, MAX_PROJECT_BYTES
from schemas.cases.view import LISTED_COUNTED, MOST_COUNTED
from schemas.contracts.contract import MAX_AUTOMATIONS, MAX_CONTRACT_BYTES
from schemas.kernel.errors import CATALOGUE
from schemas.kernel.shape import MAX_BATCH_BYTES, MAX_BATCH_ITEMS
from schemas.onboarding import MAX_PLAN_BYTES
from schemas.publications import MAX_CACHE_SECONDS, MAX_PUBLIC_ROWS
from schemas.runs.decision import MAX_DAYS
from schemas.webhooks import MAX_DELIVERY_BYTES, MAX_NAMES
from service.analytics.bounded import DEFAULT_ROWS, LONGEST_DAYS
from service.analytics.connected import MAX_QUERY_BYTES
from service.analytics.connecting.http import (
    AT_ONCE,
    FIRST_REST,
    LONGEST_REST,
    LONGEST_TOLD,
    MOST_WAITING,
    READ_SECONDS,
)
from service.analytics.metadata import MAX_KEY, MOST_ERRORS, MOST_KEYS, MOST_NAMES
from service.analytics.queries import QUERY_SECONDS, WAIT_SECONDS
from service.analytics.structured.dialects import MOST_BYTES
from service.cases.sourcemaps.bundles import MOST_BUNDLE, MOST_ENTRIES, MOST_UNPACKED
from service.cases.sourcemaps.deciding import MAP_PATIENCE, PATIENCE
from service.cli import main
from service.cli.machines import named
from service.egress.exchange import MAX_HEAD
from service.egress.guard import SECONDS
from service.http.body.gate import MAX_DEPTH, MAX_VALUES
from service.http.cases.intake import feedback
from service.http.cases.intake.otlp import MOST_RECORDS, MOST_STORED
from service.http.cases.intake.otlp_form import MAX_BYTES as MAX_OTLP_BYTES
from service.http.edge.limits import LONGEST_HELD, REFUSAL_RATE
from service.http.edge.reading import MOST_STORED as MOST_KEPT
from service.ingest.foreign.envelope import MAX_PARTS
from service.ingest.foreign.feedback import MAX_BYTES as MAX_FEEDBACK_BYTES
from service.ingest.grouping.fingerprint import MAX_ENTRIES, MAX_ENTRY
from service.process.apiserver import MAX_CONNECTIONS
from service.provider.operator import PROVISION_SECONDS
from service.provider.sources import PER_ACCOUNT, PLACES
from service.publications import MOST_BYTES as MOST_PUBLIC_BYTES
from service.settings import settings_table
from service.webhooks.delivering import OF_ACCOUNT, OF_WEBHOOK
from service.webhooks.mail import MAIL_A_DAY
from service.webhooks.message import MAX_SUMMARY, MAX_TITLE
from service.webhooks.sending import KEPT_SECONDS
from service.webhooks.testing import A_MINUTE, catalogue
from statemachines.accounts.person import FEEDBACK_LIMIT, MOST_DETAILS
from statemachines.alerts import ALERTS_LIMIT, EVERY_SECONDS
from statemachines.cases.agent_run import MAX_AGENT_RUNS
from statemachines.cases.comment import MAX_COMMENTS
from statemachines.cases.view import VIEWS_LIMIT
from statemachines.kernel.canonical import MAX_INTEGER
from statemachines.kernel.topics import EVENTS
from statemachines.notifications import DESTINATIONS_LIMIT, RULES_LIMIT
from statemachines.onboarding.proof import NEWEST_ROWS
from statemachines.provider import DOUBT_SECONDS
from statemachines.publications import PUBLICATIONS_LIMIT
from statemachines.webhooks import WEBHOOKS_LIMIT

DOCS = Path(__file__).parents[2] / "docs"
WRITTEN = "`make generated` writes this page from the code.\n"

LIMITS: Mapping[str, str] = {
    "Body of an error or event": f"{MAX_INGEST_BYTES:,} bytes",
    "`extra` of an error": f"{MAX_EXTRA_BYTES:,} bytes",
    "Batch of errors or events": f"{MAX_BATCH_BYTES:,} bytes, {MAX_BATCH_ITEMS:,} items",
    "Sentry envelope": f"{MAX_ENVELOPE_BYTES:,} bytes sent, {MAX_UNPACKED_BYTES:,} unpacked",
    "Minidump in its form": f"{MAX_ENVELOPE_BYTES:,} bytes sent, {MAX_UNPACKED_BYTES:,} unpacked, {MAX_PARTS:,} parts",
    "Security reports": f"{MAX_EVENT_BYTES:,} bytes, {MAX_BATCH_ITEMS:,} reports",
    "Feedback of a person": f"{feedback.MOST_BYTES:,} bytes sent, {feedback.MOST_ITEMS} of each form an envelope, "
    f"{MAX_FEEDBACK_BYTES:,} bytes stored",
    "Event of an SDK": f"{MAX_EVENT_BYTES:,} bytes",
    "PostHog body": f"{MAX_POSTHOG_BYTES:,} bytes, also unpacked, {MAX_EVENTS:,} events",
    "OTLP export": f"{MAX_OTLP_BYTES:,} bytes sent, {MOST_RECORDS:,} records, {MOST_STORED:,} bytes stored",
    "Page of the stored errors of a case": f"{MAX_PAGE_BYTES:,} bytes, {MAX_EVENTS_OF_PAGE} errors",
    "Notes at a case": f"{MAX_COMMENTS:,} comments, {MAX_AGENT_RUNS} agents' runs; none is ever removed",
    "Fingerprint of an SDK": f"the first {MAX_ENTRIES} entries and {MAX_ENTRY} characters of each count",
    "Wait of an error for its source map": f"{MAP_PATIENCE:g} seconds, {PATIENCE:g} to learn whether there is any",
    "Source map": f"{MAX_MAP_BYTES:,} bytes a file, {MAX_PROJECT_BYTES:,} a project",
    "Artifact bundle": f"{MOST_BUNDLE:,} bytes sent, {MOST_UNPACKED:,} unpacked, {MOST_ENTRIES:,} files",
    "Onboarding plan": f"{MAX_PLAN_BYTES:,} bytes",
    "Feedback": f"{FEEDBACK_LIMIT:,} different ones a person, {MOST_DETAILS:,} bytes of details",
    "Evidence of an event": f"the newest {NEWEST_ROWS} rows; of a safe error, the newest {MOST_ERRORS:,} records",
    "Automation contract": f"{MAX_CONTRACT_BYTES:,} bytes, {MAX_AUTOMATIONS} automations",
    "Back-test": f"{MAX_DAYS} days",
    "Saved views": f"{VIEWS_LIMIT} a project, {MOST_COUNTED:,} cases counted of one, {LISTED_COUNTED} in the list",
    "Webhooks": f"{WEBHOOKS_LIMIT} a project, {MAX_NAMES} event names each",
    "Body of a delivery": f"{MAX_DELIVERY_BYTES:,} bytes",
    "Attempt to deliver": f"{SECONDS:g} seconds, {OF_WEBHOOK} at once a webhook, {OF_ACCOUNT} an account",
    "Tests of a webhook or destination": f"{A_MINUTE} a minute, one at a time",
    "Destinations of notifications": f"{DESTINATIONS_LIMIT} a project, {RULES_LIMIT} rules",
    "Mail": f"{MAIL_A_DAY} messages a person and day",
    "Messages about one case to a destination": "one an hour, the rest in a digest",
    "Texts in a message": f"{MAX_TITLE} characters of a title, {MAX_SUMMARY} of a summary",
    "Deliveries": f"kept {KEPT_SECONDS // 86_400} days",
    "Call to your analytics provider": (
        f"{READ_SECONDS:g} seconds, {MAX_HEAD:,} bytes of head, {MAX_QUERY_BYTES:,} of body"
    ),
    "Calls of one connection to its provider": f"{AT_ONCE} at once, {MOST_WAITING} waiting, on a machine",
    "Rest of a connection after a 429 or 5xx": (
        f"{FIRST_REST:.0f} to {LONGEST_REST:.0f} seconds, or the provider's Retry-After up to {LONGEST_TOLD:.0f}"
    ),
    "Lists of the provider": f"{PER_ACCOUNT} at once an account, {PLACES} a machine",
    "Attempt to provision": (
        f"{PROVISION_SECONDS:.0f} seconds; {DOUBT_SECONDS} until the next creation after one without an answer"
    ),
    "Query": f"{QUERY_SECONDS:.0f} seconds, {WAIT_SECONDS:.0f} of them for its turn; one at a time an account",
    "Window of a query": f"{LONGEST_DAYS} days",
    "Names of events that are counted": f"{MOST_NAMES:,} a project and day",
    "Keys of properties that are counted": f"{MOST_KEYS:,} a project and day, of up to {MAX_KEY} characters",
    "Rows of a query": f"{MAX_LIMIT:,}",
    "Structured query": f"{MAX_SELECT} columns, {MAX_FILTERS} filters, {MAX_IN} values, {MAX_BY} fields to group by",
    "Values of a structured query's rows": f"{MOST_BYTES:,} bytes",
    "Query text": f"{MAX_QUERY:,} characters, {DEFAULT_ROWS:,} rows",
    "Answer of a query that is stored under its key": f"{MOST_KEPT:,} bytes",
    "Alerts": f"{ALERTS_LIMIT} a project, each evaluated every {EVERY_SECONDS} seconds",
    "Preview of an alert": f"{MOST_DAYS} days, {MOST_LOOKS} looks, {QUERY_SECONDS:.0f} seconds",
    "Published queries": f"{PUBLICATIONS_LIMIT} a project",
    "Public query": f"{MAX_PUBLIC_ROWS:,} rows, kept for at most {MAX_CACHE_SECONDS:,} seconds",
    "Kept answers of public queries": f"{MOST_PUBLIC_BYTES:,} bytes a machine",
    "JSON nesting": f"{MAX_DEPTH} levels",
    "JSON values of a record": f"{MAX_VALUES:,}",
    "JSON integer": f"{MAX_INTEGER:,}",
    "Connections of a machine": f"{MAX_CONNECTIONS:,}",
    "Answers 401, 429 and 503 to one caller": f"{REFUSAL_RATE} a second, held for up to {LONGEST_HELD:g} seconds",
}
"""What is bounded, and how; rates and other bounds that an operator sets are settings."""
SHOWN = ("case.created", "deploy.recorded", "run.ended")
"""Events of webhooks whose examples the page shows."""


def settings() -> str:
    """The environment variables."""
    return (
        f"# Settings\n\n{WRITTEN}\nThe service reads its settings from the environment, once, at start. You can put a "
        "secret into a file and\nname the file with `<variable>_FILE`. With the embedded database, missing secrets are "
        "made in the data\ndirectory. With your own database, each missing secret is an error.\n\n" + settings_table()
    )


def errors() -> str:
    """The error codes."""
    rows = [
        f"| `{code}` | {error.status} | {'yes' if error.retryable else 'no'} | {_cell(error.message)} | "
        f"{_cell(error.next_action)} |\n"
        for code, error in sorted(CATALOGUE.items(), key=lambda entry: (entry[1].status, entry[0]))
    ]
    return (
        f"# Error codes\n\n{WRITTEN}\nA code keeps its status and its meaning. The message and the next action are the "
        "defaults. A response may\ncarry more precise ones. Retry a retryable error with backoff and the same "
        "`Idempotency-Key`.\n\n| Code | Status | Retry | Message | Next action |\n| --- | --- | --- | --- | --- |\n"
        + "".join(rows)
    )


def events() -> str:
    """The topics, by machine."""
    rows = [
        f"| `{topic}` | [{name}](machines/{name}.md) | {_cell(inspect.getdoc(EVENTS[topic]) or '')} |\n"
        for name, machine in sorted(named().items())
        for topic in sorted(EVENTS)
        if machine.table.get_transitions(topic)
    ]
    return (
        f"# Events\n\n{WRITTEN}\nEach event is stored under its topic and never changes. `service events schemas`"
        " prints the JSON Schema of\neach payload. The machines show which events are legal in which state.\n\n"
        "| Topic | Machine | Meaning |\n| --- | --- | --- |\n" + "".join(rows)
    )


def limits() -> str:
    """What is bounded."""
    rows = [f"| {what} | {how} |\n" for what, how in LIMITS.items()]
    return (
        f"# Limits\n\n{WRITTEN}\nA request over a limit gets a 413 or a 400 with the limit in `details`. Rate limits, "
        "plans and requests in\nflight are [settings](settings.md). What a machine has, its API processes "
        "[share](../how-to/run.md#scale-out).\n\n| What | Limit |\n| --- | --- |\n" + "".join(rows)
    )


def webhook_events() -> str:
    """The kinds of deliveries."""
    rows, examples = "", ""
    for one in catalogue().events:
        members = ", ".join(f"`{name}`" for name in one.example.data)
        rows += f"| `{one.event}` | {'yes' if one.in_star else 'no'} | {_cell(one.description)} | {members} |\n"
        if one.event in SHOWN:
            text = msgspec.json.format(msgspec.json.encode(one.example), indent=2).decode()
            examples += f"\n## `{one.event}`\n\n```json\n{text}\n```\n"
    return (
        f"# Events of webhooks\n\n{WRITTEN}\nA webhook gets the events that it lists, and `webhook.test` when you test "
        "it. `*` stands for those marked so.\n`GET /v1/webhook-events` shows the JSON Schema and an example of each. A "
        "later version may add members, so\naccept members that you do not know.\n\n"
        "| Event | In `*` | Delivered when | `data` |\n| --- | --- | --- | --- |\n" + rows + examples
    )


def command_line() -> str:
    """The commands, with their options."""
    page = f"# Command line\n\n{WRITTEN}\nEvery command prints its help with `--help`.\n"
    for path, command in _commands(main, "service"):
        help_text = inspect.cleandoc(command.help or command.short_help or "")
        page += f"\n## `{path}`\n\n{help_text}\n"
        options = [option for option in command.params if isinstance(option, click.Option) and option.help]
        if options:
            page += "\n| Option | Meaning |\n| --- | --- |\n"
            page += "".join(f"| `{option.opts[0]}` | {_cell(option.help or '')} |\n" for option in options)
    return page


def _commands(group: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    """Every command below one, with the words that call it and its arguments."""
    if not isinstance(group, click.Group):
        names = [argument.make_metavar(click.Context(group)) for argument in group.params if _is_argument(argument)]
        yield " ".join([path, *names]), group
        return
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield from _commands(command, f"{path} {name}")


def _is_argument(parameter: click.Parameter) -> bool:
    return isinstance(parameter, click.Argument)


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|").strip()


PAGES = {
    "reference/settings.md": settings,
    "reference/errors.md": errors,
    "reference/events.md": events,
    "reference/limits.md": limits,
    "reference/webhook-events.md": webhook_events,
    "reference/command-line.md": command_line,
}

if __name__ == "__main__":
    for name, page in PAGES.items():
        (DOCS / name).write_text(page(), encoding="utf-8")
