"""Settings of the service: read once from the environment into one frozen struct.

Each field of `Settings` declares its variable: how the text is read, what it does, its default, and the doubt of
`doctor` about it. The page of settings is made from these. A secret may also come from a file named by
`<VARIABLE>_FILE`. Without `SERVICE_DATABASE_URL` the service runs its embedded PostgreSQL, and makes missing secrets
once in the data directory. With a database of your own each missing one is an error: a second machine with its own
could not read what the first one sealed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints
from urllib.parse import urlsplit

import msgspec

from schemas.kernel.shape import CiHost
from service import settingvalues as read
from service.embedded.layout import Layout, stored_secret, unfit
from service.release import missing
from service.settingvalues import CLIENT_VARIABLES, YES, BadValue, Terms, Variable, name_of

ABSENT = "none"  # the word that says: deliberately without this secret


class SettingsError(Exception):
    """The environment cannot be used; the message lists every problem, one a line, by variable name."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


def _path_doubt(settings: Settings, _: Mapping[str, str]) -> str | None:
    path = urlsplit(settings.base_url).path.strip("/")
    return "SERVICE_BASE_URL has a path, but the service answers only at the root of its address." if path else None


def _payment_doubt(settings: Settings, _: Mapping[str, str]) -> str | None:
    if settings.payment_api_key is None or settings.payment_webhook_secret is not None:
        return None
    return "SERVICE_PAYMENT_API_KEY sells plans, but nobody gets one without SERVICE_PAYMENT_WEBHOOK_SECRET."


def _retention_doubt(settings: Settings, _: Mapping[str, str]) -> str | None:
    if settings.retention_days is None or settings.self_hosted:
        return None
    return "SERVICE_RETENTION_DAYS has no effect where plans are sold or set: each plan has its own days."


