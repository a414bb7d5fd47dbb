"""Templates of the console with their filters, and the sentences after operations.

Everything on a page is escaped text. Only `markdown` makes HTML. What is computed from texts of others is a filter, so
that it happens where the page is rendered: in the event loop while it is little, else in another process (P25).
"""

import gc
import re
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

import jinja2
import msgspec

from service.console import assets
from service.console.kit.code import coloured, curl
from service.console.kit.texts import Spots, budget, compare, differences, markdown
from service.ids import new_id

# Templates of the console with their filters: times, numbers, and Markdown made safe.

SHORT = 12
LONG_AGO = 30 * 86_400
"""Seconds from which on a moment is told by its day."""
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
_OTHERS = re.compile(r'{%-? *(?:extends|import|include|from) "([^"]+)"')


def render(template: str, facts: Mapping[str, Any], zone: str = "UTC", *, here: int | None = None) -> bytes:
    """Fill in a template. Times are told in `zone`.

    At most `here` characters of plain work are done on texts of others. Raises TooMuchHere for more of it, and
    jinja2.UndefinedError for a missing fact.
    """
    with budget(here):
        page = _environment().get_template(template).render({**facts, "zone": zone}).encode("utf-8", "replace")
    # Macros and their context refer to each other, and to all facts. Without this they pile up to several MB, since
    # the collector of a process that serves requests passes seldom. What is young is little: this takes 0.3 ms.
    gc.collect(0)
    return page


@cache
def load(template: str) -> None:
    """Compile a template with all that it takes from others: a tenth of a second, so it is done apart and once."""
    made = _environment()
    source = made.loader.get_source(made, template)[0] if made.loader else ""
    for name in sorted(set(_OTHERS.findall(source))):
        load(name)
    if "|markdown" in source:
        markdown("*")
    made.get_template(template)


def told_time(epoch: float | None, zone: str = "UTC") -> str:
    """A moment as text in a zone. A dash for None."""
    if epoch is None:
        return "–"
    moment = datetime.fromtimestamp(epoch, UTC).astimezone(ZoneInfo(zone))
    return f"{moment:%Y-%m-%d %H:%M:%S} {moment.tzname()}"


def told_ago(epoch: float, now: float, zone: str = "UTC") -> str:
    """A moment as seen from `now`, such as "5 min ago" or "in 2 h". More than 30 days away: its day in a zone."""
    away = abs(now - epoch)
    if away >= LONG_AGO:
        return told_time(epoch, zone)[:10]
    size, unit = next((size, unit) for size, unit in _UNITS if away >= size or size == 1)
    told = f"{int(away // size)} {unit}"
    return f"{told} ago" if epoch <= now else f"in {told}"


def told_moment(epoch: float) -> str:
    """A moment as ISO 8601 in UTC, for scripts."""
    return f"{datetime.fromtimestamp(int(epoch), UTC):%Y-%m-%dT%H:%M:%SZ}"


def told_reason(code: str) -> str:
    """Why automation left a case alone, by the code of the decision."""
    return REASONS.get(code, code.replace("_", " "))


def told_day(epoch: int) -> str:
    """The UTC day that begins at a moment."""
    return f"{datetime.fromtimestamp(epoch, UTC):%Y-%m-%d}"


def told_duration(seconds: float | None) -> str:
    """A length of time in its two largest units. A dash for None."""
    if seconds is None:
        return "–"
    left = int(seconds)
    parts = []
    for size, unit in _UNITS:
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2]) or "0 s"


def told_number(value: float | None) -> str:
    """A number with its thousands apart. A dash for None."""
    if value is None:
        return "–"
    whole = int(value) if float(value).is_integer() else value
    return f"{whole:,}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def scale_of(most: float) -> int:
    """The top of a scale for numbers up to one: an even round number, so that its half is one as well."""
    whole = max(int(most) + (most > int(most)), 1)
    size: int = 10 ** (len(str(whole)) - 1)
    return next(step * size for step in (1, 2, 4, 6, 8, 10, 20) if step * size >= whole and step * size % 2 == 0)


def _short(value: str | None) -> str:
    return "–" if value is None else value if len(value) <= SHORT + 1 else f"{value[:SHORT]}…"


