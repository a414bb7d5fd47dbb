"""How the text of each setting is read. Every reader takes text, and raises BadValue with a sentence for people."""

import base64
import binascii
import os
import re
from collections.abc import Callable, Mapping
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import unquote, urlencode, urlsplit

import msgspec

from schemas.kernel.shape import CiHost

KEY_BYTES = 32
TOKEN_CHARACTERS = 16
PLANS = (
    '{"free": {"events": 100000, "retention_days": 30, "price_cents": 0}, '
    '"pro": {"events": 2000000, "retention_days": 90, "price_cents": 2900}, '
    '"scale": {"events": 20000000, "retention_days": 365, "price_cents": 19900}}'
)
FREE_PLAN = "free"
"""The plan of every account that has not subscribed to another."""
SELF_HOSTED = "self_hosted"
"""The plan of every account where nothing is sold and no plans are set (G-203)."""

FEEDBACK = "feedback"
"""The class of feedback, by DSN: beside that of all records."""
OBSERVATIONS = "observations"
"""The class of observed pull requests, by CI credential: beside that of all its requests."""
CI_BINDING = "ci_binding"
"""The class of exchanges by one binding, whatever addresses they come from."""
RATE_LIMITS: Mapping[str, int] = {  # requests a minute by class of principal or route (G-012)
    "key": 600,
    "project_credential": 300,
    "ingest": 60_000,
    "public_ingest": 12_000,
    FEEDBACK: 60,
    OBSERVATIONS: 60,
    "public_query": 60,
    "log": 600,
    "device_start": 10,
    "device_poll": 30,
    "ci_exchange": 30,
    CI_BINDING: 60,
    "internal": 600,
}
# Names that clients of this service read; they may stand in the same environment and configure nothing here.
CLIENT_VARIABLES = frozenset(
    {
        "SERVICE_API_KEY",
        "SERVICE_PRIVATE_API_KEY",
        "SERVICE_CI_API_KEY",
        "SERVICE_ID_TOKEN",
        "SERVICE_RUNNER_API_KEY",
        "SERVICE_URL",
        "SERVICE_PROJECT",
        "SERVICE_PROJECT_ID",
        "SERVICE_DSN",
        "SERVICE_ONBOARDING_PROOF",
    }
)
MOST_A_MINUTE = 10_000_000
LOCAL = "localhost"
CHDB = "chdb"
"""The scheme of ClickHouse in the worker's process."""
_CLICKHOUSE = "must be a URL like https://user:password@host:8443/database or chdb:///path"
MOST_LABEL = 60
USUAL_WORKERS = 2
"""API processes of a machine with so many cores: while one works on a long piece, or is replaced, another answers."""
MOST_ADDRESS = 254
SMTP = (
    "Your mail server: `smtps://user:password@mail.example:465`, or `smtp://…:587`, where STARTTLS is required but for "
    "loopback. Unset: no mail is sent."
)
"""What the setting says."""
_MAIL_SERVER = "must be a URL like smtps://user:password@mail.example:465 or smtp://mail.example:587"
YES = frozenset({"1", "true", "yes", "on"})
NO = frozenset({"0", "false", "no", "off"})


class BadValue(Exception):
    """The text of a setting cannot be used; the message never repeats the text, which may be a secret."""


def name_of(field: str) -> str:
    """The variable that fills a field."""
    return f"SERVICE_{field.upper()}"


class Variable(NamedTuple):
    """The variable of a field of the settings: how its text is read, what it does, and its default as text.

    `made` is the length in bytes of the secret that embedded mode makes when none is given. A variable with it is
    required with a database of your own. `optional` secrets accept the word `none`. `needs` is the field that must be
    set beside it, and `extra` the extra that must be installed. `doubt` takes the settings and the environment, and
    returns a sentence for `doctor` when the value has no effect, or not the one that it seems to have.
    """

    read: Callable[[str], Any]
    doc: str
    default: str | None = None
    secret: bool = False
    made: int = 0
    optional: bool = True
    needs: str = ""
    extra: str = ""
    doubt: Callable[[Any, Mapping[str, str]], str | None] | None = None
    field: str = ""

    @property
    def name(self) -> str:
        """Its name in the environment."""
        return name_of(self.field)


