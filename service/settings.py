"""Settings of the service: read once from the environment into one frozen struct.

`VARIABLES` is the whole list, in the order in which README shows it (`settings_table`). A secret may also come from
a file named by `<VARIABLE>_FILE`. Without `SERVICE_DATABASE_URL` the service runs its embedded PostgreSQL, and secrets
that are not given are made once in the data directory. With a database of your own each missing one is an error that
names it, because a second machine that made its own would not read what the first one sealed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Any

from service.embedded.layout import Layout, stored_secret, unfit
from service.outsidesettings import OUTSIDE, OutsideSettings, missing
from service.settingvalues import (
    PLANS,
    RATE_LIMITS,
    BadValue,
    Plan,
    Terms,
    Variable,
    commit_sha,
    database_url,
    flag,
    http_url,
    key_32,
    log_level,
    names,
    networks,
    one_to,
    plans,
    rate_limits,
    text,
    token,
    up_to,
)

ABSENT = "none"  # the word that says: deliberately without this secret


class SettingsError(Exception):
    """The environment cannot be used; the message lists every problem, one a line, by variable name."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class Settings(OutsideSettings, frozen=True, kw_only=True):
    """Everything that configures a process. `repr` shows no secret.

    `database_url` is always filled: in embedded mode (`embedded`) with the address of the server in `data_dir`.
    `self_hosted`: neither a payment provider nor plans are set.
    Keys are raw bytes; commands that carry out nothing which they seal or sign have those alone that were given. A
    test clock exists only beside a test token (G-120).
    """

    database_url: str
    migration_database_url: str | None
    embedded: bool
    data_dir: Path
    erasure_ledger: Path
    host: str
    port: int
    workers: int
    base_url: str
    deploy_sha: str | None
    internal_token: str | None
    test_token: str | None
    encryption_key: bytes | None
    signing_key: bytes | None
    signing_key_before: bytes | None
    witness_policy: Path | None
    witness_allow_private: bool
    plans: dict[str, Plan]
    self_hosted: bool
    retention_days: int | None
    scrub_names: tuple[str, ...] | None
    new_cases_per_hour: int
    webhook_allow_private: bool
    data_residency: str | None
    rate_limits: dict[str, int]
    max_in_flight: int
    trusted_proxies: tuple[IPv4Network | IPv6Network, ...] | None
    operators: tuple[str, ...] | None
    idle_seconds: int
    min_free_mb: int
    ballast_mb: int
    log_level: str
    access_log: bool
    test_clock: bool

    @property
    def terms(self) -> Terms:
        """What accounts may use."""
        return Terms(self.plans, self.self_hosted, self.retention_days)

    def __repr__(self) -> str:
        shown = {v.field: getattr(self, v.field) for v in VARIABLES if not v.secret}
        return f"Settings(embedded={self.embedded}, {', '.join(f'{k}={v!r}' for k, v in shown.items())})"


