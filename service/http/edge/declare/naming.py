"""Names for operations that are documented and not built yet, made from method and path in words.

Clients are generated from the document, so that a name is part of the contract before its operation is built.
"""

from __future__ import annotations

_VERBS = ("configure", "evaluate", "plan", "provision", "query", "record", "run", "test", "unmangle", "verify")
_OF_METHOD = {"PUT": "put", "PATCH": "update", "DELETE": "delete"}
# Where the path does not say in words what is done.
_GIVEN = {
    ("GET", "/v1/public/q/{publication_id}"): "run_public_query",
    ("GET", "/service.md"): "get_service_guide",
    ("GET", "/install.md"): "get_install_guide",
    ("GET", "/skill/service/SKILL.md"): "get_skill",
    ("POST", "/v1/auth/self_delete"): "delete_account",
    ("POST", "/v1/billing/checkout"): "start_billing_checkout",
    ("POST", "/v1/billing/portal"): "open_billing_portal",
    ("POST", "/v1/billing/webhook"): "receive_billing_webhook",
    ("POST", "/v1/feedback"): "send_feedback",
}


def name_of(method: str, path: str) -> str:
    """The operation id, such as `list_alerts`, `get_alert` or `evaluate_alert`."""
    given = _GIVEN.get((method, path))
    if given is not None:
        return given
    parts = path.removeprefix("/v1/").removeprefix("projects/{project_id}/").strip("/").split("/")
    nouns: list[str] = []
    for part in parts:
        if part.startswith("{"):
            nouns[-1] = _singular(nouns[-1])  # one of them
        else:
            nouns.append(part.lower().replace("-", "_"))
    last, one = nouns[-1], parts[-1].startswith("{")
    if method == "POST" and last in _VERBS:
        return "_".join([last, *nouns[:-1]])
    if method == "POST":
        return "_".join(["create", *nouns[:-1], _singular(last)])
    verb = _OF_METHOD.get(method) or ("list" if not one and _singular(last) != last else "get")
    return "_".join([verb, *nouns])


def _singular(noun: str) -> str:
    if noun.endswith("ies"):
        return f"{noun.removesuffix('ies')}y"
    return noun if noun.endswith(("ss", "us")) else noun.removesuffix("s")