class Plan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What an account may use: events a calendar month, days that raw rows are kept, price a month in cents."""

    events: int
    retention_days: int
    price_cents: int


class Terms(NamedTuple):
    """What accounts may use in this installation (G-071, G-203).

    `self_hosted`: it sells nothing and names no plans, so no account has a cap. `retention_days` are those of its
    setting. None without one.
    """

    plans: Mapping[str, Plan]
    self_hosted: bool = False
    retention_days: int | None = None


def text(value: str) -> str:
    """Any text without spaces around it."""
    return value.strip()


def path(value: str) -> Path:
    """A file or directory, from the working directory or the home directory on."""
    return Path(value).expanduser().absolute()


def header_text(value: str) -> str:
    """Text that fits a header of HTTP: visible ASCII without spaces."""
    word = value.strip()
    if not re.fullmatch("[!-~]+", word):
        raise BadValue("must be visible ASCII characters without spaces")
    return word


def path_part(value: str) -> str:
    """One part of a path, such as an id: letters, digits, hyphens, underscores."""
    word = value.strip()
    if not re.fullmatch("[A-Za-z0-9_-]{1,100}", word):
        raise BadValue("must be 1 to 100 letters, digits, hyphens and underscores")
    return word


def names(value: str) -> tuple[str, ...]:
    """Names separated by commas."""
    found = tuple(name.strip() for name in value.split(",") if name.strip())
    if not found:
        raise BadValue("must be one or more names, separated by commas")
    return found


def networks(value: str) -> tuple[IPv4Network | IPv6Network, ...]:
    """Networks in CIDR form, or single addresses, separated by commas; none of them is everybody."""
    try:
        found = tuple(ip_network(part.strip()) for part in value.split(",") if part.strip())
    except ValueError as error:
        raise BadValue("must be networks like 10.0.0.0/8 or 2001:db8::/32, separated by commas") from error
    if not found or any(network.prefixlen == 0 for network in found):
        raise BadValue("must be one or more networks, none of which is everybody")
    return found


def flag(value: str) -> bool:
    """1, true, yes, on; or 0, false, no, off."""
    word = value.strip().lower()
    if word in YES:
        return True
    if word in NO:
        return False
    raise BadValue("must be 1 or 0")


def one_to(most: int) -> Callable[[str], int]:
    """Make a reader of whole numbers from 1 to `most`."""

    def read(value: str) -> int:
        if not value.strip().isdecimal() or not 1 <= int(value) <= most:
            raise BadValue(f"must be a whole number from 1 to {most}")
        return int(value)

    return read


def up_to(most: int) -> Callable[[str], int]:
    """Make a reader of whole numbers from 0 to `most`."""
    return lambda value: 0 if value.strip() == "0" else one_to(most)(value)


def log_level(value: str) -> str:
    """One of the four levels, in lower case."""
    level = value.strip().lower()
    if level not in {"debug", "info", "warning", "error"}:
        raise BadValue("must be debug, info, warning or error")
    return level


def commit_sha(value: str) -> str:
    """The name of a commit, short or whole, in lower case."""
    sha = value.strip().lower()
    if not re.fullmatch("[0-9a-f]{7,64}", sha):
        raise BadValue("must be 7 to 64 hex digits, as git rev-parse HEAD prints them")
    return sha


def http_url(value: str) -> str:
    """An http or https address without a trailing slash, query or fragment."""
    try:
        parts = urlsplit(value.strip())
        _ = parts.port  # a malformed port raises only when asked for
    except ValueError as error:
        raise BadValue("must be an http or https address") from error
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise BadValue("must be an http or https address, like https://service.example")
    if parts.query or parts.fragment or parts.username:
        raise BadValue("must be a plain address, without user, query or fragment")
    return value.strip().rstrip("/")


def contacts(value: str) -> tuple[str, ...]:
    """Addresses of the kinds mailto, https and tel, separated by commas."""
    found = tuple(part.strip() for part in value.split(",") if part.strip())
    if not found or not all(
        re.fullmatch(r"(?:mailto:[!-~]+@[!-~]+|https://[!-~]+|tel:[+0-9().-]+)", one) for one in found
    ):
        raise BadValue("must be addresses such as mailto:security@example.com, https:// or tel:, separated by commas")
    return found


class MailServer(NamedTuple):
    """The operator's mail server. `tls` says when TLS begins. Without TLS it is on loopback."""

    host: str
    port: int
    tls: Literal["at_once", "by_command", "never"]
    login: tuple[str, str] | None = None


def mail_server(value: str) -> MailServer:
    """A mail server, with user and password if it asks for these. Over smtp, TLS is required but for loopback."""
    try:
        parts = urlsplit(value.strip())
        port = parts.port  # a malformed port raises only when asked for
    except ValueError as error:
        raise BadValue(_MAIL_SERVER) from error
    host = parts.hostname or ""
    if parts.scheme not in {"smtp", "smtps"} or not re.fullmatch("[A-Za-z0-9._:-]{1,253}", host) or port == 0:
        raise BadValue(_MAIL_SERVER)
    if parts.path not in {"", "/"} or parts.query or parts.fragment or bool(parts.username) != bool(parts.password):
        raise BadValue(_MAIL_SERVER)
    login = (unquote(parts.username), unquote(parts.password)) if parts.username and parts.password else None
    if parts.scheme == "smtps":
        return MailServer(host, port or 465, "at_once", login)
    return MailServer(host, port or 587, "never" if _is_loopback(host) else "by_command", login)