VARIABLES: tuple[Variable, ...] = (
    Variable(
        "SERVICE_DATABASE_URL",
        "database_url",
        database_url,
        None,
        "URL of your PostgreSQL, version 15 or later. By default the service runs its embedded PostgreSQL.",
        secret=True,
    ),
    Variable(
        "SERVICE_MIGRATION_DATABASE_URL",
        "migration_database_url",
        database_url,
        None,
        "The same database as the role that owns the tables. It migrates and grants rights, so the role in "
        "`SERVICE_DATABASE_URL` cannot drop the guards of the history. By default one role does everything.",
        secret=True,
    ),
    Variable(
        "SERVICE_DATA_DIR",
        "data_dir",
        lambda value: Path(value).expanduser().absolute(),
        ".data",
        "Directory of the embedded database, its log and the generated secrets.",
    ),
    Variable(
        "SERVICE_ERASURE_LEDGER",
        "erasure_ledger",
        lambda value: Path(value).expanduser().absolute(),
        None,
        "File with every erasure, so that a restored backup does not bring data back. Share it between hosts "
        "of one database. Default: `erasures.jsonl` in the data directory.",
    ),
    Variable("SERVICE_HOST", "host", text, "127.0.0.1", "Address to listen on."),
    Variable("SERVICE_PORT", "port", one_to(65535), "8000", "Port to listen on."),
    Variable("SERVICE_WORKERS", "workers", one_to(64), "1", "Number of API processes."),
    Variable(
        "SERVICE_BASE_URL",
        "base_url",
        http_url,
        None,
        "Public address in links and DSNs. Default: `http://<host>:<port>`.",
    ),
    Variable(
        "SERVICE_DEPLOY_SHA",
        "deploy_sha",
        commit_sha,
        None,
        "Commit of this build. `GET /` shows it as `deploy_sha`. Default: `unknown`.",
    ),
    Variable(
        "SERVICE_INTERNAL_TOKEN",
        "internal_token",
        token,
        None,
        "Secret of the web application that confirms sign-ins, 16 characters or more. With `none` that route "
        "answers 401.",
        secret=True,
        made=32,
    ),
    Variable(
        "SERVICE_TEST_TOKEN",
        "test_token",
        token,
        None,
        "Secret of the test operator, 16 characters or more. Without it, test routes answer 404. The service "
        "never makes one.",
        secret=True,
    ),
    Variable(
        "SERVICE_ENCRYPTION_KEY",
        "encryption_key",
        key_32,
        None,
        "Key that seals DSN copies, webhook secrets and provider tokens, 32 bytes as base64 or hex. With "
        "`none` the service keeps no copies.",
        secret=True,
        made=32,
    ),
    Variable(
        "SERVICE_SIGNING_KEY",
        "signing_key",
        key_32,
        None,
        "Secret from which the keys that sign the log's checkpoints are derived, 32 bytes as base64 or hex. Keep a "
        "copy of it: with another one, the log's public keys are others.",
        secret=True,
        made=32,
        optional=False,
    ),
    Variable(
        "SERVICE_SIGNING_KEY_BEFORE",
        "signing_key_before",
        key_32,
        None,
        "The signing key before the present one. For a day after the change, both sign.",
        secret=True,
    ),
    Variable(
        "SERVICE_WITNESS_POLICY",
        "witness_policy",
        lambda value: Path(value).expanduser().absolute(),
        None,
        "File with a policy in the form of C2SP tlog-policy. The worker asks each witness in it that has an address to "
        "cosign the log's checkpoints. Without it, nobody is asked.",
    ),
    Variable(
        "SERVICE_WITNESS_ALLOW_PRIVATE",
        "witness_allow_private",
        flag,
        "0",
        "Witnesses may have private addresses, any port, and plain http.",
    ),
    *OUTSIDE,
    Variable(
        "SERVICE_PLANS",
        "plans",
        plans,
        PLANS,
        "Plans as JSON, merged over the defaults: events per month, days of retention, price in cents. Without this "
        "setting and without `SERVICE_PAYMENT_API_KEY`, every account has the plan `self_hosted`, which has no cap.",
    ),
    Variable(
        "SERVICE_RETENTION_DAYS",
        "retention_days",
        one_to(3650),
        None,
        "Days of retention in the plan `self_hosted`. Default: 90. In an installation with accounts from before this "
        "plan, each account keeps the days it had.",
    ),
    Variable(
        "SERVICE_SCRUB_NAMES",
        "scrub_names",
        names,
        None,
        "More names, separated by commas. Telemetry values under these names are scrubbed before storage.",
    ),
    Variable(
        "SERVICE_NEW_CASES_PER_HOUR",
        "new_cases_per_hour",
        one_to(1_000_000),
        "500",
        "New cases per project and hour. Further new errors count in one overflow case.",
    ),
    Variable(
        "SERVICE_WEBHOOK_ALLOW_PRIVATE",
        "webhook_allow_private",
        flag,
        "0",
        "For development. Webhooks may reach private addresses and any port, and loopback over plain http.",
    ),
    Variable(
        "SERVICE_DATA_RESIDENCY",
        "data_residency",
        text,
        None,
        "Where you keep the data, in your own words, such as `Frankfurt, Germany`. The privacy disclosure repeats it.",
    ),
    Variable(
        "SERVICE_RATE_LIMITS",
        "rate_limits",
        rate_limits,
        "on",
        "Requests per minute: `on`, `off`, or a list of changes, such as `key=1200,ingest=off`. The defaults are "
        + ", ".join(f"`{name}={limit}`" for name, limit in RATE_LIMITS.items())
        + ".",
    ),
    Variable(
        "SERVICE_MAX_IN_FLIGHT",
        "max_in_flight",
        one_to(1024),
        "256",
        "Concurrent requests of one credential in an API process. One more gets a 429.",
    ),
    Variable(
        "SERVICE_TRUSTED_PROXIES",
        "trusted_proxies",
        networks,
        None,
        "Networks of your reverse proxies, separated by commas, such as `10.0.0.0/8,2001:db8::/32`. The "
        "service reads a client's address from their `X-Forwarded-For` or `Forwarded` header, and ignores these "
        "headers from anyone else.",
    ),
    Variable(
        "SERVICE_OPERATORS",
        "operators",
        names,
        None,
        "People who see the operator's page of the console: user ids, or mail addresses of people who sign in by "
        "mail address, separated by commas. Unset: nobody sees it.",
    ),
    Variable(
        "SERVICE_IDLE_SECONDS",
        "idle_seconds",
        one_to(600),
        "15",
        "Seconds before the service closes a connection without a complete request head. Behind a proxy, set "
        "it longer than the proxy keeps idle connections.",
    ),
    Variable(
        "SERVICE_MIN_FREE_MB",
        "min_free_mb",
        one_to(1_000_000),
        "256",
        "Free megabytes required in the data directory. Below that, `/health/ready` answers 503.",
    ),
    Variable(
        "SERVICE_BALLAST_MB",
        "ballast_mb",
        up_to(1_000_000),
        "128",
        "Megabytes of a file in the data directory, deleted first when the disk fills. It is made where 256 MB stay "
        "free beside it. `0`: no file.",
    ),
    Variable("SERVICE_LOG_LEVEL", "log_level", log_level, "info", "`debug`, `info`, `warning` or `error`."),
    Variable(
        "SERVICE_ACCESS_LOG",
        "access_log",
        flag,
        "1",
        "Log each request at level info: method, route, status, milliseconds, kind of caller and request id.",
    ),
    Variable(
        "SERVICE_TEST_CLOCK",
        "test_clock",
        flag,
        "0",
        "For tests. With a test token, `POST /v1/test-clock/advance` moves the service's clock ahead.",
    ),
)

