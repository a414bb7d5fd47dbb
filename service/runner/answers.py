"""The service's answers, member by member: what becomes part of an address, a file or a ref has its pattern first."""

import re
from collections.abc import Callable, Mapping
from typing import Any

Json = dict[str, Any]
Rule = Callable[[Any], bool]
MAX_TEXT, MAX_ITEMS = 2000, 1000


class Malformed(ValueError):
    """An answer of the service lacks a member, or has one of another form."""


def _text(pattern: str) -> Rule:
    compiled = re.compile(pattern)
    return lambda value: isinstance(value, str) and compiled.fullmatch(value) is not None


def _optional(rule: Rule) -> Rule:
    return lambda value: value is None or rule(value)


def _many(rule: Rule) -> Rule:
    return lambda value: isinstance(value, list) and len(value) <= MAX_ITEMS and all(rule(one) for one in value)


def _members(**rules: Rule) -> Rule:
    return lambda value: isinstance(value, dict) and _wrong(value, rules) is None


def _wrong(value: Mapping[str, Any], rules: Mapping[str, Rule]) -> str | None:
    """The first member that does not keep its rule."""
    return next((name for name, rule in rules.items() if not rule(value.get(name))), None)


def _number(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 53


def _share(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < float("inf")


def _told(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= MAX_TEXT


ID = _text(r"[a-z]{1,20}_[0-9a-z]{1,60}")
_COMMIT = _text("[0-9a-f]{40}|[0-9a-f]{64}")
_HASH = _text("[0-9a-f]{64}")
_WORD = _text("[a-z_]{1,60}")
_TESTS = _many(_members(command=_told, passed=lambda value: isinstance(value, bool)))
_BINDING = _members(
    repository=_told,
    base_branch=_told,
    head_branch=_told,
    head_sha=_COMMIT,
    delivery_mode=_WORD,
    files_changed=_many(_told),
    changed_lines=_number,
    tests=_TESTS,
)
_MERGE_BINDING = _members(pr_number=_number, head_sha=_COMMIT, merge_method=_WORD)
_BINDINGS = {"draft_pr": _BINDING, "auto_merge": _MERGE_BINDING}
_GRANT = {"kind": _WORD, "grant_id": ID, "status": _WORD}


def _is_grant(value: Any) -> bool:
    if not isinstance(value, dict) or _wrong(value, _GRANT) is not None:
        return False
    return value["kind"] not in _BINDINGS or _BINDINGS[value["kind"]](value.get("binding"))


_RUN: dict[str, Rule] = {
    "run_id": ID,
    "trigger_receipt_id": ID,
    "case_id": _optional(ID),
    "case_revision": _optional(_number),
    "claim_id": _optional(ID),
    "policy_sha256": _HASH,
    "phase": _WORD,
    "status": _optional(_WORD),
    "state_revision": _number,
    "lease_epoch": _number,
    "started_at": _number,
    "finished_at": _optional(_number),
    "limits": _members(max_runtime_seconds=_number),
    "charges": _members(turns=_number),
    "approvals": _many(_members(action=_WORD, status=_WORD)),
    "grants": _many(_is_grant),
    "provider_proof": _optional(_members(observation=_WORD)),
}
_RECEIPT: dict[str, Rule] = {
    "receipt_id": ID,
    "case": _optional(_members(case_id=ID, case_revision=_number)),
}
_CLAIM: dict[str, Rule] = {"case_id": ID, "claim_id": ID, "lease_epoch": _number}
_POLICY: dict[str, Rule] = {
    "policy_sha256": _HASH,
    "policy": _members(
        runner=_members(repository=_told, default_branch=_told),
        code_delivery=_members(
            mode=_WORD, merge_method=_optional(_WORD), required_status_checks=_optional(_many(_told))
        ),
        scope=_members(
            allowed_paths=_many(_told),
            test_commands=_many(_told),
            max_files_changed=_number,
            max_changed_lines=_number,
        ),
    ),
    "protected_files": _many(_told),
    "protected_directories": _many(_told),
}


_SOURCE: dict[str, Rule] = {
    "source_hash": _HASH,
    "period_start": _number,
    "period_end": _number,
    "rows": _many(
        _members(
            step=_number,
            prior_users=_number,
            current_users=_number,
            prior_conversion=_optional(_share),
            current_conversion=_optional(_share),
        )
    ),
    "sample_size": _optional(_number),
    "minimum_sample_size": _number,
    "minimum_sample_met": lambda value: isinstance(value, bool),
    "readiness_gap": _optional(_members(kind=_WORD, code=_told, message=_told)),
}


def _check(what: str, value: Any, rules: Mapping[str, Rule]) -> Json:
    if not isinstance(value, dict):
        raise Malformed(f"The service's answer is no {what}.")
    wrong = _wrong(value, rules)
    if wrong is not None:
        raise Malformed(f"The service's answer has no valid {wrong} of a {what}.")
    return value


def check_run(value: Any) -> Json:
    """Return a run as it came, with a case and a claim or neither. Raises Malformed."""
    run = _check("run", value, _RUN)
    if (run["case_id"] is None) != (run["claim_id"] is None):
        raise Malformed("The service's answer has no valid claim_id of a run.")
    return run


def check_receipt(value: Any) -> Json:
    """Return a receipt as it came. Raises Malformed."""
    return _check("receipt", value, _RECEIPT)


def check_claim(value: Any) -> Json:
    """Return a claim as it came. Raises Malformed."""
    return _check("claim", value, _CLAIM)


def check_source(value: Any) -> Json:
    """Return the source of a report as it came. Raises Malformed."""
    return _check("report source", value, _SOURCE)


def check_policy(value: Any) -> Json:
    """Return the policy of a run as it came. Raises Malformed."""
    return _check("policy", value, _POLICY)