def mail_address(value: str) -> str:
    """A mail address alone, in ASCII."""
    if not is_mail_address(value.strip()):
        raise BadValue("must be a mail address alone, such as service@example.com")
    return value.strip()


def is_mail_address(text: str) -> bool:
    """Whether a text is an address that fits into an envelope as it is: no quotes, no spaces, nothing beyond ASCII."""
    return (
        len(text) <= MOST_ADDRESS
        and re.fullmatch(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?", text)
        is not None
    )


def endpoint_url(value: str) -> str:
    """An http or https address with its path, as it stands."""
    http_url(value)
    return value.strip()


class SentryDsn(NamedTuple):
    """A DSN of a project, as Sentry's SDKs read it: the address below which its intake is, and its key."""

    url: str
    key: str


def dsn(value: str) -> SentryDsn:
    """Such as `https://service_dsn_…@service.example/2765118032197377`."""
    found = re.fullmatch(r"(https?)://([^/@\s]+)@([^/@?#\s]+)((?:/[^/@?#\s]+)*)/(\d+)", value.strip(), re.ASCII)
    if found is None:
        raise BadValue("must be a DSN, such as https://service_dsn_…@service.example/2765118032197377")
    scheme, key, host, path, number = found.groups()
    return SentryDsn(f"{http_url(f'{scheme}://{host}{path}')}/api/{number}/", key.partition(":")[0])


def issuer_url(value: str) -> str:
    """An issuer exactly as its tokens write it. Plain http is for loopback alone."""
    issuer = value.strip()
    http_url(issuer)
    parts = urlsplit(issuer)
    if parts.scheme == "http" and not _is_loopback(parts.hostname or ""):
        raise BadValue("must be an https address; http is for loopback alone")
    return issuer


def ci_issuers(value: str) -> dict[str, CiHost]:
    """Issuers of tokens of CI with the kind of each, separated by commas: `gitlab=https://gitlab.acme.example`."""
    found: dict[str, CiHost] = {}
    for part in filter(None, map(str.strip, value.split(","))):
        kind, _, url = part.partition("=")
        if kind not in {"github", "gitlab"}:
            raise BadValue("must be issuers like github=https://… or gitlab=https://…, separated by commas")
        found[issuer_url(url)] = "github" if kind == "github" else "gitlab"
    if not found:
        raise BadValue("must be one or more issuers, separated by commas")
    return found


def scopes(value: str) -> str:
    """Scopes separated by spaces, with `openid` among them."""
    found = value.split()
    if "openid" not in found:
        raise BadValue("must be scopes separated by spaces, openid among them")
    return " ".join(found)


def label(value: str) -> str:
    """A short name."""
    name = value.strip()
    if not name.isprintable() or len(name) > MOST_LABEL:
        raise BadValue(f"must be at most {MOST_LABEL} printable characters")
    return name


_OF_A_LIST = {
    "target_session_attrs": "read-write",
    "connect_timeout": "2",
    "keepalives_idle": "2",
    "keepalives_interval": "1",
    "keepalives_count": "3",
    "tcp_user_timeout": "5000",
}
"""What each connection to a list of hosts needs (seconds; milliseconds for the last one)."""


def cores() -> int:
    """The number of cores this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)  # not on every system
    return (os.cpu_count() or 1) if affinity is None else len(affinity(0))


def database_url(value: str) -> str:
    """A PostgreSQL URL. The start shows whether the server answers.

    One with a list of hosts leads each connection to the one that takes writes, and past one that does not answer
    (G-201).
    """
    url = value.strip()
    if not url.startswith(("postgresql://", "postgres://")):
        raise BadValue("must be a URL like postgresql://user:password@host:5432/database")
    if "," not in url and "%2c" not in url.lower():
        return url
    import psycopg  # noqa: PLC0415 - few name several hosts, and every command reads settings

    try:
        given = psycopg.conninfo.conninfo_to_dict(url)
    except psycopg.ProgrammingError as error:
        raise BadValue("must be a URL like postgresql://user:password@host:5432,host:5432/database") from error
    if "," not in str(given.get("host") or given.get("hostaddr") or ""):
        return url
    if given.get("target_session_attrs", "primary") not in {"primary", "read-write"}:
        raise BadValue("with several hosts, target_session_attrs must be read-write or primary")
    added = {name: needed for name, needed in _OF_A_LIST.items() if name not in given}
    return f"{url}{'&' if '?' in url else '?'}{urlencode(added)}" if added else url


def clickhouse_url(value: str) -> str:
    """A ClickHouse server over https, or http for loopback alone; or `chdb:///path`, the engine in this process."""
    url = value.strip()
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise BadValue(_CLICKHOUSE) from error
    if parts.query or parts.fragment:
        raise BadValue("must be a URL without query or fragment")
    if parts.scheme == CHDB:
        if parts.netloc or not parts.path.strip("/"):
            raise BadValue("must name an absolute path, like chdb:///var/lib/service/copy")
    elif parts.scheme not in {"http", "https"} or not parts.hostname:
        raise BadValue(_CLICKHOUSE)
    elif parts.scheme == "http" and not _is_loopback(parts.hostname):
        raise BadValue("must be an https URL; http is for loopback alone")
    return url


def clickhouse_reader(value: str) -> str:
    """As `clickhouse_url`, but for a server alone: the engine in the worker has one user."""
    url = clickhouse_url(value)
    if urlsplit(url).scheme == CHDB:
        raise BadValue("must be the URL of a server: the engine in the worker has one user, and questions only read")
    return url


def token(value: str) -> str:
    """A bearer secret: printable, without spaces, long enough not to be guessed."""
    secret = value.strip()
    if len(secret) < TOKEN_CHARACTERS:
        raise BadValue(f"must have at least {TOKEN_CHARACTERS} characters; openssl rand -hex 32 makes a good one")
    if not secret.isascii() or not secret.isprintable() or " " in secret:
        raise BadValue("must be printable ASCII without spaces")
    if len(set(secret)) < TOKEN_CHARACTERS // 4:
        raise BadValue("repeats too few characters; openssl rand -hex 32 makes a good one")
    return secret


def key_32(value: str) -> bytes:
    """32 bytes, written as 64 hex digits or as base64 (either alphabet, with or without padding)."""
    written = value.strip()
    try:
        if len(written) == 2 * KEY_BYTES:
            return bytes.fromhex(written)
        padded = written.replace("-", "+").replace("_", "/").rstrip("=")
        key = base64.b64decode(padded + "=" * (-len(padded) % 4), validate=True)
    except (ValueError, binascii.Error) as error:
        raise BadValue("must be 32 bytes as base64 or hex; openssl rand -base64 32 makes one") from error
    if len(key) != KEY_BYTES:
        raise BadValue("must be exactly 32 bytes as base64 or hex; openssl rand -base64 32 makes one")
    return key


def plans(value: str) -> dict[str, Plan]:
    """Plans by name, laid over the defaults; `free` is always among them."""
    try:
        given = msgspec.json.decode(value, type=dict[str, Plan])
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        form = 'must be JSON like {"pro": {"events": 1, "retention_days": 1, "price_cents": 0}}'
        raise BadValue(f"{form}{_lacking(value)}") from error
    if any(plan.events < 1 or plan.retention_days < 1 or plan.price_cents < 0 for plan in given.values()):
        raise BadValue("needs events and retention_days of 1 or more and a price_cents of 0 or more")
    return {**msgspec.json.decode(PLANS, type=dict[str, Plan]), **given}


def _lacking(value: str) -> str:
    """Which members the plans of a text lack, for a message; not which plans: what is wrong may be a secret."""
    try:
        given = msgspec.json.decode(value, type=dict[str, dict[str, Any]])
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return ""
    lacked = [name for name in Plan.__struct_fields__ if any(name not in plan for plan in given.values())]
    return f"; a plan lacks {', '.join(lacked)}" if lacked else ""


def rate_limits(value: str) -> dict[str, int]:
    """All of them, none of them, or what is different: `key=1200,ingest=off`. A limit that is off is not in it."""
    word = value.strip().lower()
    if word in YES | NO:
        return dict(RATE_LIMITS) if word in YES else {}
    limits = dict(RATE_LIMITS)
    for part in word.split(","):
        name, _, wish = (piece.strip() for piece in part.partition("="))
        if name not in RATE_LIMITS:
            raise BadValue(f"must be on, off, or a list like key=1200,ingest=off; limits are {', '.join(RATE_LIMITS)}")
        if wish in NO:
            limits.pop(name, None)
        elif wish.isdecimal() and 1 <= int(wish) <= MOST_A_MINUTE:
            limits[name] = int(wish)
        else:
            raise BadValue(f"needs off or a whole number from 1 to {MOST_A_MINUTE} for {name}")
    return limits


def _is_loopback(host: str) -> bool:
    try:
        return host == LOCAL or ip_address(host).is_loopback
    except ValueError:
        return False


def default_base_url(host: str, port: int) -> str:
    """Where a browser on this machine finds the API."""
    name = "127.0.0.1" if host in {"0.0.0.0", "::", ""} else host  # noqa: S104 (compared, not bound)
    return f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}"