# Names that clients of this service read; they may stand in the same environment and configure nothing here.
CLIENT_VARIABLES = frozenset(
    {
        "SERVICE_API_KEY",
        "SERVICE_PRIVATE_API_KEY",
        "SERVICE_CI_API_KEY",
        "SERVICE_RUNNER_API_KEY",
        "SERVICE_URL",
        "SERVICE_PROJECT",
        "SERVICE_PROJECT_ID",
        "SERVICE_DSN",
        "SERVICE_ONBOARDING_PROOF",
    }
)


def load_settings(env: Mapping[str, str] | None = None, *, secrets: bool = True) -> Settings:
    """Read the environment (the process's own by default). Raises SettingsError with all problems at once.

    In embedded mode this makes missing secrets under `<data dir>/secrets` (mode 0600); without `secrets` it makes none
    and requires none, and creates nothing. An empty variable counts as unset.
    """
    env = os.environ if env is None else env
    problems: list[str] = []
    values: dict[str, Any] = {}
    for variable in VARIABLES:
        try:
            values[variable.field] = _read(variable, env)
        except BadValue as error:
            problems.append(f"{variable.name}: {error}")
            values[variable.field] = None
    if problem := missing(values["oidc_issuer"], values["oidc_client_id"]):
        problems.append(problem)
    if problems:
        raise SettingsError(problems)
    embedded = values["database_url"] is None
    if embedded and values["migration_database_url"] not in {None, ABSENT}:
        problems.append("SERVICE_MIGRATION_DATABASE_URL: needs SERVICE_DATABASE_URL; set both")
    if embedded and (problem := unfit(values["data_dir"], makes=secrets)):
        raise SettingsError([*problems, f"SERVICE_DATA_DIR: {problem}"])
    for variable in VARIABLES:
        if secrets and variable.made and values[variable.field] is None:
            _make(variable, values, embedded, problems)
    if problems:
        raise SettingsError(problems)
    layout = Layout(values["data_dir"])
    values["database_url"] = layout.url if embedded else values["database_url"]
    values["erasure_ledger"] = values["erasure_ledger"] or values["data_dir"] / "erasures.jsonl"
    values["base_url"] = values["base_url"] or _default_base_url(values["host"], values["port"])
    unsold = values["payment_api_key"] in {None, ABSENT}
    values["self_hosted"] = unsold and not env.get("SERVICE_PLANS")
    values["test_clock"] = values["test_clock"] and values["test_token"] is not None
    absent = {v.field: None for v in VARIABLES if v.secret and values[v.field] == ABSENT}
    return Settings(embedded=embedded, **{**values, **absent})