def pretty(value: Any) -> str:
    """A value as JSON for people."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def _asset(name: str) -> str:
    return f"/console/assets/{name}?v={assets.version(name)}"


@cache
def _environment() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("service.console"),
        undefined=jinja2.StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters |= {"duration": told_duration, "number": told_number, "markdown": markdown}
    made.filters |= {"coloured": coloured, "curl": curl}
    made.filters |= {"differences": differences, "compare": compare, "spots": Spots}
    made.filters |= {"scale": scale_of, "whole": lambda value: told_number(None if value is None else round(value))}
    made.filters |= {"ago": told_ago, "moment": told_moment, "reason": told_reason}
    made.filters |= {"short": _short, "pretty": pretty, "clock": told_time, "day": told_day}
    made.globals |= {"asset": _asset, "new_key": lambda: new_id("req")}
    return made


# A visit as templates see it. It goes along to where a page is rendered, so it holds plain values.


class ShownVisit:
    """The place of a visit, its query, the values entered, the token in its forms, and whether an operator makes it."""

    __slots__ = ("base_url", "csrf", "entered", "of_operator", "place", "query")

    def __init__(
        self,
        place: str,
        query: Mapping[str, str],
        entered: Mapping[str, str],
        csrf: str,
        base_url: str,
        *,
        of_operator: bool,
    ) -> None:
        self.place = place
        self.query = query
        self.entered = entered
        self.csrf = csrf
        self.base_url = base_url
        self.of_operator = of_operator

    def next_query(self, cursor: str) -> str:
        """The query string of the same page, further on in its list."""
        return urlencode({**{name: value for name, value in self.query.items() if name != "done"}, "cursor": cursor})

    def asking(self, path: str, body: str = "", key: str = "") -> str:
        """A command that asks the API, with a body in JSON or an Idempotency-Key. The API key is in the environment."""
        more = [f'  -H "idempotency-key: {key}" \\\n'] if key else []
        more += [f"  -H \"content-type: application/json\" -d '{body}' \\\n"] if body else []
        return f'curl -H "authorization: Bearer $SERVICE_API_KEY" \\\n{"".join(more)}  {self.base_url}{path}'


class Permitted:
    """Whether an operation is open to the person of a page, by its id."""

    __slots__ = ("_operations",)

    def __init__(self, operations: Collection[str]) -> None:
        self._operations = frozenset(operations)

    def __call__(self, operation_id: str) -> bool:
        """Whether it is."""
        return operation_id in self._operations


# Sentences after operations, an operation a line, why automation left a case alone, and secrets shown once.

DONE: Mapping[str, str] = {
    "add_ci_binding": "The workflow is bound.",
    "assign_case": "The case is assigned.",
    "comment_on_case": "Your comment is written.",
    "create_suppression": "The rule counts for errors from now on, and soon for the cases that are there.",
    "ignore_case": "The case is ignored.",
    "merge_case": "The case is merged. Later errors are counted in the other one.",
    "change_project_settings": "The settings are saved.",
    "put_automation_contract": "The contract is saved, and disabled.",
    "enable_automation_contract": "The automation is enabled.",
    "disable_automation": "The automation is disabled.",
    "start_onboarding": "The plan is handed in. It waits for an owner.",
    "review_onboarding": "Your decision is recorded.",
    "verify_onboarding": "The onboarding is verified.",
    "pause_automation_contract": "The automation of this project is stopped.",
    "decide_automation_approval": "Your decision is recorded.",
    "cancel_automation_run": "The run is cancelled.",
    "verify_automation_run": "The service has counted. The run shows the result.",
    "issue_automation_triggers": "The service has looked for work.",
    "preferences": "Saved.",
    "release_claim": "The claim is released.",
    "remove_ci_binding": "The binding is removed. What came by it has ended.",
    "remove_source_map": "The file is removed.",
    "save_case_view": "The view is saved.",
    "change_case_view": "The view is changed.",
    "remove_case_view": "The view is removed. Its cases stay as they are.",
    "remove_suppression": "The rule is removed. What it did to cases stays done.",
    "reopen_case": "The case is open again.",
    "resolve_case": "The case is resolved.",
    "split_case": "The case is split off.",
    "invite_member": "Done. A new member has to accept the invitation: hand the link over.",
    "accept_invitation": "You are a member now.",
    "test_webhook": "The test was sent. The last answer says how it went.",
    "test_notification_destination": "The test was sent. The last answer says how it went.",
    "evaluate_alert": "The alert was evaluated. Its row says what was found.",
}
"""The sentence after an operation or a form. One without any is told by its summary."""

REASONS: Mapping[str, str] = {
    "automation_disabled": "The automation is disabled",
    "automation_paused": "Automation is stopped",
    "budget_exhausted": "No attempt is left",
    "case_already_claimed": "A runner has it",
    "cooldown": "A runner had it recently",
    "environment_not_observed": "Not seen in this environment",
    "materiality_not_met": "Below the thresholds",
    "max_cases_per_sweep": "Others came first",
    "merged_waits_for_deploy": "Waits for a deploy",
    "receipt_open": "Already offered",
    "run_live": "A run works on it",
    "suppressed": "Suppressed",
}
"""The codes of decisions as a person says them."""

SECRETS: Mapping[str, Sequence[tuple[str, str]]] = {
    "create_project": (("DSN", "dsn"), ("Public DSN, for pages", "public_dsn")),
    "rotate_dsn": (("DSN", "dsn"),),
    "rotate_public_dsn": (("Public DSN, for pages", "public_dsn"),),
    "create_credential": (("Credential", "credential"), ("Variable to keep it in", "env_var")),
    "create_webhook": (("Secret", "secret"),),
    "rotate_webhook_secret": (("Secret", "secret"),),
    "create_public_query": (("Publishable key", "publishable_key"), ("Address", "public_url")),
}
"""Operations with a secret in the answer: the label and the member of each."""

LEADING_ON: Mapping[str, str] = {"create_project": "projects/created.html"}
"""The template of an answer with a secret that also tells what comes next. The others have `kit/secret.html`."""