def _clock_doubt(settings: Settings, env: Mapping[str, str]) -> str | None:
    if env.get("SERVICE_TEST_CLOCK", "").lower() not in YES or settings.test_token is not None:
        return None
    return "SERVICE_TEST_CLOCK has no effect without SERVICE_TEST_TOKEN."


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that configures a process. `repr` shows no secret.

    `database_url` is always filled: in embedded mode (`embedded`) with the address of the server in `data_dir`.
    `self_hosted`: neither a payment provider nor plans are set.
    Keys are raw bytes; commands that carry out nothing which they seal or sign have those alone that were given. A
    test clock exists only beside a test token (G-120).
    """

    database_url: Annotated[
        str,
        Variable(
            read.database_url,
            "URL of your PostgreSQL, version 15 or later. By default the service runs its embedded PostgreSQL. With "
            "several hosts, such as `postgresql://service@db1:5432,db2:5432/service`, each connection goes to the one "
            "that takes writes.",
            secret=True,
        ),
    ]
    migration_database_url: Annotated[
        str | None,
        Variable(
            read.database_url,
            "The same database as the role that owns the tables. It migrates and grants rights, so the role in "
            "`SERVICE_DATABASE_URL` cannot drop the guards of the history. By default one role does everything.",
            secret=True,
        ),
    ]
    embedded: bool
    data_dir: Annotated[
        Path,
        Variable(read.path, "Directory of the embedded database, its log and the generated secrets.", default=".data"),
    ]
    erasure_ledger: Annotated[
        Path,
        Variable(
            read.path,
            "File with every erasure, so that a restored backup does not bring data back. Share it between hosts "
            "of one database. Default: `erasures.jsonl` in the data directory.",
        ),
    ]
    host: Annotated[str, Variable(read.text, "Address to listen on.", default="127.0.0.1")]
    port: Annotated[int, Variable(read.one_to(65535), "Port to listen on.", default="8000")]
    workers: Annotated[
        int,
        Variable(
            read.one_to(64),
            "Number of API processes on this machine. They share its limits evenly, and each further machine has the "
            "same limits again. Default: 2, and 1 on a machine with one core.",
        ),
    ]
    base_url: Annotated[
        str,
        Variable(
            read.http_url, "Public address in links and DSNs. Default: `http://<host>:<port>`.", doubt=_path_doubt
        ),
    ]
    deploy_sha: Annotated[
        str | None,
        Variable(read.commit_sha, "Commit of this build. `GET /` shows it as `deploy_sha`. Default: `unknown`."),
    ]
    internal_token: Annotated[
        str | None,
        Variable(
            read.token,
            "Secret of the web application that confirms sign-ins, 16 characters or more. With `none` that route "
            "answers 401.",
            secret=True,
            made=32,
        ),
    ]
    test_token: Annotated[
        str | None,
        Variable(
            read.token,
            "Secret of the test operator, 16 characters or more. Without it, test routes answer 404. The service "
            "never makes one.",
            secret=True,
        ),
    ]
    encryption_key: Annotated[
        bytes | None,
        Variable(
            read.key_32,
            "Key that seals DSN copies, webhook secrets and provider tokens, 32 bytes as base64 or hex. With "
            "`none` the service keeps no copies.",
            secret=True,
            made=32,
        ),
    ]
    signing_key: Annotated[
        bytes | None,
        Variable(
            read.key_32,
            "Secret from which the keys that sign the log's checkpoints are derived, 32 bytes as base64 or hex. Keep a "
            "copy of it: with another one, the log's public keys are others.",
            secret=True,
            made=32,
            optional=False,
        ),
    ]
    signing_key_before: Annotated[
        bytes | None,
        Variable(
            read.key_32, "The signing key before the present one. For a day after the change, both sign.", secret=True
        ),
    ]
    witness_policy: Annotated[
        Path | None,
        Variable(
            read.path,
            "File with a policy in the form of C2SP tlog-policy. The worker asks each witness in it that has an "
            "address to cosign the log's checkpoints. Without it, nobody is asked.",
        ),
    ]
    witness_allow_private: Annotated[
        bool, Variable(read.flag, "Witnesses may have private addresses, any port, and plain http.", default="0")
    ]
    provider_client_id: Annotated[
        str | None,
        Variable(
            read.text,
            "OAuth client at the analytics provider. Without it, the client is the service's own document at `<base "
            "URL>/.well-known/oauth-client`, which needs a public https address in `SERVICE_BASE_URL`. Without both, "
            "the service registers itself at the provider, which needs `127.0.0.1` in `SERVICE_HOST` and a browser on "
            "the same machine. Else connecting answers 503.",
        ),
    ]
    provider_client_secret: Annotated[
        str | None, Variable(read.text, "Secret of that client, if it has one.", secret=True)
    ]
    provider_oauth_url: Annotated[
        str,
        Variable(
            read.http_url,
            "Address where people of both regions sign in to the provider, and where the service registers itself. "
            "With a provider of your own, its address. It may be private, and use http.",
            default="https://oauth.posthog.com",
        ),
    ]
    provider_us_url: Annotated[
        str,
        Variable(
            read.http_url,
            "Address of the provider, US region. It may be private, and use http.",
            default="https://us.posthog.com",
        ),
    ]
    provider_eu_url: Annotated[
        str,
        Variable(
            read.http_url,
            "Address of the provider, EU region. It may be private, and use http.",
            default="https://eu.posthog.com",
        ),
    ]
    provider_api_key: Annotated[
        str | None,
        Variable(
            read.header_text,
            "Your personal API key at the provider, with the scopes `project:write`, `query:read`, "
            "`session_recording:read`, `feature_flag:read`, `survey:read` and `experiment:read`. Without it, "
            "provisioning answers 503.",
            secret=True,
        ),
    ]
    provider_organization: Annotated[
        str | None,
        Variable(
            read.path_part,
            "Id of your organization at the provider, in which projects are provisioned. Without it, provisioning "
            "answers 503.",
        ),
    ]
    provider_api_url: Annotated[
        str | None,
        Variable(
            read.http_url,
            "Address of the provider for that key. It may be private, and use http. Default: the US region.",
        ),
    ]
    payment_api_key: Annotated[
        str | None,
        Variable(
            read.text,
            "Secret key at Stripe with write access to prices, customers, subscriptions, checkout and portal "
            "sessions. Without it, checkout and portal answer 503.",
            secret=True,
            doubt=_payment_doubt,
        ),
    ]
    payment_api_base: Annotated[str, Variable(read.http_url, "Address of Stripe.", default="https://api.stripe.com")]
    payment_webhook_secret: Annotated[
        str | None,
        Variable(
            read.text,
            "Signing secret of Stripe's webhook endpoint `<base URL>/v1/billing/webhook`. Register the types "
            "`checkout.session.completed` and `customer.subscription.created`, `.updated` and `.deleted`. Without it, "
            "calls get a 401.",
            secret=True,
        ),
    ]
    oidc_issuer: Annotated[
        str | None,
        Variable(
            read.issuer_url,
            "OIDC issuer where people sign in to the console, exactly as its tokens name it. It may be private; plain "
            "http is for loopback. Its redirect address is `<base URL>/console/oidc/callback`. Without it, people "
            "sign in by links of the operator.",
            needs="oidc_client_id",
        ),
    ]
    oidc_client_id: Annotated[str | None, Variable(read.text, "Client at that issuer.", needs="oidc_issuer")]
    oidc_client_secret: Annotated[str | None, Variable(read.text, "Secret of that client, if it has one.", secret=True)]
    oidc_trust_email: Annotated[
        bool,
        Variable(
            read.flag,
            "You trust this issuer for mail. A first sign-in with an address that it has verified is then that of the "
            "person with the address.",
            default="0",
        ),
    ]
    oidc_scopes: Annotated[str, Variable(read.scopes, "Scopes to ask for.", default="openid email profile")]
    oidc_label: Annotated[str, Variable(read.label, "The issuer's name on the button.", default="OpenID Connect")]
    ci_issuers: Annotated[
        dict[str, CiHost] | None,
        Variable(
            read.ci_issuers,
            "Issuers of CI to accept beside those of GitHub and GitLab.com, separated by commas: `github=` or "
            "`gitlab=`, and the issuer exactly as its tokens name it. They may be private; plain http is for loopback.",
        ),
    ]
    plans: Annotated[
        dict[str, read.Plan],
        Variable(
            read.plans,
            "Plans as JSON, merged over the defaults: events per month, days of retention, price in cents. Without "
            "this setting and without `SERVICE_PAYMENT_API_KEY`, every account has the plan `self_hosted`, which has "
            "no cap.",
            default=read.PLANS,
        ),
    ]
    self_hosted: bool
    retention_days: Annotated[
        int | None,
        Variable(
            read.one_to(3650),
            "Days of retention in the plan `self_hosted`. Default: 90. In an installation with accounts from before "
            "this plan, each account keeps the days it had.",
            doubt=_retention_doubt,
        ),
    ]
    scrub_names: Annotated[
        tuple[str, ...] | None,
        Variable(
            read.names,
            "More names, separated by commas. Telemetry values under these names are scrubbed before storage.",
        ),
    ]
    new_cases_per_hour: Annotated[
        int,
        Variable(
            read.one_to(1_000_000),
            "New cases per project and hour. Further new errors count in one overflow case.",
            default="500",
        ),
    ]
    clickhouse_url: Annotated[
        str | None,
        Variable(
            read.clickhouse_url,
            "ClickHouse for a copy of telemetry: `https://user:password@host:8443/database`, or `chdb:///path`.",
            secret=True,
        ),
    ]
    clickhouse_reader_url: Annotated[
        str | None,
        Variable(read.clickhouse_reader, "Its user who reads, for questions.", needs="clickhouse_url", secret=True),
    ]
    webhook_allow_private: Annotated[
        bool,
        Variable(
            read.flag,
            "For development. Webhooks may reach private addresses and any port, and loopback over plain http.",
            default="0",
        ),
    ]
    smtp_url: Annotated[read.MailServer | None, Variable(read.mail_server, read.SMTP, secret=True, needs="smtp_sender")]
    smtp_sender: Annotated[str | None, Variable(read.mail_address, "Address from which mail comes.", needs="smtp_url")]
    security_contact: Annotated[
        tuple[str, ...] | None,
        Variable(
            read.contacts,
            "Where to report a vulnerability of your installation, such as `mailto:security@example.com`, separated by "
            "commas. `/.well-known/security.txt` shows it, and answers 404 without it.",
        ),
    ]
    change_password_url: Annotated[
        str | None,
        Variable(
            read.endpoint_url,
            "Page at your issuer where people change their password. `/.well-known/change-password` leads there, and "
            "answers 404 without it.",
        ),
    ]
    data_residency: Annotated[
        str | None,
        Variable(
            read.text,
            "Where you keep the data, in your own words, such as `Frankfurt, Germany`. The privacy disclosure repeats "
            "it.",
        ),
    ]
    rate_limits: Annotated[
        dict[str, int],
        Variable(
            read.rate_limits,
            "Requests per minute, shared by the API processes of a machine: `on`, `off`, or a list of changes, such as "
            "`key=1200,ingest=off`. The defaults are "
            + ", ".join(f"`{name}={limit}`" for name, limit in read.RATE_LIMITS.items())
            + ".",
            default="on",
        ),
    ]
    max_in_flight: Annotated[
        int,
        Variable(
            read.one_to(1024),
            "Concurrent requests of one credential, shared by the API processes of a machine. One more gets a 429.",
            default="256",
        ),
    ]
    trusted_proxies: Annotated[
        tuple[IPv4Network | IPv6Network, ...] | None,
        Variable(
            read.networks,
            "Networks of your reverse proxies, separated by commas, such as `10.0.0.0/8,2001:db8::/32`. The "
            "service reads a client's address from their `X-Forwarded-For` or `Forwarded` header, and ignores these "
            "headers from anyone else.",
        ),
    ]
    operators: Annotated[
        tuple[str, ...] | None,
        Variable(
            read.names,
            "People who see the operator's page of the console: user ids, or mail addresses of people who sign in by "
            "mail address, separated by commas. Unset: nobody sees it.",
        ),
    ]
    idle_seconds: Annotated[
        int,
        Variable(
            read.one_to(600),
            "Seconds before the service closes a connection without a complete request head. Behind a proxy, set "
            "it longer than the proxy keeps idle connections.",
            default="15",
        ),
    ]
    min_free_mb: Annotated[
        int,
        Variable(
            read.one_to(1_000_000),
            "Free megabytes required in the data directory. Below that, `/health/ready` answers 503.",
            default="256",
        ),
    ]
    ballast_mb: Annotated[
        int,
        Variable(
            read.up_to(1_000_000),
            "Megabytes of a file in the data directory, deleted first when the disk fills. It is made where 256 MB "
            "stay free beside it. `0`: no file.",
            default="128",
        ),
    ]
    log_level: Annotated[str, Variable(read.log_level, "`debug`, `info`, `warning` or `error`.", default="info")]
    access_log: Annotated[
        bool,
        Variable(
            read.flag,
            "Log each request at level info: method, route, status, milliseconds, kind of caller and request id.",
            default="1",
        ),
    ]
    traces_url: Annotated[
        str | None,
        Variable(
            read.endpoint_url,
            "Address for traces by OTLP over HTTP: `http://localhost:4318/v1/traces`. Needs the extra `tracing`.",
            extra="tracing",
        ),
    ]
    self_dsn: Annotated[
        read.SentryDsn | None,
        Variable(
            read.dsn,
            "DSN of a project for errors of the service itself, without messages. Unset: the log has them alone.",
            secret=True,
        ),
    ]
    test_clock: Annotated[
        bool,
        Variable(
            read.flag,
            "For tests. With a test token, `POST /v1/test-clock/advance` moves the service's clock ahead.",
            default="0",
            doubt=_clock_doubt,
        ),
    ]

    @property
    def terms(self) -> Terms:
        """What accounts may use."""
        return Terms(self.plans, self.self_hosted, self.retention_days)

    def __repr__(self) -> str:
        shown = {v.field: getattr(self, v.field) for v in VARIABLES if not v.secret}
        return f"Settings(embedded={self.embedded}, {', '.join(f'{k}={v!r}' for k, v in shown.items())})"


def _variables() -> Iterator[Variable]:
    for field, kind in get_type_hints(Settings, include_extras=True).items():
        yield from (one._replace(field=field) for one in get_args(kind) if isinstance(one, Variable))


VARIABLES = tuple(_variables())
"""Every variable, in the order of the page."""


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
    wanted = (one for one in VARIABLES if one.extra and values[one.field] is not None)
    problems += [f"{one.name}: needs an extra. {lacks}" for one in wanted if (lacks := missing(one.extra)) is not None]
    alone = (one for one in VARIABLES if one.needs and values[one.field] is not None and values[one.needs] is None)
    problems += [f"{one.name}: needs {name_of(one.needs)}; set both" for one in alone]
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
    values["workers"] = values["workers"] or min(read.USUAL_WORKERS, read.cores())
    values["base_url"] = values["base_url"] or read.default_base_url(values["host"], values["port"])
    unsold = values["payment_api_key"] in {None, ABSENT}
    values["self_hosted"] = unsold and not env.get("SERVICE_PLANS")
    values["test_clock"] = values["test_clock"] and values["test_token"] is not None
    absent = {v.field: None for v in VARIABLES if v.secret and values[v.field] == ABSENT}
    return Settings(embedded=embedded, **{**values, **absent})


def doubts(settings: Settings, env: Mapping[str, str]) -> list[str]:
    """Settings that are read and mean nothing, or not what they look like: a sentence each."""
    found = (variable.doubt(settings, env) for variable in VARIABLES if variable.doubt)
    return [doubt for doubt in found if doubt]


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