def unknown_variables(env: Mapping[str, str]) -> list[str]:
    """Names that begin with SERVICE_ and mean nothing here: most likely misspelt."""
    known = CLIENT_VARIABLES | {variable.name for variable in VARIABLES}
    known |= {f"{variable.name}_FILE" for variable in VARIABLES if variable.secret}
    return sorted(name for name in env if name.startswith("SERVICE_") and name not in known)


def settings_table() -> str:
    """The variables as a Markdown table, for README."""
    lines = ["| Variable | Default | Meaning |", "| --- | --- | --- |"]
    for variable in VARIABLES:
        if variable.made:
            default = "made in embedded mode, else required"
        else:
            default = "unset" if variable.default is None else f"`{variable.default}`"
        name = f"`{variable.name}`" + (" or `…_FILE`" if variable.secret else "")
        lines.append(f"| {name} | {default} | {variable.doc} |")
    return "\n".join(lines) + "\n"


def _read(variable: Variable, env: Mapping[str, str]) -> Any:
    """Value of one variable: None when unset without a default, ABSENT when switched off."""
    given = env.get(variable.name, "")
    file = env.get(f"{variable.name}_FILE", "") if variable.secret else ""
    if given and file:
        raise BadValue(f"both it and {variable.name}_FILE are set; keep one")
    if file:
        try:
            given = Path(file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise BadValue(f"the file named by {variable.name}_FILE cannot be read ({type(error).__name__})") from error
        if not given:
            raise BadValue(f"the file named by {variable.name}_FILE is empty")
    if not given:
        return None if variable.default is None else variable.read(variable.default)
    if variable.secret and variable.optional and given.lower() == ABSENT:
        return ABSENT
    return variable.read(given)


def _make(variable: Variable, values: dict[str, Any], embedded: bool, problems: list[str]) -> None:
    """Fill a missing secret from the data directory, or say that it is missing."""
    if not embedded:
        hint = f" (or the word {ABSENT})" if variable.optional else ""
        problems.append(
            f"{variable.name}: required with SERVICE_DATABASE_URL; set it{hint}, or {variable.name}_FILE. "
            f"A good value: openssl rand -base64 {variable.made}"
        )
        return
    try:
        made = stored_secret(Layout(values["data_dir"]), variable.field, variable.made)
        values[variable.field] = variable.read(made)
    except OSError as error:
        problem = f"SERVICE_DATA_DIR: {Layout(values['data_dir']).secrets} cannot be made or used ({error.strerror})."
        if problem not in problems:
            problems.append(problem)
    except BadValue as error:
        path = Layout(values["data_dir"]).secrets / variable.field
        problems.append(f"{variable.name}: {path} cannot be made or used: {error}")


def _default_base_url(host: str, port: int) -> str:
    """Where a browser on this machine finds the API."""
    name = "127.0.0.1" if host in {"0.0.0.0", "::", ""} else host  # noqa: S104 (compared, not bound)
    return f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}"
