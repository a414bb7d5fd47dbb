"""Reports of browsers on a broken security policy, in the form of all SDKs (G-142). Pure functions.

Content-Security-Policy in its two forms, Expect-CT, Expect-Staple and the pinning of keys. A report is an error of its
kind, known by the directive and the blocked origin, or by the host. An address is kept without its query, its fragment
and its credentials. Certificates are counted, not kept. Each member counts where it is of the documented type.
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from service.ingest.foreign.common import ForeignEvent, text_of
from service.ingest.foreign.feedback import OTHER
from service.ingest.foreign.sentry_event import PROTOCOL
from service.ingest.outcomes import NO_CLOCK, SdkClock, seconds_of

EXTENSION = "extension_report"
"""Kind of a report on an extension of the browser: nothing of the product can mend it."""
NETWORK = "nel"
MAX_ADDRESS = 1024
MAX_POLICY = 4096
MAX_TEXT = 256
MAX_LISTED = 20
MAX_AGE = 30 * 86400 * 1000  # milliseconds

_DIRECTIVE = re.compile(r"[a-z][a-z-]{0,39}")
_ADDRESS = re.compile(r"([a-z][a-z0-9+.-]{0,31}):(?:(//)([^/?#]*))?(.*)", re.IGNORECASE | re.DOTALL)
_HOST = re.compile(r"[^\x00-\x20\x7f\"'<>{}\\^`|/?#]{1,255}")
_QUERY = re.compile(r"[?#]")
_END = re.compile(r"[/?#]")
_PORT = re.compile(r"[0-9]{1,5}(?:/|\Z)")
_PORTS = {"http": ":80", "https": ":443", "ws": ":80", "wss": ":443"}
_EXTENSIONS = frozenset(
    {
        *("chrome-extension", "moz-extension", "ms-browser-extension", "safari-extension", "safari-web-extension"),
        *("webkit-masked-url", "edge-extension", "opera-extension"),
    }
)
_INLINE = "inline"
_SELF = "self"
_SCHEMES = frozenset({"about", "blob", "data", "filesystem", "mediastream", *_EXTENSIONS})
"""Schemes that browsers write without an address."""
_RULES = frozenset({_INLINE, "eval", "wasm-eval", "trusted-types-policy", "trusted-types-sink"})
"""Words in the place of a blocked address, for a part of the page itself."""
_UNREADABLE = "an unreadable address"
_REPORTING_API = {
    "documentURL": "document-uri",
    "blockedURL": "blocked-uri",
    "effectiveDirective": "effective-directive",
    "originalPolicy": "original-policy",
    "sourceFile": "source-file",
    "sample": "script-sample",
    "statusCode": "status-code",
    "lineNumber": "line-number",
    "columnNumber": "column-number",
    "disposition": "disposition",
    "referrer": "referrer",
}
"""Members of the Reporting API by their older names."""
_ADDRESSES = ("document-uri", "blocked-uri", "source-file", "referrer")
_NUMBERS = ("line-number", "column-number", "status-code")
_CERTIFICATES = {
    "expect-ct-report": ("expect-ct", "Expect-CT"),
    "expect-staple-report": ("expect-staple", "Expect-Staple"),
}
_PINNING = ("hpkp", "Public key pinning")
_OF_HOST = (
    *("hostname", "noted-hostname", "scheme", "failure-mode", "response-status", "cert-status"),
    *("date-time", "effective-expiration-date"),
)
_CHAINS = ("served-certificate-chain", "validated-certificate-chain", "scts")


class MalformedReport(ValueError):
    """A body that is no report, with the reason."""


class ReportFacts(NamedTuple):
    """Facts beside a report: from the headers and the address of its request."""

    user_agent: str | None = None
    release: str | None = None
    environment: str | None = None


class _Blocked(NamedTuple):
    """The blocked thing: its name in a title, its origin for the case, and its scheme."""

    named: str
    origin: str
    scheme: str = ""


def read_report(payload: Any, facts: ReportFacts) -> ForeignEvent | str:
    """Read a report as an event, or return the kind of a counted one. Raises MalformedReport."""
    if not isinstance(payload, dict):
        raise MalformedReport("a report must be a JSON object")
    if isinstance(report := payload.get("csp-report"), dict):
        return _csp(report, facts, NO_CLOCK)
    for member, (kind, title) in _CERTIFICATES.items():
        if isinstance(report := payload.get(member), dict):
            return _of_host(report, facts, kind, title)
    if "known-pins" in payload:
        return _of_host(payload, facts, *_PINNING)
    if text_of(payload.get("type")) is None or not isinstance(body := payload.get("body"), dict):
        raise MalformedReport("a report must be of Content-Security-Policy, Expect-CT, Expect-Staple or key pinning")
    if payload["type"] != "csp-violation":
        return NETWORK if payload["type"] == "network-error" else OTHER
    report = {older: body.get(name) for name, older in _REPORTING_API.items()}
    report["document-uri"] = report["document-uri"] or payload.get("url")
    agent = text_of(payload.get("user_agent"))
    return _csp(report, facts._replace(user_agent=agent or facts.user_agent), _clock_of(payload.get("age")))


def _clock_of(age: Any) -> SdkClock:
    """The time of a report by its age in milliseconds: a clock that begins with the sending."""
    if isinstance(age, bool) or not isinstance(age, int | float) or not 0 <= age <= MAX_AGE:
        return NO_CLOCK
    return SdkClock(-round(age / 1000), 0)


def _csp(report: Mapping[str, Any], facts: ReportFacts, clock: SdkClock) -> ForeignEvent | str:
    directive = _directive_of(report)
    blocked = _blocked(report.get("blocked-uri"), directive)
    source = text_of(report.get("source-file")) or ""
    if blocked.scheme in _EXTENSIONS or _scheme_of(source) in _EXTENSIONS:
        return EXTENSION
    only_reported = report.get("disposition") == "report"
    what = f"'{directive.removesuffix('-elem').removesuffix('-attr').removesuffix('-src')}'"
    verb = "Would block" if only_reported else "Blocked"
    message = f"{verb} {blocked.named} {what}" if blocked.origin in _RULES else f"{verb} {what} from '{blocked.named}'"
    kept: dict[str, Any] = {"effective-directive": directive}
    kept.update({name: _bare(said) for name in _ADDRESSES if (said := text_of(report.get(name)))})
    kept.update({name: number for name in _NUMBERS if (number := _number(report.get(name))) is not None})
    for name, most in {"disposition": MAX_TEXT, "script-sample": MAX_TEXT, "original-policy": MAX_POLICY}.items():
        if said := text_of(report.get(name)):
            kept[name] = said[:most]
    tags = {"effective-directive": directive, "blocked-uri": blocked.origin}
    request = {"url": kept.get("document-uri"), "referrer": kept.get("referrer")}
    return _event(message, ("csp", directive, blocked.origin), kept, tags, request, facts, clock)


def _of_host(report: Mapping[str, Any], facts: ReportFacts, kind: str, title: str) -> ForeignEvent:
    """A report on the certificates of a host."""
    host = _host_of(text_of(report.get("hostname")) or "")
    if not host:
        raise MalformedReport("the hostname of a report must be the name of a host")
    kept: dict[str, Any] = {name: said[:MAX_TEXT] for name in _OF_HOST if (said := text_of(report.get(name)))}
    if (port := _number(report.get("port"))) is not None:
        kept["port"] = port
    for name in ("include-subdomains", "test-report"):
        if isinstance(report.get(name), bool):
            kept[name] = report[name]
    kept.update({f"{name}-length": len(said) for name in _CHAINS if isinstance(said := report.get(name), list)})
    if isinstance(pins := report.get("known-pins"), list):
        kept["known-pins"] = [pin[:MAX_TEXT] for pin in pins[:MAX_LISTED] if isinstance(pin, str)]
    clock = SdkClock(seconds_of(report.get("date-time")))
    return _event(f"{title} failed for '{host}'", (kind, host), kept, {"hostname": host}, {}, facts, clock)


def _event(
    message: str,
    known_by: tuple[str, ...],
    kept: Mapping[str, Any],
    tags: Mapping[str, str],
    request: Mapping[str, Any],
    facts: ReportFacts,
    clock: SdkClock,
) -> ForeignEvent:
    kind, agent = known_by[0], facts.user_agent
    headers = {"headers": {"User-Agent": agent[:MAX_ADDRESS]}} if agent else {}
    return ForeignEvent(
        level="error",
        message=message,
        environment=facts.environment,
        release=facts.release,
        tags=tags,
        more={
            "sdk": {"protocol": PROTOCOL},
            "logger": kind,
            "contexts": {kind: kept},
            "request": {name: said for name, said in {**request, **headers}.items() if said} or None,
        },
        fingerprint=known_by,
        clock=clock,
    )


def _directive_of(report: Mapping[str, Any]) -> str:
    """The directive, without the sources of older browsers behind it. Raises MalformedReport."""
    said = text_of(report.get("effective-directive")) or text_of(report.get("violated-directive")) or ""
    directive = (said[:MAX_TEXT].split() or [""])[0].lower()
    if not _DIRECTIVE.fullmatch(directive):
        raise MalformedReport("the effective-directive of a report must be the name of a directive")
    return directive


def _blocked(said: Any, directive: str) -> _Blocked:
    """The blocked thing. Older browsers leave the address of inline code empty."""
    text = (text_of(said) or "").strip()
    if not text:
        text = _INLINE if directive.startswith(("script-", "style-")) else _SELF
    if text.lower() in _SCHEMES:
        text += ":"
    found = _ADDRESS.fullmatch(text)
    if found is None or (not found[2] and _PORT.match(found[4])):  # a word, or a host with its port
        host = _host_of(_END.split(text, maxsplit=1)[0])
        return _Blocked(host or _UNREADABLE, host or _UNREADABLE)
    if found[1].lower() in {"blob", "filesystem"} and (inner := _ADDRESS.fullmatch(found[4])) is not None:
        found = inner
    scheme = found[1].lower()
    if not found[2]:
        return _Blocked(f"{scheme}:", f"{scheme}:", scheme)
    host = _host_of(found[3]).removesuffix(_PORTS.get(scheme, ":"))
    return _Blocked(host, f"{scheme}://{host}", scheme) if host else _Blocked(_UNREADABLE, _UNREADABLE, scheme)


def _scheme_of(address: str) -> str:
    """The scheme of an address, or the only word of it."""
    return address.strip()[:MAX_TEXT].partition(":")[0].lower()


def _host_of(authority: str) -> str:
    """A host with its port, without credentials. "" for any other text."""
    host = authority.rpartition("@")[2].lower()
    return host if _HOST.fullmatch(host) else ""


def _bare(address: str) -> str:
    """An address without its query, its fragment and its credentials, and of `data:` the scheme alone."""
    address = _QUERY.split(address.strip(), maxsplit=1)[0]
    found = _ADDRESS.fullmatch(address)
    if found is not None and found[2]:
        address = f"{found[1]}://{found[3].rpartition('@')[2]}{found[4]}"
    return "data:" if _scheme_of(address) == "data" else address[:MAX_ADDRESS]


def _number(value: Any) -> int | None:
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < len("1000000000"):
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31 else None
